//! Whether a module names a state backend.

use hcl_edit::structure::{Block, Body};

use super::cache::Cache;
use super::syntax::{Syntax, TERRAGRUNT, syntax};
use super::tree::{Kind, Tree, TreeError, join};

/// The largest file that is read, in bytes.
const MOST: usize = 1024 * 1024;

/// What directories say about backends, by the id of the directory.
#[derive(Debug, Default)]
pub struct BackendCache(Cache<bool>);

impl BackendCache {
    /// Begins a reading of a repository. What the one before did not use is forgotten.
    pub fn begin(&mut self) {
        self.0.begin();
    }
}

/// Whether the module at `path` has a `backend` or `cloud` block. A file that cannot be parsed
/// counts as one that has: Terraform says what is wrong with it.
///
/// # Errors
/// If an object cannot be read.
pub fn has_backend(
    tree: &impl Tree,
    path: &str,
    cache: &mut BackendCache,
) -> Result<bool, TreeError> {
    let Some(directory) = tree.entry(path)? else { return Ok(false) };
    if let Some(known) = cache.0.get(&directory.id) {
        return Ok(*known);
    }
    let mut found = false;
    for (name, entry) in tree.list(path)? {
        if found || !matches!(entry.kind, Kind::File | Kind::Executable) {
            continue;
        }
        let Some(file) = join(path, &name) else { continue };
        let names = |text: &str| match syntax(&name) {
            Some(Syntax::Hcl) => hcl_names_backend(text),
            Some(Syntax::Json) => json_names_backend(text),
            // Its `remote_state` can come from a parent.
            None => name == TERRAGRUNT,
        };
        found = tree.text(&file, MOST)?.is_some_and(|text| names(&text));
    }
    cache.0.insert(directory.id, found);
    Ok(found)
}

fn hcl_names_backend(text: &str) -> bool {
    // Most files have none, and parsing is slow.
    if !text.contains("backend") && !text.contains("cloud") {
        return false;
    }
    let Ok(body) = text.parse::<Body>() else { return true };
    let is_backend = |block: &Block| matches!(block.ident.as_str(), "backend" | "cloud");
    let mut settings = body.get_blocks("terraform");
    settings.any(|settings| settings.body.blocks().any(is_backend))
}

fn json_names_backend(text: &str) -> bool {
    let Ok(document) = serde_json::from_str::<serde_json::Value>(text) else { return true };
    // A block is an object, or a list of objects.
    let blocks = match document.get("terraform") {
        Some(serde_json::Value::Array(blocks)) => blocks.iter().collect(),
        Some(block) => vec![block],
        None => Vec::new(),
    };
    blocks.iter().any(|block| block.get("backend").is_some() || block.get("cloud").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_found_in_both_syntaxes() {
        for (text, expected) in [
            ("terraform {\n  backend \"s3\" {}\n}", true),
            ("terraform {\n  cloud {\n    organization = \"a\"\n  }\n}", true),
            ("terraform {\n  required_version = \"> 1\"\n}\n# backend", false),
            ("resource \"a\" \"backend\" {\n  backend {\n  }\n}", false),
            ("terraform { backend", true),
        ] {
            assert_eq!(hcl_names_backend(text), expected, "{text}");
        }
        for (text, expected) in [
            (r#"{"terraform": {"backend": {"s3": {}}}}"#, true),
            (r#"{"terraform": [{"cloud": {}}]}"#, true),
            (r#"{"locals": {"backend": 1}}"#, false),
            ("{", true),
        ] {
            assert_eq!(json_names_backend(text), expected, "{text}");
        }
    }
}
