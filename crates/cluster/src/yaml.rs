//! Writes objects as readable YAML: in a fixed order, and with comments.
//!
//! The output uses only JSON types, in block style. Strings that YAML could read as another type are
//! quoted as in JSON, which YAML 1.2 allows. The same object always gives the same text.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::comments::{self, Comment};
use crate::manifest::{Manifests, TOKEN_KEY};
use crate::options::TOKEN_PLACEHOLDER;

/// The first members of an object, in this order; the others follow sorted by name.
const FIRST: [&str; 6] = ["apiVersion", "kind", "metadata", "name", "namespace", "type"];

impl Manifests {
    /// All objects as one file for `kubectl create -f`, with a placeholder for the token.
    ///
    /// # Errors
    /// If an object cannot be serialized, which does not happen with these types.
    pub fn to_yaml(&self) -> serde_json::Result<String> {
        let account = self.account.as_ref().map(serde_json::to_value).transpose()?;
        let policy = self.policy.as_ref().map(serde_json::to_value).transpose()?;
        let (secret, job) = (self.secret_with_placeholder()?, serde_json::to_value(&self.job)?);
        let mut text = comments::file_header(&self.name());
        for object in [account, Some(secret), policy, Some(job)].into_iter().flatten() {
            text.push_str("---\n");
            Writer { text: &mut text, comments: comments::comments_for(&object) }.document(&object);
        }
        Ok(text)
    }

    fn secret_with_placeholder(&self) -> serde_json::Result<Value> {
        let mut secret = serde_json::to_value(&self.secret)?;
        secret["stringData"] = json!({TOKEN_KEY: TOKEN_PLACEHOLDER});
        Ok(secret)
    }
}

/// An object as a document, without comments.
pub(crate) fn document(object: &Value) -> String {
    let mut text = String::new();
    Writer { text: &mut text, comments: Vec::new() }.document(object);
    text
}

struct Writer<'text> {
    text: &'text mut String,
    comments: Vec<&'static Comment>,
}

impl Writer<'_> {
    fn document(&mut self, object: &Value) {
        self.comment("", 0);
        if let Value::Object(members) = object {
            self.members(members, "", 0, false);
        }
    }

    /// `continued` means that the first member follows the dash of a list.
    fn members(&mut self, members: &Map<String, Value>, path: &str, depth: usize, continued: bool) {
        for (number, name) in order(members).into_iter().enumerate() {
            let value = &members[name];
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if number > 0 || !continued {
                self.comment(&path, depth);
                self.indent(depth);
            }
            self.text.push_str(&scalar_text(name));
            self.text.push(':');
            self.value(value, &path, depth);
        }
    }

    fn value(&mut self, value: &Value, path: &str, depth: usize) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                self.text.push('\n');
                self.members(members, path, depth + 1, false);
            }
            Value::Array(elements) if !elements.is_empty() => {
                self.text.push('\n');
                for element in elements {
                    let path = match element["name"].as_str() {
                        Some(name) => format!("{path}[{name}]"),
                        None => format!("{path}[]"),
                    };
                    self.comment(&path, depth + 1);
                    self.indent(depth + 1);
                    self.text.push('-');
                    match element {
                        Value::Object(members) if !members.is_empty() => {
                            self.text.push(' ');
                            self.members(members, &path, depth + 2, true);
                        }
                        other => self.value(other, &path, depth + 1),
                    }
                }
            }
            scalar => {
                self.text.push(' ');
                self.text.push_str(&match scalar {
                    Value::String(text) => scalar_text(text),
                    other => other.to_string(),
                });
                self.text.push('\n');
            }
        }
    }

    fn comment(&mut self, path: &str, depth: usize) {
        let found = self.comments.iter().find(|comment| comment.path == path);
        for line in found.map(|comment| comment.text).unwrap_or_default().lines() {
            self.indent(depth);
            self.text.push_str("# ");
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    fn indent(&mut self, depth: usize) {
        self.text.extend(std::iter::repeat_n("  ", depth));
    }
}

fn order(members: &Map<String, Value>) -> Vec<&String> {
    let rank = |name: &&String| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len());
    let mut names: Vec<_> = members.keys().collect();
    names.sort_by_key(|name| (rank(name), (*name).clone()));
    names
}

