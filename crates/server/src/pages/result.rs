//! What an attempt has left about its run: its plan, diagnostics and timings, as HTML.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use butler_base::blocking::blocking;
use butler_base::event::Phase;
use butler_base::secret::Redactor;
use butler_plan::Content;
use butler_result::{
    ChangeOutcome, Diagnostic, DiagnosticsSection, PhaseTiming, PlanSection, Timings, TimingsTable,
    visible,
};
use fs_err as fs;
use serde::Deserialize;

use crate::api::{PolicyView, Rendered, policies};
use crate::attempts::AttemptDirectory;
use crate::model::Action;

/// `result.json`, as far as the page shows it.
#[derive(Debug, Deserialize)]
struct ResultFile {
    status: String,
    #[serde(default)]
    error: Option<ProblemInFile>,
    #[serde(default)]
    diagnostics: Vec<Diagnostic>,
    #[serde(default)]
    warnings: Vec<String>,
    timings: TimingsInFile,
    #[serde(default)]
    incomplete: Option<IncompleteInFile>,
    #[serde(default)]
    tool: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ProblemInFile {
    phase: Phase,
    message: String,
    #[serde(default)]
    advice: Option<String>,
}

/// What an apply that ended early has not completed.
#[derive(Clone, Debug, Deserialize)]
struct IncompleteInFile {
    changes: Vec<ChangeInFile>,
}

#[derive(Clone, Debug, Deserialize)]
struct ChangeInFile {
    address: String,
    outcome: ChangeOutcome,
}

#[derive(Debug, Deserialize)]
struct TimingsInFile {
    total_seconds: f64,
    phases: Vec<PhaseInFile>,
}

#[derive(Debug, Deserialize)]
struct PhaseInFile {
    phase: Phase,
    start_seconds: f64,
    #[serde(default)]
    duration_seconds: Option<f64>,
}

/// What an attempt has left. Everything may be empty.
#[derive(Debug, Default)]
pub(super) struct AttemptResult {
    /// The plan, which gets into the page as it is, so that all who look at it share it.
    pub(super) plan: Bytes,
    pub(super) diagnostics: String,
    pub(super) timings: String,
    pub(super) tool: String,
    /// Why it failed, and what to do.
    pub(super) problem: Option<(String, String)>,
    /// What could not be read; may be empty.
    pub(super) unreadable: String,
    /// What the program has said that checks the plan.
    pub(super) policies: Vec<PolicyView>,
}

impl AttemptResult {
    /// Reads what an attempt of a run with this action has left.
    pub(super) async fn read(
        directory: AttemptDirectory,
        action: Action,
        plans: &Rendered,
    ) -> Self {
        let of_plan = directory.clone();
        let read = blocking(move |_| {
            let file: Option<ResultFile> = directory.result().unwrap_or_default();
            (file, directory.result_version(), policies(&directory))
        });
        let (file, version, policies) = read.await;
        let incomplete = file.as_ref().and_then(|file| file.incomplete.clone());
        let make = blocking(move |_| {
            let html = of_plan.open_plan_json().and_then(|plan| {
                plan.map(|plan| plan_html(&plan, action, incomplete.as_ref())).transpose()
            });
            html.map(|html| Bytes::from(html.unwrap_or_default()))
        });
        // The log is there to read in any case.
        let mut problems = Vec::new();
        let plan = plans.get(format!("{action:?} {version}"), make).await;
        let plan = plan.unwrap_or_else(|error| {
            problems.push(format!("The plan cannot be shown: {error}."));
            Bytes::new()
        });
        let policies = policies.unwrap_or_else(|error| {
            problems.push(format!("What was said about the plan cannot be shown: {error}."));
            Vec::new()
        });
        let unreadable = problems.join(" ");
        let result = Self { plan, unreadable, policies, ..Self::default() };
        match file {
            Some(file) => result.with(file),
            None => result,
        }
    }

    fn with(self, file: ResultFile) -> Self {
        let diagnostics = DiagnosticsSection::new(&file.diagnostics, &file.warnings);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let phases = file.timings.phases.iter().map(|timing| PhaseTiming {
            phase: timing.phase,
            start: seconds(timing.start_seconds),
            duration: timing.duration_seconds.map(seconds),
        });
        let timings = Timings {
            // Not shown.
            started: SystemTime::UNIX_EPOCH,
            total: seconds(file.timings.total_seconds),
            phases: phases.collect(),
        };
        let failed = file.error.as_ref().map(|error| error.phase);
        Self {
            diagnostics: if diagnostics.is_empty() {
                String::new()
            } else {
                diagnostics.to_string()
            },
            timings: TimingsTable::new(&timings, failed, &file.status).to_string(),
            tool: file.tool.unwrap_or_default(),
            problem: file.error.map(|error| {
                let advice = error.advice.unwrap_or_default();
                (visible(&error.message).into_owned(), visible(&advice).into_owned())
            }),
            ..self
        }
    }
}

/// The plan as a difference. It was masked by the attempt. If its apply ended early, each change has its
/// outcome.
fn plan_html(
    json: &fs::File,
    action: Action,
    incomplete: Option<&IncompleteInFile>,
) -> io::Result<String> {
    let redactor = Redactor::new();
    let open = || {
        let mut json = json;
        json.seek(SeekFrom::Start(0))?;
        Ok(BufReader::new(json))
    };
    let (_, copied) =
        butler_plan::read(open, || Ok(io::sink()), BTreeSet::new(), Content::Clean, &redactor)?;
    let mut changes = copied?.changes?;
    if let Some(incomplete) = incomplete {
        for change in &mut changes.planned {
            let left = incomplete.changes.iter().find(|it| it.address == change.address);
            change.outcome = Some(left.map_or(ChangeOutcome::Done, |it| it.outcome));
        }
    }
    let section =
        PlanSection::new(&changes.planned, &changes.outputs, &changes.drift, changes.left_out)
            .executing(&changes.actions, &changes.planned);
    // Nothing of a drift check is ever applied, so it is not called a plan.
    let section = if action == Action::Drift { section.titled("What differs") } else { section };
    Ok(if section.is_empty() { String::new() } else { section.to_string() })
}
