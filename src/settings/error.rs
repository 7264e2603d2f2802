//! Errors in settings: one line that names the flags and the variables.

use std::path::PathBuf;

use super::setting::{ENDPOINT, TOKEN};
use super::{Setting, Variable};
use butler_base::error::Advice;

/// A setting that is missing or has an unusable value.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A required setting is missing.
    #[error("no {} is given ({setting})", setting.noun)]
    Missing {
        /// The setting.
        setting: &'static Setting,
    },
    /// A value that cannot be used.
    #[error("{problem} ({setting})")]
    Unusable {
        /// The setting.
        setting: &'static Setting,
        /// The reason. It contains the value only if that cannot be a secret.
        problem: String,
    },
    /// A variable without a flag that has an unusable value.
    #[error("{problem} ({})", variable.name)]
    InVariable {
        /// The variable.
        variable: &'static Variable,
        /// The reason. It never contains the value.
        problem: String,
    },
    /// A file or directory that a setting names cannot be used.
    #[error("cannot use {} ({setting})", super::parse::shown(&path.to_string_lossy()))]
    Path {
        /// The setting.
        setting: &'static Setting,
        /// The path in the setting, or its default.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The data directory has no token, and no other file with one is given.
    #[error("no server has used the data directory {}: it has no `admin.token`", super::parse::shown(&data.to_string_lossy()))]
    NoServer {
        /// The data directory.
        data: PathBuf,
    },
    /// No server uses the data directory now, so its token must not be sent anywhere.
    #[error("no server is running with the data directory {}", super::parse::shown(&data.to_string_lossy()))]
    NotRunning {
        /// The data directory.
        data: PathBuf,
    },
    /// Two settings that exclude each other.
    #[error("only one of these can be given: {first} and {second}")]
    Conflict {
        /// One of them.
        first: &'static Setting,
        /// The other one.
        second: &'static Setting,
    },
    /// A flag that has no effect on the requested kind of run.
    #[error("{flag} cannot be used with {mode}")]
    OutOfPlace {
        /// The flag.
        flag: &'static str,
        /// The kind of run, in words.
        mode: &'static str,
    },
}

impl Advice for SettingsError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { setting } if **setting == ENDPOINT => Some(
                "to run without a registry, use `butler-runner plan DIR` or `butler-runner demo`"
                    .to_owned(),
            ),
            Self::Missing { setting } if **setting == TOKEN => Some(
                "set it, or name a file that contains it (--token-file, BUTLER_TOKEN_FILE)"
                    .to_owned(),
            ),
            // An example of a token would encourage users to write a real one into an argument.
            Self::Unusable { setting, .. } if **setting == TOKEN => None,
            Self::Missing { setting } | Self::Unusable { setting, .. } => {
                Some(format!("for example {} {}", setting.flags[0], setting.example))
            }
            Self::NoServer { .. } => Some(
                "start `butler-runner serve` with this directory, give that of the server \
                 (--data), or give its address and a file with a token for it (--server, \
                 --server-token-file)"
                    .to_owned(),
            ),
            Self::NotRunning { .. } => Some(
                "start `butler-runner serve` with this directory, or give the address of the server \
                 (--server)"
                    .to_owned(),
            ),
            Self::InVariable { .. }
            | Self::Path { .. }
            | Self::Conflict { .. }
            | Self::OutOfPlace { .. } => None,
        }
    }
}
