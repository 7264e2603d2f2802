//! Tells everybody beside the registry how a run ended, once the registry knows: the report
//! directory, who asked for a summary or a page, the CI system, and whoever looks on.
//!
//! Each run has exactly one result, also where it never got a configuration. What cannot be told is
//! logged and changes nothing: the run has ended as it has.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::documents::Documents;
use super::outcome::Exit;
use super::reports::replace;
use crate::cancel::{Step, Stop};
use crate::http::Observed;
use crate::report::LogCopy;
use crate::result::{RunResult, table};
use crate::screen::{Ending, Live, Screen, View, ending};
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
    documents: Documents,
    /// What is kept of the log for the page.
    log: Mutex<Option<LogCopy>>,
    format: LogFormat,
    telemetry: Option<Telemetry>,
    /// None once the result was told.
    output: Mutex<Option<Box<dyn Write + Send>>>,
    /// Where there is more for people to read.
    places: Vec<(&'static str, PathBuf)>,
    /// How people look on, until they were told the result.
    screen: Option<Screen>,
    live: Mutex<Option<Live>>,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Notices")
    }
}

impl Notices {
    /// Notices as `settings` want them, on `output` what is for people who look on, and on `screen`
    /// from now on what goes on. Must be called where tokio runs.
    pub(super) fn new(
        settings: &Settings,
        output: Box<dyn Write + Send>,
        screen: Option<Screen>,
    ) -> Self {
        let timeline = Timeline::start();
        // Who asks for less does not get more.
        let screen = screen.filter(|screen| {
            screen.abilities().view == View::Live && tracing::enabled!(tracing::Level::INFO)
        });
        let live = screen.as_ref().and_then(Live::start);
        if let Some(live) = &live {
            timeline.watch(live.watcher());
        }
        let places = [
            ("report", &settings.report),
            ("summary", &settings.summary),
            ("all reports", &settings.report_dir),
        ];
        let place = |(what, path): (_, &Option<PathBuf>)| Some((what, path.clone()?));
        Self {
            directory: settings.report_dir.clone(),
            documents: Documents::new(settings),
            log: Mutex::default(),
            format: settings.logging.format,
            telemetry: telemetry(settings, &timeline),
            timeline,
            output: Mutex::new(Some(output)),
            places: places.into_iter().filter_map(place).collect(),
            screen,
            live: Mutex::new(live),
        }
    }

    /// Keeps the log for the page.
    pub(super) fn keep_log(&self, log: LogCopy) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// Tells how the run ended, for the first time that it is called.
    pub(super) async fn publish(&self, mut result: RunResult, stop: &Stop) {
        let Some(output) = self.output.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        result.timings = self.timeline.timings();
        if let Some(directory) = &self.directory {
            write_files(directory, &result);
        }
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.documents.write(&result, log, stop).await;
        if let Some(telemetry) = &self.telemetry {
            stop.within(Step::Terminal, telemetry.finish(&result)).await;
        }
        drop(self.live.lock().unwrap_or_else(PoisonError::into_inner).take());
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

    /// Shows how it ended to people, and the timings to everybody else. An output that nobody reads
    /// holds up nothing.
    async fn show(&self, mut output: Box<dyn Write + Send>, result: RunResult, stop: &Stop) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        if self.format == LogFormat::Json {
            let timings = serde_json::to_string(&result.timings).unwrap_or_default();
            tracing::info!(timings, "the run has ended");
            return;
        }
        let text = match &self.screen {
            Some(screen) => ending(&Ending {
                result: &result,
                width: screen.width(),
                colours: screen.abilities().colours_on_stderr,
                places: &self.places,
            }),
            None => format!("{}\n", table(&result.timings)),
        };
        let written = tokio::task::spawn_blocking(move || {
            // Where nobody reads it, there is nobody to tell.
            let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
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

/// The result as JSON and the table of times, in the report directory.
fn write_files(directory: &Path, result: &RunResult) {
    let json = serde_json::to_vec_pretty(result).unwrap_or_default();
    let times = format!("{}\n", table(&result.timings));
    for (name, content) in [("result.json", json.as_slice()), ("timings.txt", times.as_bytes())] {
        let path = directory.join(name);
        if let Err(error) = replace(&path, content) {
            tracing::error!("cannot write the result `{}`: {error}", path.display());
        }
    }
}
