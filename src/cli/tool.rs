//! `tool`: makes tools ready without a run, for images and test machines.

use std::io::Write;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::flags::{Flags, Selection};
use super::{block_on, complain, logging, refuse, together};
use crate::error::{Advice, chain};
use crate::run::Exit;
use crate::settings::setting::DEFAULT_TOOL_VERSION;
use crate::settings::{Arguments, Environment, Logging, Section, Setting, ToolSettings};
use crate::spec::ToolRequest;
use crate::tool::{ToolOptions, ready};

/// Manage Terraform and OpenTofu versions
#[derive(Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(super) struct Tool {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Subcommand)]
enum ToolCommand {
    /// Download and verify a version, unless it is in the cache, and print its path
    Install {
        /// The exact version: 1.9.0 or opentofu-1.8.3
        version: String,
        #[command(flatten)]
        flags: Flags<ToolFlags>,
    },
}

/// Where tools come from, but not which one is wanted.
struct ToolFlags;

impl Selection for ToolFlags {
    fn has(setting: &Setting) -> bool {
        setting.section == Section::Tool && *setting != DEFAULT_TOOL_VERSION
    }
}

impl Tool {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let ToolCommand::Install { version, flags } = self.command;
        let arguments = together(log, flags.into_arguments());
        let resolved = Logging::resolve(&arguments, environment)
            .and_then(|logging| Ok((logging, ToolSettings::resolve(&arguments, environment)?)));
        let (logging, settings) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error),
        };
        let request = match version.parse::<ToolRequest>() {
            Ok(request) => request,
            Err(error) => {
                complain(&chain(&error), None);
                return Exit::Usage.code();
            }
        };
        let _log = logging::start(&logging, environment, &Arc::default());
        block_on(install(&request, settings)).unwrap_or(Exit::Failed.code())
    }
}

async fn install(request: &ToolRequest, settings: ToolSettings) -> u8 {
    let http =
        match crate::http::client(settings.ca_bundle.as_deref(), crate::http::Redirects::Follow) {
            Ok(http) => http,
            Err(error) => {
                complain(&chain(&error), None);
                return Exit::Failed.code();
            }
        };
    let options = ToolOptions {
        cache: settings.cache_dir,
        mirror: settings.mirror,
        signing_keys: settings.signing_keys,
        // Not what happens to be installed: the cache is what is asked for.
        search_path: None,
        http,
    };
    match ready(request, &options, &|step| tracing::info!("{step}")).await {
        Ok(tool) => match writeln!(std::io::stdout(), "{}", tool.path.display()) {
            Ok(()) => Exit::Success.code(),
            Err(_) => Exit::Failed.code(),
        },
        Err(error) => {
            complain(&chain(&error), error.advice().as_deref());
            Exit::Failed.code()
        }
    }
}
