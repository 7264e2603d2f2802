//! Errors of the cache, and what to do about them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_base::trust::Distrust;

/// A duration for people: what is left of a limit is a little less than the limit that was set.
fn rounded(duration: Duration) -> humantime::FormattedDuration {
    const STEP: u64 = 100;
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(milliseconds.div_ceil(STEP) * STEP))
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Something in the cache cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Something cannot be written to the cache.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// What.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Another process installs or removes the version, and is not waited for any longer.
    #[error("{}{holder}", match waited {
        Some(waited) => format!("timed out after {} while waiting for ", rounded(*waited)),
        None => "not waiting for ".to_owned(),
    })]
    Busy {
        /// Who, what and since when.
        holder: String,
        /// How long it was waited for.
        waited: Option<Duration>,
    },
    /// Another process holds a lock that is only ever held for a moment.
    #[error("another process has held `{}` for {}", path.display(), humantime::format_duration(*waited))]
    Held {
        /// The file.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Another user could have written it.
    #[error("not using `{}`: {fault}", path.display())]
    Unsafe {
        /// What.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
}

impl CacheError {
    pub(in crate::tool) fn of(path: &Path, distrust: Distrust) -> Self {
        let path = path.to_owned();
        match distrust {
            Distrust::Read(source) => Self::Read { path, source },
            Distrust::Unsafe(fault) => Self::Unsafe { path, fault },
        }
    }
}

impl butler_base::error::Advice for CacheError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } | Self::Write { .. } => {
                "name a writable directory with enough free space with --cache-dir".to_owned()
            }
            Self::Busy { waited: Some(_), .. } => {
                "end that process, or increase --tool-timeout".to_owned()
            }
            Self::Held { path, .. } => {
                format!("end the process that holds it (`fuser {}`), and try again", path.display())
            }
            Self::Busy { waited: None, .. } => "retry when that process has ended".to_owned(),
            Self::Unsafe { path, .. } => format!(
                "remove `{}`, or choose another --cache-dir: it must belong to you or to root, and other users must not have write access",
                path.display()
            ),
        })
    }
}
