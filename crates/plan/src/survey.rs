//! Finds the values of a plan that must be redacted in the module's own output too.
//!
//! A mark only says that a value must not be shown at its position, and not that it is a secret:
//! providers mark whole blocks, and modules mark whole objects that contain regions and names of
//! types. So a value counts if it is marked by itself, is not a word, and does not appear elsewhere
//! without a mark.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{Read, Result};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::marks::{Target, format, hides_nothing};
use super::plan::PlanSummary;
use super::walk::{Destination, Walk};
use butler_base::secret::{Redactor, scalars};

/// The shortest line of a value that is redacted elsewhere, in characters.
const SHORTEST: usize = 12;

/// The most bytes of marked values that are redacted elsewhere: the search needs memory.
const MOST: usize = 1024 * 1024;

/// Members of a plan that contain changes of resources.
const CHANGES: [&str; 3] = ["resource_changes", "resource_drift", "deferred_changes"];

/// Other members of a plan that contain values of resources, outputs and variables.
const VALUES: [&str; 4] = ["variables", "planned_values", "prior_state", "output_changes"];

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
}

/// Sorts the candidates and removes duplicates.
fn sort(found: &mut Vec<Candidate>) {
    found.sort_by(|one, other| one.text.expose_secret().cmp(other.text.expose_secret()));
    found.dedup_by(|next, kept| {
        let same = next.text.expose_secret() == kept.text.expose_secret();
        if same {
            kept.resources.append(&mut next.resources);
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
    part: Part,
    resource: Option<String>,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Part {
    Changes,
    Variables,
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
            part: Part::default(),
            resource: None,
        }
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The candidates that do not appear without a mark, and whether there were too many. Reads the
    /// plan again if there are candidates.
    ///
    /// # Errors
    /// If the plan cannot be read.
    pub(super) fn into_secrets<R: Read>(
        self,
        mut open: impl FnMut() -> Result<R>,
        variables: &mut BTreeSet<String>,
    ) -> Result<(Vec<SecretString>, bool)> {
        let Self { mut found, incomplete, .. } = self;
        sort(&mut found);
        if !found.is_empty() {
            let mut unmarked = UnmarkedTexts { found: &mut found, counts: false, resource: None };
            Walk::new(open()?, &mut unmarked, variables).document()?;
        }
        found.retain(|candidate| !candidate.is_open);
        Ok((found.into_iter().map(|candidate| candidate.text).collect(), incomplete))
    }
}

impl Target for MarkedValues<'_> {
    fn hidden(&mut self, json: &str) -> Result<()> {
        let counts = match self.part {
            Part::Changes => !json.starts_with(['{', '[']),
            Part::Variables => true,
            Part::Other => false,
        };
        for text in scalars(json).filter(|_| counts) {
            for line in text.expose_secret().lines().map(str::trim) {
                if !is_unlikely_by_chance(line) || self.redactor.hides(line) {
                    continue;
                }
                if self.size + line.len() > MOST {
                    self.incomplete = true;
                    continue;
                }
                self.size += line.len();
                self.found.push(Candidate {
                    text: SecretString::from(line),
                    resources: self.resource.iter().cloned().collect(),
                    is_open: false,
                });
            }
        }
        Ok(())
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        if self.part == Part::Other || hides_nothing(json) {
            return Ok(());
        }
        self.resource = Labels::of(json).address.map(Cow::into_owned);
        format((name, json), 0, self)
    }
}

impl Destination for MarkedValues<'_> {
    fn begin(&mut self, member: &str) {
        self.resource = None;
        self.part = match member {
            "variables" => Part::Variables,
            member if CHANGES.contains(&member) => Part::Changes,
            _ => Part::Other,
        };
    }
}

/// Whether `line` is unlikely to appear by chance: it is long, and not only letters or only digits.
fn is_unlikely_by_chance(line: &str) -> bool {
    let has = |class: fn(char) -> bool| usize::from(line.chars().any(class));
    let classes = has(char::is_alphabetic)
        + has(char::is_numeric)
        + has(|c| !c.is_alphabetic() && !c.is_numeric());
    line.chars().count() >= SHORTEST && classes >= 2
}

/// Finds the candidates that appear without a mark.
struct UnmarkedTexts<'a> {
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

impl Target for UnmarkedTexts<'_> {
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
        self.resource = labels.address.map(Cow::into_owned);
        format((name, json), 0, self)
    }
}

