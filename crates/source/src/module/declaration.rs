//! The declarations of a module that the runner needs.

use std::collections::BTreeMap;

use secrecy::SecretString;

use butler_protocol::spec::VersionFile;

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
    /// A list, map, object, set or tuple: a string is read as HCL.
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

/// The declarations in the files of one module directory.
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
