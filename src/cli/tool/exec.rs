//! `tool exec`: makes a version ready and becomes it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::answer::Failure;
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

/// A tool that can be started.
pub(super) struct Ready {
    tool: InstalledTool,
    arguments: Vec<OsString>,
    environment: ChildEnvironment,
}

impl Exec {
    pub(super) async fn prepare(
        self,
        tools: &Toolbox,
        environment: &Environment,
    ) -> Result<Ready, Failure> {
        let request = match &self.version {
            Some(version) => tools.choose(version, Reach::InstalledFirst).await?,
            None => here(tools).await?,
        };
        let tool = ready(&request, &tools.options, &|step| tracing::info!("{step}")).await?;
        Ok(Ready { tool, arguments: self.arguments, environment: environment.of_children() })
    }
}

impl Ready {
    /// Becomes the tool. Returns the exit code where that cannot be.
    pub(super) fn start(self) -> u8 {
        let program: PathBuf = self.tool.path.clone();
        // It is in use until the very moment in which it runs, and then shows as a process.
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

/// The version for the current directory: what that asks for, else the default.
async fn here(tools: &Toolbox) -> Result<ToolRequest, Failure> {
    let directory = ".".as_ref();
    let wish = tools.wish_of(directory)?;
    if let Some(chosen) = choose_for_module(&wish, Reach::InstalledFirst, &tools.options).await? {
        return Ok(chosen);
    }
    let product = tools.product();
    if let Some(default) = wish.default.filter(|default| default.product == product) {
        return Ok(default);
    }
    let version = default_version(product, &tools.options)?;
    let version = version.ok_or_else(|| tools.nothing_says(directory))?;
    Ok(ToolRequest { product, version })
}
