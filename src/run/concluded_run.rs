//! The last part of a teardown, without the configuration's secrets: final status, terminal, documents.

use super::directory::wiping::UnfinishedWipe;
use super::masking::secrets::register_settings;
use super::panic::catch_panic;
use super::reporting::final_status::{UndeliveredStatus, deliver};
use super::reporting::logs::TerminalReader;
use super::reporting::reports::Reports;
use super::watch::Watch;
use crate::exit::Exit;
use crate::settings::Settings;
use butler_base::cancel::Stop;
use butler_result::RunResult;
use butler_result::timeline::Span;

/// A run of which only the final status and the documents are missing. It contains no secrets of the
/// configuration.
pub(super) struct ConcludedRun<'run> {
    pub(super) settings: &'run Settings,
    pub(super) stop: Stop,
    pub(super) reports: Reports,
    pub(super) watch: Option<Watch>,
    pub(super) terminal: TerminalReader,
    /// A text that must not be lost among others, so it is printed last.
    pub(super) last_line: Option<String>,
    /// The wipe, if it takes long.
    pub(super) wiping: Option<UnfinishedWipe>,
    /// Masked.
    pub(super) result: RunResult,
    /// The exit code, provided that the final status is delivered.
    pub(super) exit: Exit,
    /// Ends when the final status is delivered.
    pub(super) reporting: Span,
}

impl ConcludedRun<'_> {
    /// Sends the final status and writes the documents.
    pub(super) async fn finish(self) -> Exit {
        let Self { settings, stop, reports, mut result, mut exit, .. } = self;
        // Before the final status: when the registry gets it, the configuration's secrets must be gone
        // from memory (docs/security.md). The job's own secrets stay registered: they are in the
        // environment, and the token is still needed.
        reports.redactor.forget();
        register_settings(&reports.redactor, settings);
        result.timings = reports.notices.timeline.timings();
        reports.result(&result, &stop).await;
        let delivered = catch_panic(async { Ok(deliver(&stop, &reports, &result).await) }).await;
        let delivered =
            delivered.unwrap_or_else(|failure| Err(UndeliveredStatus::lost(failure.reason)));
        // Before the documents, which contain the loss of the final status.
        if let Err(undelivered) = delivered {
            exit = undelivered.apply_to(&mut result, exit, &reports.redactor);
            reports.keep_status(&result);
        }
        drop((self.watch, self.reporting));
        // After the final status, because a blocked terminal delays everything behind it up to its
        // deadline.
        let shown = self.terminal.join(&stop).await;
        if let Some(wiping) = self.wiping {
            wiping.join(&stop).await;
        }
        reports.notices.publish(result, shown, &stop).await;
        if let Some(line) = self.last_line {
            tracing::error!("{line}");
        }
        exit
    }
}
