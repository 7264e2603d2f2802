//! Reads configuration in JSON syntax, where each block may be an object or an array of them.
//!
//! A property that stands twice counts twice, as for Terraform: as two blocks, or as an argument that
//! is set twice.

use secrecy::SecretString;
use serde_json::value::RawValue;

use super::declaration::{BackendBlock, BlockSetting};
use super::findings::{Findings, PartialDeclaration};
use super::native::{constraint_text, quoted_type_kind};
use crate::hcl::json_string;
use butler_base::json::members;

/// The properties of an object.
pub(super) type Body<'text> = Vec<(String, &'text RawValue)>;

/// Adds the declarations in `text` to `findings`. Returns false if it is not valid JSON.
pub(super) fn read(text: &str, findings: &mut Findings) -> bool {
    let Ok(file) = serde_json::from_str::<&RawValue>(text) else {
        return false;
    };
    for body in objects(file) {
        for settings in objects_at(&body, "terraform") {
            read_settings(&settings, findings);
        }
        let language = objects_at(&body, "language");
        for body in language.iter().flat_map(|language| objects_at(language, "compatible_with")) {
            if let Some(constraint) = values(&body, "opentofu").find_map(json_string) {
                findings.compatible_with_tofu(&constraint);
            }
        }
        for (name, block) in labelled(&body, "variable") {
            for body in objects(block) {
                findings.variable(&name, declaration(&body));
            }
        }
        for (name, _) in labelled(&body, "provider") {
            findings.provider(&name);
        }
        for (kind, _) in ["resource", "data", "ephemeral"].map(|it| labelled(&body, it)).concat() {
            findings.resource(&kind);
        }
    }
    true
}

fn read_settings(settings: &Body<'_>, findings: &mut Findings) {
    if let Some(given) = values(settings, "required_version").next() {
        match constraint_text(given) {
            Some(constraint) => findings.required_version(&constraint),
            None => findings.unread_required_version(),
        }
    }
    for (kind, block) in labelled(settings, "backend") {
        let body = objects(block).into_iter().next().unwrap_or_default();
        findings.backend(BackendBlock {
            kind,
            path: setting(&body, "path"),
            workspace_dir: setting(&body, "workspace_dir"),
        });
    }
    if !objects_at(settings, "cloud").is_empty() {
        findings.backend(BackendBlock { kind: "cloud".to_owned(), ..Default::default() });
    }
    findings.module.has_encryption |= !objects_at(settings, "encryption").is_empty();
    for (name, _) in labelled(settings, "required_providers") {
        findings.required_provider(&name);
    }
}

fn setting(body: &Body<'_>, name: &str) -> BlockSetting {
    match values(body, name).last() {
        None | Some("null") => BlockSetting::Unset,
        Some(json) => match json_string(json) {
            Some(text) if !text.contains("${") && !text.contains("%{") => BlockSetting::Text(text),
            _ => BlockSetting::Computed,
        },
    }
}

fn declaration(body: &Body<'_>) -> PartialDeclaration {
    let flag = |name| values(body, name).map(|json| !matches!(json, "false" | "null")).max();
    let kind = values(body, "type").last();
    let defaults: Vec<_> = values(body, "default").map(SecretString::from).collect();
    PartialDeclaration {
        kind: kind.and_then(json_string).map(|text| quoted_type_kind(&text)),
        sensitive: flag("sensitive"),
        ephemeral: flag("ephemeral"),
        has_default: !defaults.is_empty(),
        defaults,
    }
}

/// The values of the properties with this name.
pub(super) fn values<'text>(body: &Body<'text>, name: &str) -> impl Iterator<Item = &'text str> {
    body.iter().filter(move |(other, _)| other == name).map(|(_, json)| json.get())
}

/// The object, or the objects of the array.
pub(super) fn objects(value: &RawValue) -> Vec<Body<'_>> {
    match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(list) => list.into_iter().filter_map(|value| members(value.get()).ok()).collect(),
        Err(_) => members(value.get()).into_iter().collect(),
    }
}

pub(super) fn objects_at<'text>(body: &Body<'text>, name: &str) -> Vec<Body<'text>> {
    let found = body.iter().filter(|(other, _)| other == name);
    found.flat_map(|(_, value)| objects(value)).collect()
}

/// The blocks of one kind by their first label; `//` is a comment, not a label.
fn labelled<'text>(body: &Body<'text>, kind: &str) -> Body<'text> {
    objects_at(body, kind).into_iter().flatten().filter(|(label, _)| label != "//").collect()
}
