//! The state backend that a module names.

use std::collections::BTreeMap;

use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::structure::{Block, Body};
use secrecy::SecretString;
use serde_json::{Map, Value};

use butler_source::reach::{Cache, Located, Syntax, is_override, locate};

use super::{Kind, TERRAGRUNT, Tree, TreeError, syntax};

/// The largest file that is read, in bytes.
const MOST: usize = 1024 * 1024;

/// What a module says about its state backend.
#[derive(Clone, Debug)]
pub enum ModuleBackend {
    /// It has neither a `backend` nor a `cloud` block.
    Absent,
    /// It has one, but only Terraform or Terragrunt can tell which one is used.
    Unknown,
    /// It has this block.
    Block(BackendBlock),
}

/// A `backend` block, or a `cloud` block as one of the type `cloud`.
#[derive(Clone, Debug)]
pub struct BackendBlock {
    /// The type.
    pub kind: String,
    /// The settings by name, as JSON; `None` if a value is not literal. Modules can contain
    /// credentials.
    pub settings: BTreeMap<String, Option<SecretString>>,
}

/// What directories say about backends, by the id of the directory.
#[derive(Debug, Default)]
pub struct BackendCache(Cache<ModuleBackend>);

impl BackendCache {
    /// Begins a reading of a repository. What the one before did not use is forgotten.
    pub fn begin(&mut self) {
        self.0.begin();
    }
}

/// The backend of the module at `path`. A file that cannot be parsed counts as one that has an unknown
/// backend: Terraform says what is wrong with it.
///
/// # Errors
/// If an object cannot be read.
pub fn module_backend(
    tree: &impl Tree,
    path: &str,
    cache: &mut BackendCache,
) -> Result<ModuleBackend, TreeError> {
    let Located::At(path, directory) = locate(tree, "", path, &mut Vec::new())? else {
        return Ok(ModuleBackend::Absent);
    };
    if let Some(known) = cache.0.get(&directory.id) {
        return Ok(known.clone());
    }
    let (mut found, mut has_links) = (Blocks::default(), false);
    for (name, entry) in tree.list(&path)? {
        if syntax(&name).is_none() && name != TERRAGRUNT {
            continue;
        }
        has_links |= entry.kind == Kind::Link;
        let Located::At(file, entry) = locate(tree, &path, &name, &mut Vec::new())? else {
            continue;
        };
        if !matches!(entry.kind, Kind::File | Kind::Executable) {
            continue;
        }
        // A file that cannot be read as text has no blocks.
        let Some(text) = tree.text(&file, MOST)? else { continue };
        match syntax(&name) {
            Some(Syntax::Hcl) => found.add(&name, hcl_blocks(&text)),
            Some(Syntax::Json) => found.add(&name, json_blocks(&text)),
            // Its `remote_state` can come from a parent.
            None => found.is_unknown = true,
        }
    }
    let backend = found.backend();
    // What links lead to can change without the directory.
    if !has_links {
        cache.0.insert(directory.id, backend.clone());
    }
    Ok(backend)
}

/// The blocks of a module.
#[derive(Default)]
struct Blocks {
    ordinary: Vec<BackendBlock>,
    /// Those of override files by their names. The last one replaces all others.
    overriding: BTreeMap<String, Vec<BackendBlock>>,
    /// Whether a block is in a file that `OpenTofu` reads and Terraform does not.
    is_in_tofu_file: bool,
    is_unknown: bool,
}

impl Blocks {
    fn add(&mut self, file: &str, blocks: Option<Vec<BackendBlock>>) {
        let Some(blocks) = blocks else {
            self.is_unknown = true;
            return;
        };
        self.is_in_tofu_file |= !blocks.is_empty() && file.contains(".tofu");
        if is_override(file) {
            if !blocks.is_empty() {
                self.overriding.insert(file.to_owned(), blocks);
            }
        } else {
            self.ordinary.extend(blocks);
        }
    }

    fn backend(mut self) -> ModuleBackend {
        let all = self.ordinary.len() + self.overriding.values().map(Vec::len).sum::<usize>();
        // Which of several files are read depends on the tool.
        if self.is_unknown || (self.is_in_tofu_file && all > 1) {
            return ModuleBackend::Unknown;
        }
        let last = self.overriding.pop_last().map(|(_, blocks)| blocks);
        let mut effective = last.unwrap_or(self.ordinary).into_iter();
        match (effective.next(), effective.next()) {
            (None, _) => ModuleBackend::Absent,
            (Some(block), None) => ModuleBackend::Block(block),
            // Terraform refuses two.
            (Some(_), Some(_)) => ModuleBackend::Unknown,
        }
    }
}

