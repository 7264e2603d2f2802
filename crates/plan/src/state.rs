//! Finds the secrets in a state, before a command prints anything.
//!
//! The stored form of a state (format 4, `state pull`) has the marks that the module has caused, and those of the
//! providers' schemas if the version of Terraform or `OpenTofu` that wrote it stores them. `show -json` has all
//! marks, but starts the providers; [`StateSurvey::lacks_marks`] says when it is needed.

use std::collections::BTreeMap;
use std::io::{Cursor, Error, ErrorKind, Read, Result};

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::members::{Members, members};
use super::survey::{MarkedValues, REMOTE_STATE};
use super::walk::{PlanVisitor, Walk};
use butler_base::secret::Redactor;

/// The format of stored states that is read.
const FORMAT: u64 = 4;

/// The first minor version of Terraform 1 and of `OpenTofu` 1 that stores the marks of schemas.
const STORES_MARKS: (u64, u64) = (1, 8);

/// The part of a plan that contains a state; its rules apply to a state alone too.
const STATE: &str = "prior_state";

/// The secrets in a state.
#[derive(Debug, Default)]
pub struct StateSurvey {
    /// Values that must be redacted everywhere, line by line.
    pub secrets: Vec<SecretString>,
    /// Whether there were too many of them.
    pub incomplete: bool,
    /// The states whose outputs were read into this one.
    pub remote_states: Vec<RemoteState>,
    missing: MissingMarks,
}

/// The marks of schemas that a stored state lacks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum MissingMarks {
    /// None: the state has no resources of providers, or the version that wrote it stores their marks.
    #[default]
    Nothing,
    /// Those of data sources, if `OpenTofu` wrote the state.
    DataSources,
    /// All.
    Everything,
}

/// The outputs of another state that a data source has read. They have no marks.
#[derive(Debug, Default)]
pub struct RemoteState {
    /// The type of its backend.
    pub backend: String,
    /// The settings of the backend that are texts.
    pub settings: BTreeMap<String, String>,
    /// Its workspace, if one is named.
    pub workspace: Option<String>,
    /// The outputs, by name, as JSON texts.
    pub outputs: Vec<(String, SecretString)>,
}

impl StateSurvey {
    /// Whether values may be secret although the stored state does not mark them: versions before 1.8 do not store the
    /// marks of the providers' schemas, and `OpenTofu` does not store those of data sources.
    #[must_use]
    pub const fn lacks_marks(&self, is_tofu: bool) -> bool {
        match self.missing {
            MissingMarks::Nothing => false,
            MissingMarks::DataSources => is_tofu,
            MissingMarks::Everything => true,
        }
    }
}

/// Surveys the stored form of a state. Values that `redactor` already hides are not returned.
///
/// # Errors
/// If `state` is not a state, for example because it is encrypted.
pub fn survey_state(state: &[u8], redactor: &Redactor) -> Result<StateSurvey> {
    if state.iter().all(u8::is_ascii_whitespace) {
        return Ok(StateSurvey::default());
    }
    let state: StoredState<'_> = serde_json::from_slice(state)?;
    if state.version != FORMAT {
        let reason = format!("version {} of the format is not known", state.version);
        return Err(Error::new(ErrorKind::InvalidData, reason));
    }
    let mut survey = StateSurvey { missing: state.missing_marks(), ..StateSurvey::default() };
    let is_remote =
        |resource: &&StoredResource<'_>| resource.kind == REMOTE_STATE && resource.mode == "data";
    for resource in state.resources.iter().filter(is_remote) {
        let read = resource.instances.iter().filter_map(|instance| instance.attributes);
        survey.remote_states.extend(read.filter_map(|json| RemoteState::of(json).ok()));
    }
    let mut marked = MarkedValues::new(redactor);
    state.visit(&mut marked)?;
    (survey.secrets, survey.incomplete) = marked.into_secrets(|unmarked| state.visit(unmarked))?;
    Ok(survey)
}

