//! Describes an object in its own words: the value that a check reads, and the reason and the message of a condition.
//!
//! The words follow the name of the object: `is OutOfSync`, `failed: Tasks Completed: 1 (Failed: 1)`. Values of Secrets
//! are never told.

use serde_json::Value;

use super::check::{Check, Condition, Test};
use super::path::JsonPath;
use crate::commit::Commit;
use crate::text::shorten;

/// The letters of a message.
const MESSAGE: usize = 300;

/// The letters of a value.
const VALUE: usize = 100;

/// The members whose values are words for the whole object, such as the phase of a Pod or `sync.status` of an Application.
const STATES: [&str; 3] = ["status", "phase", "state"];

/// Describes how the object differs from what `check` expects.
pub(super) fn open(check: &Check, object: &Value) -> String {
    let Check { path, test, default } = check;
    if let Test::Exists(expected) = test {
        let verb = if *expected { "has no" } else { "has" };
        return format!("{verb} {}", subject(path));
    }
    let found = Found::first(path, object, |value| !check.passes(value, object));
    let Some(Found { value, holder }) = found else {
        return match default.as_ref().and_then(scalar) {
            Some(value) => format!("has {} {value}{}", subject(path), needs(test, object)),
            None => format!("has no {} yet", subject(path)),
        };
    };
    if let Some(condition) = condition(path, holder) {
        let said = said_of_condition(condition);
        let said = said.map_or_else(String::new, |said| format!(": {said}"));
        return format!("is not ready: {}{said}", title(condition));
    }
    let why = why(holder, object).map_or_else(String::new, |why| format!(": {why}"));
    match (state(path, value), scalar(value).filter(|_| !is_secret(object))) {
        (Some(state), _) => format!("is {state}{why}"),
        (None, Some(value)) => {
            format!("has {} {value}{}{why}", subject(path), needs(test, object))
        }
        (None, None) => format!("has another {}{why}", subject(path)),
    }
}

/// How the object failed, by the checks of `failed`, which all hold.
pub(super) fn failed(failed: &Condition, object: &Value) -> String {
    let founds = failed.checks().filter_map(|check| {
        let found = Found::first(&check.path, object, |_| true)?;
        Some((&check.path, found))
    });
    let founds: Vec<_> = founds.collect();
    // Other checks say for which generation that is.
    let is_condition =
        |(path, found): &&(&JsonPath, Found<'_>)| condition(path, found.holder).is_some();
    let Some((path, found)) = founds.iter().find(is_condition).or(founds.last()) else {
        return "failed".to_owned();
    };
    let of_condition = condition(path, found.holder);
    let said = of_condition.map_or_else(|| why(found.holder, object), said_of_condition);
    let said = said.map_or_else(String::new, |said| format!(": {said}"));
    let state = state(path, found.value).filter(|_| of_condition.is_none());
    match (state, scalar(found.value).filter(|_| !is_secret(object))) {
        (Some(state), _) if state.eq_ignore_ascii_case("failed") => format!("failed{said}"),
        (Some(state), _) => format!("is {state}{said}"),
        (None, Some(value)) if of_condition.is_none() => {
            format!("failed: {} is {value}{said}", subject(path))
        }
        _ => format!("failed{said}"),
    }
}

/// Describes the value that is in the place of the commit.
pub(super) fn other_commit(path: &JsonPath, object: &Value, commit: &Commit) -> String {
    let found = Found::first(path, object, |value| value != commit.as_str());
    let shown = match found {
        None => format!("it has no {}", subject(path)),
        Some(found) => match scalar(found.value).filter(|_| !is_secret(object)) {
            Some(value) => format!("{} is {value}", subject(path)),
            None => format!("{} has another value", subject(path)),
        },
    };
    format!("does not show commit {}: {shown}", commit.short())
}

/// The reason and the message of a condition. A reason that the message contains, or that says no more than the
/// status, is left out.
pub(crate) fn said_of_condition(condition: &Value) -> Option<String> {
    let text =
        |field: &str| condition[field].as_str().map(str::trim).filter(|text| !text.is_empty());
    let message = text("message").map(|message| shorten(message, MESSAGE));
    let is_new = |reason: &&str| {
        let is_said = message.as_ref().is_some_and(|message| message.contains(reason));
        let is_plain = reason.eq_ignore_ascii_case("failed") && message.is_some();
        !is_said && !is_plain
    };
    let reason = text("reason").map(|reason| (reason, VALUE));
    let reason =
        reason.filter(|(reason, _)| is_new(reason)).map(|(text, most)| shorten(text, most));
    match (reason, message) {
        (None, None) => None,
        (Some(said), None) | (None, Some(said)) => Some(said),
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
    }
}

/// A value, and the object whose member it is.
struct Found<'a> {
    value: &'a Value,
    holder: Option<&'a Value>,
}

