//! The notes of running processes about their activity on a version: one file each in
//! `.VERSION.users`.
//!
//! The writer of a note locks it for as long as it is valid, and the kernel releases the lock when
//! the process ends. So a note that can be locked belongs to a dead process: its content is
//! ignored, and the process that finds it removes it. A note gets its final name when it is locked
//! and complete.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::tool::store::cache::{Cache, UNFINISHED_NOTE, USED};
use crate::tool::store::history::{self, ToolOperation};
use crate::tool::store::record::rfc3339;
use butler_base::platform::fs::{is_at, try_lock, try_lock_shared};
use butler_protocol::spec::ToolRequest;

/// How often a note is reopened that was rewritten at that moment; each is rewritten once.
const REWRITTEN: usize = 3;

/// The activity of a process on a version.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::tool) enum Activity {
    /// It runs the executable, or is about to.
    Use,
    /// It waits until another process has installed or removed the version.
    Wait,
    /// It installs the version.
    Install,
    /// It removes the version.
    Uninstall,
}

impl Activity {
    /// The operation, if the process changes the version.
    pub(in crate::tool) const fn operation(self) -> Option<ToolOperation> {
        match self {
            Self::Install => Some(ToolOperation::Install),
            Self::Uninstall => Some(ToolOperation::Uninstall),
            Self::Use | Self::Wait => None,
        }
    }
}

impl From<ToolOperation> for Activity {
    fn from(operation: ToolOperation) -> Self {
        match operation {
            ToolOperation::Install => Self::Install,
            ToolOperation::Uninstall => Self::Uninstall,
        }
    }
}

/// The content of a note.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tool) struct NoteContent {
    pub(in crate::tool) doing: Activity,
    pub(in crate::tool) pid: u32,
    pub(in crate::tool) owner: String,
    /// By RFC 3339.
    pub(in crate::tool) since: String,
    /// The end of the drain period of a version that is to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::tool) until: Option<String>,
}

impl NoteContent {
    /// The note of `owner`, in this process, with the present time.
    pub(in crate::tool) fn now(doing: Activity, owner: &str) -> Self {
        let (pid, since) = (std::process::id(), rfc3339(SystemTime::now()));
        Self { doing, pid, owner: owner.to_owned(), since, until: None }
    }
}

