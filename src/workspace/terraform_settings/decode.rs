//! Converts a tree to settings, and collects all problems.
//!
//! Unknown keys are kept apart from other problems: in a run's configuration, which a newer registry can have written,
//! they are only warnings. No message contains a value.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::document::{Entry, Node, Value, shown};
use super::error::Problem;
use super::names::{keys_of, unknown};
use crate::workspace::variables::{is_environment_name, refusal};
use butler_protocol::spec::{
    AfterPlan, CliConfig, InstallationMethod, LoggingSettings, ProviderSource, RegistryHost,
    SecretReference, TerraformSettings,
};

/// The valid values of `TF_LOG`.
pub const LOG_LEVELS: [&str; 7] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF", "JSON"];

/// The form of a reference, for messages.
const REFERENCE: &str = "a reference such as {secretId: tfc-token, key: token}";

/// Settings, and the problems in their tree.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) settings: TerraformSettings,
    /// Values that are not valid.
    pub(super) wrong: Vec<Problem>,
    /// Unknown keys.
    pub(super) unknown: Vec<Problem>,
}

/// Reads all settings.
pub(super) fn decode(root: Node) -> Decoded {
    let mut decoder = Decoder { wrong: Vec::new(), unknown: Vec::new() };
    let settings = decoder.settings(root);
    let Decoder { wrong, unknown } = decoder;
    Decoded { settings, wrong, unknown }
}

/// The path of a node: in the form of [`super::names::KEYS`], and with the user's own names.
#[derive(Clone)]
pub(super) struct KeyPath {
    known: String,
    pub(super) shown: String,
}

impl KeyPath {
    fn top() -> Self {
        Self { known: String::new(), shown: String::new() }
    }

    pub(super) fn key(&self, key: &str) -> Self {
        self.member(key, key)
    }

    /// A member whose name is the user's own.
    pub(super) fn member(&self, known: &str, name: &str) -> Self {
        let join = |to: &str, name: &str| {
            if to.is_empty() { name.to_owned() } else { format!("{to}.{name}") }
        };
        Self { known: join(&self.known, known), shown: join(&self.shown, &shown(name)) }
    }
}

/// The known members of a map.
pub(super) struct Fields {
    line: usize,
    entries: Vec<Entry>,
}

impl Fields {
    /// Removes and returns a member. `null` is the same as a missing member.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        self.take_any(key).filter(|node| !matches!(node.value, Value::Null))
    }

    /// Removes and returns a member, also if it is `null`.
    fn take_any(&mut self, key: &str) -> Option<Node> {
        let position = self.entries.iter().position(|entry| entry.name == key)?;
        Some(self.entries.swap_remove(position).node)
    }
}

pub(super) struct Decoder {
    wrong: Vec<Problem>,
    unknown: Vec<Problem>,
}

impl Decoder {
    fn settings(&mut self, root: Node) -> TerraformSettings {
        let top = KeyPath::top();
        let Some(mut fields) = self.fields(root, &top) else { return TerraformSettings::default() };
        TerraformSettings {
            cli_config: fields
                .take("terraformrc")
                .and_then(|node| self.cli_config(node, &top.key("terraformrc"))),
            backend: fields
                .take("backend")
                .and_then(|node| self.backend(node, &top.key("backend"))),
            environment: fields
                .take("env")
                .and_then(|node| self.environment(node, &top.key("env"))),
            logging: fields
                .take("logging")
                .and_then(|node| self.logging(node, &top.key("logging"))),
            after_plan: fields
                .take("afterPlan")
                .and_then(|node| self.after_plan(node, &top.key("afterPlan"))),
        }
    }

