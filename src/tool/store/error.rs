//! Errors of the cache, and what to do about them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_base::trust::Distrust;

/// Rounds up to 100 ms: the remaining time is slightly less than the limit that the user set.
fn round_up(duration: Duration) -> humantime::FormattedDuration {
    const STEP: u64 = 100;
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(milliseconds.div_ceil(STEP) * STEP))
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A file in the cache cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file in the cache cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process installs or removes the version.
    #[error("{}{holder}", match waited {
        Some(waited) => format!("timed out after {} while waiting for ", round_up(*waited)),
        None => "not waiting for ".to_owned(),
    })]
    Busy {
        /// The description of that process.
        holder: String,
        /// How long this process waited.
        waited: Option<Duration>,
    },
    /// Another process holds a lock for longer than a write takes.
    #[error("another process has held `{}` for {}", path.display(), humantime::format_duration(*waited))]
    Held {
        /// The file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// Another user could have written the file.
    #[error("not using `{}`: {fault}", path.display())]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// The problem.
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