/// A note that holds until this is dropped or the process ends.
#[derive(Debug)]
pub(in crate::tool) struct Note {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Drop for Note {
    fn drop(&mut self) {
        // Before its lock ends, so that no process takes it for the note of a dead one.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a note about `request`; `None` if it cannot be written or locked.
pub(in crate::tool) fn write(
    cache: &Cache,
    request: &ToolRequest,
    content: &NoteContent,
) -> Option<Note> {
    match try_write(cache, request, content) {
        Ok(note) => Some(note),
        Err(error) => {
            tracing::debug!(%request, %error, doing = ?content.doing, "cannot record the operation on this version");
            None
        }
    }
}

fn try_write(cache: &Cache, request: &ToolRequest, content: &NoteContent) -> io::Result<Note> {
    cache.create_users_directory(request)?;
    let path = cache.users(request).join(format!("{}-{:016x}", content.pid, fastrand::u64(..)));
    let file = write_locked(&path, content)?;
    Ok(Note { path, file })
}

fn write_locked(path: &Path, content: &NoteContent) -> io::Result<File> {
    let directory = path.parent().unwrap_or(path);
    let mut unfinished = tempfile::Builder::new().prefix(UNFINISHED_NOTE).tempfile_in(directory)?;
    try_lock(unfinished.as_file())?;
    unfinished.write_all(&serde_json::to_vec(content)?)?;
    unfinished.persist(path).map_err(|error| error.error)
}

impl Note {
    /// Replaces the content atomically.
    pub(in crate::tool) fn rewrite(&mut self, content: &NoteContent) {
        match write_locked(&self.path, content) {
            Ok(file) => self.file = file,
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "cannot rewrite a note");
            }
        }
    }
}

/// The state of a note, by its lock.
#[derive(Debug)]
enum NoteState {
    /// Its process lives.
    Living(Option<NoteContent>),
    /// Its process is dead.
    Dead(Option<NoteContent>),
    /// Its process is running, and has replaced the note since it was opened.
    Replaced,
    /// Unknown: the file system does not support locks.
    Unknown,
}

/// Reads `file`, which was opened at `path`. A process that rewrites its note keeps the lock on the
/// old file until the new one is in place.
fn read_state(file: &File, path: &Path) -> NoteState {
    let lock = try_lock_shared(file);
    let content = serde_json::from_reader(file).ok();
    match lock {
        Err(TryLockError::WouldBlock) => NoteState::Living(content),
        Ok(()) if is_at(file, path) => NoteState::Dead(content),
        Ok(()) => NoteState::Replaced,
        Err(TryLockError::Error(_)) => NoteState::Unknown,
    }
}

/// The notes of living processes about `request`, the oldest first. Removes the notes of dead
/// processes, and adds their unfinished installations and removals to the history as failed.
pub(in crate::tool) fn read(cache: &Cache, request: &ToolRequest) -> Vec<NoteContent> {
    let entries = std::fs::read_dir(cache.users(request)).into_iter().flatten().flatten();
    let mut living = Vec::new();
    for entry in entries {
        let name = entry.file_name();
        // A note that is still being written, or whose writer died before it was complete.
        let unfinished = name.as_encoded_bytes().starts_with(UNFINISHED_NOTE.as_bytes());
        if unfinished || name == USED {
            continue;
        }
        let path = entry.path();
        for _ in 0..REWRITTEN {
            let Ok(file) = File::open(&path) else { break };
            match read_state(&file, &path) {
                NoteState::Living(content) => living.extend(content),
                NoteState::Dead(content) => {
                    // Several may find it dead; one of them removes it.
                    if std::fs::remove_file(&path).is_ok()
                        && let Some(content) = content
                    {
                        append_interrupted(cache, request, content);
                    }
                }
                NoteState::Unknown => {}
                NoteState::Replaced => continue,
            }
            break;
        }
    }
    living.sort_by(|one, other| (&one.since, one.pid).cmp(&(&other.since, other.pid)));
    living
}

/// Adds the unfinished operation of a dead process to the history.
fn append_interrupted(cache: &Cache, request: &ToolRequest, note: NoteContent) {
    let Some(operation) = note.doing.operation() else { return };
    let error = format!("process {} ({}) exited before it was complete", note.pid, note.owner);
    history::append(cache, request, operation, note.since, Some(error));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::vendor::platform::Platform;
    use butler_protocol::spec::Product;

    #[test]
    fn note_of_a_dead_process_is_removed_and_enters_the_history_once() {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        let request = "1.9.8".parse().unwrap();
        let content = |doing| NoteContent::now(doing, "run 7");
        let dead = write(&cache, &request, &content(Activity::Install)).unwrap();
        let living = write(&cache, &request, &content(Activity::Use)).unwrap();
        let doing = || {
            let found = read(&cache, &request).into_iter();
            found.map(|content| content.doing).collect::<Vec<_>>()
        };
        assert_eq!(doing().len(), 2);
        // As the kernel does it: the lock ends, and the file stays.
        let path = dead.path.clone();
        dead.file.unlock().unwrap();
        assert_eq!(doing(), [Activity::Use]);
        assert!(!path.exists());
        assert_eq!(doing(), [Activity::Use]);
        let history = history::read(&cache.history_file(Product::Terraform));
        assert_eq!(history.len(), 1, "{history:?}");
        let error = history[0].error.as_deref().unwrap();
        assert_eq!(
            error,
            format!("process {} (run 7) exited before it was complete", std::process::id())
        );
        drop((dead, living));
        assert_eq!(doing(), []);
    }

    #[test]
    fn rewritten_note_is_not_treated_as_left_over() {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        let request = "1.9.8".parse().unwrap();
        let content = NoteContent::now(Activity::Uninstall, "run 7");
        let mut note = write(&cache, &request, &content).unwrap();
        // Another process has opened it, but not yet checked its lock.
        let opened = File::open(&note.path).unwrap();
        note.rewrite(&content);
        let state = read_state(&opened, &note.path);
        assert!(matches!(state, NoteState::Replaced), "{state:?}");
        assert_eq!(read(&cache, &request).len(), 1);
    }

    #[test]
    fn unfinished_note_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        let request = "1.9.8".parse().unwrap();
        cache.create_users_directory(&request).unwrap();
        let path = cache.users(&request).join(format!("{UNFINISHED_NOTE}abc"));
        std::fs::write(&path, "{").unwrap();
        assert!(read(&cache, &request).is_empty());
        assert!(path.exists(), "its writer is about to give it its name");
    }
}
