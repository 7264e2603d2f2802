//! `tool`: what becomes of the versions of Terraform, `OpenTofu` and Terragrunt on this machine.
//!
//! Each command is a file; it gets a [`Toolbox`] and returns an [`Answer`], which is printed here, as
//! text or as JSON. `exec` has no answer of its own: the tool takes the place of this process.

mod bar;
mod bundle;
mod columns;
mod exec;
mod install;
mod list;
mod prune;
mod source;
mod status;
mod uninstall;
mod use_version;
mod verify;
mod which;

pub(super) use bar::meter;
pub(super) use columns::columns;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::complete::products;
use super::flags::{Flags, Selection};
use super::screen::{self, Output};
use super::{block_on, complain, logging, refuse, together};
use crate::run::{Exit, tool_options, version_wish};
use crate::screen::Live;
use crate::settings::setting::{DEFAULT_TOOL_VERSION, PROVIDER_CACHE};
use crate::settings::{Arguments, Environment, Logging, Section, Setting, ToolSettings};
use crate::tool::{Reach, ToolError, ToolOptions, VersionWish, choose_for_module, choose_wanted};
use butler_base::error::{Advice, chain};
use butler_base::http::LazyClient;
use butler_base::secret::Redactor;
use butler_protocol::spec::{Product, ToolRequest, Wanted};

#[derive(Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(super) struct Tool {
    /// The product, where the version does not say it: terraform, opentofu or terragrunt
    #[arg(long, global = true, value_name = "PRODUCT", value_parser = product, add = products())]
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

/// What every command works with.
struct Toolbox {
    /// The product that all is about, if the command line says so.
    named: Option<Product>,
    settings: ToolSettings,
    options: ToolOptions,
}

impl Toolbox {
    /// The product where a version names none.
    fn product(&self) -> Product {
        self.named.unwrap_or(Product::Terraform)
    }

    /// The products that are meant where no version is named.
    fn products(&self) -> Vec<Product> {
        self.named.map_or_else(|| Product::ALL.to_vec(), |product| vec![product])
    }

    /// Reads an exact version: of the product that it names, else of the one that is meant.
    fn request(&self, text: &str) -> Result<ToolRequest, Failure> {
        self.wanted(text)?.exact().map_err(|error| Failure::misuse(&error))
    }

    fn wanted(&self, text: &str) -> Result<Wanted, Failure> {
        Wanted::of_argument(text, self.named).map_err(|error| Failure::misuse(&error))
    }

    /// The version that `text` asks for: an exact one whether or not there is one, else the newest
    /// that fits as far as `reach` goes.
    async fn choose(&self, text: &str, reach: Reach) -> Result<ToolRequest, Failure> {
        Ok(choose_wanted(&self.wanted(text)?, reach, &self.options).await?)
    }

    /// The version that `directory` asks for.
    async fn choose_for(&self, directory: &Path, reach: Reach) -> Result<ToolRequest, Failure> {
        let chosen = choose_for_module(&self.wish_of(directory)?, reach, &self.options).await?;
        Ok(chosen.ok_or_else(|| self.nothing_says(directory))?)
    }

    /// What a run in `directory` knows of its version.
    fn wish_of(&self, directory: &Path) -> Result<VersionWish, Failure> {
        Ok(VersionWish { product: self.named, ..version_wish(directory, &self.settings)? })
    }

    fn nothing_says(&self, directory: &Path) -> ToolError {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        ToolError::NothingSays { directory, product: self.named }
    }
}

/// What a command has to say.
struct Answer {
    json: serde_json::Value,
    text: String,
    /// What is wrong with what was found, although the question was answered.
    failure: Option<Failure>,
}

impl Answer {
    fn new(value: &impl Serialize, text: String) -> Result<Self, Failure> {
        let json = serde_json::to_value(value).map_err(|error| Failure::usage(&error))?;
        Ok(Self { json, text, failure: None })
    }

    /// The answer, which is not what one would like to hear.
    fn failed(self, message: String, advice: String) -> Self {
        Self {
            failure: Some(Failure { exit: Exit::Failed, message, advice: Some(advice) }),
            ..self
        }
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

    /// Says it; returns the exit code.
    fn report(self) -> u8 {
        complain(&self.message, self.advice.as_deref());
        self.exit.code()
    }

    /// What was typed in cannot be, and its error knows what can.
    fn misuse(error: &(impl Advice + 'static)) -> Self {
        Self { exit: Exit::Usage, message: chain(error), advice: error.advice() }
    }
}

impl<E: std::error::Error + Advice + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, message: chain(&error), advice: error.advice() }
    }
}

impl Tool {
    /// Runs the command; returns the exit code.
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = together(log, self.flags.into_arguments());
        let resolved = Logging::resolve(&arguments, environment)
            .and_then(|log| Ok((log, ToolSettings::resolve(&arguments, environment)?)));
        let (logging, settings) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        redactor.register(&settings.sites.secrets().collect::<Vec<_>>());
        let screen = screen::open(&logging, environment, Output::Answer);
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

fn toolbox(named: Option<Product>, settings: ToolSettings) -> Toolbox {
    let http = LazyClient::new(settings.ca_bundle.clone());
    let options = tool_options(&settings, http, "butler-runner tool".to_owned());
    Toolbox { named, settings, options }
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
