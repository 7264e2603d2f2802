//! Collects the declarations of all files of a module.

use std::collections::BTreeSet;

use secrecy::SecretString;

use super::declaration::{BackendBlock, Module, TypeKind};

/// The declarations found so far, in either syntax.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) module: Module,
    /// Whether the current file is an override file, and its first `required_version` replaces the
    /// earlier ones.
    pub(super) constraints_are_replaced: bool,
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
    pub(super) fn required_version(&mut self, constraint: &str) {
        if std::mem::take(&mut self.constraints_are_replaced) {
            self.module.required_versions.clear();
        }
        self.module.required_versions.push(constraint.to_owned());
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
        declaration.sensitive = declared.sensitive.unwrap_or(declaration.sensitive);
        declaration.ephemeral = declared.ephemeral.unwrap_or(declaration.ephemeral);
        declaration.has_default |= declared.has_default;
        let defaults = declared.defaults.into_iter().map(|default| (name.to_owned(), default));
        self.module.defaults.extend(defaults);
    }
}
