//! What is wrong with a setting: one line that names its flags and its variables.

use std::path::PathBuf;

use super::setting::{ENDPOINT, TOKEN};
use super::{Setting, Variable};
use butler_base::error::Advice;

/// A setting that is missing or cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A required setting is missing.
    #[error("no {} is given ({setting})", setting.noun)]
    Missing {
        /// The setting.
        setting: &'static Setting,
    },
    /// A value that cannot be.
    #[error("{problem} ({setting})")]
    Impossible {
        /// The setting.
        setting: &'static Setting,
        /// What is wrong with it; shows the value only where it cannot be secret.
        problem: String,
    },
    /// A variable that has no flag, with a value that cannot be.
    #[error("{problem} ({})", variable.name)]
    Foreign {
        /// The variable.
        variable: &'static Variable,
        /// What is wrong with it; shows nothing of the value.
        problem: String,
    },
    /// A file or directory that a setting names cannot be used.
    #[error("cannot use {} ({setting})", super::parse::shown(&path.to_string_lossy()))]
    Path {
        /// The setting.
        setting: &'static Setting,
        /// What it names, or what its default is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: std::io::Error,
    },
    /// Two settings that exclude each other.
    #[error("only one of these can be given: {first} and {second}")]
    Conflict {
        /// One of them.
        first: &'static Setting,
        /// The other one.
        second: &'static Setting,
    },
    /// A flag that has no meaning for the kind of run that is asked for.
    #[error("{flag} does not go with {mode}")]
    OutOfPlace {
        /// The flag.
        flag: &'static str,
        /// What kind of run is asked for.
        mode: &'static str,
    },
}

impl Advice for SettingsError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { setting } if **setting == ENDPOINT => Some(
                "without a registry: `butler-runner plan DIR`, or `butler-runner demo`".to_owned(),
            ),
            Self::Missing { setting } if **setting == TOKEN => Some(
                "also possible: a file that holds it (--token-file, BUTLER_TOKEN_FILE)".to_owned(),
            ),
            // An example of a token would invite to put a real one into an argument.
            Self::Impossible { setting, .. } if **setting == TOKEN => None,
            Self::Missing { setting } | Self::Impossible { setting, .. } => {
                Some(format!("for example {} {}", setting.flags[0], setting.example))
            }
            Self::Foreign { .. }
            | Self::Path { .. }
            | Self::Conflict { .. }
            | Self::OutOfPlace { .. } => None,
        }
    }
}
