//! Tells everybody beside the registry how a run ended, once the registry knows: the report
//! directory, who asked for a summary or a page, the CI system, and whoever looks on.
//!
//! Each run has exactly one result, also where it never got a configuration. What cannot be told is
//! logged and changes nothing: the run has ended as it has.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::outcome::Exit;
use super::reports::replace;
use crate::cancel::{Step, Stop};
use crate::http::Observed;
use crate::result::{RunResult, table};
use crate::settings::{LogFormat, Settings};
use crate::telemetry::Telemetry;
use crate::timeline::Timeline;

/// How long an output that takes nothing may hold up the end.
const STALL: Duration = Duration::from_secs(5);

/// Who is told, and of which times.
#[derive(Default)]
pub(super) struct Notices {
    pub(super) timeline: Timeline,
    directory: Option<PathBuf>,
    format: LogFormat,
    telemetry: Option<Telemetry>,
    /// None once the result was told.
    output: Mutex<Option<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Notices")
    }
}

impl Notices {
    /// Notices as `settings` want them, on `output` what is for people who look on.
    pub(super) fn new(settings: &Settings, output: Box<dyn Write + Send>) -> Self {
        let timeline = Timeline::start();
        Self {
            directory: settings.report_dir.clone(),
            format: settings.logging.format,
            telemetry: telemetry(settings, &timeline),
            timeline,
            output: Mutex::new(Some(output)),
        }
    }

    /// Tells how the run ended, for the first time that it is called.
    pub(super) async fn publish(&self, mut result: RunResult, stop: &Stop) {
        let Some(output) = self.output.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        result.timings = self.timeline.timings();
        if let Some(directory) = &self.directory {
            write_json(directory, &result);
        }
        if let Some(telemetry) = &self.telemetry {
            stop.within(Step::Terminal, telemetry.finish(&result)).await;
        }
        self.show(output, result, stop).await;
    }

    /// Who watches the requests of the run.
    pub(super) fn observed(&self) -> Observed {
        self.telemetry.as_ref().map(Telemetry::observed).unwrap_or_default()
    }

    /// What those are a part of that the run starts.
    pub(super) fn traceparent(&self) -> Option<String> {
        self.telemetry.as_ref().map(Telemetry::traceparent)
    }

    /// The same for a run of which nothing is known but its end; what never began has no result.
    pub(super) async fn publish_exit(&self, exit: Exit, stop: &Stop) {
        let status = match exit {
            Exit::Usage => return,
            Exit::Success => "succeeded",
            Exit::Cancelled | Exit::Signal(_) => "cancelled",
            Exit::Failed | Exit::Registry => "failed",
        };
        self.publish(RunResult::of(status, exit.code(), self.timeline.timings()), stop).await;
    }

    /// Shows the timings. An output that nobody reads holds up nothing.
    async fn show(&self, mut output: Box<dyn Write + Send>, result: RunResult, stop: &Stop) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        if self.format == LogFormat::Json {
            let timings = serde_json::to_string(&result.timings).unwrap_or_default();
            tracing::info!(timings, "the run has ended");
            return;
        }
        let written = tokio::task::spawn_blocking(move || {
            // Where nobody reads it, there is nobody to tell.
            let _ = writeln!(output, "{}", table(&result.timings)).and_then(|()| output.flush());
        });
        stop.within(Step::Terminal, tokio::time::timeout(STALL, written)).await;
    }
}

/// Begins to tell the collector, if there is one.
fn telemetry(settings: &Settings, timeline: &Timeline) -> Option<Telemetry> {
    match Telemetry::start(settings.collector.as_ref()?) {
        Ok(telemetry) => {
            timeline.watch(telemetry.watcher());
            Some(telemetry)
        }
        Err(error) => {
            tracing::warn!("the collector is told nothing: {error}; check OTEL_EXPORTER_OTLP_*");
            None
        }
    }
}

fn write_json(directory: &Path, result: &RunResult) {
    let path = directory.join("result.json");
    let written = serde_json::to_vec_pretty(result)
        .map_err(std::io::Error::from)
        .and_then(|json| replace(&path, json.as_slice()));
    if let Err(error) = written {
        tracing::error!("cannot write the result `{}`: {error}", path.display());
    }
}