impl Destination for UnmarkedTexts<'_> {
    fn begin(&mut self, member: &str) {
        self.resource = None;
        self.counts = CHANGES.contains(&member) || VALUES.contains(&member);
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
mod tests {
    use serde_json::{Value, json};

    use super::super::reading::alone;
    use super::*;

    fn survey(plan: &Value, variables: &[&str]) -> Survey {
        let mut plan = plan.clone();
        plan["format_version"] = json!("1.2");
        let text = plan.to_string();
        let variables = variables.iter().map(|name| (*name).to_owned()).collect();
        alone::survey(|| Ok(text.as_bytes()), variables).unwrap()
    }

    fn secrets(plan: &Value, variables: &[&str]) -> Vec<String> {
        let survey = survey(plan, variables);
        survey.secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect()
    }

    fn change(address: &str, after: &Value, marks: &Value) -> Value {
        json!({"address": address, "type": "terraform_data", "name": address.rsplit('.').next(),
            "change": {"actions": ["create"], "before": null, "after": after, "after_sensitive": marks}})
    }

    #[test]
    fn values_that_are_marked_by_themselves_count_and_objects_and_outputs_do_not() {
        let engine = json!({"engine": "postgresql-16", "region": "eu-central-1", "password": "hunter22-one"});
        let plan = json!({
            "resource_changes": [
                change("terraform_data.a", &engine, &json!({"password": true})),
                change("terraform_data.b", &json!({"block": {"id": "hunter22-two"}}), &json!({"block": true})),
                change("terraform_data.c", &json!({"list": ["hunter22-three", "x"]}), &json!({"list": [true, false]})),
            ],
            "output_changes": {"o": {"after": {"name": "hunter22-four"}, "after_sensitive": true}},
            "planned_values": {"outputs": {"o": {"sensitive": true, "value": "hunter22-five"}}},
            "prior_state": {"values": {"root_module": {"resources": [{"address": "terraform_data.d",
                "values": {"v": "hunter22-six"}, "sensitive_values": {"v": true}}]}}},
            "variables": {"given": {"value": {"password": "hunter22-seven"}}, "other": {"value": "hunter22-eight"}},
        });
        assert_eq!(
            secrets(&plan, &["given"]),
            ["hunter22-one", "hunter22-seven", "hunter22-three"]
        );
    }

    #[test]
    fn unmarked_values_are_not_secrets() {
        let marked = json!({"region": "eu-central-1", "kind": "terraform_data", "named": "network-2024",
            "copied": "hunter22-copied", "key": "each-key-2024"});
        let marks =
            json!({"region": true, "kind": true, "named": true, "copied": true, "key": true});
        let mut with_copy = change("terraform_data.a", &marked, &marks);
        with_copy["change"]["after"]["output"] = json!("hunter22-copied");
        let mut plan = json!({
            "variables": {"region": {"value": "eu-central-1"}},
            "resource_changes": [
                with_copy,
                change("terraform_data.network-2024", &json!({}), &json!({})),
                change("module.m[\"each-key-2024\"].terraform_data.x", &json!({}), &json!({})),
            ],
            // The configuration alone is not a reason to show it.
            "configuration": {"root_module": {"resources": [{"expressions": {"copied": {"constant_value": "hunter22-copied"}}}]}},
        });
        assert_eq!(secrets(&plan, &[]), ["hunter22-copied"]);
        plan["prior_state"]["values"]["outputs"] =
            json!({"open": {"sensitive": false, "value": ["hunter22-copied"]}});
        assert_eq!(secrets(&plan, &[]), [""; 0]);
    }

    #[test]
    fn short_values_and_words_do_not_count_and_not_too_many() {
        let values = |value: &Value| json!({"resource_changes": [change("x.y", &json!({"v": value}), &json!({"v": true}))]});
        for (value, found) in [
            (json!("5432\nlong enough-1\n"), &["long enough-1"][..]),
            (json!("PostgreSQLengine"), &[]),
            (json!("hunter22-24"), &[]),
            (json!("123456789012345"), &[]),
            (json!(123_456_789_012_345_u64), &[]),
            (json!("Passwörter12"), &["Passwörter12"]),
        ] {
            assert_eq!(secrets(&values(&value), &[]), found, "{value}");
        }
        assert!(survey(&values(&json!("x1".repeat(MOST))), &[]).incomplete);
    }

    #[test]
    fn variables_that_the_configuration_declares_sensitive_are_known_behind_it() {
        let plan = json!({
            "variables": {"key": {"value": "hunter22-key"}},
            "resource_changes": [change("x.y", &json!({"v": "hunter22-key"}), &json!({"v": true}))],
            "configuration": {"root_module": {"variables": {"key": {"sensitive": true}}}},
        });
        let survey = survey(&plan, &[]);
        assert_eq!(survey.variables, BTreeSet::from(["key".to_owned()]));
        assert_eq!(survey.secrets.len(), 1);
    }
}
