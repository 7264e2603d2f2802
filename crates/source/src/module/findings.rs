//! Collects the declarations of all files of a module.

use std::collections::BTreeSet;
use std::path::Path;

use secrecy::SecretString;

use super::declaration::{BackendBlock, Module, TypeKind};
use super::files::{ConfigurationFile, FileText};
use crate::unparsed;
use butler_protocol::spec::{ConstraintPlace, RequiredVersion};

/// The declarations found so far, in either syntax.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) module: Module,
    /// The current file, for the constraints in it.
    pub(super) file: Option<ConfigurationFile>,
    /// Names of providers with a `provider` block.
    pub(super) configured_providers: BTreeSet<String>,
    /// Names of providers in requirements, resources and data sources.
    pub(super) used_providers: BTreeSet<String>,
}

/// The settings of one `variable` block. Unset settings of an override file keep their values.
#[derive(Default)]
pub(super) struct PartialDeclaration {
    pub(super) kind: Option<TypeKind>,
    pub(super) sensitive: Option<bool>,
    pub(super) ephemeral: Option<bool>,
    pub(super) has_default: bool,
    /// The literals of its default, as JSON texts.
    pub(super) defaults: Vec<SecretString>,
}

impl Findings {
    /// Records a file that cannot be parsed, and what can be a default in it.
    pub(super) fn skip(&mut self, path: &Path, text: &FileText) {
        let module = &mut self.module;
        module.is_incomplete = true;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match text {
            FileText::Whole(text) | FileText::Large(text) => {
                let defaults = unparsed::values(unparsed::lines_of_defaults(text));
                module.unparsed_defaults.extend(defaults.into_iter().map(SecretString::from));
                module.unparsed_files.push(name);
            }
            FileText::TooLarge => module.unread_files.push(name),
        }
    }

    /// `required_version` in a block `terraform`.
    pub(super) fn required_version(&mut self, constraint: &str) {
        let is_of_tofu = self.file.as_ref().is_some_and(|file| file.is_of_tofu);
        let place =
            if is_of_tofu { ConstraintPlace::TofuFile } else { ConstraintPlace::TerraformFile };
        self.constraint(constraint, place);
    }

    /// A `required_version` that is not a literal.
    pub(super) fn unread_required_version(&mut self) {
        let file = self.file.as_ref().map(|file| file.name.clone()).unwrap_or_default();
        self.module.unread_required_versions.push(file);
    }

    /// `opentofu` in a block `compatible_with` of a block `language`.
    pub(super) fn compatible_with_tofu(&mut self, constraint: &str) {
        self.constraint(constraint, ConstraintPlace::Language);
    }

    fn constraint(&mut self, text: &str, place: ConstraintPlace) {
        let file = self.file.as_ref();
        self.module.required_versions.constraints.push(RequiredVersion {
            text: text.to_owned(),
            place,
            file: file.map(|file| file.name.clone()).unwrap_or_default(),
            is_override: file.is_some_and(|file| file.is_override),
            is_replaced: file.is_some_and(|file| file.is_replaced),
        });
    }

    pub(super) fn backend(&mut self, block: BackendBlock) {
        self.module.backend = Some(block);
    }

    pub(super) fn required_provider(&mut self, name: &str) {
        self.used_providers.insert(name.to_owned());
    }

    /// A resource, data source or ephemeral resource: its provider is the first word of its type.
    pub(super) fn resource(&mut self, kind: &str) {
        let provider = kind.split('_').next().unwrap_or(kind);
        self.used_providers.insert(provider.to_owned());
    }

    pub(super) fn provider(&mut self, name: &str) {
        self.configured_providers.insert(name.to_owned());
    }

    pub(super) fn variable(&mut self, name: &str, declared: PartialDeclaration) {
        let declaration = self.module.variables.entry(name.to_owned()).or_default();
        declaration.kind = declared.kind.unwrap_or(declaration.kind);
        // Two blocks in other files are an error, in which Terraform quotes both.
        let flag = |known: bool, declared: Option<bool>| match declared {
            Some(flag) if self.file.as_ref().is_some_and(|file| file.is_override) => flag,
            declared => known || declared == Some(true),
        };
        declaration.sensitive = flag(declaration.sensitive, declared.sensitive);
        declaration.ephemeral = flag(declaration.ephemeral, declared.ephemeral);
        declaration.has_default |= declared.has_default;
        let defaults = declared.defaults.into_iter().map(|default| (name.to_owned(), default));
        self.module.defaults.extend(defaults);
    }
}
