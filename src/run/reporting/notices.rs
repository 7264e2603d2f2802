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

/// How long an output that takes nothing may hold up the end.
const STALL: Duration = Duration::from_secs(5);

/// The same where that was waited for already.
const STALL_AGAIN: Duration = Duration::from_millis(500);

/// Who is told, and of which times.
#[derive(Default)]
pub(in crate::run) struct Notices {
    pub(in crate::run) timeline: Timeline,
    job: Job,
    place: Option<Place>,
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

/// Where files on the result go.
struct Place {
    directory: PathBuf,
    /// The mode of its files.
    mode: u32,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Notices")
    }
}

impl Notices {
    /// Notices as `settings` want them, on `output` what is for people who look on, and on `screen`
    /// from now on what goes on. Must be called where tokio runs.
    pub(in crate::run) fn new(
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
        let written = |(what, path): (_, &Option<PathBuf>)| Some((what, path.clone()?));
        Self {
            job: settings.job.clone(),
            place: place(settings),
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

    /// Whether somebody at a terminal is told at the end why the run failed, so that nothing before
    /// has to say so.
    pub(in crate::run) fn tell_failure(&self) -> bool {
        self.screen.is_some()
    }

    /// Keeps the log for the page.
    pub(in crate::run) fn keep_log(&self, log: LogCopy) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// Whether files on the result are wanted.
    pub(in crate::run) fn keeps_files(&self) -> bool {
        self.place.is_some()
    }

    /// Writes a file on the result, if it is wanted; where it cannot be written, that is logged.
    pub(in crate::run) fn write(&self, name: &str, content: &[u8]) {
        let Some(Place { directory, mode }) = &self.place else { return };
        let path = directory.join(name);
        if let Err(error) = replace_as(*mode, &path, content) {
            tracing::warn!("cannot write the report `{}`: {error}", path.display());
        }
    }

    /// Tells how the run ended, for the first time that it is called. Whether its log could be
    /// `shown` says how long to wait for whoever looks on.
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

    /// What keeps the live line away for a while; none where there is no such line.
    pub(in crate::run) fn live_control(&self) -> Option<LiveControl> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Live::control)
    }

    /// Who watches the requests of the run.
    pub(in crate::run) fn observed(&self) -> Observed {
        self.telemetry.as_ref().map(Telemetry::observed).unwrap_or_default()
    }

    /// What those are a part of that the run starts.
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
        // An empty one is no valid report.
        if !text.is_empty() {
            self.write("outputs.env", text.as_bytes());
        }
    }

    /// Shows the timings and what the system puts beside the source. An output that nobody reads
    /// holds up nothing.
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
            // Where nobody reads it, there is nobody to tell.
            let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
        });
        stop.within(Step::Terminal, tokio::time::timeout(patience, written)).await;
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

/// Where files on the result go: beside all other reports, or where the system picks them up. There
/// is nothing in them that the job's log must not show.
fn place(settings: &Settings) -> Option<Place> {
    let directory = settings.job.reports.clone()?;
    if settings.report_dir.is_some() {
        return Some(Place { directory, mode: 0o600 });
    }
    // What uploads them may be another user.
    match fs_err::create_dir_all(&directory) {
        Ok(()) => Some(Place { directory, mode: 0o644 }),
        Err(error) => {
            tracing::warn!("no reports for {}: {error}", settings.job.system.title());
            None
        }
    }
}

/// The summary and the outputs of the step, where there is room for them.
fn write_for_github(job: &Job, result: &RunResult) {
    type Act<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;
    let summary: Act<'_> = &|path| {
        ci::append_summary(path, &butler_result::summary(result, butler_result::SUMMARY_LIMIT))
    };
    let outputs: Act<'_> = &|path| ci::write_outputs(path, &ci::step_outputs(result));
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
