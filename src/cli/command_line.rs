//! The tree of commands that clap parses, and the forms in which the runner shows it.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use super::deferred::Deferred;
use super::help_text::{EXIT_CODES, MORE_FLAGS};
use super::{
    ci_status, clean, commands, complete, demo, doctor, execute, flags, generate, internal,
    logging, manual, schema, self_update, server, tool, trigger, version,
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
    /// Execute a run from a registry, from a file, or in a local directory
    #[command(visible_alias = "exec")]
    Execute(Deferred<execute::Execute>),
    /// Show the changes that an apply would make, or save them as a plan
    Plan(Deferred<commands::Plan>),
    /// Plan, ask for confirmation, and apply exactly this plan
    Apply(Deferred<commands::Apply>),
    /// Plan to destroy all resources, ask for confirmation, and apply exactly this plan
    Destroy(Deferred<commands::Destroy>),
    /// Check whether resources were changed outside of Terraform
    Drift(Deferred<commands::Drift>),
    /// Validate the configuration in a directory
    Validate(Deferred<commands::Validate>),
    /// Run the tests of the module in a directory
    Test(Deferred<commands::Test>),
    /// Run plan, apply and destroy of a small module against a registry on this machine
    Demo(Deferred<demo::Demo>),
    /// Delete files that killed runners left on this machine; each run also does this when it starts
    Clean(Deferred<clean::Clean>),
    /// Check whether this machine can execute runs: registry, network, tools, disk space
    Doctor(Deferred<doctor::Doctor>),
    /// Start a run in a CI system
    Trigger(Deferred<trigger::Trigger>),
    /// Print the status of a run that a CI system started
    CiStatus(Deferred<ci_status::CiStatus>),
    /// Watch repositories, and plan each directory when a commit changes it
    Serve(Deferred<server::Serve>),
    /// Show the layers of a server, and plan, pause and resume them
    Layer(Deferred<server::Layer>),
    /// Show the runs of a server, and their logs
    Run(Deferred<server::RunCommand>),
    /// Show the breaker of a server, which stops automatic applies after failures in a row, and reset it
    Breaker(Deferred<server::BreakerCommand>),
    /// Show the followers of a server, which deliver the commits of branches, and run them
    Follower(Deferred<server::FollowerCommand>),
    /// Make tokens for the users of a server
    Access(Deferred<server::AccessCommand>),
    /// Check the configuration of a server
    Config(Deferred<server::ConfigCommand>),
    /// Copy the store of a server, or put a copy in its place
    Store(Deferred<server::StoreCommand>),
    /// Install, run and remove versions of Terraform, OpenTofu and Terragrunt
    Tool(Deferred<tool::Tool>),
    /// Generate the configuration file with which a CI system starts the runner
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

/// The parser without the flags of its commands.
pub(super) fn parser() -> clap::Command {
    CommandLine::command()
}

/// The complete parser, as `--help` shows it.
#[must_use]
pub fn command() -> clap::Command {
    let mut command = parser();
    command.build();
    command
}

/// The parser without the internal commands.
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
