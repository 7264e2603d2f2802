//! `execute`: executes a run from a registry, from a file, or in a local directory.

use std::sync::Arc;

use clap::Args;

use super::flags::{Flags, Selection, merge_arguments};
use super::help_text::{EXIT_CODES, MORE_FLAGS};
use super::logging;
use super::output::{refuse, terminal};
use super::runtime::block_on;
use super::screen::{self, Output};
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, Section, Setting, Settings};
use butler_base::secret::Redactor;

#[derive(Args)]
#[command(after_help = MORE_FLAGS, after_long_help = EXIT_CODES)]
pub(super) struct Execute {
    #[command(flatten)]
    flags: Flags<ExecuteFlags>,
}

/// All settings except those of the log, which all subcommands have, and those of installed versions.
struct ExecuteFlags;

impl Selection for ExecuteFlags {
    fn has(setting: &Setting) -> bool {
        !matches!(setting.section, Section::Log | Section::Lifecycle)
    }
}

impl Execute {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let settings = match Settings::resolve(&arguments, environment) {
            Ok(settings) => settings,
            Err(error) => return refuse(&error),
        };
        execute_run(settings, environment, Shown::Log).code()
    }
}

/// The output of a run on the terminal of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shown {
    /// The log, and the messages of the runner.
    Log,
    /// Only the messages of the runner.
    Messages,
}

/// Executes the run that `settings` describe.
pub(super) fn execute_run(settings: Settings, environment: &Environment, shown: Shown) -> Exit {
    let redactor = Arc::new(Redactor::new());
    // The screen comes first, because the log writes through it.
    let screen = screen::open(&settings.logging, environment, Output::Lines);
    let _log = logging::start(&settings.logging, environment, &redactor, &screen);
    // Warnings about settings need the log.
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let terminal = terminal(&screen, settings.job.system);
    let terminal = match shown {
        Shown::Log => terminal,
        Shown::Messages => terminal.without_log(),
    };
    block_on(crate::run::execute(settings, redactor, terminal)).unwrap_or(Exit::Failed)
}
