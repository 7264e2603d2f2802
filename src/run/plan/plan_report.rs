//! What is reported of a plan: its JSON and text without secrets, in files, and in a form that the
//! registry takes; and what it changes, for people.
//!
//! The files are made as soon as there is a plan and are sent at the end of the run; neither is ever
//! in memory as a whole, however long its lines are. What a plan says about its own secrets is
//! registered before anything is applied, so that what provisioners print is masked too. A plan that
//! is larger than the registry takes loses its less important parts, and a note says which.

use std::collections::BTreeSet;
use std::io::Result;
use std::ops::Range;

use bytes::Bytes;

use super::part_writer::PartWriter;
use super::plan_text::PlanText;
use crate::engine::{EngineError, Saved};
use crate::registry::{Body, Part};
use crate::report::RunLog;
use crate::settings::PlanJson;
use butler_base::blocking::blocking;
use butler_base::secret::Redactor;
use butler_plan::{Content, Copied, Member, PlanSummary};
use butler_result::Changes;

/// The least of a text that is worth being sent, in bytes.
const SHORTEST_TEXT: u64 = 1024;

/// How a plan is to be read and reported.
#[derive(Clone, Debug)]
pub(in crate::run) struct PlanOptions {
    /// Names of variables that the run or the module says are sensitive.
    pub(in crate::run) sensitive: BTreeSet<String>,
    pub(in crate::run) json: PlanJson,
    /// The largest body that the registry takes; none without a registry.
    pub(in crate::run) limit: Option<u64>,
}

/// What is sent of a plan, from all to nearly nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::run) enum Form {
    Everything,
    WithoutState,
    Changes,
    ChangesAndCutText,
    ChangesAlone,
    CutText,
    Note,
}

impl Form {
    /// All of them in their order.
    const ALL: [Self; 7] = [
        Self::Everything,
        Self::WithoutState,
        Self::Changes,
        Self::ChangesAndCutText,
        Self::ChangesAlone,
        Self::CutText,
        Self::Note,
    ];

    /// What is left out, for people.
    pub(in crate::run) const fn note(self) -> Option<&'static str> {
        match self {
            Self::Everything => None,
            Self::WithoutState => Some(
                "the plan is too large for the registry: it is reported without `prior_state` and `configuration`",
            ),
            Self::Changes => Some(
                "the plan is too large for the registry: of its JSON only resource and output changes are reported",
            ),
            Self::ChangesAndCutText => Some(
                "the plan is too large for the registry: of its JSON only resource and output changes are reported, and its text is cut",
            ),
            Self::ChangesAlone => Some(
                "the plan is too large for the registry: only its resource and output changes are reported, without its text",
            ),
            Self::CutText => Some(
                "the plan is too large for the registry: its JSON is not reported, and its text is cut where it is too long",
            ),
            Self::Note => Some(
                "the plan is too large for the registry: neither its JSON nor its text is reported",
            ),
        }
    }

    /// Whether a member of the plan is part of it.
    fn has(self, member: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::WithoutState => !matches!(member, "prior_state" | "configuration"),
            Self::Changes | Self::ChangesAndCutText | Self::ChangesAlone => matches!(
                member,
                "format_version" | "terraform_version" | "resource_changes" | "output_changes"
            ),
            Self::CutText | Self::Note => false,
        }
    }

    /// The next smaller one.
    pub(in crate::run) fn smaller(self) -> Option<Self> {
        let index = Self::ALL.iter().position(|form| *form == self)?;
        Self::ALL.get(index + 1).copied()
    }
}

/// How large a body may be.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Room {
    whole: u64,
    /// To what size a text is cut.
    cut: u64,
}

impl Room {
    /// The room that a registry with this limit has.
    pub(in crate::run) const fn new(limit: u64) -> Self {
        Self { whole: limit, cut: limit }
    }

    /// The room that there is when a body of `length` was refused as too large. Whoever refused it
    /// does not say what would do.
    pub(in crate::run) const fn after(length: u64) -> Self {
        Self { whole: length.saturating_sub(1), cut: length / 2 }
    }
}

/// The report of a plan.
#[derive(Debug)]
pub(in crate::run) struct PlanReport {
    /// The JSON: cleaned, or as Terraform wrote it.
    pub(in crate::run) json: Part,
    members: Vec<Member>,
    pub(in crate::run) text: PlanText,
    /// The largest body that the registry takes; none without a registry.
    pub(in crate::run) limit: Option<u64>,
    /// What it changes, for people to look at.
    pub(in crate::run) changes: Changes,
}

/// What comes of a plan.
struct Made {
    summary: PlanSummary,
    /// Whether not all of its secrets are known.
    incomplete: bool,
    report: Result<PlanReport>,
}