impl<'a> Found<'a> {
    /// The first value at the path that `wanted` holds for.
    fn first(path: &JsonPath, object: &'a Value, wanted: impl Fn(&Value) -> bool) -> Option<Self> {
        if let Some((holders, member)) = path.holders(object) {
            let members = holders.into_iter().filter_map(|holder| {
                Some(Self { value: holder.get(member)?, holder: Some(holder) })
            });
            return members.into_iter().find(|found| wanted(found.value));
        }
        let value = path.select(object).into_iter().find(|value| wanted(value))?;
        Some(Self { value, holder: None })
    }
}

/// The condition whose status is at the path.
fn condition<'a>(path: &JsonPath, holder: Option<&'a Value>) -> Option<&'a Value> {
    let is_status = path.member() == Some("status");
    holder.filter(|holder| is_status && holder["type"].is_string() && holder["status"].is_string())
}

/// `Ready is False`.
fn title(condition: &Value) -> String {
    let text = |field: &str| shorten(condition[field].as_str().unwrap_or_default(), VALUE);
    format!("{} is {}", text("type"), text("status"))
}

/// The word at the path, if it says how the whole object is.
fn state(path: &JsonPath, value: &Value) -> Option<String> {
    let is_state = path.member().is_some_and(|member| STATES.contains(&member));
    value.as_str().filter(|text| is_state && !text.is_empty()).map(|text| shorten(text, VALUE))
}

/// Why, in the words of the object that has the value, or of the errors of the whole object.
fn why(holder: Option<&Value>, object: &Value) -> Option<String> {
    if is_secret(object) {
        return None;
    }
    holder.and_then(said_of_condition).or_else(|| {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        // As Argo CD (`ComparisonError`) and Deployments (`ReplicaFailure`) have them.
        let error = conditions.find(|condition| {
            let kind = condition["type"].as_str().unwrap_or_default();
            (kind.ends_with("Error") || kind.ends_with("Failure")) && condition["status"] != "False"
        });
        let operation = object.pointer("/status/operationState").filter(|operation| {
            ["Failed", "Error"].iter().any(|phase| operation["phase"] == *phase)
        });
        error.or(operation).and_then(said_of_condition)
    })
}

/// The subject of the path: a condition, or a member.
fn subject(path: &JsonPath) -> String {
    match (path.compared(), path.member()) {
        (Some(("type", kind)), Some("status") | None) => format!("condition `{kind}`"),
        (Some((_, name)), Some("value" | "status") | None) => format!("`{name}`"),
        (_, Some(member)) => format!("`{member}`"),
        (None, None) => "the wanted value".to_owned(),
    }
}

/// `, and needs 3`.
fn needs(test: &Test, object: &Value) -> String {
    let at = |path: &JsonPath| path.select(object).first().copied().and_then(scalar);
    let needed = match test {
        Test::Equals(value) => scalar(value),
        Test::In(values) => values.first().and_then(scalar),
        Test::AtLeast(number) => Some(format!("at least {number}")),
        Test::EqualsPath(path) => at(path),
        Test::AtLeastPath(path) => at(path).map(|number| format!("at least {number}")),
        Test::Exists(_) => None,
    };
    needed.map_or_else(String::new, |needed| format!(", and needs {needed}"))
}

/// A value that fits into a sentence.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(shorten(text, VALUE)).filter(|text| !text.is_empty()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret"
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
