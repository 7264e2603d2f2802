//! What living processes say about what they do with a version: one file each in `.VERSION.users`.
//!
//! A note is locked by its writer for as long as it holds, and the kernel gives the lock back with
//! the process. So a note that can be locked is a dead process's and is never believed, whatever it
//! says; whoever comes across it removes it. A note gets its name when it is locked and complete.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::tool::store::cache::Cache;
use crate::tool::store::journal::{self, moment};
use crate::tool::store::usage::USED;
use butler_base::platform::fs::{is_at, try_lock, try_lock_shared};
use butler_protocol::spec::ToolRequest;

/// How often a note is opened anew that was rewritten at that moment; each is rewritten once.
const REWRITTEN: usize = 3;

/// How the names of notes begin that are being written.
pub(in crate::tool) const UNFINISHED: &str = ".new-";

/// What a process does with a version.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::tool) enum Doing {
    /// It runs the executable, or is about to.
    Use,
    /// It waits for what another process does with the version.
    Wait,
    /// It installs the version.
    Install,
    /// It removes the version.
    Uninstall,
}

/// What a note says.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tool) struct Content {
    pub(in crate::tool) doing: Doing,
    pub(in crate::tool) pid: u32,
    pub(in crate::tool) owner: String,
    /// By RFC 3339.
    pub(in crate::tool) since: String,
    /// Until when a version that is to be removed is left to those who may just be starting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::tool) until: Option<String>,
}

impl Content {
    /// What `owner`, in this process, begins to do now.
    pub(in crate::tool) fn now(doing: Doing, owner: &str) -> Self {
        let (pid, since) = (std::process::id(), moment(SystemTime::now()));
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
        // Before its lock ends: nobody takes it for a dead process's.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a note about `request`. None where nothing can be written or locked.
pub(in crate::tool) fn write(
    cache: &Cache,
    request: &ToolRequest,
    content: &Content,
) -> Option<Note> {
    match try_write(cache, request, content) {
        Ok(note) => Some(note),
        Err(error) => {
            tracing::debug!(%request, %error, doing = ?content.doing, "cannot say what is done with this version");
            None
        }
    }
}

fn try_write(cache: &Cache, request: &ToolRequest, content: &Content) -> io::Result<Note> {
    cache.make_users(request)?;
    let path = cache.users(request).join(format!("{}-{:016x}", content.pid, fastrand::u64(..)));
    let file = put(&path, content)?;
    Ok(Note { path, file })
}

fn put(path: &Path, content: &Content) -> io::Result<File> {
    let directory = path.parent().unwrap_or(path);
    let mut unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory)?;
    try_lock(unfinished.as_file())?;
    unfinished.write_all(&serde_json::to_vec(content)?)?;
    unfinished.persist(path).map_err(|error| error.error)
}

impl Note {
    /// Says something else instead, from one moment to the next.
    pub(in crate::tool) fn rewrite(&mut self, content: &Content) {
        match put(&self.path, content) {
            Ok(file) => self.file = file,
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "cannot rewrite a note");
            }
        }
    }
}

/// What comes of a note.
#[derive(Debug)]
enum Heard {
    /// Its process lives.
    Living(Option<Content>),
    /// Its process is dead.
    Dead(Option<Content>),
    /// Its process lives, and has put another one in its place since this was opened.
    SomethingElse,
    /// Nobody knows.
    Nothing,
}

/// What `file`, which was opened at `path`, says. A process that says something else gives the lock
/// on the old file back only when the new one is in its place.
fn heard(file: &File, path: &Path) -> Heard {
    let lock = try_lock_shared(file);
    let content = serde_json::from_reader(file).ok();
    match lock {
        Err(TryLockError::WouldBlock) => Heard::Living(content),
        Ok(()) if is_at(file, path) => Heard::Dead(content),
        Ok(()) => Heard::SomethingElse,
        Err(TryLockError::Error(_)) => Heard::Nothing,
    }
}

/// What living processes say about `request`, the oldest first. What dead ones left is removed on
/// the way, and an installation or removal that one of them was in the middle of is remembered as
/// failed.
pub(in crate::tool) fn read(cache: &Cache, request: &ToolRequest) -> Vec<Content> {
    let entries = std::fs::read_dir(cache.users(request)).into_iter().flatten().flatten();
    let mut living = Vec::new();
    for entry in entries {
        let name = entry.file_name();
        // One that is being written by somebody who is not done, or never will be.
        let unfinished = name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if unfinished || name == USED {
            continue;
        }
        let path = entry.path();
        for _ in 0..REWRITTEN {
            let Ok(file) = File::open(&path) else { break };
            match heard(&file, &path) {
                Heard::Living(content) => living.extend(content),
                Heard::Dead(content) => {
                    // Several may find it dead; one of them removes it.
                    if std::fs::remove_file(&path).is_ok()
                        && let Some(content) = content
                    {
                        journal::interrupted(cache, request, &content);
                    }
                }
                Heard::Nothing => {}
                Heard::SomethingElse => continue,
            }
            break;
        }
    }
    living.sort_by(|one, other| (&one.since, one.pid).cmp(&(&other.since, other.pid)));
    living
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::vendor::platform::Platform;
    use butler_protocol::spec::Product;

    #[test]
    fn what_a_dead_process_said_is_not_believed_but_remembered_once() {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        let request = "1.9.8".parse().unwrap();
        let content = |doing| Content::now(doing, "run 7");
        let dead = write(&cache, &request, &content(Doing::Install)).unwrap();
        let living = write(&cache, &request, &content(Doing::Use)).unwrap();
        let doing = || {
            let found = read(&cache, &request).into_iter();
            found.map(|content| content.doing).collect::<Vec<_>>()
        };
        assert_eq!(doing().len(), 2);
        // As the kernel does it: the lock ends, and the file stays.
        let path = dead.path.clone();
        dead.file.unlock().unwrap();
        assert_eq!(doing(), [Doing::Use]);
        assert!(!path.exists());
        assert_eq!(doing(), [Doing::Use]);
        let history = journal::read(&cache, Product::Terraform);
        assert_eq!(history.len(), 1, "{history:?}");
        let error = history[0].error.as_deref().unwrap();
        assert_eq!(
            error,
            format!("process {} (run 7) died in the middle of it", std::process::id())
        );
        drop((dead, living));
        assert_eq!(doing(), []);
    }

    #[test]
    fn a_process_that_says_something_else_is_not_dead() {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        let request = "1.9.8".parse().unwrap();
        let content = Content::now(Doing::Uninstall, "run 7");
        let mut note = write(&cache, &request, &content).unwrap();
        // Somebody has opened it, and not yet looked whether its lock is held.
        let opened = File::open(&note.path).unwrap();
        note.rewrite(&content);
        let heard = heard(&opened, &note.path);
        assert!(matches!(heard, Heard::SomethingElse), "{heard:?}");
        assert_eq!(read(&cache, &request).len(), 1);
    }

    #[test]
    fn a_note_that_is_being_written_is_nobodys_yet() {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        let request = "1.9.8".parse().unwrap();
        cache.make_users(&request).unwrap();
        let path = cache.users(&request).join(format!("{UNFINISHED}abc"));
        std::fs::write(&path, "{").unwrap();
        assert!(read(&cache, &request).is_empty());
        assert!(path.exists(), "its writer is about to give it its name");
    }
}
