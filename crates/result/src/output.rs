//! What a module returns.

use super::Shown;

/// One output of the module, as it may be shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Output {
    /// Its name, masked.
    pub name: String,
    /// Its value on one line: sensitive where the tool says so, or where it holds a secret.
    pub value: Shown,
}
