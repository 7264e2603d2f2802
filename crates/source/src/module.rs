//! Reads what the runner must know about a module before Terraform does.
//!
//! Only the files of one directory count, as for Terraform: `*.tf`, `*.tofu` and their `.json`
//! forms, override files last. A file that cannot be parsed is passed over, because Terraform
//! explains it better; nothing here is ever the reason why a run fails on valid configuration.
//! Of an `x.tf` and an `x.tofu` both are read, although `OpenTofu` only reads the latter.

mod files;
mod json;
mod native;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use files::ConfigurationFile;
use secrecy::SecretString;

use crate::version_files;
use butler_protocol::spec::VersionFile;

pub use files::{override_files, read as read_text};

/// Whether `directory` has files that Terraform, `OpenTofu` or Terragrunt would read.
///
/// # Errors
/// When it cannot be listed.
pub fn has_configuration(directory: &Path) -> std::io::Result<bool> {
    Ok(files::any(directory)? || files::is_terragrunts(directory))
}

/// What a variable's declared type means for a value that is given as a string.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TypeKind {
    /// No type is declared: a string is taken as it is.
    #[default]
    Undeclared,
    /// `string`, `number` or `bool`: a string is taken as it is.
    Primitive,
    /// `any`: a string is read as HCL where it is HCL, and taken as it is otherwise.
    Any,
    /// A list, map, object or the like: a string is read as HCL.
    Complex,
}

/// One `variable` block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VariableDeclaration {
    /// What the declared type means for strings.
    pub kind: TypeKind,
    /// Whether it says `sensitive = true`.
    pub sensitive: bool,
    /// Whether it says `ephemeral = true`, so that apply needs its value again.
    pub ephemeral: bool,
    /// Whether it has a `default`, even `null`.
    pub has_default: bool,
}

/// A module's `backend` block, or its `cloud` block as one of the type `cloud`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BackendBlock {
    /// The backend's type.
    pub kind: String,
    /// Where a local backend keeps the state.
    pub path: BlockSetting,
    /// Where a local backend keeps the states of other workspaces than the default one.
    pub workspace_dir: BlockSetting,
}

/// A setting in a block, as far as it can be read without evaluating anything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum BlockSetting {
    /// It is not there.
    #[default]
    Unset,
    /// A text that is written out.
    Text(String),
    /// It has to be computed.
    Computed,
}

/// What the files of one module directory say.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// All `required_version` constraints, as they are written; an override file's replace those
    /// before it.
    pub required_versions: Vec<String>,
    /// The version files that speak for it, the one that counts most first.
    pub version_files: Vec<VersionFile>,
    /// Declared variables by name.
    pub variables: BTreeMap<String, VariableDeclaration>,
    /// Defaults of those that are sensitive, as JSON texts by the names of the variables: those
    /// in HCL text by text, number by number.
    pub defaults: Vec<(String, SecretString)>,
    /// Its `backend` or `cloud` block; an override file's replaces the one before it.
    pub backend: Option<BackendBlock>,
    /// Whether the module uses azurerm (a required provider, a resource or a data source) and has
    /// no `provider "azurerm"` block.
    pub lacks_azurerm_provider: bool,
    /// Whether a file was passed over, so that it is not known what it says.
    pub is_incomplete: bool,
    /// Whether the directory holds no configuration but Terragrunt's, which may get it from elsewhere.
    pub is_terragrunt_only: bool,
}

/// A module's files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The operating system refuses.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// There is no configuration in the directory.
    #[error("`{}` holds no Terraform configuration", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// There is none but Terragrunt's.
    #[error("`{}` holds Terragrunt's configuration only", path.display())]
    TerragruntOnly {
        /// The directory.
        path: PathBuf,
    },
}

impl butler_base::error::Advice for ModuleError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::Empty { .. } => {
                Some("check that the working directory names the module's own directory".to_owned())
            }
            Self::TerragruntOnly { .. } => Some(
                "name a version of Terragrunt, such as `terragrunt-1.0.0`, as the run's version"
                    .to_owned(),
            ),
        }
    }
}

