//! The tree of commands that clap parses, and the forms in which the runner shows it.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use super::deferred::Deferred;
use super::help_text::{EXIT_CODES, MORE_FLAGS};
use super::{
    ci_status, clean, commands, complete, demo, doctor, execute, flags, generate, internal,
    logging, manual, schema, self_update, tool, trigger, version,
};

#[derive(Parser)]
#[command(name = "butler-runner", version, long_version = version::long())]
#[command(about, after_help = MORE_FLAGS, after_long_help = EXIT_CODES)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub(super) struct CommandLine {
    #[command(flatten)]
    pub(super) log: flags::Flags<logging::LogFlags>,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Carry out a run: from a registry, from a file, or on a directory of your own
    #[command(visible_alias = "exec")]
    Execute(Deferred<execute::Execute>),
    /// Show what would change in a directory, or save that as a plan
    Plan(Deferred<commands::Plan>),
    /// Plan in a directory, ask, and apply exactly that plan
    Apply(Deferred<commands::Apply>),
    /// Plan the destruction of everything in a directory, ask, and apply exactly that plan
    Destroy(Deferred<commands::Destroy>),
    /// Say whether anything was changed outside of Terraform
    Drift(Deferred<commands::Drift>),
    /// Check the configuration in a directory
    Validate(Deferred<commands::Validate>),
    /// Run the tests of the module in a directory
    Test(Deferred<commands::Test>),
    /// Show plan, apply and destroy of a small module, with a registry on this machine
    Demo(Deferred<demo::Demo>),
    /// Wipe what killed runners left on this machine; each run does the same when it begins
    Clean(Deferred<clean::Clean>),
    /// Say whether this machine can carry out runs: registry, network, tools, room
    Doctor(Deferred<doctor::Doctor>),
    /// Have a CI system start a run
    Trigger(Deferred<trigger::Trigger>),
    /// Print what became of a run that a CI system has started
    CiStatus(Deferred<ci_status::CiStatus>),
    /// Install, run and remove versions of Terraform, OpenTofu and Terragrunt
    Tool(Deferred<tool::Tool>),
    /// Write the file that a CI system needs to start the runner
    Generate(Deferred<Box<generate::Generate>>),
    /// Update this executable
    #[command(name = "self")]
    Oneself(Deferred<self_update::SelfCommand>),
    Schema(schema::Schema),
    Completions(complete::Completions),
    #[command(name = "man")]
    Manual(manual::Manual),
    Version(version::Version),
    /// Print the help of a command
    Help {
        /// The command, such as `tool install`
        #[arg(add = command_names())]
        command: Vec<String>,
    },
    #[command(flatten)]
    Internal(internal::Internal),
}

/// The parser; what its commands take is not made yet.
pub(super) fn parser() -> clap::Command {
    CommandLine::command()
}

/// The parser with all that it knows, as `--help` shows it.
#[must_use]
pub fn command() -> clap::Command {
    let mut command = parser();
    command.build();
    command
}

/// The parser without what the runner only starts of itself.
pub(super) fn public() -> clap::Command {
    let whole = parser();
    let shown: Vec<_> =
        whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let mut command = clap::Command::new("butler-runner")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .after_help(EXIT_CODES)
        .disable_help_subcommand(true)
        .subcommand_required(true);
    for argument in whole.get_arguments() {
        command = command.arg(argument.clone());
    }
    command.subcommands(shown)
}

/// Completes the names of the commands.
fn command_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let command = public();
        let names = command.get_subcommands().map(clap::Command::get_name);
        names.map(CompletionCandidate::new).collect()
    })
}
