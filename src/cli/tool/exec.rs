//! `tool exec`: installs a version if necessary, and replaces this process by it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::command_output::CommandFailure;
use super::toolbox::Toolbox;
use crate::cli::complete::versions;
use crate::cli::output::complain;
use crate::exit::Exit;
use crate::settings::Environment;
use crate::tool::{InstalledTool, Reach, choose_for_module, default_version, ready};
use butler_base::error::chain;
use butler_base::process::{Environment as ChildEnvironment, become_program};
use butler_protocol::spec::ToolRequest;

/// Verify a version and run it with these arguments; install it if necessary
///
/// The tool replaces the process of butler-runner and has its standard input, its output, its signals
/// and its exit code.
#[derive(Args)]
#[command(after_help = "For example: butler-runner tool exec -- fmt -check, or \
butler-runner tool exec opentofu-1.8.3 -- state list")]
pub(super) struct Exec {
    /// The version: 1.9.8, 1.9, opentofu-1.8.3, '~> 1.9' or latest; by default the version that the
    /// version files or `required_version` of the current directory request, otherwise the default version
    #[arg(add = versions())]
    version: Option<String>,
    /// The arguments of the tool
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// A tool that can be started, with its arguments and environment.
pub(super) struct PreparedTool {
    tool: InstalledTool,
    arguments: Vec<OsString>,
    environment: ChildEnvironment,
}

impl Exec {
    pub(super) async fn prepare(
        self,
        tools: &Toolbox,
        environment: &Environment,
    ) -> Result<PreparedTool, CommandFailure> {
        let request = match &self.version {
            Some(version) => tools.choose(version, Reach::InstalledFirst).await?,
            None => choose_for_current_directory(tools).await?,
        };
        let tool = ready(&request, &tools.options, &|step| tracing::info!("{step}")).await?;
        Ok(PreparedTool { tool, arguments: self.arguments, environment: environment.of_children() })
    }
}

impl PreparedTool {
    /// Replaces this process by the tool. Returns an exit code if that fails.
    pub(super) fn start(self) -> u8 {
        let program: PathBuf = self.tool.path.clone();
        // The mark as used must last until the tool runs: then its process shows the use.
        let ended = become_program(&program, &self.arguments, &self.environment);
        drop(self.tool);
        match ended {
            Ok(code) => code,
            Err(error) => {
                let message = format!("cannot start `{}`: {}", program.display(), chain(&error));
                complain(&message, None);
                Exit::Failed.code()
            }
        }
    }
}

/// The version that the current directory requests, else the default version.
async fn choose_for_current_directory(tools: &Toolbox) -> Result<ToolRequest, CommandFailure> {
    let directory = ".".as_ref();
    let sources = tools.version_sources(directory)?;
    if let Some(chosen) = choose_for_module(&sources, Reach::InstalledFirst, &tools.options).await?
    {
        return Ok(chosen);
    }
    let product = tools.product();
    if let Some(default) = sources.default.filter(|default| default.product == product) {
        return Ok(default);
    }
    let version = default_version(product, &tools.options)?;
    let version = version.ok_or_else(|| tools.no_version_requested(directory))?;
    Ok(ToolRequest { product, version })
}
