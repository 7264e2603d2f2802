//! The outputs of a module.

use super::Shown;

/// One output of the module, for display.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Output {
    /// Its name, redacted.
    pub name: String,
    /// Its value on one line; hidden if the tool marks it as sensitive or it contains a secret.
    pub value: Shown,
}
