//! Values in a module's own files for variables that it declares sensitive: in variable files that Terraform reads
//! automatically or that the user names, and defaults.
//!
//! Expressions are not evaluated. Terraform quotes the lines of a file that it cannot read, so each value in such a file
//! counts as a secret, whatever its variable is.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use butler_base::json::members;
use butler_base::platform::NULL_DEVICE;
use butler_source::hcl::{expression_texts, is_literal};
use butler_source::module::{FileText, Module, read_text};
use butler_source::unparsed;

/// The largest number of texts in files that cannot be parsed that are searched for.
const MAX_TEXTS: usize = 20_000;

/// Values of variables that must not be shown.
#[derive(Debug, Default)]
pub struct AssignedSecrets {
    /// Values as JSON texts, with the names of their variables.
    pub values: Vec<(String, SecretString)>,
    /// What can be a value in files that cannot be parsed.
    pub texts: Vec<SecretString>,
    /// The names of the variable files that cannot be parsed.
    pub unparsed: Vec<String>,
    /// The names of the files that are too large to be read, or are pipes.
    pub unread: Vec<String>,
}

/// Values of variables that `module` declares sensitive: defaults, values in variable files in `directory`, and values
/// in `files`, which are relative to it.
#[must_use]
pub fn assigned_secrets(directory: &Path, files: &[PathBuf], module: &Module) -> AssignedSecrets {
    let mut found = AssignedSecrets {
        values: module.defaults.clone(),
        texts: module.unparsed_defaults.clone(),
        unparsed: Vec::new(),
        unread: module.unread_files.clone(),
    };
    let files = files.iter().map(|file| directory.join(file));
    for path in variable_files(directory).into_iter().chain(files) {
        if path.is_file() {
            if let Ok(text) = read_text(&path) {
                found.read(&path, &text, module);
            }
        } else if path.exists() && !path.is_dir() && path != Path::new(NULL_DEVICE) {
            // Terraform would find a pipe empty after it was read.
            found.unread.push(name_of(&path));
        }
    }
    found
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl AssignedSecrets {
    /// Whether there are values that were not found, or too many to search for.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.unread.is_empty() || self.texts.len() > MAX_TEXTS
    }

    /// What the log says about files that cannot be parsed.
    #[must_use]
    pub fn warnings(&self, module: &Module) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_incomplete() {
            let files = [&self.unread[..], &self.unparsed, &module.unparsed_files].concat();
            return vec![format!(
                "{} not searched for secrets (too large, or a pipe): this log is masked as a whole",
                list(&files)
            )];
        }
        if !module.unparsed_files.is_empty() {
            warnings.push(format!(
                "{} not parsed: the values of all variables are masked",
                list(&module.unparsed_files)
            ));
        }
        if !self.unparsed.is_empty() {
            warnings.push(format!(
                "{} not parsed: everything that is written right of `=` or `:` there is masked",
                list(&self.unparsed)
            ));
        }
        warnings
    }

    fn read(&mut self, path: &Path, text: &FileText, module: &Module) {
        let name = name_of(path);
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let is_open = |name: &str| module.variables.contains_key(name) && !module.is_secret(name);
        let (lines, is_read) = match text {
            FileText::Whole(text) if is_json => (text, self.read_json(text, module)),
            FileText::Whole(text) => (text, self.read_native(text, module)),
            FileText::Large(text) => {
                let lines = unparsed::lines_of_variables(text, |name| !is_open(name));
                return self.add_lines(name, lines);
            }
            FileText::TooLarge => return self.unread.push(name),
        };
        if !is_read {
            self.add_lines(name, lines.lines());
        }
    }

    fn read_json(&mut self, text: &str, module: &Module) -> bool {
        let Ok(members) = members(text) else { return false };
        let secrets = members.into_iter().filter(|(name, _)| module.is_secret(name));
        self.values.extend(secrets.map(|(name, json)| (name, SecretString::from(json.get()))));
        true
    }

    /// Reads attributes. A block is a mistake.
    fn read_native(&mut self, text: &str, module: &Module) -> bool {
        let body = hcl_edit::parser::parse_body(text).ok();
        let Some(body) = body.filter(|body| body.blocks().next().is_none()) else { return false };
        for given in body.attributes() {
            let name = given.key.as_str();
            // An undeclared variable is only an error, in which it is quoted, if its value is not a literal.
            let is_quoted = !module.variables.contains_key(name) && !is_literal(&given.value);
            if module.is_secret(name) || is_quoted {
                let texts = expression_texts(&given.value, text).into_iter();
                self.values.extend(texts.map(|json| (name.to_owned(), json)));
            }
        }
        true
    }

    fn add_lines<'text>(&mut self, name: String, lines: impl Iterator<Item = &'text str>) {
        let values = unparsed::values(lines);
        if !values.is_empty() {
            self.unparsed.push(name);
        }
        self.texts.extend(values.into_iter().map(SecretString::from));
    }
}