impl PlanReport {
    /// Reads a plan and makes its report beside it, with the text of `printed` where nothing was found that
    /// is missing in it, and says in the log what will be missing. Returns what the plan will do too; what
    /// keeps the plan from being reported is no error.
    pub(in crate::run) async fn prepare(
        saved: &Saved,
        printed: Result<PlanText>,
        options: &PlanOptions,
        log: &RunLog,
    ) -> std::result::Result<(PlanSummary, std::result::Result<Self, String>), EngineError> {
        let (work, given) = ((saved.clone(), printed), options.clone());
        let redactor = log.redactor().clone();
        let made = blocking(move |_| Self::make(work, given, &redactor));
        let Made { summary, incomplete, report } = made.await?;
        let report = match report {
            Ok(report) => report,
            Err(error) => return Ok((summary, Err(butler_base::error::chain(&error)))),
        };
        let warnings = [
            (options.json == PlanJson::Raw).then_some("the plan's JSON is reported as Terraform writes it, sensitive values included (--plan-json)"),
            incomplete.then_some("the plan marks so much as sensitive that not all of it is masked where the module prints it"),
            options.limit.and_then(|limit| report.form(Form::Everything, Room::new(limit)).note()),
        ];
        for text in warnings.into_iter().flatten() {
            log.warn(text);
        }
        Ok((summary, Ok(report)))
    }

    fn make(
        (saved, printed): (Saved, Result<PlanText>),
        PlanOptions { sensitive, json, limit }: PlanOptions,
        redactor: &Redactor,
    ) -> std::result::Result<Made, EngineError> {
        let content = match json {
            PlanJson::Clean => Content::Clean,
            PlanJson::Raw => Content::Everything,
        };
        let file = saved.json.with_extension("report.json");
        let create = || Ok(PartWriter::new(&file));
        let (survey, copied) = saved.read(create, sensitive, content, redactor)?;
        let report = copied.and_then(|Copied { into, members, changes }| {
            let text = if survey.secrets.is_empty() {
                printed
            } else {
                PlanText::make(saved.text, limit.is_some(), redactor)
            };
            let changes = changes.unwrap_or_else(|error| {
                tracing::warn!("what the plan changes cannot be shown: {error}");
                Changes::default()
            });
            Ok(Self { json: into.end()?, members, text: text?, limit, changes })
        });
        Ok(Made { summary: survey.summary, incomplete: survey.incomplete, report })
    }

    /// The first form from `first` on that there is room for.
    pub(in crate::run) fn form(&self, first: Form, room: Room) -> Form {
        let fits = |form: &Form| match form {
            Form::ChangesAndCutText => self.text_room(*form, room) >= SHORTEST_TEXT,
            Form::CutText => {
                self.text.escaped.length() > 0 && self.text_room(*form, room) >= SHORTEST_TEXT
            }
            Form::Note => true,
            _ => self.length(*form) <= room.whole,
        };
        let mut forms = Form::ALL.into_iter().skip_while(|form| *form != first);
        forms.find(fits).unwrap_or(Form::Note)
    }

    /// The body of POST plan in this form (registry API, POST plan).
    pub(in crate::run) fn body(&self, form: Form, room: Room) -> Result<Body> {
        let mut parts = self.head(form);
        match form {
            Form::Everything | Form::WithoutState | Form::Changes if self.has_text(form) => {
                parts.push(self.text.escaped.clone());
            }
            Form::ChangesAndCutText | Form::CutText => {
                parts.push(self.text.cut(self.text_room(form, room))?);
            }
            Form::Note => parts.push(fixed(form.note().unwrap_or_default())),
            _ => {}
        }
        parts.push(fixed(self.tail(form)));
        Ok(Body::from(parts))
    }

    /// All that stands before the text.
    fn head(&self, form: Form) -> Vec<Part> {
        if matches!(form, Form::CutText | Form::Note) {
            return vec![fixed("{\"plan_text\":\"")];
        }
        let mut parts = vec![fixed("{\"plan_json\":{")];
        for (index, place) in self.places(form).into_iter().enumerate() {
            if index > 0 {
                parts.push(fixed(","));
            }
            parts.push(self.json.at(place));
        }
        parts.push(fixed(if self.has_text(form) { "},\"plan_text\":\"" } else { "}" }));
        parts
    }

    /// Where in the file the members stand that are part of this form; those that follow one another
    /// there are one place, with the comma between them.
    fn places(&self, form: Form) -> Vec<Range<u64>> {
        let mut places: Vec<Range<u64>> = Vec::new();
        for Member { place, .. } in self.members.iter().filter(|member| form.has(&member.name)) {
            match places.last_mut().filter(|last| last.end + 1 == place.start) {
                Some(last) => last.end = place.end,
                None => places.push(place.clone()),
            }
        }
        places
    }