    /// `None` if it is empty: the user's own configuration is used then.
    fn cli_config(&mut self, node: Node, place: &KeyPath) -> Option<CliConfig<SecretReference>> {
        let mut fields = self.fields(node, place)?;
        let installation = fields
            .take("providerInstallation")
            .map(|node| self.installation(node, &place.key("providerInstallation")))
            .unwrap_or_default();
        let credentials = fields
            .take("credentials")
            .map(|node| self.credentials(node, &place.key("credentials")))
            .unwrap_or_default();
        (!installation.is_empty() || !credentials.is_empty())
            .then_some(CliConfig { installation, credentials })
    }

    fn installation(&mut self, node: Node, place: &KeyPath) -> Vec<InstallationMethod> {
        let Some(mut fields) = self.fields(node, place) else { return Vec::new() };
        let mut methods = Vec::new();
        for key in keys_of(&place.known) {
            let place = place.key(key);
            // `direct` is one method and needs no members.
            let nodes = if *key == "direct" {
                fields.take_any(key).into_iter().collect()
            } else {
                match fields.take(key) {
                    None => Vec::new(),
                    Some(Node { value: Value::List(nodes), .. }) => nodes,
                    Some(node) => vec![node],
                }
            };
            methods.extend(nodes.into_iter().filter_map(|node| self.method(key, node, &place)));
        }
        methods
    }

    fn method(&mut self, key: &str, node: Node, place: &KeyPath) -> Option<InstallationMethod> {
        let mut fields = self.fields(node, place)?;
        let include = self.patterns(&mut fields, "include", place);
        let exclude = self.patterns(&mut fields, "exclude", place);
        let source = match key {
            "networkMirror" => {
                let (line, url) = self.required_text(&mut fields, "url", place)?;
                match network_mirror(&url) {
                    Ok(url) => ProviderSource::NetworkMirror(url),
                    Err(expected) => return self.wrong(line, place, "url", expected),
                }
            }
            "filesystemMirror" => {
                let (line, path) = self.required_text(&mut fields, "path", place)?;
                if !Path::new(&path).is_absolute() {
                    return self.wrong(line, place, "path", "must be an absolute path");
                }
                ProviderSource::FilesystemMirror(path)
            }
            _ => ProviderSource::Direct,
        };
        Some(InstallationMethod { source, include, exclude })
    }

    fn patterns(&mut self, fields: &mut Fields, key: &str, place: &KeyPath) -> Option<Vec<String>> {
        const EXPECTED: &str =
            "must be a list of patterns such as `hashicorp/*` or `registry.example.com/*/*`";
        let node = fields.take(key)?;
        let Value::List(nodes) = node.value else {
            return self.wrong(node.line, place, key, EXPECTED);
        };
        let mut patterns = Vec::new();
        for node in nodes {
            match node.value {
                // What the word says; Terraform wants all three parts.
                Value::Text(text) if text == "*" => patterns.push("*/*/*".to_owned()),
                Value::Text(text) if (2..=3).contains(&text.split('/').count()) => {
                    patterns.push(text);
                }
                _ => return self.wrong(node.line, place, key, EXPECTED),
            }
        }
        Some(patterns)
    }

    fn credentials(&mut self, node: Node, place: &KeyPath) -> Vec<(RegistryHost, SecretReference)> {
        let mut credentials: Vec<(RegistryHost, SecretReference)> = Vec::new();
        let mut hosts = HashSet::new();
        for Entry { line, name, node } in self.entries(node, place) {
            let of_host = place.member("HOST", &name);
            let Some(host) = RegistryHost::parse(&name) else {
                self.note(
                    line,
                    format!("`{}` is not a host such as `app.terraform.io`", of_host.shown),
                );
                continue;
            };
            if !hosts.insert(host.clone()) {
                self.note(line, format!("`{}` is given twice", of_host.shown));
                continue;
            }
            let Some(mut fields) = self.fields(node, &of_host) else { continue };
            let token = of_host.key("token");
            match fields.take("token") {
                None => self.note(fields.line, format!("`{}` is missing", token.shown)),
                Some(node) => {
                    let reference = self.reference(node, &token);
                    credentials.extend(reference.map(|reference| (host, reference)));
                }
            }
        }
        credentials
    }

