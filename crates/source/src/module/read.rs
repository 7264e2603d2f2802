//! Reads all configuration files of a module directory.

use std::path::Path;

use super::declaration::Module;
use super::error::ModuleError;
use super::files::{self, ConfigurationFile, FileText, TestFile};
use super::findings::Findings;
use super::{json, native};
use crate::version_files;
use butler_protocol::spec::{ToolRequest, reads_tofu_files};

/// Whether `directory` has files that Terraform, `OpenTofu` or Terragrunt would read.
///
/// # Errors
/// When it cannot be listed.
pub fn has_configuration(directory: &Path) -> std::io::Result<bool> {
    Ok(files::has_configuration_file(directory)? || files::is_terragrunt_unit(directory))
}

/// The test files of the module in `directory` that `tool` does not read, and a newer `OpenTofu` does.
///
/// # Errors
/// If the directory cannot be listed, or if all of its test files are such files: `tool` would find no test and succeed.
pub fn unread_tests(directory: &Path, tool: &ToolRequest) -> Result<Vec<String>, ModuleError> {
    let mut files = TestFile::list(directory)?;
    if reads_tofu_files(tool) {
        return Ok(Vec::new());
    }
    let count = files.len();
    files.retain(|file| file.is_of_tofu);
    match files.first() {
        Some(file) if files.len() == count => Err(ModuleError::OtherTool {
            path: directory.to_owned(),
            what: "tests",
            file: file.name.clone(),
            tool: tool.clone(),
        }),
        _ => Ok(files.into_iter().map(|file| file.name).collect()),
    }
}

impl Module {
    /// Reads all configuration files of `directory`, because it is not known yet which tool reads them.
    ///
    /// # Errors
    /// When the directory cannot be read or contains no configuration. Files that are not valid HCL
    /// are skipped: Terraform reports them better.
    pub fn read(directory: &Path) -> Result<Self, ModuleError> {
        let files = ConfigurationFile::list(directory)?;
        Self::read_files(directory, &files)
    }

    /// Reads the configuration files of `directory` that `tool` reads.
    ///
    /// # Errors
    /// As [`Self::read`], and when the directory contains only files that `tool` does not read.
    pub fn read_for(directory: &Path, tool: &ToolRequest) -> Result<Self, ModuleError> {
        let all = ConfigurationFile::list(directory)?;
        let files: Vec<_> = all.iter().filter(|file| file.is_read_by(tool)).cloned().collect();
        if let (true, Some(file)) = (files.is_empty(), all.first()) {
            let (path, file) = (directory.to_owned(), file.name.clone());
            return Err(ModuleError::OtherTool {
                path,
                what: "configuration",
                file,
                tool: tool.clone(),
            });
        }
        let mut module = Self::read_files(directory, &files)?;
        let unread = all.into_iter().filter(|file| file.is_of_tofu && !file.is_read_by(tool));
        module.files_of_other_tool = unread.map(|file| file.name).collect();
        Ok(module)
    }

    fn read_files(directory: &Path, files: &[ConfigurationFile]) -> Result<Self, ModuleError> {
        let is_terragrunt_only = files.is_empty() && files::is_terragrunt_unit(directory);
        if files.is_empty() && !is_terragrunt_only {
            return Err(ModuleError::Empty { path: directory.to_owned() });
        }
        let mut findings = Findings::default();
        for file in files {
            findings.file = Some(file.clone());
            let text = files::read(&file.path)?;
            let is_understood = match &text {
                FileText::Whole(text) if file.is_json => json::read(text, &mut findings),
                FileText::Whole(text) => native::read(text, &mut findings),
                FileText::Large(_) | FileText::TooLarge => false,
            };
            if !is_understood {
                findings.skip(&file.path, &text);
            }
        }
        let mut module = findings.module;
        module.lacks_azurerm_provider = findings.used_providers.contains("azurerm")
            && !findings.configured_providers.contains("azurerm");
        let mut defaults = std::mem::take(&mut module.defaults);
        defaults.retain(|(name, _)| module.is_secret(name));
        module.defaults = defaults;
        module.version_files = version_files(directory)?;
        module.is_terragrunt_only = is_terragrunt_only;
        module.required_versions.needs_tofu =
            !files.is_empty() && files.iter().all(|file| file.is_of_tofu);
        Ok(module)
    }
}

#[cfg(test)]
mod tests {
    use super::super::declaration::{BlockSetting, TypeKind, VariableDeclaration};
    use super::*;
    use butler_protocol::spec::Product;

    /// The limit of the versions of `product`, as text.
    fn limit(module: &Module, product: Product) -> String {
        let limit = module.required_versions.limit(product).unwrap();
        limit.map(|limit| limit.to_string()).unwrap_or_default()
    }