/// `a.tf` is, `a.tf`, `b.tf` are.
fn list(files: &[String]) -> String {
    let names: Vec<_> = files.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", names.join(", "), if files.len() == 1 { "is" } else { "are" })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            .values
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
        let expected = pairs(&[("null", "null"), ("pin", r#"{"a": ["b", 1]}"#)]);
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

    /// The texts that are found in files that cannot be parsed, and the names of these.
    fn quoted(files: &[(&str, &str)], given: &[&str]) -> (BTreeSet<String>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let given: Vec<_> = given.iter().map(PathBuf::from).collect();
        let module = Module::read(directory.path()).unwrap();
        let found = assigned_secrets(directory.path(), &given, &module);
        let texts = found.texts.iter().map(|text| text.expose_secret().to_owned());
        (texts.collect(), found.unparsed)
    }

    #[test]
    fn values_in_files_that_cannot_be_parsed_are_found() {
        let main = ("main.tf", "variable \"pin\" {\n  sensitive = true\n}");
        for (name, text) in [
            ("terraform.tfvars", "pin = 'hunter2'"),
            ("a.auto.tfvars", "pin = \"hunter2\nopen = \"x\"\n"),
            ("terraform.tfvars", "pin: hunter2"),
            ("terraform.tfvars", "export pin=hunter2"),
            ("terraform.tfvars", "pin {\n  value = \"hunter2\"\n}"),
            ("terraform.tfvars", "pin = \"hunter2\" open = 1\n"),
            ("terraform.tfvars", "\u{0}\npin = \"hunter2\"\n"),
            ("terraform.tfvars.json", "{\"pin\": \"hunter2\",}"),
            ("a.auto.tfvars.json", "[\"hunter2\"]"),
            ("given", "{\"pin\": \"hunter2\"}"),
            ("given.json", "pin = \"hunter2\""),
        ] {
            let (texts, names) = quoted(&[main, (name, text)], &["given", "given.json"]);
            assert!(texts.contains("hunter2"), "{name}: {text}: {texts:?}");
            assert_eq!(names, [name]);
        }
        let deep = format!("pin = {}\"hunter2\"{}\n", "[".repeat(80), "]".repeat(80));
        assert!(quoted(&[main, ("terraform.tfvars", &deep)], &[]).0.contains("hunter2"));
        for text in ["pin = ", "{", "", "# pin = 1"] {
            let (texts, _) = quoted(&[main, ("terraform.tfvars", text)], &["missing.tfvars", "."]);
            assert!(texts.iter().all(|text| text.contains('#')), "{texts:?}");
        }
    }

    #[test]
    fn expressions_that_terraform_refuses_are_found() {
        let main = ("main.tf", "variable \"pin\" {\n  sensitive = true\n}\nvariable \"open\" {}");
        for text in ["pin = hunter2", "pin = a-hunter2", "pin = file(\"hunter2\")", "pni = hunter2"]
        {
            let texts: Vec<_> = found(&[main, ("terraform.tfvars", text)], &[]);
            assert!(texts.iter().any(|(_, json)| json.contains("hunter2")), "{text}: {texts:?}");
        }
        for text in ["open = hunter2", "pni = \"hunter2\"", "pni = [\"hunter2\"]"] {
            assert_eq!(found(&[main, ("terraform.tfvars", text)], &[]), []);
        }
    }

    #[test]
    fn every_member_of_a_json_file_counts() {
        let main = ("main.tf", "variable \"pin\" {\n  sensitive = true\n}");
        let json = r#"{"pin": "hunter2", "pin": {"a": "hunter3", "a": 4}, "pin": null}"#;
        let expected = [r#""hunter2""#, "null", r#"{"a": "hunter3", "a": 4}"#];
        let expected = pairs(&expected.map(|json| ("pin", json)));
        assert_eq!(found(&[main, ("terraform.tfvars.json", json)], &[]), expected);
    }

    #[test]
    fn all_values_count_if_a_file_of_the_module_cannot_be_parsed() {
        let values = ("terraform.tfvars", "pin = \"hunter2\"\nother = \"shown\"\n");
        for (name, text) in [
            ("broken.tf", "variable \"pin\" {".to_owned()),
            ("broken.tf.json", "{".to_owned()),
            ("deep.tf", format!("locals {{\n  x = {}{}\n}}", "[".repeat(80), "]".repeat(80))),
            ("large.tf", " ".repeat(3 * 1024 * 1024)),
        ] {
            let files = [
                ("main.tf", "variable \"a\" {\n  default = \"hunter1\"\n}"),
                (name, &text),
                values,
            ];
            let expected = [("a", "\"hunter1\""), ("other", "\"shown\""), ("pin", "\"hunter2\"")];
            assert_eq!(found(&files, &[]), pairs(&expected), "{name}");
        }
        let broken = "variable \"pin\" {\n  sensitive = true\n  default   = 'hunter2'\n}";
        assert!(quoted(&[("main.tf", broken)], &[]).0.contains("hunter2"));
    }

    #[test]
    fn secrets_of_a_large_file_are_found() {
        let main = ("main.tf", "variable \"pin\" {\n  sensitive = true\n}\nvariable \"open\" {}");
        let open = "  \"shown\",\n".repeat(300_000);
        let large = format!("open = [\n{open}]\npin = [\n  \"hunter2\",\n]\n");
        let (texts, names) = quoted(&[main, ("terraform.tfvars", &large)], &[]);
        assert!(texts.contains("hunter2") && !texts.contains("shown"));
        assert_eq!(names, ["terraform.tfvars"]);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("main.tf"), main.1).unwrap();
        let huge = std::fs::File::create(directory.path().join("terraform.tfvars")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let endless = directory.path().join("pipe.auto.tfvars");
        std::os::unix::fs::symlink("/dev/zero", endless).unwrap();
        let module = Module::read(directory.path()).unwrap();
        let mut found = assigned_secrets(directory.path(), &[], &module);
        found.unread.sort();
        assert_eq!((found.values.len(), found.unread.len()), (0, 2));
        assert_eq!(found.unread, ["pipe.auto.tfvars", "terraform.tfvars"]);
    }
}
