//! `clean`: deletes files that killed runners left, without starting a run.

use std::io::Write;
use std::sync::Arc;

use clap::Args;

use super::flags::{Flags, Selection, merge_arguments};
use super::logging;
use super::output::{complain, refuse};
use crate::exit::Exit;
use crate::run::{CleanMode, clean};
use crate::screen::Screen;
use crate::settings::setting::{CACHE_DIR, RECOVERY_DIR, TMPFS_DIR, WORK_DIR};
use crate::settings::{Arguments, CleanSettings, Environment, Logging, Setting};

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Clean {
    /// Print the planned actions without executing them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    flags: Flags<CleanFlags>,
}

/// The exit codes, for `--help`.
const EXIT_CODES: &str =
    "Exit codes: 0 all unused files were deleted, 1 a file could not be deleted, 2 usage";

/// The directories of runs, recovery and cache.
struct CleanFlags;

impl Selection for CleanFlags {
    fn has(setting: &Setting) -> bool {
        [&WORK_DIR, &TMPFS_DIR, &RECOVERY_DIR, &CACHE_DIR].contains(&setting)
    }
}

impl Clean {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        // A dry run must not create directories.
        let settings =
            if self.dry_run { CleanSettings::resolve_for_dry_run } else { CleanSettings::resolve };
        let resolved = Logging::resolve(&arguments, environment)
            .and_then(|logging| Ok((logging, settings(&arguments, environment)?)));
        let (logging, settings) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error),
        };
        let _log = logging::start(&logging, environment, &Arc::default(), &Screen::default());
        let mode = if self.dry_run { CleanMode::DryRun } else { CleanMode::Wipe };
        // A failed file does not stop the others; the exit code reports it at the end.
        let mut exit = Exit::Success;
        let mut out = std::io::stdout();
        let cleaned = clean(&settings, mode, |finding| {
            if finding.has_failed() {
                exit = Exit::Failed;
            }
            // If standard output is closed, the files are still deleted.
            let _ = writeln!(out, "{finding}");
        });
        if let Err(error) = cleaned {
            complain(&format!("cannot read `{}`: {error}", settings.work_dir.display()), None);
            exit = Exit::Failed;
        }
        exit.code()
    }
}