/// A string, quoted if a YAML parser could read it as another type.
pub(crate) fn scalar_text(text: &str) -> String {
    let begins_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let is_word = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if begins_well && text.bytes().all(is_plain) && !is_word {
        return text.to_owned();
    }
    let mut quoted = String::new();
    for character in Value::String(text.to_owned()).to_string().chars() {
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            other => quoted.push(other),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of an object, as comments name them.
    fn collect_paths(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect_paths(value, &path, found);
            }),
            Value::Array(elements) => elements.iter().for_each(|element| {
                let name = element["name"].as_str().unwrap_or_default();
                collect_paths(element, &format!("{path}[{name}]"), found);
            }),
            _ => {}
        }
    }

    #[test]
    fn each_comment_has_the_path_of_a_value() {
        use crate::{Cache, Egress, Identity, JobOptions, Network, Resources, Run};

        let options = JobOptions {
            labels: std::collections::BTreeMap::new(),
            annotations: std::collections::BTreeMap::new(),
            variables: Vec::new(),
            namespace: None,
            image: "image".to_owned(),
            pull_secrets: Vec::new(),
            deadline: std::time::Duration::from_secs(1),
            grace: std::time::Duration::from_secs(1),
            keep: std::time::Duration::from_secs(1),
            resources: Resources { cpu: "1".to_owned(), memory: "1Gi".to_owned() },
            node_selector: std::collections::BTreeMap::new(),
            tolerations: Vec::new(),
            service_account: None,
            mount_account_token: false,
            identity: Identity { gcp: Some("a@b".to_owned()), ..Identity::default() },
            cache: Cache::Pod,
            network: Network::default(),
            egress: Some(Egress::default()),
            environment_from: Vec::new(),
            mounted_secrets: Vec::new(),
        };
        let manifests = Manifests::new(&options, Run::placeholder(None));
        let text = manifests.to_yaml().unwrap();
        let objects = [
            serde_json::to_value(&manifests.account).unwrap(),
            manifests.secret_with_placeholder().unwrap(),
            serde_json::to_value(&manifests.policy).unwrap(),
            serde_json::to_value(&manifests.job).unwrap(),
        ];
        for comment in comments::COMMENTS {
            let object = objects.iter().find(|object| object["kind"] == comment.kind).unwrap();
            let mut found = Vec::new();
            collect_paths(object, "", &mut found);
            assert!(found.iter().any(|path| path == comment.path), "{comment:?}");
            let line = comment.text.lines().next().unwrap();
            assert!(text.contains(&format!("# {line}\n")), "{comment:?}");
        }
    }

    /// Values come from flags. A control character, or a line separator of YAML 1.1, would change the value or make
    /// the file invalid.
    #[test]
    fn control_characters_and_line_separators_are_escaped() {
        assert_eq!(scalar_text("a\u{85}\u{2028}\u{7f}"), r#""a\u0085\u2028\u007f""#);
        assert_eq!(scalar_text("ü\u{1f600}"), "\"ü\u{1f600}\"");
    }

    #[test]
    fn strings_that_yaml_could_read_as_another_type_are_quoted() {
        for text in ["butler-run-7", "/run/butler", "butler.dev/run-id", "v1", "ALL", "nothing"] {
            assert_eq!(scalar_text(text), text);
        }
        for text in
            ["no", "True", "7", "1.5", "", "-", "a b", "a: b", "#x", "${A}", "0x1", "~", "é"]
        {
            assert_eq!(scalar_text(text), format!("\"{text}\""), "{text}");
        }
        assert_eq!(scalar_text("a\"\n"), "\"a\\\"\\n\"");
    }
}
