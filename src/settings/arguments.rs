//! The arguments of the command line by setting, independent of their parser.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::Setting;

/// The flags that were given. A setting without a flag gets its value from its variables.
#[derive(Clone, Default)]
pub struct Arguments {
    values: BTreeMap<&'static str, Vec<OsString>>,
    verbosity: i16,
}

impl Arguments {
    /// Adds a value for `setting`, after its other values.
    pub fn add(&mut self, setting: &'static Setting, value: impl Into<OsString>) {
        self.values.entry(setting.id()).or_default().push(value.into());
    }

    /// The same arguments with one more value.
    #[must_use]
    pub fn with(mut self, setting: &'static Setting, value: impl Into<OsString>) -> Self {
        self.add(setting, value);
        self
    }

    /// Sets the number of `-v` minus the number of `-q`.
    pub fn set_verbosity(&mut self, verbosity: i16) {
        self.verbosity = verbosity;
    }

    /// The number of `-v` minus the number of `-q`.
    #[must_use]
    pub fn verbosity(&self) -> i16 {
        self.verbosity
    }

    /// All values of a setting, in the order of the command line.
    #[must_use]
    pub fn values(&self, setting: &Setting) -> &[OsString] {
        self.values.get(setting.id()).map_or(&[], Vec::as_slice)
    }

    /// The value of a setting that has only one.
    #[must_use]
    pub fn value(&self, setting: &Setting) -> Option<&OsStr> {
        self.values(setting).first().map(OsString::as_os_str)
    }

    /// Adds the arguments of `other` after these.
    pub fn merge(&mut self, other: Self) {
        for (id, values) in other.values {
            self.values.entry(id).or_default().extend(values);
        }
        self.verbosity += other.verbosity;
    }
}

/// Names only: values may be secret.
impl std::fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.values.keys()).finish()
    }
}
