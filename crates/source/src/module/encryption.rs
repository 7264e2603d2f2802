//! Reduces the files of a module to the parts that decrypt its state: the `encryption` blocks, and the variables and
//! locals that these can use.

use std::path::Path;

use hcl_edit::Span;
use hcl_edit::structure::Block;
use serde_json::value::RawValue;

use super::error::ModuleError;
use super::files::{self, ConfigurationFile, FileText};
use super::json;

/// A configuration file that is reduced to its encryption.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EncryptionFile {
    /// Its name, which decides whether it overrides or replaces another one.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The files of `directory`, reduced to their encryption. Files without any of it are left out, and so are those that
/// cannot be parsed.
///
/// # Errors
/// If the directory or a file cannot be read.
pub fn encryption_files(directory: &Path) -> Result<Vec<EncryptionFile>, ModuleError> {
    let mut found = Vec::new();
    for file in ConfigurationFile::list(directory)? {
        let FileText::Whole(text) = files::read(&file.path)? else { continue };
        let reduced = if file.is_json { reduced_json(&text) } else { reduced_native(&text) };
        if let Some(text) = reduced {
            found.push(EncryptionFile { name: file.name, text });
        }
    }
    Ok(found)
}

fn reduced_native(text: &str) -> Option<String> {
    let body = hcl_edit::parser::parse_body(text).ok()?;
    let source = |block: &Block| block.span().and_then(|range| text.get(range));
    let mut reduced = String::new();
    for block in body.blocks() {
        match block.ident.as_str() {
            "terraform" => {
                let inner =
                    block.body.blocks().filter(|inner| inner.ident.as_str() == "encryption");
                for encryption in inner.filter_map(source) {
                    reduced.push_str("terraform {\n");
                    reduced.push_str(encryption);
                    reduced.push_str("\n}\n");
                }
            }
            "variable" | "locals" => {
                reduced.push_str(source(block)?);
                reduced.push('\n');
            }
            _ => {}
        }
    }
    (!reduced.is_empty()).then_some(reduced)
}

fn reduced_json(text: &str) -> Option<String> {
    let file: &RawValue = serde_json::from_str(text).ok()?;
    let mut parts = Vec::new();
    for body in json::objects(file) {
        for settings in json::objects_at(&body, "terraform") {
            for encryption in json::values(&settings, "encryption") {
                parts.push(format!(r#"{{"terraform":{{"encryption":{encryption}}}}}"#));
            }
        }
        for kind in ["variable", "locals"] {
            parts.extend(json::values(&body, kind).map(|it| format!(r#"{{"{kind}":{it}}}"#)));
        }
    }
    // A list of objects counts as one object with all of their members.
    (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encryption_variables_and_locals_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            (
                "main.tf",
                "terraform {\n  backend \"http\" {}\n  encryption {\n    state {\n      method = method.aes_gcm.m\n    }\n  }\n}\n\
                 variable \"pass\" {\n  sensitive = true\n}\nlocals {\n  a = 1\n}\nresource \"a\" \"b\" {}\n",
            ),
            ("none.tf", "resource \"a\" \"c\" {}\n"),
            ("broken.tf", "terraform {"),
            (
                "x_override.tofu.json",
                r#"{"terraform": [{"encryption": {"key_provider": {}}, "backend": {}}], "output": {}, "locals": {"b": 2}}"#,
            ),
        ] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let found = encryption_files(directory.path()).unwrap();
        let found: Vec<_> = found.iter().map(|it| (&*it.name, &*it.text)).collect();
        assert_eq!(
            found,
            [
                (
                    "main.tf",
                    "terraform {\nencryption {\n    state {\n      method = method.aes_gcm.m\n    }\n  }\n}\n\
                     variable \"pass\" {\n  sensitive = true\n}\nlocals {\n  a = 1\n}\n",
                ),
                (
                    "x_override.tofu.json",
                    r#"[{"terraform":{"encryption":{"key_provider": {}}}},{"locals":{"b": 2}}]"#,
                ),
            ]
        );
    }
}
