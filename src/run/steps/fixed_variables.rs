//! Compares the variables that the user assigns with those of a saved plan, which cannot be changed any more.
//!
//! Terraform refuses some other values and ignores the rest, and it prints sensitive values. So the runner compares them
//! itself, and gives the tool only ephemeral variables, which are not in a plan.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::run::failure::Failure;
use crate::run::masking::collected::decimal_number;
use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_base::json::members;
use butler_protocol::spec::Assignment;
use butler_source::hcl::{expression_as_json, json_string, literal_as_json};
use butler_source::module::{FileText, Module, TypeKind, read_text};

/// The longest part of a value that a message shows, in bytes.
const MAX_SHOWN: usize = 200;

/// A value that the user assigns to a variable of a saved plan.
#[derive(Clone)]
pub(in crate::run) struct FixedVariable {
    name: String,
    /// The value as JSON, in each form in which it can be meant; none if it is not a literal.
    values: Vec<SecretString>,
    /// The file that assigns it; none for `--var`.
    file: Option<String>,
}

/// The values of `assignments` to variables that are not ephemeral. A later one overrides an earlier one.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(in crate::run) fn fixed_variables(
    assignments: &[Assignment],
    module: &Module,
) -> Result<Vec<FixedVariable>, Failure> {
    let mut fixed = BTreeMap::new();
    for assignment in assignments {
        let found = match assignment {
            Assignment::Value { name, value } => vec![typed(name, value.expose_secret(), module)],
            Assignment::File(path) => in_file(path)?,
        };
        fixed.extend(found.into_iter().map(|variable| (variable.name.clone(), variable)));
    }
    fixed.retain(|name, _| !module.variables.get(name).is_some_and(|found| found.ephemeral));
    Ok(fixed.into_values().collect())
}

/// The value of `--var`, which the type of the variable makes a text or an expression.
fn typed(name: &str, text: &str, module: &Module) -> FixedVariable {
    let (as_text, as_expression) = match module.variables.get(name).map(|found| found.kind) {
        // The plan may have been made when the variable was declared.
        None => (true, true),
        Some(TypeKind::Undeclared | TypeKind::Primitive) => (true, false),
        Some(TypeKind::Any | TypeKind::Complex) => (false, true),
    };
    let values = [
        as_text.then(|| serde_json::to_string(text).ok()).flatten(),
        as_expression.then(|| literal_as_json(text)).flatten(),
    ];
    FixedVariable {
        name: name.to_owned(),
        values: values.into_iter().flatten().map(SecretString::from).collect(),
        file: None,
    }
}

fn in_file(path: &Path) -> Result<Vec<FixedVariable>, Failure> {
    let failed = || {
        let text = format!("`{}` cannot be compared with the saved plan", path.display());
        refused(text)
    };
    let text = if path.is_file() { read_text(path).ok() } else { None };
    let Some(FileText::Whole(text)) = text else { return Err(failed()) };
    let values: Vec<(String, Option<String>)> = if path.extension().is_some_and(|it| it == "json") {
        let members = members(&text).map_err(|_| failed())?;
        members.into_iter().map(|(name, json)| (name, Some(json.get().to_owned()))).collect()
    } else {
        let body = hcl_edit::parser::parse_body(&text).map_err(|_| failed())?;
        let values = body
            .attributes()
            .map(|given| (given.key.as_str().to_owned(), expression_as_json(&given.value)));
        values.collect()
    };
    let file = path.display().to_string();
    let variable = |(name, value): (String, Option<String>)| FixedVariable {
        name,
        values: value.into_iter().map(SecretString::from).collect(),
        file: Some(file.clone()),
    };
    Ok(values.into_iter().map(variable).collect())
}

/// The variables in the JSON of a plan.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SavedPlan {
    variables: BTreeMap<String, SavedVariable>,
    configuration: SavedConfiguration,
}