    fn module(files: &[(&str, &str)]) -> Module {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        Module::read(directory.path()).unwrap()
    }

    #[test]
    fn required_version_is_read_in_each_literal_form() {
        for (file, value, expected) in [
            ("a.tf", "\"~> 1.9\"", Some("~> 1.9")),
            ("a.tf", "(\"~> 1.9\")", Some("~> 1.9")),
            ("a.tf", "<<EOT\n~> 1.9\nEOT\n", Some("~> 1.9")),
            ("a.tf", "<<-EOT\n    ~> 1.9\n  EOT\n", Some("~> 1.9")),
            ("a.tf", "\"${\"~> 1.9\"}\"", Some("~> 1.9")),
            ("a.tf", "1.10", Some("1.10")),
            ("a.tf", "var.version", None),
            ("a.tf", "\"${var.version}\"", None),
            ("a.tf", "format(\"1.9\")", None),
            ("a.tf.json", "\"~> 1.9\"", Some("~> 1.9")),
            ("a.tf.json", "1.10", Some("1.10")),
            ("a.tf.json", "\"${var.version}\"", None),
            ("a.tf.json", "[]", None),
        ] {
            let text = if file.ends_with("json") {
                format!("{{\"terraform\": {{\"required_version\": {value}}}}}")
            } else {
                format!("terraform {{\n  required_version = {value}\n}}\n")
            };
            let module = module(&[(file, &text)]);
            assert_eq!(limit(&module, Product::Terraform), expected.unwrap_or_default(), "{text}");
            let unread = module.unread_required_versions;
            assert_eq!(unread.is_empty(), expected.is_some(), "{text}: {unread:?}");
        }
    }

