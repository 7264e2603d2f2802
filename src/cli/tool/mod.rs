//! `tool`: what becomes of the versions of Terraform, `OpenTofu` and Terragrunt on this machine.
//!
//! `terraform`, `tofu` and `terragrunt` are the same commands with the product implied. Each
//! command is a file; it gets a [`Toolbox`] and returns an [`Answer`], which is printed here, as
//! text or as JSON.

mod bar;
mod bundle;
mod install;
mod source;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::flags::{Flags, Selection};
use super::{block_on, complain, logging, refuse, together};
use crate::error::{Advice, chain};
use crate::run::{Exit, tool_options};
use crate::secret::Redactor;
use crate::settings::setting::DEFAULT_TOOL_VERSION;
use crate::settings::{Arguments, Environment, Logging, Section, Setting, ToolSettings};
use crate::spec::{Product, ToolRequest};
use crate::tool::ToolOptions;

/// Manage versions of Terraform, OpenTofu and Terragrunt
#[derive(Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(super) struct Tool {
    /// The product, where the version does not say it: terraform, opentofu or terragrunt
    #[arg(long, global = true, value_name = "PRODUCT", value_parser = product)]
    product: Option<Product>,
    /// Answer in JSON
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
}

/// Where tools come from and what becomes of them, but not which one is wanted.
struct ToolFlags;

impl Selection for ToolFlags {
    const GLOBAL: bool = true;

    fn has(setting: &Setting) -> bool {
        matches!(setting.section, Section::Tool | Section::Lifecycle)
            && *setting != DEFAULT_TOOL_VERSION
    }
}

/// What every command works with.
struct Toolbox {
    /// The product where a version names none.
    product: Product,
    options: ToolOptions,
    #[expect(dead_code, reason = "for the commands that remove versions")]
    drain_period: Duration,
}

impl Toolbox {
    /// Reads an exact version: of the product that it names, else of the one that is meant.
    fn request(&self, text: &str) -> Result<ToolRequest, Failure> {
        let named = match Product::of_prefix(text.trim()) {
            Some(_) => text.parse(),
            None => format!("{}-{}", self.product, text.trim()).parse(),
        };
        named.map_err(|error| Failure::usage(&error))
    }
}

/// What a command has to say.
struct Answer {
    json: serde_json::Value,
    text: String,
}

impl Answer {
    fn new(value: &impl Serialize, text: String) -> Result<Self, Failure> {
        let json = serde_json::to_value(value).map_err(|error| Failure::usage(&error))?;
        Ok(Self { json, text })
    }
}

/// Why a command has no answer, and what to do.
struct Failure {
    exit: Exit,
    message: String,
    advice: Option<String>,
}

impl Failure {
    /// What was asked for cannot be.
    fn usage(error: &(dyn std::error::Error + 'static)) -> Self {
        Self { exit: Exit::Usage, message: chain(error), advice: None }
    }
}

impl<E: std::error::Error + Advice + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, message: chain(&error), advice: error.advice() }
    }
}

impl Tool {
    /// Runs the command; `implied` is the product that the command line began with.
    pub(super) fn run(
        self,
        implied: Option<Product>,
        log: Arguments,
        environment: &Environment,
    ) -> u8 {
        let arguments = together(log, self.flags.into_arguments());
        let resolved = Logging::resolve(&arguments, environment)
            .and_then(|logging| Ok((logging, ToolSettings::resolve(&arguments, environment)?)));
        let (logging, settings) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        redactor.register(&settings.sites.secrets().collect::<Vec<_>>());
        let _log = logging::start(&logging, environment, &redactor);
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        let product = self.product.or(implied).unwrap_or(Product::Terraform);
        let mut tools = toolbox(product, &settings);
        let meter = bar::meter(environment);
        tools.options.meter.clone_from(&meter);
        let answer = block_on(async {
            match self.command {
                ToolCommand::Install(install) => install.run(tools).await,
                ToolCommand::Bundle(bundle) => bundle.run(&tools).await,
            }
        });
        bar::clear(meter.as_ref());
        match answer {
            Some(Ok(answer)) => print(&answer, self.json),
            Some(Err(Failure { exit, message, advice })) => {
                complain(&message, advice.as_deref());
                exit.code()
            }
            None => Exit::Failed.code(),
        }
    }
}

fn toolbox(product: Product, settings: &ToolSettings) -> Toolbox {
    let options = tool_options(settings, "butler-runner tool".to_owned());
    Toolbox { product, options, drain_period: settings.drain_period }
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
    Product::ALL
        .into_iter()
        .find(|product| [product.name(), product.executable()].contains(&text))
        .ok_or_else(|| "the products are terraform, opentofu and terragrunt".to_owned())
}