    fn tail(&self, form: Form) -> &'static str {
        if self.has_text(form) { "\"}" } else { "}" }
    }

    fn has_text(&self, form: Form) -> bool {
        match form {
            Form::ChangesAlone => false,
            Form::Note => true,
            _ => self.text.escaped.length() > 0,
        }
    }

    /// The length of a body whose text is not cut.
    fn length(&self, form: Form) -> u64 {
        let text = if self.has_text(form) { self.text.escaped.length() } else { 0 };
        self.frame(form) + text
    }

    /// The length of all but the text.
    fn frame(&self, form: Form) -> u64 {
        self.head(form).iter().map(Part::length).sum::<u64>() + self.tail(form).len() as u64
    }

    fn text_room(&self, form: Form, room: Room) -> u64 {
        room.cut.saturating_sub(self.frame(form)).min(self.text.escaped.length())
    }
}

fn fixed(text: &'static str) -> Part {
    Part::Bytes(Bytes::from_static(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::super::plan_text::{CHUNK, CUT};
    use super::*;

    /// A report of a plan with these lengths of members and text.
    fn report(directory: &Path, text: &str) -> PlanReport {
        let file = |name: &str, content: &str| {
            std::fs::write(directory.join(name), content).unwrap();
            directory.join(name)
        };
        let filler = "x".repeat(2000);
        let plan = format!(
            r#"{{"format_version":"1.2","terraform_version":"1.11.4","variables":{{"a":{{"value":"{filler}"}}}},"resource_changes":[],"prior_state":{{"v":"{filler}"}},"configuration":{{"c":"{filler}"}}}}"#
        );
        let (json, text) = (file("plan.json", &plan), file("plan.txt", text));
        let saved = Saved { file: directory.join("plan.tfplan"), json, text };
        let options = PlanOptions {
            sensitive: BTreeSet::new(),
            json: PlanJson::Clean,
            limit: Some(u64::MAX),
        };
        let redactor = Redactor::new();
        let text = PlanText::make(saved.text.clone(), true, &redactor);
        PlanReport::make((saved, text), options, &redactor).unwrap().report.unwrap()
    }

    fn sent(report: &PlanReport, form: Form, room: Room) -> (serde_json::Value, u64) {
        let body = report.body(form, room).unwrap();
        let mut bytes = Vec::new();
        for part in body.parts() {
            part.open().unwrap().read_to_end(&mut bytes).unwrap();
        }
        assert_eq!(bytes.len() as u64, body.length());
        (serde_json::from_slice(&bytes).unwrap(), body.length())
    }

    #[test]
    fn each_form_is_smaller_than_the_one_before_and_says_what_it_lacks() {
        let directory = tempfile::tempdir().unwrap();
        let report = report(directory.path(), &"line \"quoted\"\t\u{1b}[1m\u{20ac}\n".repeat(200));
        let (mut room, mut form, mut forms) = (Room::new(u64::MAX), Form::Everything, Vec::new());
        loop {
            let (body, length) = sent(&report, form, room);
            let members: Vec<_> = body["plan_json"]
                .as_object()
                .map(|json| json.keys().cloned().collect())
                .unwrap_or_default();
            forms.push((form, members.len(), body["plan_text"].is_string()));
            let parts = report.body(form, room).unwrap();
            assert!(parts.parts().len() <= 7, "what follows one another is sent in one piece");
            assert_eq!(form.note().is_none(), form == Form::Everything);
            let Some(smaller) = form.smaller() else { break };
            room = Room::after(length);
            form = report.form(smaller, room);
        }
        assert_eq!(
            forms,
            [
                (Form::Everything, 6, true),
                (Form::WithoutState, 4, true),
                (Form::Changes, 3, true),
                (Form::ChangesAndCutText, 3, true),
                (Form::ChangesAlone, 3, false),
                (Form::Note, 0, true),
            ]
        );
    }

    #[test]
    fn a_body_is_never_larger_than_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let report = report(directory.path(), &"\u{1}\"\u{20ac}x\n".repeat(3000));
        for limit in (1100..80_000).step_by(777) {
            let room = Room::new(limit);
            let form = report.form(Form::Everything, room);
            let (body, length) = sent(&report, form, room);
            assert!(length <= limit, "{form:?}: {length} of {limit}");
            let text = body["plan_text"].as_str().unwrap_or_default();
            assert_eq!(
                text.ends_with(CUT),
                matches!(form, Form::ChangesAndCutText | Form::CutText)
            );
        }
    }

    #[test]
    fn a_line_that_is_longer_than_what_is_read_at_a_time_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("x{}\n", "\u{20ac}\"".repeat(CHUNK));
        let report = report(directory.path(), &text);
        let (body, _) = sent(&report, Form::Everything, Room::new(u64::MAX));
        assert!(body["plan_text"] == text.as_str());
    }

    #[test]
    fn a_plan_without_text_has_none_in_its_report() {
        let directory = tempfile::tempdir().unwrap();
        let report = report(directory.path(), "");
        let (body, _) = sent(&report, Form::Everything, Room::new(u64::MAX));
        assert!(body.get("plan_text").is_none() && body["plan_json"].is_object(), "{body}");
        assert_eq!(report.form(Form::Everything, Room::new(20)), Form::Note);
    }
}
