//! Publishes the result of a run after the final status: report directory, summary, page, CI system,
//! telemetry, and terminal.
//!
//! Each run has exactly one result, also without a configuration. An error is logged and does not change
//! how the run ended.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::documents::Documents;
use super::report_files::replace_as;
use crate::ci::{self, Job};
use crate::screen::{Ending, Live, LiveControl, Screen, View, ending};
use crate::settings::{LogFormat, Settings};
use crate::telemetry::Telemetry;
use butler_base::cancel::{Step, Stop};
use butler_base::http::Observed;
use butler_result::LogCopy;
use butler_result::timeline::Timeline;
use butler_result::{RunResult, table};

/// How long a blocked output may delay the end.
const STALL: Duration = Duration::from_secs(5);

/// The same if the output has already delayed the end.
const STALL_AGAIN: Duration = Duration::from_millis(500);

/// The receivers of the result beside the registry, and the times of the run.
#[derive(Default)]
pub(in crate::run) struct Notices {
    pub(in crate::run) timeline: Timeline,
    job: Job,
    files: Option<ResultFiles>,
    documents: Documents,
    /// The copy of the log for the page.
    log: Mutex<Option<LogCopy>>,
    format: LogFormat,
    telemetry: Option<Telemetry>,
    /// Absent after the result was published.
    output: Mutex<Option<Box<dyn Write + Send>>>,
    /// Title and path of the documents that the terminal names.
    places: Vec<(&'static str, PathBuf)>,
    /// The terminal of a user, if there is one.
    screen: Option<Screen>,
    live: Mutex<Option<Live>>,
}

/// The directory for files about the result.
struct ResultFiles {
    directory: PathBuf,
    /// The mode of the files.
    mode: u32,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Notices")
    }
}

impl Notices {
    /// Prepares the receivers that `settings` name. The end of the run is written to `output`, and its
    /// progress is shown on `screen` from now on. Must be called inside of a tokio runtime.
    pub(in crate::run) fn new(
        settings: &Settings,
        output: Box<dyn Write + Send>,
        screen: Option<Screen>,
    ) -> Self {
        let timeline = Timeline::start();
        // A user who has turned off INFO lines gets no live line either.
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
        let written = |(what, path): (_, &Option<PathBuf>)| Some((what, path.clone()?));
        Self {
            job: settings.job.clone(),
            files: result_files(settings),
            documents: Documents::new(settings),
            log: Mutex::default(),
            format: settings.logging.format,
            telemetry: telemetry(settings, &timeline),
            timeline,
            output: Mutex::new(Some(output)),
            places: places.into_iter().filter_map(written).collect(),
            screen,
            live: Mutex::new(live),
        }
    }

    /// Whether the terminal shows the failure at the end, so that no earlier line has to.
    pub(in crate::run) fn shows_failure(&self) -> bool {
        self.screen.is_some()
    }

    /// Keeps the log for the page.
    pub(in crate::run) fn keep_log(&self, log: LogCopy) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// Whether there is a directory for files about the result.
    pub(in crate::run) fn keeps_files(&self) -> bool {
        self.files.is_some()
    }

    /// Writes a file about the result, if there is a directory for it. An error is logged.
    pub(in crate::run) fn write(&self, name: &str, content: &[u8]) {
        let Some(ResultFiles { directory, mode }) = &self.files else { return };
        let path = directory.join(name);
        if let Err(error) = replace_as(*mode, &path, content) {
            tracing::warn!("cannot write the report `{}`: {error}", path.display());
        }
    }

    /// Publishes the result; later calls have no effect. If the terminal has not `shown` the log, it is
    /// probably blocked, and the wait for it is short.
    pub(in crate::run) async fn publish(&self, mut result: RunResult, shown: bool, stop: &Stop) {
        let Some(output) = self.output.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        result.timings = self.timeline.timings();
        if self.job.system.reads_report_files() && self.keeps_files() {
            self.write_for_gitlab(&mut result);
        }
        match serde_json::to_vec_pretty(&result) {
            Ok(json) => self.write("result.json", &json),
            Err(error) => tracing::warn!(%error, "no JSON of the result (a bug)"),
        }
        self.write("timings.txt", format!("{}\n", table(&result.timings)).as_bytes());
        write_for_github(&self.job, &result);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.documents.write(&result, log, stop).await;
        if let Some(telemetry) = &self.telemetry {
            stop.within(Step::Terminal, telemetry.finish(&result)).await;
        }
        drop(self.live.lock().unwrap_or_else(PoisonError::into_inner).take());
        let patience = if shown { STALL } else { STALL_AGAIN };
        self.show(output, &result, patience, stop).await;
    }

