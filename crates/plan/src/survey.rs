//! Finds the values of a plan or state that must be redacted in the module's own output too.
//!
//! A mark only says that a value must not be shown at its position, and not that it is a secret:
//! providers mark whole blocks, and modules mark whole objects that contain regions and names of
//! types. So a value of a resource counts if it is marked by itself, is not a word, and does not appear
//! elsewhere without a mark. Outputs are marked by the module, so all parts of a marked one count.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Result;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::marks::{PieceVisitor, hides_nothing, visit_terraform_value};
use super::plan::PlanSummary;
use super::walk::PlanVisitor;
use butler_base::secret::{Redactor, is_ordinary_word, scalars, secret_lines};

/// The shortest line of a value that is redacted elsewhere, in characters.
const MIN_LENGTH: usize = 12;

/// The most bytes of marked values that are redacted elsewhere: the search needs memory.
const MAX_MARKED_SIZE: usize = 1024 * 1024;

/// Members of a plan that contain changes of resources.
const CHANGES: [&str; 3] = ["resource_changes", "resource_drift", "deferred_changes"];

/// Members of a plan that contain values of resources and outputs, or settings of actions.
const STATES: [&str; 4] =
    ["planned_values", "prior_state", "action_invocations", "deferred_action_invocations"];

/// Other members of a plan that contain values.
const VALUES: [&str; 2] = ["variables", "output_changes"];

/// The resource whose only purpose is to make a secret: its marked values are secrets of any length, words included, and
/// also if a copy has no mark.
const SECRET_MAKER: &str = "random_password";

/// The data source that reads the outputs of another state. It never has the marks of that state, so a value without a
/// mark in it may be a secret.
pub(super) const REMOTE_STATE: &str = "terraform_remote_state";

/// The summary of a plan, and its secrets.
#[derive(Debug, Default)]
pub struct Survey {
    /// The summary.
    pub summary: PlanSummary,
    /// Names of the root module's variables that are sensitive.
    pub variables: BTreeSet<String>,
    /// Values that must be redacted everywhere, line by line.
    pub secrets: Vec<SecretString>,
    /// Whether there were too many of them.
    pub incomplete: bool,
}

/// A line of a value that is marked by itself.
struct Candidate {
    text: SecretString,
    /// The resources that contain it: providers repeat a value in the same resource without a mark.
    resources: BTreeSet<String>,
    is_open: bool,
    /// Whether it is a secret even if it appears without a mark.
    is_certain: bool,
}

/// Sorts the candidates and removes duplicates.
fn sort(found: &mut Vec<Candidate>) {
    found.sort_by(|one, other| one.text.expose_secret().cmp(other.text.expose_secret()));
    found.dedup_by(|next, kept| {
        let same = next.text.expose_secret() == kept.text.expose_secret();
        if same {
            kept.resources.append(&mut next.resources);
            kept.is_certain |= next.is_certain;
        }
        same
    });
}

/// Collects values that are marked by themselves and are not redacted yet.
pub(super) struct MarkedValues<'a> {
    redactor: &'a Redactor,
    found: Vec<Candidate>,
    size: usize,
    incomplete: bool,
    section: Section,
    resource: Option<String>,
    /// Whether the resource only makes secrets.
    makes_secrets: bool,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Section {
    Changes,
    State,
    Variables,
    Outputs,
    #[default]
    Other,
}

impl<'a> MarkedValues<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self {
            redactor,
            found: Vec::new(),
            size: 0,
            incomplete: false,
            section: Section::default(),
            resource: None,
            makes_secrets: false,
        }
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The candidates that do not appear without a mark, and whether there were too many. If there are candidates,
    /// `read_again` passes the pieces of the same document.
    ///
    /// # Errors
    /// If the document cannot be read.
    pub(super) fn into_secrets(
        self,
        read_again: impl FnOnce(&mut UnmarkedTexts<'_>) -> Result<()>,
    ) -> Result<(Vec<SecretString>, bool)> {
        let Self { mut found, incomplete, .. } = self;
        sort(&mut found);
        if !found.is_empty() {
            read_again(&mut UnmarkedTexts { found: &mut found, counts: false, resource: None })?;
        }
        found.retain(|candidate| candidate.is_certain || !candidate.is_open);
        Ok((found.into_iter().map(|candidate| candidate.text).collect(), incomplete))
    }
}