impl Module {
    /// Reads all configuration files of `directory`.
    ///
    /// # Errors
    /// When the directory cannot be read or holds no configuration. Files that are no valid HCL
    /// are passed over: Terraform explains them better.
    pub fn read(directory: &Path) -> Result<Self, ModuleError> {
        let files = ConfigurationFile::list(directory)?;
        let is_terragrunt_only = files.is_empty() && files::is_terragrunts(directory);
        if files.is_empty() && !is_terragrunt_only {
            return Err(ModuleError::Empty { path: directory.to_owned() });
        }
        let mut findings = Findings::default();
        for file in &files {
            let text = files::read(&file.path)?;
            findings.constraints_are_replaced = file.is_override;
            let understood = text.is_some_and(|text| {
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                if file.is_json {
                    json::read(text, &mut findings)
                } else {
                    native::read(text, &mut findings)
                }
            });
            findings.module.is_incomplete |= !understood;
        }
        let mut module = findings.module;
        module.lacks_azurerm_provider =
            findings.uses.contains("azurerm") && !findings.configured_providers.contains("azurerm");
        let Self { variables, defaults, .. } = &mut module;
        defaults.retain(|(name, _)| variables.get(name).is_some_and(|found| found.sensitive));
        module.version_files = version_files(directory)?;
        module.is_terragrunt_only = is_terragrunt_only;
        Ok(module)
    }
}

/// What the two syntaxes have in common.
#[derive(Default)]
struct Findings {
    module: Module,
    /// Whether the file that is read now is an override file that has not yet said
    /// `required_version`.
    constraints_are_replaced: bool,
    /// Names of providers with a `provider` block.
    configured_providers: BTreeSet<String>,
    /// Names of providers that a requirement, resource or data source asks for.
    uses: BTreeSet<String>,
}

/// What one `variable` block says; an override file may leave the rest as it was.
#[derive(Default)]
struct PartialDeclaration {
    kind: Option<TypeKind>,
    sensitive: Option<bool>,
    ephemeral: Option<bool>,
    has_default: bool,
    /// What is written out in its default, as JSON texts.
    defaults: Vec<SecretString>,
}

impl Findings {
    fn required_version(&mut self, constraint: &str) {
        if std::mem::take(&mut self.constraints_are_replaced) {
            self.module.required_versions.clear();
        }
        self.module.required_versions.push(constraint.to_owned());
    }

    fn backend(&mut self, block: BackendBlock) {
        self.module.backend = Some(block);
    }

    fn required_provider(&mut self, name: &str) {
        self.uses.insert(name.to_owned());
    }

    /// A resource, data source or ephemeral resource: its provider is the first word of its type.
    fn resource(&mut self, kind: &str) {
        let provider = kind.split('_').next().unwrap_or(kind);
        self.uses.insert(provider.to_owned());
    }

    fn provider(&mut self, name: &str) {
        self.configured_providers.insert(name.to_owned());
    }

    fn variable(&mut self, name: &str, said: PartialDeclaration) {
        let declaration = self.module.variables.entry(name.to_owned()).or_default();
        declaration.kind = said.kind.unwrap_or(declaration.kind);
        declaration.sensitive = said.sensitive.unwrap_or(declaration.sensitive);
        declaration.ephemeral = said.ephemeral.unwrap_or(declaration.ephemeral);
        declaration.has_default |= said.has_default;
        let defaults = said.defaults.into_iter().map(|default| (name.to_owned(), default));
        self.module.defaults.extend(defaults);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(files: &[(&str, &str)]) -> Module {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        Module::read(directory.path()).unwrap()
    }

    #[test]
    fn type_decides_how_a_string_is_taken() {
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
    fn override_file_changes_only_what_it_says() {
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
        assert_eq!(module.required_versions, ["~> 1.9"]);
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
    fn every_constraint_counts_and_broken_files_are_passed_over() {
        let module = module(&[
            ("broken.tf", "terraform {"),
            ("broken.tf.json", "{"),
            ("bom.tf", "\u{feff}terraform {\n  required_version = \">= 1.0\"\n  cloud {}\n}"),
            ("z.tofu", "terraform {\n  required_version = \"< 2\"\n}"),
            (".hidden.tf", "variable \"hidden\" {}"),
            ("main.tf~", "variable \"backup\" {}"),
        ]);
        assert_eq!(module.required_versions, [">= 1.0", "< 2"]);
        assert_eq!(module.backend.unwrap().kind, "cloud");
        assert!(module.variables.is_empty());
    }

    #[test]
    fn where_a_local_backend_keeps_its_state_is_read_where_it_is_written_out() {
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
    fn azurerm_without_a_provider_block_is_noticed() {
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
    fn directory_with_terragrunts_configuration_only_is_known_as_that() {
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
    fn file_without_end_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("main.tf"), "variable \"a\" {}").unwrap();
        let huge = std::fs::File::create(directory.path().join("huge.tf")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let module = Module::read(directory.path()).unwrap();
        assert_eq!(module.variables.len(), 1);
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("main.tf"), "").unwrap();
        std::os::unix::fs::symlink("/dev/zero", directory.path().join("endless.tf")).unwrap();
        Module::read(directory.path()).unwrap();
    }
}
