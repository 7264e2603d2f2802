//! Writes a run as one HTML page, which is self-contained: it does not load or send anything.
//!
//! Untrusted texts pass only through the templates, which escape them. As a second defence, a
//! strict Content-Security-Policy allows only the page's own script and style sheet, by their
//! digests. The page is written in pieces; neither it nor the log is in memory as a whole.

mod groups;
mod log;
mod sections;
mod view;

use std::io::{Result, Write};

use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use self::log::LogLines;
use self::view::Problem;
use super::log_copy::LogCopy;
use super::wording::{counted, counts, duration, headline, module, started};
use crate::{FinalStatus, RunResult};

pub use self::log::{log_line, shown_line};
pub use self::sections::{DiagnosticsSection, PlanSection, TimingsTable};

/// The page's style sheet, which the pages of the server begin with.
pub const STYLE: &str = include_str!("../templates/page.css");

/// The page's script; the page is readable without it.
const SCRIPT: &str = include_str!("../templates/page.js");

/// Writes the page.
///
/// # Errors
/// If it cannot be written, or the log cannot be read.
pub fn page(result: &RunResult, log: Option<LogCopy>, into: &mut impl Write) -> Result<()> {
    let lines = log.as_ref().map_or(0, LogCopy::lines);
    let log = LogLines::new(log);
    let page = Page {
        policy: policy(),
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        script: SCRIPT,
        title: title(result),
        headline: headline(result),
        module: module(result).map(|name| view::text(&name).into_owned()),
        status: result.status.name(),
        icon_colour: icon_colour(result.status),
        status_path: status_path(result.status),
        summary: result.summary.iter().flat_map(|text| text.lines()).map(view::text).collect(),
        facts: view::facts(result),
        parts: parts(result, lines),
        problem: result.error.as_ref().map(|problem| Problem::of(problem, result.status)),
        tiles: tiles(result),
        plan: plan(result),
        diagnostics: DiagnosticsSection::new(&result.diagnostics, &result.warnings),
        bars: TimingsTable::new(
            &result.timings,
            result.error.as_ref().map(|problem| problem.phase),
            result.status.name(),
        ),
        has_log: lines > 0,
        log: &log,
    };
    page.write_into(into)?;
    log.outcome()
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    policy: String,
    version: &'static str,
    style: &'static str,
    script: &'static str,
    title: String,
    headline: String,
    module: Option<String>,
    status: &'a str,
    icon_colour: &'static str,
    status_path: &'static str,
    summary: Vec<std::borrow::Cow<'a, str>>,
    facts: Vec<(&'static str, String)>,
    /// Anchor, title and count of each part of the page.
    parts: Vec<(&'static str, &'static str, String)>,
    problem: Option<Problem<'a>>,
    /// Style, number and unit.
    tiles: Vec<(&'static str, u32, &'static str)>,
    plan: PlanSection<'a>,
    diagnostics: DiagnosticsSection<'a>,
    bars: TimingsTable,
    has_log: bool,
    log: &'a LogLines,
}

/// Loads nothing but the icon in the page itself, sends nothing, and executes only the page's own
/// script and style sheet (Content Security Policy Level 3).
fn policy() -> String {
    let digest = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(SCRIPT),
        digest(STYLE)
    )
}

/// `Apply failed: network · 2026-11-23 02:35:31 UTC`.
fn title(result: &RunResult) -> String {
    let module = module(result).map(|name| format!(": {}", view::text(&name)));
    format!("{}{} · {}", headline(result), module.unwrap_or_default(), started(result))
}

fn plan(result: &RunResult) -> PlanSection<'_> {
    let RunResult { actions, changes, drift, output_changes, changes_left_out, .. } = result;
    PlanSection::new(changes, output_changes, drift, *changes_left_out).executing(actions, changes)
}

fn parts(result: &RunResult, lines: usize) -> Vec<(&'static str, &'static str, String)> {
    let mut parts = Vec::new();
    if result.error.is_some() {
        parts.push(("problem", "Error", String::new()));
    }
    if !plan(result).is_empty() {
        let outputs = result.counts.map_or(0, |counts| counts.outputs as usize);
        let count = result.actions.len() + result.changes.len() + outputs + result.changes_left_out;
        parts.push(("plan", sections::title(&result.changes), count.to_string()));
    }
    let diagnostics = result.diagnostics.len() + result.warnings.len();
    if diagnostics > 0 {
        parts.push(("diagnostics", "Diagnostics", diagnostics.to_string()));
    }
    parts.push(("timings", "Timings", duration(result.timings.total)));
    if lines > 0 {
        parts.push(("log", "Log", counted(lines, "line")));
    }
    parts
}

fn tiles(result: &RunResult) -> Vec<(&'static str, u32, &'static str)> {
    let counts = counts(result).into_iter().map(|(count, style, words)| (style, count, words));
    let tests = result.tests.iter().flat_map(|tests| {
        [
            ("passed", tests.passed, "passed"),
            ("fail", tests.failed, "failed"),
            ("skipped", tests.skipped, "skipped"),
        ]
    });
    counts.chain(tests).collect()
}

const fn icon_colour(status: FinalStatus) -> &'static str {
    match status {
        FinalStatus::Succeeded => "%231a8f4a",
        FinalStatus::Planned => "%230b5cad",
        FinalStatus::Cancelled => "%23b97a00",
        FinalStatus::Failed => "%23c62f26",
    }
}

/// A tick, a pause, a bar or a cross.
const fn status_path(status: FinalStatus) -> &'static str {
    match status {
        FinalStatus::Succeeded => "M6.5 12.5l3.8 3.8 7.2-8",
        FinalStatus::Planned => "M9 7.5v9M15 7.5v9",
        FinalStatus::Cancelled => "M7 12h10",
        FinalStatus::Failed => "M8 8l8 8M16 8l-8 8",
    }
}
