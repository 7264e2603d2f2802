//! Reads the settings of a backend, and translates their names to Terraform's.
//!
//! A value can be any JSON value. Only a whole value can be a reference, so that it is known what to mask.

use std::collections::HashSet;

use secrecy::SecretString;

use super::decode::{Decoder, KeyPath};
use super::document::{Entry, Node, Value};
use super::names::{is_free, terraform_name};
use butler_protocol::spec::{BackendSettings, BackendValue};
use butler_source::hcl::is_identifier;

impl Decoder {
    pub(super) fn backend(&mut self, node: Node, place: &KeyPath) -> Option<BackendSettings> {
        let mut fields = self.fields(node, place)?;
        let config = fields.take("config");
        let (line, kind) = self.required_text(&mut fields, "type", place)?;
        if !is_identifier(&kind) {
            return self.wrong(line, place, "type", "must be a name such as `s3`");
        }
        let place = place.key("config");
        let mut settings: Vec<(String, BackendValue)> = Vec::new();
        let mut known = HashSet::new();
        for Entry { line, name, node } in
            config.map_or_else(Vec::new, |it| self.entries(it, &place))
        {
            let member = place.member("SETTING", &name);
            let setting = terraform_name(&name);
            if !is_identifier(&setting) {
                self.note(line, format!("`{}` is not a setting of a backend", member.shown));
            } else if !known.insert(setting.clone()) {
                self.note(
                    line,
                    format!("`{}` is Terraform's `{setting}`, which is given twice", member.shown),
                );
            } else if is_reference(&node.value) {
                let reference = self.reference(node, &member);
                settings.extend(reference.map(|it| (setting, BackendValue::Reference(it))));
            } else {
                let mut json = String::new();
                let translate = !is_free(&setting);
                if self.append_json(node, translate, &member, &mut json).is_some() {
                    settings.push((setting, BackendValue::Json(SecretString::from(json))));
                }
            }
        }
        Some(BackendSettings { kind, config: settings })
    }

    /// Appends a value of a backend's setting, with the names in it as Terraform has them.
    fn append_json(
        &mut self,
        node: Node,
        translate: bool,
        place: &KeyPath,
        json: &mut String,
    ) -> Option<()> {
        if is_reference(&node.value) {
            let text = format!(
                "`{}` is a reference inside of a value; only the whole value of a setting can be one",
                place.shown
            );
            self.note(node.line, text);
            return None;
        }
        match node.value {
            Value::Null => json.push_str("null"),
            Value::Bool(value) => json.push_str(if value { "true" } else { "false" }),
            Value::Number(text) => json.push_str(&text),
            Value::Text(text) => json.push_str(&quoted(&text)),
            Value::List(nodes) => {
                json.push('[');
                for (index, node) in nodes.into_iter().enumerate() {
                    json.push_str(if index == 0 { "" } else { "," });
                    self.append_json(node, translate, place, json)?;
                }
                json.push(']');
            }
            Value::Map(entries) => {
                json.push('{');
                for (index, Entry { name, node, .. }) in entries.into_iter().enumerate() {
                    let member = place.member("MEMBER", &name);
                    let name = if translate { terraform_name(&name) } else { name };
                    json.push_str(if index == 0 { "" } else { "," });
                    json.push_str(&quoted(&name));
                    json.push(':');
                    self.append_json(node, translate && !is_free(&name), &member, json)?;
                }
                json.push('}');
            }
        }
        Some(())
    }
}

/// Whether a map is a reference: `secretId` means that everywhere.
fn is_reference(value: &Value) -> bool {
    matches!(value, Value::Map(entries) if entries.iter().any(|entry| entry.name == "secretId"))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
