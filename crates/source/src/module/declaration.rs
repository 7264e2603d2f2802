//! The declarations of a module that the runner needs.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::remote_states::LocalStateBlock;
use crate::version_files::VersionFiles;
use butler_protocol::spec::RequiredVersions;

/// How the declared type of a variable parses a value that is given as a string.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TypeKind {
    /// No type is declared: the string is the value.
    #[default]
    Undeclared,
    /// `string`, `number` or `bool`: the string is the value.
    Primitive,
    /// `any`: a string that can only be HCL is parsed as HCL, otherwise the string is the value.
    Any,
    /// A list, map, object, set or tuple: the string is parsed as HCL.
    Complex,
}

/// One `variable` block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VariableDeclaration {
    /// How the declared type parses strings.
    pub kind: TypeKind,
    /// Whether it has `sensitive` with anything but a literal `false` or `null`.
    pub sensitive: bool,
    /// The same for `ephemeral`: apply needs its value again.
    pub ephemeral: bool,
    /// Whether it has a `default`, even `null`.
    pub has_default: bool,
}

impl VariableDeclaration {
    /// Whether its value must not be shown: Terraform hides both kinds.
    #[must_use]
    pub const fn is_secret(self) -> bool {
        self.sensitive || self.ephemeral
    }
}

/// A module's `backend` block, or its `cloud` block as one of the type `cloud`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BackendBlock {
    /// The backend's type.
    pub kind: String,
    /// The state file of a local backend.
    pub path: BlockSetting,
    /// The directory of a local backend for the states of other workspaces.
    pub workspace_dir: BlockSetting,
}

/// A setting in a block, read without evaluation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum BlockSetting {
    /// It is not set.
    #[default]
    Unset,
    /// A literal string.
    Text(String),
    /// An expression that must be evaluated.
    Computed,
}

/// The declarations in the files of one module directory.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct Module {
    /// The constraints on versions of tools in the files that were read.
    pub required_versions: RequiredVersions,
    /// The files whose `required_version` is computed, so that only Terraform can read it.
    pub unread_required_versions: Vec<String>,
    /// Its version files.
    pub version_files: VersionFiles,
    /// Declared variables by name.
    pub variables: BTreeMap<String, VariableDeclaration>,
    /// Defaults of those that are secret, as JSON texts by the names of the variables: those
    /// in HCL text by text, number by number.
    pub defaults: Vec<(String, SecretString)>,
    /// What can be a default of a variable in the skipped files.
    pub unparsed_defaults: Vec<SecretString>,
    /// Its `backend` or `cloud` block; an override file's replaces the one before it.
    pub backend: Option<BackendBlock>,
    /// Whether it has an `encryption` block, in which variables of the run can be used.
    pub has_encryption: bool,
    /// Local states of other modules that its HCL files read.
    pub local_states: Vec<LocalStateBlock>,
    /// Whether the module uses azurerm (a required provider, a resource or a data source) and has
    /// no `provider "azurerm"` block.
    pub lacks_azurerm_provider: bool,
    /// Whether a file was skipped, so that declarations may be missing.
    pub is_incomplete: bool,
    /// The names of the files that were skipped because they cannot be parsed.
    pub unparsed_files: Vec<String>,
    /// The names of the files that were skipped because they are too large to be read.
    pub unread_files: Vec<String>,
    /// The names of the files that another tool reads, and the tool of [`Self::read_for`] does not.
    pub files_of_other_tool: Vec<String>,
    /// Whether the directory contains only Terragrunt's configuration, which may name another source.
    pub is_terragrunt_only: bool,
}

impl Module {
    /// Whether the value of this variable must not be shown. Every value counts if a file was skipped,
    /// because that file may declare the variable.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        let is_known = self.unparsed_files.is_empty() && self.unread_files.is_empty();
        !is_known || self.variables.get(name).is_some_and(|declared| declared.is_secret())
    }
}