    /// The control that hides the live line; absent if there is no live line.
    pub(in crate::run) fn live_control(&self) -> Option<LiveControl> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Live::control)
    }

    /// The observer of the run's HTTP requests.
    pub(in crate::run) fn observed(&self) -> Observed {
        self.telemetry.as_ref().map(Telemetry::observed).unwrap_or_default()
    }

    /// The trace context for processes that the run starts.
    pub(in crate::run) fn traceparent(&self) -> Option<String> {
        self.telemetry.as_ref().map(Telemetry::traceparent)
    }

    /// The widget of a merge request, and the outputs as variables of later jobs.
    fn write_for_gitlab(&self, result: &mut RunResult) {
        if let Some(counts) = result.counts {
            self.write("terraform.json", ci::terraform_report(counts).as_bytes());
        }
        let (text, left_out) = ci::dotenv(&result.outputs);
        if !left_out.is_empty() {
            let warning = format!("outputs that are not in outputs.env: {}", left_out.join(", "));
            tracing::warn!("{warning}");
            result.warnings.push(warning);
        }
        // GitLab rejects an empty file.
        if !text.is_empty() {
            self.write("outputs.env", text.as_bytes());
        }
    }

    /// Shows the timings and the CI system's annotations. A blocked output does not delay the end.
    async fn show(
        &self,
        mut output: Box<dyn Write + Send>,
        result: &RunResult,
        patience: Duration,
        stop: &Stop,
    ) {
        let mut text = String::new();
        if tracing::enabled!(tracing::Level::INFO) {
            if self.format == LogFormat::Json {
                let timings = serde_json::to_string(&result.timings).unwrap_or_default();
                tracing::info!(timings, "the run has ended");
            } else if let Some(screen) = &self.screen {
                text = ending(&Ending {
                    result,
                    width: screen.width(),
                    colours: screen.abilities().colours_on_stderr,
                    places: &self.places,
                });
            } else {
                text = ci::grouped(self.job.system, "timings", &table(&result.timings));
            }
        }
        for line in ci::annotations(result, &self.job) {
            text.push_str(&line);
            text.push('\n');
        }
        if text.is_empty() {
            return;
        }
        let written = tokio::task::spawn_blocking(move || {
            // An error is not logged: the log has the same readers.
            let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
        });
        stop.within(Step::Terminal, tokio::time::timeout(patience, written)).await;
    }
}

/// Starts telemetry, if a collector is set.
fn telemetry(settings: &Settings, timeline: &Timeline) -> Option<Telemetry> {
    match Telemetry::start(settings.collector.as_ref()?) {
        Ok(telemetry) => {
            timeline.watch(telemetry.watcher());
            Some(telemetry)
        }
        Err(error) => {
            tracing::warn!("cannot send telemetry: {error}; check OTEL_EXPORTER_OTLP_*");
            None
        }
    }
}

/// The directory for files about the result: the report directory, or the one that the CI system
/// uploads. Their content is as public as the job's log.
fn result_files(settings: &Settings) -> Option<ResultFiles> {
    let directory = settings.job.reports.clone()?;
    if settings.report_dir.is_some() {
        return Some(ResultFiles { directory, mode: 0o600 });
    }
    // The process that uploads them may belong to another user.
    match fs_err::create_dir_all(&directory) {
        Ok(()) => Some(ResultFiles { directory, mode: 0o644 }),
        Err(error) => {
            tracing::warn!("no reports for {}: {error}", settings.job.system.title());
            None
        }
    }
}

/// Writes summary and outputs of a GitHub Actions step, if the job has files for them.
fn write_for_github(job: &Job, result: &RunResult) {
    type Writer<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;
    let summary: Writer<'_> = &|path| {
        ci::append_summary(path, &butler_result::summary(result, butler_result::SUMMARY_LIMIT))
    };
    let outputs: Writer<'_> = &|path| ci::write_outputs(path, &ci::step_outputs(result));
    for (what, path, write) in
        [("summary", &job.summary, summary), ("outputs", &job.outputs, outputs)]
    {
        if let Some(path) = path
            && let Err(error) = write(path)
        {
            tracing::warn!("cannot write the step's {what} to `{}`: {error}", path.display());
        }
    }
}