    /// `{secretId, key}`: a secret by name. Of a resource's id, which begins with `/`, the last
    /// segment is the name; `namespace/name` has both.
    pub(super) fn reference(&mut self, node: Node, place: &KeyPath) -> Option<SecretReference> {
        if !matches!(node.value, Value::Map(_)) {
            let text =
                format!("`{}` must be {REFERENCE}, and is {}", place.shown, node.value.kind());
            self.note(node.line, text);
            return None;
        }
        // The keys are those of a token wherever a reference stands.
        let known =
            KeyPath { known: "terraformrc.credentials.HOST.token".to_owned(), ..place.clone() };
        let mut fields = self.fields(node, &known)?;
        let (line, id) = self.required_text(&mut fields, "secretId", place)?;
        let key = match fields.take("key") {
            None => None,
            Some(node) => Some(self.text(node, &place.key("key"))?.1),
        };
        let (namespace, name) = match id.rsplit_once('/') {
            Some((path, name)) if path.is_empty() || path.starts_with('/') => (None, name),
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, id.as_str()),
        };
        if name.is_empty() {
            return self.wrong(line, place, "secretId", "names no secret");
        }
        Some(SecretReference { namespace, name: name.to_owned(), key })
    }

    fn environment(&mut self, node: Node, place: &KeyPath) -> Option<Vec<(String, String)>> {
        let mut variables = Vec::new();
        for Entry { line, name, node } in self.entries(node, place) {
            let member = place.member("NAME", &name);
            let value = match node.value {
                Value::Null => continue,
                Value::Text(text) | Value::Number(text) => text,
                Value::Bool(value) => value.to_string(),
                other => {
                    let text = format!(
                        "`{}` must be text, a number, true or false, and is {}",
                        member.shown,
                        other.kind()
                    );
                    self.note(node.line, text);
                    continue;
                }
            };
            if !is_environment_name(&name) {
                self.note(
                    line,
                    format!("`{}` is not a valid name of an environment variable", member.shown),
                );
            } else if value.contains('\0') {
                self.note(line, format!("`{}` has a NUL character in its value", member.shown));
            } else if RegistryHost::of_variable(&name).is_some() {
                let text = format!(
                    "`{}` is a secret; give `terraformrc.credentials` a reference to it",
                    member.shown
                );
                self.note(line, text);
            } else if let Some(reason) = refusal(&name, &value) {
                self.note(line, format!("`{}` cannot be set here: {reason}", member.shown));
            } else {
                variables.push((name, value));
            }
        }
        (!variables.is_empty()).then_some(variables)
    }

    fn after_plan(&mut self, node: Node, place: &KeyPath) -> Option<AfterPlan> {
        const EXPECTED: &str = "must be a list of texts: a program and its arguments";
        let mut fields = self.fields(node, place)?;
        let line = fields.line;
        let mut command = self.texts(&mut fields, "command", place, EXPECTED)?.into_iter();
        let environment = self
            .texts(&mut fields, "env", place, "must be a list of names of environment variables")
            .unwrap_or_default();
        let Some(program) = command.next().filter(|program| !program.is_empty()) else {
            return self.wrong(line, place, "command", EXPECTED);
        };
        if let Some(name) = environment
            .iter()
            .find(|name| !is_environment_name(name) || name.starts_with("BUTLER_"))
        {
            let name = shown(name);
            self.note(line, format!("`{}`: `{name}` cannot be handed on", place.key("env").shown));
        }
        Some(AfterPlan { program: program.into(), arguments: command.collect(), environment })
    }

    /// A list of texts, empty if it is not given.
    fn texts(
        &mut self,
        fields: &mut Fields,
        key: &str,
        place: &KeyPath,
        expected: &str,
    ) -> Option<Vec<String>> {
        let Some(node) = fields.take(key) else { return Some(Vec::new()) };
        let Value::List(nodes) = node.value else {
            return self.wrong(node.line, place, key, expected);
        };
        let mut texts = Vec::new();
        for node in nodes {
            match node.value {
                Value::Text(text) if !text.contains('\0') => texts.push(text),
                _ => return self.wrong(node.line, place, key, expected),
            }
        }
        Some(texts)
    }

    fn logging(&mut self, node: Node, place: &KeyPath) -> Option<LoggingSettings> {
        let mut fields = self.fields(node, place)?;
        let mut logging = LoggingSettings::default();
        if let Some(node) = fields.take("level") {
            let line = node.line;
            let (_, level) = self.text(node, &place.key("level"))?;
            let level = level.to_ascii_uppercase();
            if !LOG_LEVELS.contains(&level.as_str()) {
                let expected = format!("must be one of {}", LOG_LEVELS.join(", "));
                return self.wrong(line, place, "level", &expected);
            }
            logging.level = Some(level);
        }
        if let Some(node) = fields.take("path") {
            let (line, path) = self.text(node, &place.key("path"))?;
            if path.is_empty() || path.contains('\0') {
                return self.wrong(line, place, "path", "must be the path of a file");
            }
            logging.path = Some(PathBuf::from(path));
        }
        (logging != LoggingSettings::default()).then_some(logging)
    }

    /// The members of a map with known keys. Records the other keys.
    pub(super) fn fields(&mut self, node: Node, place: &KeyPath) -> Option<Fields> {
        let line = node.line;
        let is_map = matches!(node.value, Value::Map(_) | Value::Null);
        let keys = keys_of(&place.known);
        let mut entries = self.entries(node, place);
        entries.retain(|entry| {
            let known = keys.contains(&entry.name.as_str());
            if !known {
                let text = unknown(&entry.name, &place.known, &place.shown);
                self.unknown.push(Problem::new(entry.line, text));
            }
            known
        });
        is_map.then_some(Fields { line, entries })
    }

    /// The members of a map. Another value has no members; the problem is recorded.
    pub(super) fn entries(&mut self, node: Node, place: &KeyPath) -> Vec<Entry> {
        match node.value {
            Value::Map(entries) => entries,
            Value::Null => Vec::new(),
            other => {
                let what = match place.shown.as_str() {
                    "" => "the whole".to_owned(),
                    shown => format!("`{shown}`"),
                };
                self.note(node.line, format!("{what} must be a map, and is {}", other.kind()));
                Vec::new()
            }
        }
    }

    pub(super) fn required_text(
        &mut self,
        fields: &mut Fields,
        key: &str,
        place: &KeyPath,
    ) -> Option<(usize, String)> {
        let member = place.key(key);
        if let Some(node) = fields.take(key) {
            return self.text(node, &member);
        }
        self.note(fields.line, format!("`{}` is missing", member.shown));
        None
    }

    fn text(&mut self, node: Node, place: &KeyPath) -> Option<(usize, String)> {
        match node.value {
            Value::Text(text) => Some((node.line, text)),
            other => {
                let text = format!("`{}` must be text, and is {}", place.shown, other.kind());
                self.note(node.line, text);
                None
            }
        }
    }

    pub(super) fn wrong<T>(
        &mut self,
        line: usize,
        place: &KeyPath,
        key: &str,
        expected: &str,
    ) -> Option<T> {
        self.note(line, format!("`{}` {expected}", place.key(key).shown));
        None
    }

    pub(super) fn note(&mut self, line: usize, text: String) {
        self.wrong.push(Problem::new(line, text));
    }
}

/// The URL in the form that Terraform needs: without a slash at the end, Terraform drops the last part. The error
/// describes a valid URL.
fn network_mirror(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).map_err(|_| "must be an https URL")?;
    if url.scheme() != "https" {
        return Err("must be an https URL");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no login in it; give `terraformrc.credentials` a reference");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end in a path, without `?` or `#`");
    }
    Ok(if text.ends_with('/') { text.to_owned() } else { format!("{text}/") })
}