/// Surveys the JSON of a state (`show -json`), which `open` opens. Returns the values that must be redacted everywhere,
/// and whether there were too many of them.
///
/// # Errors
/// If it cannot be read.
pub fn survey_shown_state<R: Read>(
    open: impl Fn() -> Result<R>,
    redactor: &Redactor,
) -> Result<(Vec<SecretString>, bool)> {
    let mut variables = std::collections::BTreeSet::new();
    let plan = |state: R| Cursor::new(format!("{{\"{STATE}\":")).chain(state).chain(&b"}"[..]);
    let mut marked = MarkedValues::new(redactor);
    Walk::new(plan(open()?), &mut marked, &mut variables).document()?;
    marked.into_secrets(|unmarked| {
        Walk::new(plan(open()?), unmarked, &mut variables).document().map(drop)
    })
}

#[derive(Deserialize)]
struct StoredState<'a> {
    version: u64,
    #[serde(default)]
    terraform_version: String,
    #[serde(borrow)]
    outputs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resources: Vec<StoredResource<'a>>,
}

#[derive(Deserialize)]
struct StoredResource<'a> {
    module: Option<String>,
    #[serde(default)]
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(default)]
    provider: String,
    #[serde(borrow, default)]
    instances: Vec<StoredInstance<'a>>,
}

#[derive(Deserialize)]
struct StoredInstance<'a> {
    #[serde(borrow)]
    index_key: Option<&'a RawValue>,
    #[serde(borrow)]
    attributes: Option<&'a RawValue>,
    #[serde(default)]
    sensitive_attributes: Vec<Vec<Step>>,
}

/// A step into a value.
#[derive(Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
enum Step {
    GetAttr(String),
    Index(Key),
}

#[derive(Deserialize)]
struct Key {
    value: Value,
}

impl StoredState<'_> {
    fn missing_marks(&self) -> MissingMarks {
        let of_providers = || {
            let stored = self.resources.iter().filter(|resource| !resource.instances.is_empty());
            stored.filter(|resource| !resource.provider.contains("terraform.io/builtin/"))
        };
        if of_providers().next().is_none() {
            MissingMarks::Nothing
        } else if !self.stores_marks() {
            MissingMarks::Everything
        } else if of_providers().any(|resource| resource.mode == "data") {
            MissingMarks::DataSources
        } else {
            MissingMarks::Nothing
        }
    }

    /// Whether the version that wrote the state stores the marks of schemas.
    fn stores_marks(&self) -> bool {
        let mut numbers = self.terraform_version.split('.').map(|number| number.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) => (major, minor) >= STORES_MARKS,
            _ => false,
        }
    }

    /// Passes each resource and each output to `target`, in the form of a plan.
    fn visit(&self, target: &mut impl PlanVisitor) -> Result<()> {
        target.begin(STATE);
        for resource in &self.resources {
            for instance in &resource.instances {
                let Some(attributes) = instance.attributes else { continue };
                let marks = match &instance.sensitive_attributes[..] {
                    [] => Value::Object(serde_json::Map::new()),
                    paths => {
                        let value = serde_json::from_str(attributes.get()).unwrap_or_default();
                        marks(&value, paths.iter().map(Vec::as_slice).collect())
                    }
                };
                let piece = format!(
                    r#"{{"address":{},"type":{},"name":{},"values":{attributes},"sensitive_values":{marks}}}"#,
                    Value::String(resource.address(instance)),
                    Value::String(resource.kind.clone()),
                    Value::String(resource.name.clone()),
                );
                target.piece("resources", serde_json::from_str::<&RawValue>(&piece)?)?;
            }
        }
        let outputs = self.outputs.filter(|json| json.get().starts_with('{'));
        let outputs = outputs.map_or_else(|| Ok(Members::default()), members)?;
        for (_, output) in &outputs.0 {
            target.piece("", output)?;
        }
        Ok(())
    }
}

