//! The report of a plan: its JSON and text without secrets, and its changes for users.
//!
//! JSON and text are written when the plan is made and sent at the end of the run. A long one is in a file and
//! never in memory as a whole, for any length of lines. The plan's own secrets are registered before an
//! apply, so that the output of provisioners is redacted too. If the plan is larger than the registry's limit,
//! less important parts are omitted, and a note names them.

use std::collections::BTreeSet;
use std::io::Result;
use std::ops::Range;

use bytes::Bytes;

use super::detail_level::{BodyLimit, DetailLevel};
use super::part_writer::PartWriter;
use super::plan_text::PlanText;
use crate::engine::{EngineError, PlanFiles};
use crate::registry::{Body, Part};
use crate::report::RunLog;
use crate::settings::PlanJson;
use butler_base::blocking::blocking;
use butler_base::secret::Redactor;
use butler_plan::{Content, CopiedPlan, Member, PlanSummary};
use butler_result::Changes;

/// The smallest part of a text that is sent, in bytes.
const MIN_TEXT: u64 = 1024;

/// How a plan is read and reported.
#[derive(Clone, Debug)]
pub(in crate::run) struct PlanOptions {
    /// Names of variables that the run or the module declares sensitive.
    pub(in crate::run) sensitive: BTreeSet<String>,
    /// Those of them to which the run gives a value.
    pub(in crate::run) given_secrets: BTreeSet<String>,
    pub(in crate::run) json: PlanJson,
    /// The largest body that the registry accepts, in bytes; none without a registry.
    pub(in crate::run) limit: Option<u64>,
}

/// The report of a plan.
#[derive(Debug)]
pub(in crate::run) struct PlanReport {
    /// The JSON: redacted, or as Terraform has written it.
    pub(in crate::run) json: Part,
    members: Vec<Member>,
    pub(in crate::run) text: PlanText,
    /// The largest body that the registry accepts, in bytes; none without a registry.
    pub(in crate::run) limit: Option<u64>,
    /// The changes, for users.
    pub(in crate::run) changes: Changes,
}

/// The result of reading a plan.
struct ReadPlan {
    summary: PlanSummary,
    /// Whether the plan has too many secrets to redact all of them.
    incomplete: bool,
    report: Result<PlanReport>,
}

impl PlanReport {
    /// Reads a plan and writes its report. `text` is used if the plan does not contain new secrets; otherwise it
    /// is made again. Logs a warning for omitted parts.
    ///
    /// # Errors
    /// If the plan cannot be read. An error of the report is in the inner result.
    pub(in crate::run) async fn create(
        files: &PlanFiles,
        text: Result<PlanText>,
        options: &PlanOptions,
        log: &RunLog,
    ) -> std::result::Result<(PlanSummary, std::result::Result<Self, String>), EngineError> {
        let (plan, given) = ((files.clone(), text), options.clone());
        let redactor = log.redactor().clone();
        let reading = blocking(move |_| Self::create_blocking(plan, given, &redactor));
        let ReadPlan { summary, incomplete, report } = reading.await?;
        let report = match report {
            Ok(report) => report,
            Err(error) => return Ok((summary, Err(butler_base::error::chain(&error)))),
        };
        let warnings = [
            (options.json == PlanJson::Raw).then_some("the plan's JSON is reported as Terraform writes it, sensitive values included (--plan-json)"),
            incomplete.then_some("the plan marks so much as sensitive that not all of it is masked where the module prints it"),
            options.limit.and_then(|limit| report.fitting_level(DetailLevel::Everything, BodyLimit::new(limit)).note()),
        ];
        for text in warnings.into_iter().flatten() {
            log.warn(text);
        }
        Ok((summary, Ok(report)))
    }

    fn create_blocking(
        (files, text): (PlanFiles, Result<PlanText>),
        PlanOptions { sensitive, json, limit, .. }: PlanOptions,
        redactor: &Redactor,
    ) -> std::result::Result<ReadPlan, EngineError> {
        let content = match json {
            PlanJson::Clean => Content::Clean,
            PlanJson::Raw => Content::Everything,
        };
        let file = files.json.with_extension("report.json");
        let create = || Ok(PartWriter::new(&file));
        let (survey, copied) = files.read(create, sensitive, content, redactor)?;
        let report = copied.and_then(|CopiedPlan { into, members, changes }| {
            let text = if survey.secrets.is_empty() {
                text
            } else {
                PlanText::create(files.text, limit.is_some(), redactor)
            };
            let changes = changes.unwrap_or_else(|error| {
                tracing::warn!("cannot list the changes of the plan: {error}");
                Changes::default()
            });
            Ok(Self { json: into.finish()?, members, text: text?, limit, changes })
        });
        Ok(ReadPlan { summary: survey.summary, incomplete: survey.incomplete, report })
    }

