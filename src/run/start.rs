//! Starts a run: signals, orphan adoption, file descriptors, leftovers of earlier runs.

use std::sync::Arc;

use super::directory::descriptors::DescriptorReserve;
use super::directory::leftovers;
use super::reporting::notices::Notices;
use super::reporting::reports::Reports;
use super::reporting::stale_reports::remove_stale_reports;
use super::steps::sources;
use super::terminal::Terminal;
use super::watch;
use crate::ci;
use crate::exit::Exit;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::{Stop, Times};
use butler_base::process::adopt_orphans;
use butler_base::secret::Redactor;

/// Executes the run that `settings` describe. Registers its secrets with `redactor`, which must also
/// redact the process's own log.
pub async fn execute(settings: Settings, redactor: Arc<Redactor>, mut terminal: Terminal) -> Exit {
    if let Some(commands) = terminal.commands.take_if(|_| settings.job.system.reads_masks()) {
        // Before the first secret is registered, so that the CI system masks all of them.
        match ci::Masks::start(commands) {
            Ok(masks) => redactor.observe(move |line| masks.register(line)),
            Err(error) => tracing::warn!(%error, "secrets are not registered as masks: no thread"),
        }
    }
    // A local run does not adopt orphans: a provisioner may start a process that has to stay, and the
    // user's own daemons would be adopted too.
    if !matches!(settings.source, RunSource::Local { .. }) {
        adopt_orphans();
    }
    let times =
        Times { grace: settings.grace_period, report: settings.report_period, ..Times::default() };
    let stop = Stop::with(times);
    let signals = watch::signals(&stop).and_then(|signals| Ok((signals, watch::chores()?)));
    let signals = match signals {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot watch for signals");
            return Exit::Failed;
        }
    };
    let reserve = match DescriptorReserve::open() {
        Ok(reserve) => Some(reserve),
        Err(error) => {
            tracing::error!(%error, "there are too few file descriptors (ulimit -n)");
            return Exit::Usage;
        }
    };
    remove_stale_reports(&settings);
    leftovers::clean_before(&settings, &stop).await;
    let (directory, keeps_outputs) = (settings.report_dir.clone(), settings.keeps_outputs);
    let output = std::mem::replace(&mut terminal.notices, Box::new(std::io::sink()));
    let notices = Arc::new(Notices::new(&settings, output, terminal.screen.take()));
    let reports = Reports { registry: None, directory, keeps_outputs, redactor, notices, reserve };
    let exit = Box::pin(sources::start(&settings, &stop, reports, terminal)).await;
    drop(signals);
    exit
}