impl PieceVisitor for MarkedValues<'_> {
    fn hidden(&mut self, json: &str) -> Result<()> {
        let is_single = !json.starts_with(['{', '[']);
        let counts = match self.section {
            Section::Changes => is_single,
            // An output has no address.
            Section::State => is_single || self.resource.is_none(),
            Section::Variables | Section::Outputs => true,
            Section::Other => false,
        };
        for text in scalars(json).filter(|_| counts) {
            for line in secret_lines(text.expose_secret()) {
                let is_secret = self.makes_secrets || is_unlikely_by_chance(line);
                if !is_secret || self.redactor.hides(line) {
                    continue;
                }
                if self.size + line.len() > MAX_MARKED_SIZE {
                    self.incomplete = true;
                    continue;
                }
                self.size += line.len();
                self.found.push(Candidate {
                    text: SecretString::from(line),
                    resources: self.resource.iter().cloned().collect(),
                    is_open: false,
                    is_certain: self.makes_secrets,
                });
            }
        }
        Ok(())
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        if self.section == Section::Other || hides_nothing(json) {
            return Ok(());
        }
        let labels = Labels::of(json);
        self.makes_secrets = labels.kind.as_deref() == Some(SECRET_MAKER);
        self.resource = labels.address.map(Cow::into_owned);
        visit_terraform_value((name, json), 0, self)
    }
}

impl PlanVisitor for MarkedValues<'_> {
    fn begin(&mut self, member: &str) {
        self.resource = None;
        self.makes_secrets = false;
        self.section = match member {
            "variables" => Section::Variables,
            "output_changes" => Section::Outputs,
            member if CHANGES.contains(&member) => Section::Changes,
            member if STATES.contains(&member) => Section::State,
            _ => Section::Other,
        };
    }
}

/// Whether `line` is unlikely to appear by chance: it is long, and neither a word nor a number.
fn is_unlikely_by_chance(line: &str) -> bool {
    let has = |class: fn(char) -> bool| usize::from(line.chars().any(class));
    let classes = has(char::is_alphabetic)
        + has(char::is_numeric)
        + has(|c| !c.is_alphabetic() && !c.is_numeric());
    let is_random =
        || line.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_ordinary_word(line);
    line.chars().count() >= MIN_LENGTH && (classes >= 2 || is_random())
}

/// Finds the candidates that appear without a mark.
pub(super) struct UnmarkedTexts<'a> {
    /// Sorted.
    found: &'a mut Vec<Candidate>,
    /// Whether the current member contains values.
    counts: bool,
    resource: Option<String>,
}

impl UnmarkedTexts<'_> {
    /// Records `text`, which appears without a mark: in `resource`, if it is a value of a resource.
    fn note(&mut self, text: &str, resource: Option<&str>) {
        for line in text.lines().map(str::trim) {
            let order = |candidate: &Candidate| candidate.text.expose_secret().cmp(line);
            if let Ok(index) = self.found.binary_search_by(order)
                && resource.is_none_or(|name| !self.found[index].resources.contains(name))
            {
                self.found[index].is_open = true;
            }
        }
    }
}

impl PieceVisitor for UnmarkedTexts<'_> {
    fn name(&mut self, name: &str) -> Result<()> {
        if self.counts {
            self.note(name, None);
        }
        Ok(())
    }

    fn label(&mut self, json: &str) -> Result<()> {
        self.open(json)
    }

    fn open(&mut self, json: &str) -> Result<()> {
        if self.counts {
            let resource = self.resource.take();
            for text in scalars(json) {
                self.note(text.expose_secret(), resource.as_deref());
            }
            self.resource = resource;
        }
        Ok(())
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        if !self.counts {
            return Ok(());
        }
        let labels = Labels::of(json);
        for label in labels.all() {
            self.note(label, None);
            for part in label.split(['.', '[', ']', '"', '/']) {
                self.note(part, None);
            }
        }
        if labels.kind.as_deref() == Some(REMOTE_STATE) {
            return Ok(());
        }
        self.resource = labels.address.map(Cow::into_owned);
        visit_terraform_value((name, json), 0, self)
    }
}

impl PlanVisitor for UnmarkedTexts<'_> {
    fn begin(&mut self, member: &str) {
        self.resource = None;
        self.counts =
            CHANGES.contains(&member) || STATES.contains(&member) || VALUES.contains(&member);
    }
}

/// The address of a resource, which is not a secret.
#[derive(Default, Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default)]
    address: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    previous_address: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    provider_name: Option<Cow<'a, str>>,
    /// Of a change that is deferred.
    #[serde(borrow, default)]
    resource_change: Option<&'a RawValue>,
}

impl<'a> Labels<'a> {
    /// None if `json` is not a resource.
    fn of(json: &'a RawValue) -> Self {
        let labels = |json: &'a RawValue| -> Self {
            let is_object = json.get().starts_with('{');
            is_object.then(|| serde_json::from_str(json.get()).ok()).flatten().unwrap_or_default()
        };
        let outer = labels(json);
        outer.resource_change.map_or(outer, labels)
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        [&self.address, &self.previous_address, &self.kind, &self.name, &self.provider_name]
            .into_iter()
            .filter_map(Option::as_deref)
    }
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
