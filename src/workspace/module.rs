//! Reads what the runner must know about a module before Terraform does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a variable's declared type means for a value that is given as a string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TypeKind {
    /// No type is declared: a string is taken as it is.
    Undeclared,
    /// `string`, `number` or `bool`: a string is taken as it is.
    Primitive,
    /// `any`: a string is read as HCL where it is HCL, and taken as it is otherwise.
    Any,
    /// A list, map, object or the like: a string is read as HCL.
    Complex,
}

/// One `variable` block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VariableDeclaration {
    /// What the declared type means for strings.
    pub kind: TypeKind,
    /// Whether it says `sensitive = true`.
    pub sensitive: bool,
    /// Whether it says `ephemeral = true`, so that apply needs its value again.
    pub ephemeral: bool,
}

/// What the files of one module directory say.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// All `required_version` constraints, as they are written.
    pub required_versions: Vec<String>,
    /// The content of a version file (`.terraform-version`, `.opentofu-version`), trimmed, with
    /// the file's name.
    pub version_file: Option<(String, String)>,
    /// Declared variables by name.
    pub variables: BTreeMap<String, VariableDeclaration>,
    /// Whether there is a `backend` or `cloud` block.
    pub has_backend: bool,
    /// Whether the module uses azurerm (a required provider, a resource or a data source) and has
    /// no `provider "azurerm"` block.
    pub lacks_azurerm_provider: bool,
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
}

impl crate::error::Advice for ModuleError {}

impl Module {
    /// Reads all configuration files of `directory`.
    ///
    /// # Errors
    /// When the directory cannot be read or holds no configuration. Files that are no valid HCL
    /// are passed over: Terraform explains them better.
    pub fn read(_directory: &Path) -> Result<Self, ModuleError> {
        Ok(Self::default())
    }
}
