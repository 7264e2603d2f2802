//! The steps of a workflow. Steps that Atlantis refuses are refused.

use serde_json::{Map, Value};

/// Steps that Atlantis has commands for.
const BUILT_IN: [&str; 9] =
    ["init", "plan", "apply", "env", "multienv", "show", "policy_check", "import", "state_rm"];

/// Keys of steps that run a command.
const COMMAND_KEYS: [&str; 4] = ["command", "output", "shell", "shellArgs"];

/// A step of a stage.
#[derive(Debug)]
pub(super) enum Step {
    /// A command of Terraform, with further arguments.
    BuiltIn { name: String, arguments: Vec<String> },
    /// A program: `run` or `multienv`, its command, and the other keys that it has.
    Command { name: String, command: String, keys: Vec<String> },
    /// A variable with this value.
    Variable { name: String, value: String },
    /// A variable with the output of this command.
    Output { name: String, command: String },
}

/// The steps of the stage at `path`; `None` if it has no `steps`, and Atlantis uses its own.
///
/// # Errors
/// If Atlantis refuses a step.
pub(super) fn steps(stage: &Value, path: &str) -> Result<Option<Vec<Step>>, String> {
    let items = match &stage["steps"] {
        Value::Null => return Ok(None),
        Value::Array(items) => items,
        _ => return Err(format!("Atlantis refuses `{path}.steps`, which must be a list")),
    };
    let step = |(index, item): (usize, &Value)| {
        step(item).map_err(|why| format!("Atlantis refuses `{path}.steps[{index}]`: {why}"))
    };
    items.iter().enumerate().map(step).collect::<Result<_, _>>().map(Some)
}

fn step(item: &Value) -> Result<Step, String> {
    let (name, value) = match item {
        Value::String(name) => (name, &Value::Null),
        Value::Object(map) => match map.iter().collect::<Vec<_>>()[..] {
            [one] => one,
            _ => return Err("a step has exactly one key".to_owned()),
        },
        _ => return Err("a step is a text or a mapping".to_owned()),
    };
    let is_built_in = BUILT_IN.contains(&name.as_str());
    match value {
        Value::Null if item.is_string() && !is_built_in => {
            Err(format!("`{name}` is not a step; write a command as `run: COMMAND`"))
        }
        Value::String(command) if matches!(name.as_str(), "run" | "multienv") => {
            Ok(Step::Command { name: name.clone(), command: command.clone(), keys: Vec::new() })
        }
        Value::Object(map) if matches!(name.as_str(), "run" | "multienv") => command(name, map),
        Value::Object(map) if name == "env" => variable(map),
        Value::Null if is_built_in => {
            Ok(Step::BuiltIn { name: name.clone(), arguments: Vec::new() })
        }
        Value::Object(map) if is_built_in => Ok(Step::BuiltIn {
            name: name.clone(),
            arguments: arguments(map).ok_or_else(|| {
                format!("`{name}` has only the key `extra_args`, which is a list of texts")
            })?,
        }),
        _ => Err(format!("`{name}` is not a step, or has a value of another type")),
    }
}

/// The arguments of a built-in step; `None` if it has other keys.
fn arguments(map: &Map<String, Value>) -> Option<Vec<String>> {
    let mut arguments = Vec::new();
    for (key, value) in map {
        let texts = match value {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            _ => return None,
        };
        if key != "extra_args" {
            return None;
        }
        for text in texts {
            arguments.push(text.as_str()?.to_owned());
        }
    }
    Some(arguments)
}

fn command(name: &str, map: &Map<String, Value>) -> Result<Step, String> {
    shell(map)?;
    if let Some(key) = map.keys().find(|key| !COMMAND_KEYS.contains(&key.as_str())) {
        return Err(format!("`{name}` has no key `{key}`"));
    }
    let Some(command) = map.get("command").and_then(Value::as_str) else {
        return Err(format!("`{name}` needs the key `command`"));
    };
    let outputs: &[&str] =
        if name == "run" { &["show", "hide", "strip_refreshing"] } else { &["show", "hide"] };
    if let Some(output) = map.get("output").and_then(Value::as_str)
        && !outputs.contains(&output)
    {
        return Err(format!("`output: {output}` is not one of {}", outputs.join(", ")));
    }
    let keys = map.keys().filter(|key| *key != "command").cloned().collect();
    Ok(Step::Command { name: name.to_owned(), command: command.to_owned(), keys })
}

fn variable(map: &Map<String, Value>) -> Result<Step, String> {
    shell(map)?;
    let known = ["name", "value", "command", "shell", "shellArgs"];
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("`env` has no key `{key}`"));
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(name) = text("name") else { return Err("`env` needs the key `name`".to_owned()) };
    match (text("value"), text("command")) {
        (Some(_), Some(_)) => Err("`env` has either `value` or `command`".to_owned()),
        (None, Some(command)) => Ok(Step::Output { name, command }),
        (value, None) => Ok(Step::Variable { name, value: value.unwrap_or_default() }),
    }
}

fn shell(map: &Map<String, Value>) -> Result<(), String> {
    for (key, needed) in [("shell", "command"), ("shellArgs", "shell")] {
        if map.contains_key(key) && !map.contains_key(needed) {
            return Err(format!("`{key}` needs the key `{needed}`"));
        }
    }
    Ok(())
}
