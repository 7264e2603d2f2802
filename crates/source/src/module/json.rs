//! Reads configuration in JSON syntax, where each block may be an object or an array of them.

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::declaration::{BackendBlock, BlockSetting};
use super::findings::{Findings, PartialDeclaration};
use super::native::quoted_type_kind;

/// Adds the declarations in `text` to `findings`. Returns false if it is not valid JSON.
pub(super) fn read(text: &str, findings: &mut Findings) -> bool {
    let Ok(file) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    for body in objects(&file) {
        for settings in objects_at(body, "terraform") {
            read_settings(settings, findings);
        }
        for (name, block) in labelled(body, "variable") {
            for body in objects(block) {
                findings.variable(name, declaration(body));
            }
        }
        for (name, _) in labelled(body, "provider") {
            findings.provider(name);
        }
        for (kind, _) in ["resource", "data", "ephemeral"].map(|kind| labelled(body, kind)).concat()
        {
            findings.resource(kind);
        }
    }
    true
}

fn read_settings(settings: &Map<String, Value>, findings: &mut Findings) {
    if let Some(constraint) = settings.get("required_version").and_then(Value::as_str) {
        findings.required_version(constraint);
    }
    for (kind, block) in labelled(settings, "backend") {
        let body = objects(block).next();
        findings.backend(BackendBlock {
            kind: kind.to_owned(),
            path: setting(body, "path"),
            workspace_dir: setting(body, "workspace_dir"),
        });
    }
    if objects_at(settings, "cloud").next().is_some() {
        findings.backend(BackendBlock { kind: "cloud".to_owned(), ..Default::default() });
    }
    for (name, _) in labelled(settings, "required_providers") {
        findings.required_provider(name);
    }
}

fn setting(body: Option<&Map<String, Value>>, name: &str) -> BlockSetting {
    match body.and_then(|body| body.get(name)) {
        None | Some(Value::Null) => BlockSetting::Unset,
        Some(Value::String(text)) if !text.contains("${") && !text.contains("%{") => {
            BlockSetting::Text(text.clone())
        }
        Some(_) => BlockSetting::Computed,
    }
}

fn declaration(body: &Map<String, Value>) -> PartialDeclaration {
    let flag = |name| body.get(name).and_then(Value::as_bool);
    PartialDeclaration {
        kind: body.get("type").and_then(Value::as_str).map(quoted_type_kind),
        sensitive: flag("sensitive"),
        ephemeral: flag("ephemeral"),
        has_default: body.contains_key("default"),
        defaults: body
            .get("default")
            .map(|default| SecretString::from(default.to_string()))
            .into_iter()
            .collect(),
    }
}

/// The object, or the objects of the array.
fn objects(value: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    let list = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    list.iter().filter_map(Value::as_object)
}

fn objects_at<'a>(
    body: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    body.get(name).into_iter().flat_map(objects)
}

/// The blocks of one kind by their first label; `//` is a comment, not a label.
fn labelled<'a>(body: &'a Map<String, Value>, kind: &str) -> Vec<(&'a str, &'a Value)> {
    objects_at(body, kind)
        .flatten()
        .filter(|(label, _)| *label != "//")
        .map(|(label, block)| (label.as_str(), block))
        .collect()
}
