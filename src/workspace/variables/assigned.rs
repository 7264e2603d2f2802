//! Values in a module's own files for variables that it declares sensitive: in variable files that Terraform reads
//! automatically or that the user names, and defaults.
//!
//! Expressions are not evaluated. Files that cannot be parsed are skipped: Terraform reports them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hcl_edit::structure::Body;
use secrecy::SecretString;
use serde_json::value::RawValue;

use butler_source::hcl::expression_texts;
use butler_source::module::Module;
use butler_source::module::read_text;

/// Values of variables that `module` declares sensitive, as JSON texts with their names: defaults, values in variable
/// files in `directory`, and values in `files`, which are relative to it.
#[must_use]
pub fn assigned_secrets(
    directory: &Path,
    files: &[PathBuf],
    module: &Module,
) -> Vec<(String, SecretString)> {
    let is_sensitive =
        |name: &str| module.variables.get(name).is_some_and(|declared| declared.sensitive);
    let mut found = Vec::new();
    for (name, default) in &module.defaults {
        found.push((name.clone(), default.clone()));
    }
    let files = files.iter().map(|file| directory.join(file));
    for path in variable_files(directory).into_iter().chain(files) {
        // A pipe is not read, because Terraform would find it empty then.
        let text = if path.is_file() { read_text(&path).ok().flatten() } else { None };
        let Some(text) = text else { continue };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if path.extension().is_some_and(|extension| extension == "json") {
            read_json(text, &mut found);
        } else {
            read_native(text, &mut found);
        }
    }
    found.retain(|(name, _)| is_sensitive(name));
    found
}

/// The variable files that Terraform reads automatically.
fn variable_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_automatic))
        .map(|entry| entry.path())
        .collect()
}

fn is_automatic(name: &str) -> bool {
    let name = name.strip_suffix(".json").unwrap_or(name);
    name == "terraform.tfvars" || name.ends_with(".auto.tfvars")
}

fn read_json(text: &str, found: &mut Vec<(String, SecretString)>) {
    let Ok(values) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else { return };
    found.extend(values.into_iter().map(|(name, json)| (name, SecretString::from(json.get()))));
}

fn read_native(text: &str, found: &mut Vec<(String, SecretString)>) {
    let Ok(body) = hcl_edit::parser::parse_body(text) else { return };
    found.extend(texts(&body));
}

/// The texts and numbers in each attribute of `body`, one by one.
fn texts(body: &Body) -> impl Iterator<Item = (String, SecretString)> {
    body.attributes().flat_map(|given| {
        let texts = expression_texts(&given.value);
        texts.into_iter().map(|json| (given.key.as_str().to_owned(), json))
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const MODULE: &str = r#"
        variable "pin" {
          sensitive = true
          default   = { "a key" = "default-1", list = [2222.5, true, "x${1}default-3"] }
        }
        variable "key" {
          sensitive = true
          default   = "default-4"
        }
        variable "open" {
          default = "open-default"
        }
    "#;

    fn found(files: &[(&str, &str)], given: &[&str]) -> Vec<(String, String)> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let given: Vec<_> = given.iter().map(PathBuf::from).collect();
        let module = Module::read(directory.path()).unwrap();
        let mut found: Vec<_> = assigned_secrets(directory.path(), &given, &module)
            .into_iter()
            .map(|(name, json)| (name, json.expose_secret().to_owned()))
            .collect();
        found.sort();
        found
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, json)| ((*name).to_owned(), (*json).to_owned())).collect()
    }

    #[test]
    fn defaults_of_sensitive_variables_are_found() {
        let native = found(&[("main.tf", MODULE)], &[]);
        let [one, two, three, four] =
            ["\"default-1\"", "\"2222.5\"", "\"default-3\"", "\"default-4\""];
        let expected =
            [("key", four), ("pin", one), ("pin", three), ("pin", "\"x\""), ("pin", two)];
        let mut native: Vec<_> = native.into_iter().filter(|(_, json)| json != "\"1\"").collect();
        native.sort();
        let mut expected = pairs(&expected);
        expected.sort();
        assert_eq!(native, expected);
        let json = r#"{"variable": {"pin": {"sensitive": true, "default": {"a": ["b", 1]}},
            "open": {"default": "c"}, "null": {"sensitive": true, "default": null}}}"#;
        let expected = pairs(&[("null", "null"), ("pin", r#"{"a":["b",1]}"#)]);
        assert_eq!(found(&[("main.tf.json", json)], &[]), expected);
        let overridden = ("main_override.tf", "variable \"open\" {\n  sensitive = true\n}");
        let expected = ("open".to_owned(), "\"open-default\"".to_owned());
        assert!(found(&[("main.tf", MODULE), overridden], &[]).contains(&expected));
    }

    #[test]
    fn values_in_automatic_and_named_variable_files_are_found() {
        let main = ("main.tf", "variable \"pin\" {\n  sensitive = true\n}\nvariable \"open\" {}");
        let native = "\u{feff}pin = \"hunter2\"\nopen = \"shown\"\nother = \"shown\"\n";
        let json = r#"{"pin": "hunter2", "open": "shown"}"#;
        for (name, given) in [
            ("terraform.tfvars", false),
            ("terraform.tfvars.json", false),
            ("a.auto.tfvars", false),
            ("a.auto.tfvars.json", false),
            ("prod.tfvars", true),
            ("prod.json", true),
            ("prod", true),
        ] {
            let text = if name.contains("json") { json } else { native };
            let given: &[&str] = if given { &[name] } else { &[] };
            assert_eq!(
                found(&[main, (name, text)], given),
                pairs(&[("pin", "\"hunter2\"")]),
                "{name}"
            );
            let unread = found(&[main, (name, text)], &[]);
            assert_eq!(unread.is_empty(), !given.is_empty(), "{name}");
        }
    }

    #[test]
    fn unreadable_files_are_ignored() {
        let main = ("main.tf", "variable \"pin\" {\n  sensitive = true\n}");
        for text in ["pin = ", "{", "pin {\n}", "\u{0}"] {
            let files = [main, ("terraform.tfvars", text), ("terraform.tfvars.json", text)];
            assert_eq!(found(&files, &["missing.tfvars", "."]), []);
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe.auto.tfvars");
        std::fs::write(directory.path().join("main.tf"), main.1).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        let huge = std::fs::File::create(directory.path().join("terraform.tfvars")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let module = Module::read(directory.path()).unwrap();
        assert!(assigned_secrets(directory.path(), &[], &module).is_empty());
    }
}