/// The blocks in a file; `None` if it cannot be parsed.
fn hcl_blocks(text: &str) -> Option<Vec<BackendBlock>> {
    // Most files have none, and parsing is slow.
    if !text.contains("backend") && !text.contains("cloud") {
        return Some(Vec::new());
    }
    let body = text.parse::<Body>().ok()?;
    let settings = body.get_blocks("terraform");
    let blocks = settings.flat_map(|settings| settings.body.blocks());
    Some(blocks.filter_map(hcl_block).collect())
}

fn hcl_block(block: &Block) -> Option<BackendBlock> {
    let label = || block.labels.first().map_or("", hcl_edit::structure::BlockLabel::as_str);
    let kind = match block.ident.as_str() {
        "backend" => label(),
        "cloud" => "cloud",
        _ => return None,
    };
    let settings = hcl_members(&block.body).into_iter();
    let settings = settings.map(|(name, value)| (name, value.as_ref().map(secret_json)));
    Some(BackendBlock { kind: kind.to_owned(), settings: settings.collect() })
}

/// The settings and blocks of a body; `None` for values that are not literal.
fn hcl_members(body: &Body) -> BTreeMap<String, Option<Value>> {
    let mut members = BTreeMap::new();
    for attribute in body.attributes() {
        members.insert(attribute.key.to_string(), literal(&attribute.value));
    }
    for block in body.blocks() {
        let inner = hcl_members(&block.body).into_iter();
        let inner = inner.map(|(name, value)| Some((name, value?))).collect::<Option<Map<_, _>>>();
        // Two blocks of one kind never name a state.
        let is_second = members.contains_key(block.ident.as_str());
        let inner = inner.filter(|_| !is_second).map(Value::Object);
        members.insert(block.ident.to_string(), inner);
    }
    members
}

fn literal(expression: &Expression) -> Option<Value> {
    match expression {
        Expression::Null(_) => Some(Value::Null),
        Expression::Bool(value) => Some(Value::Bool(*value.value())),
        Expression::Number(value) => serde_json::from_str(&value.value().to_string()).ok(),
        Expression::String(value) => Some(Value::String(value.value().clone())),
        Expression::Array(values) => {
            values.iter().map(literal).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Expression::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let key = match key {
                    ObjectKey::Ident(name) => name.to_string(),
                    ObjectKey::Expression(key) => key.as_str()?.to_owned(),
                };
                Some((key, literal(value.expr())?))
            })
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object),
        Expression::Parenthesis(inner) => literal(inner.inner()),
        _ => None,
    }
}

/// The blocks in a file in JSON syntax; `None` if it cannot be parsed.
fn json_blocks(text: &str) -> Option<Vec<BackendBlock>> {
    let document = serde_json::from_str::<Value>(text).ok()?;
    let mut found = Vec::new();
    for settings in document.get("terraform").map(objects).unwrap_or_default() {
        for kinds in settings.get("backend").map(objects).unwrap_or_default() {
            for (kind, body) in kinds.iter().filter(|(kind, _)| *kind != "//") {
                found.extend(objects(body).into_iter().map(|body| json_block(kind, body)));
            }
        }
        let clouds = settings.get("cloud").map(objects).unwrap_or_default();
        found.extend(clouds.into_iter().map(|body| json_block("cloud", body)));
    }
    Some(found)
}

fn json_block(kind: &str, body: &Map<String, Value>) -> BackendBlock {
    let settings = body
        .iter()
        .map(|(name, value)| (name.clone(), (!has_template(value)).then(|| secret_json(value))));
    BackendBlock { kind: kind.to_owned(), settings: settings.collect() }
}

/// A block in JSON is an object, or a list of objects.
fn objects(value: &Value) -> Vec<&Map<String, Value>> {
    match value {
        Value::Array(values) => values.iter().filter_map(Value::as_object).collect(),
        value => value.as_object().into_iter().collect(),
    }
}

/// Whether a text must be evaluated.
fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${") || text.contains("%{"),
        Value::Array(values) => values.iter().any(has_template),
        Value::Object(members) => members.values().any(has_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn secret_json(value: &Value) -> SecretString {
    value.to_string().into()
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