#[derive(Deserialize)]
struct SavedVariable {
    value: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SavedConfiguration {
    root_module: SavedModule,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SavedModule {
    variables: BTreeMap<String, SavedDeclaration>,
}

#[derive(Deserialize)]
struct SavedDeclaration {
    #[serde(default)]
    sensitive: bool,
}

/// Refuses `given` values that differ from those of the plan, whose JSON is in the file `json`. Values of variables that
/// `is_secret` names, and of those that the plan declares sensitive, are not shown.
///
/// # Errors
/// If a value differs, if the plan has no variable of a name, or if the plan cannot be read.
pub(in crate::run) fn check_fixed_variables(
    given: &[FixedVariable],
    json: &Path,
    is_secret: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::because(
            Phase::Plan,
            format!("cannot read the variables of the saved plan: {error}"),
        )
    };
    let file = fs_err::File::open(json).map_err(|error| unreadable(&error))?;
    // The error of the parser can quote a value.
    let plan: SavedPlan = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| unreadable(&format_args!("line {}", error.line())))?;
    for FixedVariable { name, values, file } in given {
        let Some(saved) = plan.variables.get(name) else {
            if file.is_none() {
                return Err(refused(format!("the saved plan has no variable `{name}`")));
            }
            // A file for several modules may have variables that this one does not declare.
            continue;
        };
        let saved = saved.value.as_ref().map_or("null", |value| value.get());
        if values.iter().any(|value| is_same(value.expose_secret(), saved)) {
            continue;
        }
        let source = file.as_ref().map_or("--var".to_owned(), |file| format!("`{file}`"));
        let declared = plan.configuration.root_module.variables.get(name);
        if is_secret(name) || declared.is_some_and(|declared| declared.sensitive) {
            return Err(refused(format!(
                "{source} sets the variable `{name}` to another value than the saved plan contains; the values are sensitive"
            )));
        }
        let value = values.first().map_or("an expression", |value| value.expose_secret());
        return Err(refused(format!(
            "{source} sets the variable `{name}` to {}, and the saved plan contains {}",
            shown(value),
            shown(saved)
        )));
    }
    Ok(())
}

fn refused(reason: String) -> Failure {
    Failure::because(Phase::Plan, reason)
        .advise("a saved plan is applied with the values that it was made with: leave the variable out, or make a new plan")
        .classed(FailureClass::Configuration)
}

fn shown(value: &str) -> String {
    let end = value.floor_char_boundary(MAX_SHOWN);
    let rest = if end < value.len() { "…" } else { "" };
    format!("{}{rest}", &value[..end])
}

/// Whether two JSON values are the same for a variable of some type: a number or `true` can be written as a text.
fn is_same(one: &str, other: &str) -> bool {
    let kind = |json: &str| json.bytes().next().unwrap_or_default();
    match (kind(one), kind(other)) {
        (b'{', b'{') => match (members(one), members(other)) {
            (Ok(mut one), Ok(mut other)) => {
                one.sort_by(|(a, _), (b, _)| a.cmp(b));
                other.sort_by(|(a, _), (b, _)| a.cmp(b));
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(&other)
                        .all(|((a, one), (b, other))| a == b && is_same(one.get(), other.get()))
            }
            _ => false,
        },
        (b'[', b'[') => match (elements(one), elements(other)) {
            (Some(one), Some(other)) => {
                one.len() == other.len()
                    && one.iter().zip(&other).all(|(one, other)| is_same(one.get(), other.get()))
            }
            _ => false,
        },
        (b'"', b'"') => json_string(one) == json_string(other),
        (b'{' | b'[', _) | (_, b'{' | b'[') => false,
        _ => one != "null" && other != "null" && scalar(one) == scalar(other) || one == other,
    }
}

fn elements(json: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json).ok()
}