    #[test]
    fn declared_type_decides_how_a_string_is_parsed() {
        let native = r#"
            variable "none" {}
            variable "text" { type = string }
            variable "old_text" { type = "string" }
            variable "old_list" { type = "list" }
            variable "bare_map" { type = map }
            variable "list" { type = list(string) }
            variable "object" {
              type = object({ a = optional(string, "x"), b = number })
            }
            variable "whatever" { type = any }
        "#;
        let json = r#"{"//": "c", "variable": {"//": "c", "none": {}, "text": {"type": "string"},
            "old_text": {"type": "${string}"}, "old_list": [{"type": "list"}],
            "bare_map": {"type": "map"}, "list": {"type": "list(string)"},
            "object": {"type": "object({a = string})"}, "whatever": {"type": "any"}}}"#;
        for (name, text) in [("main.tf", native), ("main.tf.json", json)] {
            let module = module(&[(name, text)]);
            let kinds: Vec<_> =
                module.variables.iter().map(|(name, found)| (name.as_str(), found.kind)).collect();
            assert_eq!(
                kinds,
                [
                    ("bare_map", TypeKind::Complex),
                    ("list", TypeKind::Complex),
                    ("none", TypeKind::Undeclared),
                    ("object", TypeKind::Complex),
                    ("old_list", TypeKind::Complex),
                    ("old_text", TypeKind::Primitive),
                    ("text", TypeKind::Primitive),
                    ("whatever", TypeKind::Any),
                ]
            );
        }
    }

    #[test]
    fn override_file_replaces_only_the_settings_that_it_has() {
        let module = module(&[
            (
                "a_override.tf.json",
                r#"{"variable": {"token": {"ephemeral": true, "default": null}},
                    "terraform": {"required_version": "~> 1.9", "backend": {"pg": {}}}}"#,
            ),
            ("main.tf", "variable \"token\" {\n  type = list(any)\n  sensitive = true\n}"),
            ("versions.tf", "terraform {\n  required_version = \">= 1.0\"\n}"),
            ("z.tf", "terraform {\n  required_version = \"< 2\"\n}"),
        ]);
        assert_eq!(limit(&module, Product::Terraform), "~> 1.9");
        assert_eq!(module.backend.unwrap().kind, "pg");
        let expected = VariableDeclaration {
            kind: TypeKind::Complex,
            sensitive: true,
            ephemeral: true,
            has_default: true,
        };
        assert_eq!(module.variables["token"], expected);
    }

    #[test]
    fn all_constraints_apply_and_broken_files_are_skipped() {
        let module = module(&[
            ("broken.tf", "terraform {"),
            ("broken.tf.json", "{"),
            ("bom.tf", "\u{feff}terraform {\n  required_version = \">= 1.0\"\n  cloud {}\n}"),
            ("z.tofu", "terraform {\n  required_version = \"< 2\"\n}"),
            (".hidden.tf", "variable \"hidden\" {}"),
            ("main.tf~", "variable \"backup\" {}"),
        ]);
        assert_eq!(limit(&module, Product::Terraform), ">= 1.0");
        assert_eq!(limit(&module, Product::OpenTofu), "< 2");
        assert_eq!(module.backend.unwrap().kind, "cloud");
        assert!(module.variables.is_empty());
    }

    #[test]
    fn encryption_is_found_in_both_syntaxes() {
        for (name, text, found) in [
            ("main.tf", "terraform {\n  encryption {}\n}", true),
            ("main.tf.json", r#"{"terraform": {"encryption": {}}}"#, true),
            ("main.tf.json", r#"{"terraform": [{}, {"encryption": [{"state": {}}]}]}"#, true),
            ("main.tf", "terraform {}\nlocals {\n  encryption = {}\n}", false),
            ("main.tf.json", r#"{"terraform": {}, "encryption": {}}"#, false),
        ] {
            assert_eq!(module(&[(name, text)]).has_encryption, found, "{text}");
        }
    }

    #[test]
    fn tool_decides_which_files_count() {
        let block = |name: &str| format!("variable \"{name}\" {{}}");
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "both.tf",
            "both.tofu",
            "j.tf.json",
            "j.tofu.json",
            "only.tf",
            "other.tf",
            "other.tofu.json",
            "t.tofu",
            "x_override.tf",
            "x_override.tofu",
        ] {
            let text = if name.ends_with("json") {
                format!("{{\"variable\": {{\"{}\": {{}}}}}}", name.replace('.', "_"))
            } else {
                block(&name.replace('.', "_"))
            };
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let names = |tool: &str| {
            let module = Module::read_for(directory.path(), &tool.parse().unwrap()).unwrap();
            module.variables.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        let terraform = "both_tf j_tf_json only_tf other_tf x_override_tf";
        assert_eq!(names("1.11.4"), terraform);
        assert_eq!(names("opentofu-1.7.1"), terraform);
        let unread = |tool: &str| {
            let module = Module::read_for(directory.path(), &tool.parse().unwrap()).unwrap();
            module.files_of_other_tool.join(" ")
        };
        let of_tofu = "both.tofu j.tofu.json other.tofu.json t.tofu x_override.tofu";
        assert_eq!(unread("opentofu-1.7.1"), of_tofu);
        assert_eq!(unread("opentofu-1.8.0"), "");
        let tofu = "both_tofu j_tofu_json only_tf other_tf other_tofu_json t_tofu x_override_tofu";
        for tool in ["opentofu-1.8.0-rc1", "opentofu-1.8.0", "opentofu-1.12.6"] {
            assert_eq!(names(tool), tofu, "{tool}");
        }
        assert_eq!(Module::read(directory.path()).unwrap().variables.len(), 10);
    }

    #[test]
    fn tests_that_the_tool_does_not_read_are_an_error_if_there_are_no_others() {
        for (files, tool, expected) in [
            (&["a.tftest.hcl"][..], "1.11.4", Ok("")),
            (&["a.tofutest.hcl"], "1.11.4", Err("a.tofutest.hcl")),
            (&["tests/a.tofutest.json"], "1.11.4", Err("tests/a.tofutest.json")),
            (&["a.tofutest.hcl"], "opentofu-1.7.9", Err("a.tofutest.hcl")),
            (&["a.tofutest.hcl"], "opentofu-1.8.0", Ok("")),
            (&["a.tofutest.hcl", "tests/b.tftest.json"], "opentofu-1.7.9", Ok("a.tofutest.hcl")),
            (&["a.tofutest.hcl", ".b.tftest.hcl"], "1.11.4", Err("a.tofutest.hcl")),
            (&[], "1.11.4", Ok("")),
        ] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::create_dir(directory.path().join("tests")).unwrap();
            for file in files {
                std::fs::write(directory.path().join(file), "").unwrap();
            }
            let found = unread_tests(directory.path(), &tool.parse().unwrap());
            let found = match found {
                Ok(files) => Ok(files.join(" ")),
                Err(ModuleError::OtherTool { what: "tests", file, .. }) => Err(file),
                Err(error) => panic!("{error}"),
            };
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected, "{files:?} {tool}");
        }
    }

    #[test]
    fn module_without_a_file_for_the_tool_is_an_error_with_both_names() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("main.tofu"), "").unwrap();
        assert!(Module::read(directory.path()).unwrap().required_versions.needs_tofu);
        let error = |tool: &str| {
            let error = Module::read_for(directory.path(), &tool.parse().unwrap()).unwrap_err();
            format!("{error}; {}", butler_base::error::Advice::advice(&error).unwrap())
        };
        let shown = directory.path().display();
        assert_eq!(
            error("1.11.4"),
            format!(
                "`{shown}` holds configuration for OpenTofu only (`main.tofu`), and the run uses terraform 1.11.4; \
                 set the run's version to one of OpenTofu from 1.8.0 on, such as `opentofu-1.8.0`"
            )
        );
        assert!(error("opentofu-1.7.1").contains("the run uses opentofu 1.7.1"));
        assert!(Module::read_for(directory.path(), &"opentofu-1.8.0".parse().unwrap()).is_ok());
    }

    #[test]
    fn versions_of_tofu_are_read_from_language_blocks() {
        let native =
            "language {\n  compatible_with {\n    opentofu = \">= 1.12\"\n    other = 1\n  }\n}";
        let json = r#"{"language": [{"compatible_with": {"opentofu": ">= 1.12"}}]}"#;
        for (name, text) in [("main.tf", native), ("main.tofu", native), ("main.tf.json", json)] {
            let module = module(&[(name, text)]);
            assert_eq!(limit(&module, Product::OpenTofu), ">= 1.12", "{name}");
            assert_eq!(limit(&module, Product::Terraform), "", "{name}");
        }
    }

    #[test]
    fn literal_state_path_of_a_local_backend_is_read() {
        let text = |text: &str| BlockSetting::Text(text.to_owned());
        for (name, content, expected) in [
            ("a.tf", "terraform {\n  backend \"local\" {\n    path = \"/a\"\n  }\n}", text("/a")),
            (
                "a.tf",
                "terraform {\n  backend \"local\" {\n    path = \"${b}\"\n  }\n}",
                BlockSetting::Computed,
            ),
            ("a.tf", "terraform {\n  backend \"local\" {}\n}", BlockSetting::Unset),
            ("a.tf.json", r#"{"terraform": [{"backend": {"local": {"path": "/a"}}}]}"#, text("/a")),
            (
                "a.tf.json",
                r#"{"terraform": {"backend": {"local": {"path": "${b}"}}}}"#,
                BlockSetting::Computed,
            ),
            (
                "a.tf.json",
                r#"{"terraform": {"backend": {"local": {"path": null}}}}"#,
                BlockSetting::Unset,
            ),
        ] {
            let block = module(&[(name, content)]).backend.unwrap();
            assert_eq!((block.kind.as_str(), block.path), ("local", expected), "{content}");
        }
        assert_eq!(module(&[("a.tf", "terraform {}")]).backend, None);
    }

    #[test]
    fn azurerm_without_a_provider_block_is_detected() {
        let uses = [
            "terraform {\n  required_providers {\n    azurerm = { source = \"hashicorp/azurerm\" }\n  }\n}",
            "resource \"azurerm_resource_group\" \"a\" {}",
            "data \"azurerm_client_config\" \"a\" {}",
        ];
        for text in uses {
            assert!(module(&[("main.tf", text)]).lacks_azurerm_provider, "{text}");
            let provider = ("p.tf.json", r#"{"provider": {"azurerm": [{"features": {}}]}}"#);
            assert!(!module(&[("main.tf", text), provider]).lacks_azurerm_provider, "{text}");
        }
        let json = ("main.tf.json", r#"{"resource": {"azurerm_subnet": {"a": {}}}}"#);
        assert!(module(&[json]).lacks_azurerm_provider);
        assert!(!module(&[("main.tf", "provider \"aws\" {}")]).lacks_azurerm_provider);
    }

    #[test]
    fn directory_with_only_terragrunt_configuration_is_detected() {
        for name in ["terragrunt.hcl", "terragrunt.hcl.json"] {
            assert!(module(&[(name, ""), (".terraform-version", "1.9.8")]).is_terragrunt_only);
            assert!(!module(&[(name, ""), ("main.tf", "")]).is_terragrunt_only);
        }
    }

    #[test]
    fn directory_without_configuration_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("README.md"), "").unwrap();
        assert!(matches!(Module::read(directory.path()), Err(ModuleError::Empty { .. })));
        let missing = directory.path().join("missing");
        assert!(matches!(Module::read(&missing), Err(ModuleError::Read { .. })));
    }

    #[test]
    fn endless_file_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("main.tf"), "variable \"a\" {}").unwrap();
        let huge = std::fs::File::create(directory.path().join("huge.tf")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let module = Module::read(directory.path()).unwrap();
        assert_eq!(module.variables.len(), 1);
    }

    #[test]
    fn non_regular_file_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("main.tf"), "").unwrap();
        std::os::unix::fs::symlink("/dev/zero", directory.path().join("endless.tf")).unwrap();
        Module::read(directory.path()).unwrap();
    }
}
