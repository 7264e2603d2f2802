//! The `tool` command: resolves settings, runs the subcommand, and prints its output.

use std::io::Write;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::toolbox;
use super::{
    bundle, exec, install, list, meter, prune, status, uninstall, use_version, verify, which,
};
use crate::cli::complete::products;
use crate::cli::flags::{Flags, Selection, merge_arguments};
use crate::cli::logging;
use crate::cli::output::refuse;
use crate::cli::runtime::block_on;
use crate::cli::screen::{self, Output};
use crate::exit::Exit;
use crate::screen::Live;
use crate::settings::setting::{DEFAULT_TOOL_VERSION, PROVIDER_CACHE};
use crate::settings::{Arguments, Environment, Logging, Section, Setting, ToolSettings};
use butler_base::secret::Redactor;
use butler_protocol::spec::Product;

#[derive(Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(in crate::cli) struct Tool {
    /// The product, if the version does not include it: terraform, opentofu or terragrunt
    #[arg(long, global = true, value_name = "PRODUCT", value_parser = product, add = products())]
    product: Option<Product>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ToolFlags>,
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Subcommand)]
enum ToolCommand {
    Install(install::Install),
    Bundle(bundle::Bundle),
    List(list::List),
    Status(status::Show),
    Verify(verify::Verify),
    Uninstall(uninstall::Uninstall),
    Prune(prune::Prune),
    Use(use_version::Use),
    Which(which::Which),
    Exec(exec::Exec),
}

/// The last step of a command.
enum FinalStep {
    /// Print the output.
    Print(CommandOutput),
    /// Replace this process by the tool.
    Exec(exec::PreparedTool),
}

/// The settings of tools, except those that select a version.
struct ToolFlags;

impl Selection for ToolFlags {
    const GLOBAL: bool = true;

    fn has(setting: &Setting) -> bool {
        let is_filled_by_runs = *setting == PROVIDER_CACHE;
        let is_about_versions = matches!(setting.section, Section::Tool | Section::Lifecycle);
        is_filled_by_runs || is_about_versions && *setting != DEFAULT_TOOL_VERSION
    }
}

impl Tool {
    /// Runs the command; returns the exit code.
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let resolved = Logging::resolve(&arguments, environment)
            .and_then(|log| Ok((log, ToolSettings::resolve(&arguments, environment)?)));
        let (logging, settings) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        redactor.register(&settings.sites.secrets().collect::<Vec<_>>());
        let screen = screen::open(&logging, environment, Output::Result);
        let log = logging::start(&logging, environment, &redactor, &screen);
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        let mut tools = toolbox(self.product, settings);
        let result = block_on(async {
            let live = Live::start(&screen);
            tools.options.meter = live.as_ref().map(|_| meter(&screen));
            // The other slow commands handle signals themselves: they report what is not finished.
            if let (Some(live), ToolCommand::Install(_) | ToolCommand::Exec(_)) =
                (&live, &self.command)
            {
                live.leave_with_signals();
            }
            match self.command {
                ToolCommand::Install(install) => install.run(&mut tools).await,
                ToolCommand::Bundle(bundle) => bundle.run(&tools).await,
                ToolCommand::List(list) => list.run(&tools).await,
                ToolCommand::Status(status) => status.run(&tools).await,
                ToolCommand::Verify(verify) => verify.run(&tools).await,
                ToolCommand::Uninstall(uninstall) => uninstall.run(&tools).await,
                ToolCommand::Prune(prune) => prune.run(&tools).await,
                ToolCommand::Use(used) => used.run(&tools).await,
                ToolCommand::Which(which) => which.run(&tools, environment).await,
                ToolCommand::Exec(exec) => {
                    return exec.prepare(&tools, environment).await.map(FinalStep::Exec);
                }
            }
            .map(FinalStep::Print)
        });
        match result {
            Some(Ok(FinalStep::Print(output))) => {
                let printed = print(&output, self.json);
                output.failure.map_or(printed, CommandFailure::report)
            }
            Some(Ok(FinalStep::Exec(prepared))) => {
                // The log must be on the terminal before the output of the tool.
                drop(log);
                prepared.start()
            }
            Some(Err(failure)) => failure.report(),
            None => Exit::Failed.code(),
        }
    }
}

fn print(output: &CommandOutput, json: bool) -> u8 {
    let text = if json { format!("{:#}", output.json) } else { output.text.clone() };
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => Exit::Success.code(),
        Err(_) => Exit::Failed.code(),
    }
}

/// Reads the name of a product, or of its executable.
fn product(text: &str) -> Result<Product, String> {
    Product::named(text)
        .ok_or_else(|| "the products are terraform, opentofu and terragrunt".to_owned())
}
