//! The states of layers that are kept in the data directory.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::model::LayerName;

/// The state of a layer cannot be given to another one.
#[derive(Debug, thiserror::Error)]
pub(super) enum MoveError {
    /// Both have files.
    #[error(
        "cannot move the state of the layer `{from}` to `{to}`, because `{}` exists; find out which of them \
         is the state of the layer, and move the other directory away", path.display()
    )]
    Exists {
        /// The earlier name.
        from: LayerName,
        /// The layer.
        to: LayerName,
        /// Its directory.
        path: PathBuf,
    },
    /// The operating system refused it.
    #[error("cannot move the state of the layer `{from}` to `{to}`: {source}")]
    Failed {
        /// The earlier name.
        from: LayerName,
        /// The layer.
        to: LayerName,
        /// The cause.
        source: io::Error,
    },
}

/// Moves the state of `from` to `to`, in one step that is on the disk afterwards. Without a state, or if it
/// was moved before, nothing happens. A state of `to` is never replaced.
pub(super) fn rename(states: &Path, from: &LayerName, to: &LayerName) -> Result<(), MoveError> {
    let (old, path) = (states.join(from.as_str()), states.join(to.as_str()));
    let moved = match std::fs::rename(&old, &path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    // Also if it was moved before a crash.
    let moved = moved.and_then(|()| fs::File::open(states)?.sync_all());
    moved.map_err(|source| {
        let (from, to) = (from.clone(), to.clone());
        match source.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                MoveError::Exists { from, to, path }
            }
            _ => MoveError::Failed { from, to, source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_moved_once_and_never_replaces_another_one() {
        let states = tempfile::tempdir().unwrap();
        let state = |layer: &str| states.path().join(layer).join("terraform.tfstate");
        let write = |layer: &str, text: &str| {
            std::fs::create_dir_all(states.path().join(layer)).unwrap();
            std::fs::write(state(layer), text).unwrap();
        };
        let rename =
            |from: &str| rename(states.path(), &from.parse().unwrap(), &"new".parse().unwrap());
        rename("without").unwrap();
        write("old", "1");
        // An attempt that did not come far can have left it.
        std::fs::create_dir(states.path().join("new")).unwrap();
        rename("old").unwrap();
        rename("old").unwrap();
        assert_eq!(std::fs::read_to_string(state("new")).unwrap(), "1");
        assert!(!states.path().join("old").exists());
        write("old", "2");
        let error = rename("old").unwrap_err().to_string();
        assert!(error.contains("cannot move the state of the layer `old` to `new`"), "{error}");
        assert_eq!(std::fs::read_to_string(state("new")).unwrap(), "1");
        assert_eq!(std::fs::read_to_string(state("old")).unwrap(), "2");
    }
}