impl StoredResource<'_> {
    fn address(&self, instance: &StoredInstance<'_>) -> String {
        let module = self.module.as_ref().map(|module| format!("{module}.")).unwrap_or_default();
        let data = if self.mode == "data" { "data." } else { "" };
        let key = instance.index_key.map(|key| format!("[{key}]")).unwrap_or_default();
        format!("{module}{data}{}.{}{key}", self.kind, self.name)
    }
}

impl Step {
    fn name(&self) -> Option<&str> {
        match self {
            Self::GetAttr(name) => Some(name),
            Self::Index(key) => key.value.as_str(),
        }
    }

    fn index(&self) -> Option<usize> {
        match self {
            Self::GetAttr(_) => None,
            Self::Index(key) => usize::try_from(key.value.as_u64()?).ok(),
        }
    }
}

/// The marks of `value` in its shape, as in a plan, from the paths of its sensitive parts.
fn marks(value: &Value, paths: Vec<&[Step]>) -> Value {
    match value {
        // A value of any type is stored with its type.
        Value::Object(parts) if is_of_any_type(parts) && !leads_into(parts, &paths) => {
            Value::Object(
                [("value".to_owned(), marks(&parts["value"], paths))].into_iter().collect(),
            )
        }
        _ if paths.iter().any(|path| path.is_empty()) => Value::Bool(true),
        Value::Object(parts) => {
            let mut below: BTreeMap<&str, Vec<&[Step]>> = BTreeMap::new();
            for path in paths {
                if let Some(name) = path[0].name() {
                    below.entry(name).or_default().push(&path[1..]);
                }
            }
            let marked = below.into_iter().filter_map(|(name, paths)| {
                Some((name.to_owned(), marks(parts.get(name)?, paths)))
            });
            Value::Object(marked.collect())
        }
        Value::Array(parts) => {
            let mut below: BTreeMap<usize, Vec<&[Step]>> = BTreeMap::new();
            for path in paths {
                // An element of a set has no index.
                let Some(index) = path[0].index() else { return Value::Bool(true) };
                below.entry(index).or_default().push(&path[1..]);
            }
            let mark = |(index, part)| match below.remove(&index) {
                Some(paths) => marks(part, paths),
                None => Value::Bool(false),
            };
            Value::Array(parts.iter().enumerate().map(mark).collect())
        }
        _ => Value::Bool(true),
    }
}

fn is_of_any_type(parts: &serde_json::Map<String, Value>) -> bool {
    parts.len() == 2 && parts.contains_key("value") && parts.contains_key("type")
}

/// Whether one of the paths leads to a member of `parts`.
fn leads_into(parts: &serde_json::Map<String, Value>, paths: &[&[Step]]) -> bool {
    paths.iter().filter_map(|path| path.first()?.name()).any(|name| parts.contains_key(name))
}

#[derive(Deserialize)]
struct RemoteAttributes<'a> {
    backend: Option<String>,
    workspace: Option<String>,
    #[serde(borrow)]
    config: Option<OfAnyType<'a>>,
    #[serde(borrow)]
    outputs: Option<OfAnyType<'a>>,
}

#[derive(Deserialize)]
struct OfAnyType<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
}

impl RemoteState {
    fn of(attributes: &RawValue) -> Result<Self> {
        let read: RemoteAttributes<'_> = serde_json::from_str(attributes.get())?;
        let parts = |json: Option<OfAnyType<'_>>| match json {
            Some(OfAnyType { value }) => members(value).map(|members| {
                let text = |(name, json): (String, &RawValue)| (name, json.get().to_owned());
                members.0.into_iter().map(text).collect::<Vec<_>>()
            }),
            None => Ok(Vec::new()),
        };
        let text = |(name, json): (String, String)| Some((name, serde_json::from_str(&json).ok()?));
        let outputs = parts(read.outputs)?.into_iter();
        Ok(Self {
            backend: read.backend.unwrap_or_default(),
            settings: parts(read.config)?.into_iter().filter_map(text).collect(),
            workspace: read.workspace,
            outputs: outputs.map(|(name, json)| (name, SecretString::from(json))).collect(),
        })
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
