//! Writes a run as one HTML page, which is self-contained: it does not load or send anything.
//!
//! Untrusted texts pass only through the templates, which escape them. As a second defence, a
//! strict Content-Security-Policy allows only the page's own script and style sheet, by their
//! digests. The page is written in pieces; neither it nor the log is in memory as a whole.

mod log;
mod view;

use std::io::{Result, Write};

use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use self::log::LogLines;
use self::view::{Attribute, Bar, Change, Diagnostic, Problem};
use super::log_copy::LogCopy;
use super::wording::{counted, counts, duration, headline, module, sign, started, verb};
use crate::{FinalStatus, RunResult};

/// The page's style sheet.
const STYLE: &str = include_str!("../templates/page.css");

/// The page's script; the page is readable without it.
const SCRIPT: &str = include_str!("../templates/page.js");

/// The order of the verbs in the filter.
const VERBS: [&str; 8] =
    ["create", "update", "replace", "destroy", "read", "forget", "import", "move"];

/// With fewer resources, all are expanded initially.
const FEW: usize = 12;

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
        result,
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
        has_plan: has_plan(result),
        verbs: verbs(result),
        left_out: result.changes_left_out,
        plan_title: plan_title(result),
        bars: Bar::all(result),
        total: duration(result.timings.total),
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
    result: &'a RunResult,
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
    has_plan: bool,
    plan_title: &'static str,
    /// Verb, sign, and number of resources.
    verbs: Vec<(&'static str, &'static str, usize)>,
    left_out: usize,
    bars: Vec<Bar>,
    total: String,
    has_log: bool,
    log: &'a LogLines,
}

impl<'a> Page<'a> {
    fn changes(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let few = self.result.changes.len() <= FEW;
        self.result.changes.iter().map(move |change| Change::of(change, few))
    }

    fn drift(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let few = self.result.drift.len() <= FEW;
        self.result.drift.iter().map(move |change| Change::of(change, few))
    }

    fn outputs(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        self.result.output_changes.iter().map(Attribute::of)
    }

    fn diagnostics(&self) -> impl Iterator<Item = Diagnostic<'a>> + use<'a> {
        self.result.diagnostics.iter().map(Diagnostic::of)
    }

    fn warnings(&self) -> impl Iterator<Item = std::borrow::Cow<'a, str>> + use<'a> {
        self.result.warnings.iter().map(|warning| view::text(warning))
    }
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

/// The heading of the changes: planned or applied ones.
fn plan_title(result: &RunResult) -> &'static str {
    let is_applied = result.changes.iter().any(|change| change.outcome.is_some());
    if is_applied { "Changes" } else { "Plan" }
}

fn has_plan(result: &RunResult) -> bool {
    let RunResult { changes, drift, output_changes, changes_left_out, .. } = result;
    !changes.is_empty() || !drift.is_empty() || !output_changes.is_empty() || *changes_left_out > 0
}

fn verbs(result: &RunResult) -> Vec<(&'static str, &'static str, usize)> {
    let count =
        |wanted: &str| result.changes.iter().filter(|change| verb(change) == wanted).count();
    let all = VERBS.into_iter().map(|verb| (verb, sign(verb), count(verb)));
    all.filter(|(.., count)| *count > 0).collect()
}

fn parts(result: &RunResult, lines: usize) -> Vec<(&'static str, &'static str, String)> {
    let mut parts = Vec::new();
    if result.error.is_some() {
        parts.push(("problem", "Error", String::new()));
    }
    if has_plan(result) {
        let count = result.changes.len() + result.changes_left_out;
        parts.push(("plan", plan_title(result), count.to_string()));
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
