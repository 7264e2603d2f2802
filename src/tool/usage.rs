//! Who uses an installed version, so that nobody removes it from under a run.
//!
//! Each user has a file of its own in `.VERSION.users`, locked for as long as it lives; a file that
//! can be locked is a dead user's. Where nothing can be written, nothing can be removed either.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cache::{Cache, make_private};
use super::journal::moment;
use crate::spec::ToolRequest;

/// A process that uses a version.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Its process id.
    pub pid: u32,
    /// What it does, such as `run 7`.
    pub owner: String,
    /// Since when, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}

/// Says that a version is used, until this is dropped or the process ends.
#[derive(Debug)]
pub struct InUse {
    path: PathBuf,
    _file: File,
}

impl Drop for InUse {
    fn drop(&mut self) {
        // What cannot be removed is found to be a dead user's.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Says that `owner`, in this process, uses `request`, installed or not.
pub(super) fn begin(cache: &Cache, request: &ToolRequest, owner: &str) -> Option<InUse> {
    let directory = cache.users(request);
    let pid = std::process::id();
    let user = User { pid, owner: owner.to_owned(), since: moment(SystemTime::now()) };
    let write = || -> std::io::Result<InUse> {
        make_private(&directory)?;
        let path = directory.join(format!("{pid}-{:016x}", fastrand::u64(..)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.try_lock()?;
        file.write_all(&serde_json::to_vec(&user)?)?;
        Ok(InUse { path, _file: file })
    };
    match write() {
        Ok(in_use) => Some(in_use),
        Err(error) => {
            tracing::debug!(%request, %error, "cannot say that this version is used");
            None
        }
    }
}

/// Everybody who uses `request` now.
pub(super) fn users(cache: &Cache, request: &ToolRequest) -> Vec<User> {
    let entries = std::fs::read_dir(cache.users(request)).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let file = File::open(entry.path()).ok()?;
            if file.try_lock_shared().is_ok() {
                let _ = std::fs::remove_file(entry.path());
                return None;
            }
            serde_json::from_reader(file).ok()
        })
        .collect()
}