    /// The first level from `first` on whose body fits `limit`.
    pub(in crate::run) fn fitting_level(
        &self,
        first: DetailLevel,
        limit: BodyLimit,
    ) -> DetailLevel {
        let fits = |level: &DetailLevel| match level {
            DetailLevel::ChangesAndCutText => self.text_limit(*level, limit) >= MIN_TEXT,
            DetailLevel::CutText => {
                self.text.escaped.length() > 0 && self.text_limit(*level, limit) >= MIN_TEXT
            }
            DetailLevel::Note => true,
            _ => self.length(*level) <= limit.whole,
        };
        let mut levels = DetailLevel::ALL.into_iter().skip_while(|level| *level != first);
        levels.find(fits).unwrap_or(DetailLevel::Note)
    }

    /// The body of POST plan at this level (registry API, POST plan).
    pub(in crate::run) fn body(&self, level: DetailLevel, limit: BodyLimit) -> Result<Body> {
        let mut parts = self.head(level);
        match level {
            DetailLevel::Everything | DetailLevel::WithoutState | DetailLevel::Changes
                if self.has_text(level) =>
            {
                parts.push(self.text.escaped.clone());
            }
            DetailLevel::ChangesAndCutText | DetailLevel::CutText => {
                parts.push(self.text.cut(self.text_limit(level, limit))?);
            }
            DetailLevel::Note => parts.push(static_part(level.note().unwrap_or_default())),
            _ => {}
        }
        parts.push(static_part(self.tail(level)));
        Ok(Body::from(parts))
    }

    /// The body before the text.
    fn head(&self, level: DetailLevel) -> Vec<Part> {
        if matches!(level, DetailLevel::CutText | DetailLevel::Note) {
            return vec![static_part("{\"plan_text\":\"")];
        }
        let mut parts = vec![static_part("{\"plan_json\":{")];
        for (index, range) in self.member_ranges(level).into_iter().enumerate() {
            if index > 0 {
                parts.push(static_part(","));
            }
            parts.push(self.json.at(range));
        }
        parts.push(static_part(if self.has_text(level) { "},\"plan_text\":\"" } else { "}" }));
        parts
    }

    /// The positions of the members that are sent. Adjacent members are one range, with the comma between them.
    fn member_ranges(&self, level: DetailLevel) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for Member { range, .. } in self.members.iter().filter(|member| level.has(&member.name)) {
            match ranges.last_mut().filter(|last| last.end + 1 == range.start) {
                Some(last) => last.end = range.end,
                None => ranges.push(range.clone()),
            }
        }
        ranges
    }

    fn tail(&self, level: DetailLevel) -> &'static str {
        if self.has_text(level) { "\"}" } else { "}" }
    }

    fn has_text(&self, level: DetailLevel) -> bool {
        match level {
            DetailLevel::ChangesAlone => false,
            DetailLevel::Note => true,
            _ => self.text.escaped.length() > 0,
        }
    }

    /// The length of a body whose text is not cut.
    fn length(&self, level: DetailLevel) -> u64 {
        let text = if self.has_text(level) { self.text.escaped.length() } else { 0 };
        self.length_without_text(level) + text
    }

    /// The length of a body without its text.
    fn length_without_text(&self, level: DetailLevel) -> u64 {
        self.head(level).iter().map(Part::length).sum::<u64>() + self.tail(level).len() as u64
    }

    /// The length to which the text is cut.
    fn text_limit(&self, level: DetailLevel, limit: BodyLimit) -> u64 {
        limit.cut.saturating_sub(self.length_without_text(level)).min(self.text.escaped.length())
    }
}

fn static_part(text: &'static str) -> Part {
    Part::Bytes(Bytes::from_static(text.as_bytes()))
}

#[cfg(test)]
#[path = "plan_report_tests.rs"]
mod tests;