/// The text of a scalar; numbers without an exponent.
fn scalar(json: &str) -> String {
    let text = json_string(json).unwrap_or_else(|| json.to_owned());
    decimal_number(&text).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_source::module::VariableDeclaration;

    const PLAN: &str = r#"{"format_version": "1.2",
        "variables": {"text": {"value": "one"}, "number": {"value": 10}, "list": {"value": ["a", 1]},
            "map": {"value": {"a": {"b": "x"}, "c": null}}, "none": {}, "pin": {"value": "hunter2"},
            "key": {"value": "hunter3"}},
        "planned_values": {"root_module": {}},
        "configuration": {"root_module": {"variables": {"text": {}, "key": {"sensitive": true}}}}}"#;

    fn module() -> Module {
        let mut module = Module::default();
        for (name, kind) in [
            ("text", TypeKind::Primitive),
            ("number", TypeKind::Primitive),
            ("list", TypeKind::Complex),
            ("map", TypeKind::Any),
            ("none", TypeKind::Any),
            ("token", TypeKind::Primitive),
        ] {
            let ephemeral = name == "token";
            let declared =
                VariableDeclaration { kind, ephemeral, ..VariableDeclaration::default() };
            module.variables.insert(name.to_owned(), declared);
        }
        module
    }

    fn check(assignments: &[Assignment]) -> Result<(), String> {
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("plan.json");
        std::fs::write(&json, PLAN).unwrap();
        fixed_variables(assignments, &module())
            .and_then(|given| check_fixed_variables(&given, &json, |name| name == "pin"))
            .map_err(|failure| failure.reason)
    }

    fn typed(texts: &[&str]) -> Result<(), String> {
        let assignments: Vec<_> = texts.iter().map(|it| Assignment::parse(it).unwrap()).collect();
        check(&assignments)
    }

    #[test]
    fn values_of_the_plan_and_ephemeral_ones_are_accepted() {
        for text in [
            "text=one",
            "number=10",
            "number=10.0",
            "list=[\"a\", 1,]",
            "list=[\"a\", \"1\"]",
            "map={ c = null, a = { \"b\" : \"x\" } }",
            "none=null",
            "pin=hunter2",
            "key=hunter3",
            "token=anything",
        ] {
            assert_eq!(typed(&[text]), Ok(()), "{text}");
        }
        assert_eq!(typed(&["text=two", "text=one"]), Ok(()), "the last one wins");
    }

    #[test]
    fn other_values_are_refused_with_both_unless_they_are_sensitive() {
        for (text, expected) in [
            (
                "text=two",
                "--var sets the variable `text` to \"two\", and the saved plan contains \"one\"",
            ),
            (
                "text=",
                "--var sets the variable `text` to \"\", and the saved plan contains \"one\"",
            ),
            (
                "number=11",
                "--var sets the variable `number` to \"11\", and the saved plan contains 10",
            ),
            (
                "list=[\"b\", 1]",
                "--var sets the variable `list` to [\"b\",1], and the saved plan contains [\"a\", 1]",
            ),
            (
                "list=[\"a\"]",
                "--var sets the variable `list` to [\"a\"], and the saved plan contains [\"a\", 1]",
            ),
            (
                "list=f(x)",
                "--var sets the variable `list` to an expression, and the saved plan contains [\"a\", 1]",
            ),
            (
                "map={a={b=\"x\"}}",
                "--var sets the variable `map` to {\"a\":{\"b\":\"x\"}}, and the saved plan contains {\"a\": {\"b\": \"x\"}, \"c\": null}",
            ),
            (
                "none=\"null\"",
                "--var sets the variable `none` to \"null\", and the saved plan contains null",
            ),
            (
                "pin=other",
                "--var sets the variable `pin` to another value than the saved plan contains; the values are sensitive",
            ),
            (
                "key=other",
                "--var sets the variable `key` to another value than the saved plan contains; the values are sensitive",
            ),
            ("unknown=1", "the saved plan has no variable `unknown`"),
        ] {
            assert_eq!(typed(&[text]), Err(expected.to_owned()), "{text}");
        }
        let long = typed(&[&format!("text={}", "é".repeat(200))]).unwrap_err();
        assert!(long.contains("éé…, and") && long.len() < 300, "{long}");
    }

    #[test]
    fn files_are_compared_too() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            check(&[Assignment::File(path)])
        };
        for (name, text) in [
            ("a.tfvars", "text = \"one\"\nlist = [\"a\", 1]\nunknown = 1\ntoken = \"x\"\n"),
            ("a.tfvars.json", r#"{"text": "one", "map": {"c": null, "a": {"b": "x"}}}"#),
        ] {
            assert_eq!(file(name, text), Ok(()), "{text}");
        }
        for (name, text, expected) in [
            ("a.tfvars", "text = \"two\"", "`text` to \"two\""),
            ("a.tfvars.json", r#"{"list": []}"#, "`list` to []"),
            ("a.tfvars", "text = one", "`text` to an expression"),
            ("a.tfvars", "text = 'hunter2'", "a.tfvars` cannot be compared with the saved plan"),
            ("a.json", "{", "a.json` cannot be compared with the saved plan"),
        ] {
            let error = file(name, text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
