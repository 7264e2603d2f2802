//! `tool`: what becomes of the versions of Terraform, `OpenTofu` and Terragrunt on this machine.
//!
//! Each command is a file; it gets a [`Toolbox`] and returns an [`Answer`], which is printed here, as
//! text or as JSON. `exec` has no answer of its own: the tool takes the place of this process.

mod answer;
mod bar;
mod bundle;
mod columns;
mod exec;
mod install;
mod list;
mod prune;
mod source;
mod status;
mod toolbox;
mod uninstall;
mod use_version;
mod verify;
mod which;

pub(super) use bar::meter;
pub(super) use columns::columns;

use std::io::Write;
use std::sync::Arc;

use clap::{Args, Subcommand};

use self::answer::{Answer, Failure};
use self::toolbox::toolbox;
use super::complete::products;
use super::flags::{Flags, Selection, merge_arguments};
use super::logging;
use super::output::refuse;
use super::runtime::block_on;
use super::screen::{self, Output};
use crate::exit::Exit;
use crate::screen::Live;
use crate::settings::setting::{DEFAULT_TOOL_VERSION, PROVIDER_CACHE};
use crate::settings::{Arguments, Environment, Logging, Section, Setting, ToolSettings};
use butler_base::secret::Redactor;
use butler_protocol::spec::Product;

#[derive(Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(super) struct Tool {
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

/// What is to be done when a command has run.
enum Next {
    /// Its answer is printed.
    Say(Answer),
    /// The tool takes the place of this process.
    Become(exec::Ready),
}

/// Where tools come from and what becomes of them, but not which one is wanted.
struct ToolFlags;

impl Selection for ToolFlags {
    const GLOBAL: bool = true;

    fn has(setting: &Setting) -> bool {
        let is_kept_by_runs = *setting == PROVIDER_CACHE;
        let is_about_versions = matches!(setting.section, Section::Tool | Section::Lifecycle);
        is_kept_by_runs || is_about_versions && *setting != DEFAULT_TOOL_VERSION
    }
}

impl Tool {
    /// Runs the command; returns the exit code.
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
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
        let answer = block_on(async {
            let live = Live::start(&screen);
            tools.options.meter = live.as_ref().map(|_| meter(&screen));
            // The others that take long tell what they leave unfinished.
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
                    return exec.prepare(&tools, environment).await.map(Next::Become);
                }
            }
            .map(Next::Say)
        });
        match answer {
            Some(Ok(Next::Say(answer))) => {
                let printed = print(&answer, self.json);
                answer.failure.map_or(printed, Failure::report)
            }
            Some(Ok(Next::Become(ready))) => {
                // What was logged has to be on the terminal before the tool is.
                drop(log);
                ready.start()
            }
            Some(Err(failure)) => failure.report(),
            None => Exit::Failed.code(),
        }
    }
}

fn print(answer: &Answer, json: bool) -> u8 {
    let text = if json { format!("{:#}", answer.json) } else { answer.text.clone() };
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
