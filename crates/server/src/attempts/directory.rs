//! The files of one attempt.

use std::io;
use std::path::{Path, PathBuf};

use butler_base::platform::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, user};
use butler_base::process::ProcessIdentity;
use butler_base::secret::remove_directory;
use fs_err as fs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::failure_text::stored_failure;
use super::file_names::{
    AFTER_PLAN, JOB, LEFT_PLAN_JSON, LEFT_PLAN_TEXT, PLAN_JSON, PLAN_TEXT, RESULT,
};
use super::log::AttemptLog;
use crate::config::STATES;
use crate::data::{DataAccess, set_mode, write_private};
use crate::model::{Ending, PlanDigest};
use crate::store::{AttemptId, AttemptResult};

/// The file that says that the runner of a Job has asked for its configuration.
const BEGUN: &str = "begun.json";

/// Where the Job of an attempt is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct RecordedJob {
    /// Its namespace.
    pub(super) namespace: String,
    /// The address of the API server.
    pub(super) server: String,
    /// Whether all of its objects were created, as far as the server knows.
    pub(super) is_complete: bool,
}

/// How an attempt ended that could not be started, and why.
#[derive(Deserialize, Serialize)]
struct FailedStart {
    ending: Ending,
    why: String,
}

/// The file that says why no process could be started.
const FAILED_START: &str = "failed-start.json";

/// The directory of one attempt. What it reported stays; the rest is removed after its
/// end.
#[derive(Clone, Debug)]
pub struct AttemptDirectory {
    path: PathBuf,
}

impl AttemptDirectory {
    /// The directory of an attempt below that of all attempts.
    #[must_use]
    pub fn of(attempts: &Path, id: &AttemptId) -> Self {
        Self { path: attempts.join(id.to_string()) }
    }

    /// Creates the directory, and all that the process needs.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create(&self, access: DataAccess) -> io::Result<()> {
        self.create_for_job()?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.home())?;
        // The way to the files of the run.
        set_mode(&self.path, access.mode())
    }

    /// Creates the directory of an attempt that has no process here, and the one for what it reports.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub(super) fn create_for_job(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.reports())
    }

    /// Creates TMPDIR of the process in `parent`, and records its path. Providers create UNIX sockets in
    /// it, whose paths have at most 107 bytes, so it cannot be in this directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn create_temporary(
        &self,
        parent: &Path,
        access: DataAccess,
    ) -> io::Result<PathBuf> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        builder.recursive(true).create(parent)?;
        builder.recursive(false);
        loop {
            let mut suffix = [0; 4];
            getrandom::fill(&mut suffix).map_err(io::Error::other)?;
            let path = parent.join(format!("butler-{}", hex::encode(suffix)));
            let recorded = path.to_str().ok_or_else(|| {
                io::Error::other(format!("the path `{}` is not UTF-8", path.display()))
            })?;
            // Before it exists, so that a killed server never leaves one that is not recorded.
            write_private(&self.temporary_record(), recorded.as_bytes())?;
            match builder.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    return created.and_then(|()| set_mode(&path, access.mode())).map(|()| path);
                }
            }
        }
    }

    /// The directory at `path`.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// HOME of the process.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// TMPDIR of the process; `None` before it is created, and when it is removed.
    pub(super) fn temporary(&self) -> Option<PathBuf> {
        let recorded = fs::read_to_string(self.temporary_record()).ok().map(PathBuf::from);
        // A power cut can leave an empty file.
        recorded.filter(|path| path.is_absolute())
    }

    /// The file with the path of TMPDIR.
    fn temporary_record(&self) -> PathBuf {
        self.path.join("temporary")
    }

    /// Records where the process makes the directory of its run: outside of this one, because it is the same
    /// for all runs of a layer.
    ///
    /// # Errors
    /// If it cannot be created or recorded.
    pub(super) fn set_work(&self, work: &Path, access: DataAccess) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(work)?;
        for directory in work.parent().into_iter().chain([work]) {
            set_mode(directory, access.mode())?;
        }
        write_private(&self.path.join("work-directory"), work.as_os_str().as_encoded_bytes())
    }

    /// Where the process makes the directory of its run.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        let recorded = fs::read_to_string(self.path.join("work-directory")).ok();
        let recorded = recorded.map(PathBuf::from).filter(|path| path.is_absolute());
        // Servers of the first version have recorded nothing.
        recorded.unwrap_or_else(|| self.path.join("work"))
    }

    /// Where the process leaves its result, and what it could not deliver.
    #[must_use]
    pub fn reports(&self) -> PathBuf {
        self.path.join("reports")
    }

    /// Where the process leaves a state that could not be stored.
    #[must_use]
    pub fn recovery(&self) -> PathBuf {
        self.reports().join("recovery")
    }

    /// The file with the token.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    /// Opens the file for standard output and standard error of the process, mode 0600.
    ///
    /// # Errors
    /// If it cannot be opened or created.
    pub(super) fn open_output(&self) -> io::Result<std::fs::File> {
        let mut options = std::fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600).open(self.path.join("output.log"))
    }

    /// Records which process executes the attempt.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record_process(&self, process: &ProcessIdentity) -> io::Result<()> {
        self.write_json("process.json", process)
    }

    /// Which process executes the attempt; `None` if none was started.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn process(&self) -> io::Result<Option<ProcessIdentity>> {
        self.read_json("process.json")
    }

    /// Records that the attempt is a Job.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn record_job(&self, job: &RecordedJob) -> io::Result<()> {
        self.write_json(JOB, job)
    }

    /// Where the Job of the attempt is, if it is one.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub(super) fn job(&self) -> io::Result<Option<RecordedJob>> {
        self.read_json(JOB)
    }

    /// Whether the attempt is a Job, and not a process.
    #[must_use]
    pub(super) fn is_job(&self) -> bool {
        self.path.join(JOB).exists()
    }

    /// Records that the runner of a Job has begun.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn record_begin(&self) -> io::Result<()> {
        self.write_json(BEGUN, &true)
    }

    /// Whether the runner of a Job has begun, which its cluster may not know.
    #[must_use]
    pub(super) fn has_begun(&self) -> bool {
        self.path.join(BEGUN).exists()
    }

    /// Whether a process of the attempt exists.
    ///
    /// # Errors
    /// If that cannot be established.
    pub(super) fn is_alive(&self) -> io::Result<bool> {
        self.process()?.map_or(Ok(false), |process| process.is_alive())
    }

    /// Asks the providers of a killed attempt to end whose Terraform is gone.
    ///
    /// # Errors
    /// If the processes cannot be read.
    pub(super) fn end_orphaned_providers(&self) -> io::Result<()> {
        self.process()?.map_or(Ok(()), |process| process.end_orphaned_providers())
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> AttemptLog {
        AttemptLog::of(&self.path)
    }

    /// Keeps the plan that the attempt reported.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_plan(&self, json: Option<&str>, text: Option<&str>) -> io::Result<()> {
        for (name, content) in [(PLAN_JSON, json), (PLAN_TEXT, text)] {
            if let Some(content) = content {
                write_private(&self.path.join(name), content.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Keeps how the run ended, as an attempt reports it that writes no files here.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write_result(&self, account: &str) -> io::Result<()> {
        let path = self.path.join(RESULT);
        if let Some(reports) = path.parent() {
            fs::create_dir_all(reports)?;
        }
        write_private(&path, account.as_bytes())
    }

    /// The plan that the attempt reported, as JSON.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn plan_json(&self) -> io::Result<Option<Vec<u8>>> {
        self.read_reported(PLAN_JSON, LEFT_PLAN_JSON)
    }

    /// Opens the plan that the attempt reported, as JSON. A large one should not be in memory as a whole.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_plan_json(&self) -> io::Result<Option<fs::File>> {
        for name in [PLAN_JSON, LEFT_PLAN_JSON] {
            match fs::File::open(self.path.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened.map(Some),
            }
        }
        Ok(None)
    }

    /// A text that changes when a file of the result does: names, sizes and times.
    #[must_use]
    pub fn result_version(&self) -> String {
        let of = |name: &str| {
            let found = fs::metadata(self.path.join(name)).ok();
            found.map(|found| (found.len(), found.modified().ok()))
        };
        let files = [PLAN_JSON, LEFT_PLAN_JSON, RESULT].map(of);
        format!("{} {files:?}", self.path.display())
    }

    /// The plan that the attempt reported, as text.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn plan_text(&self) -> io::Result<Option<Vec<u8>>> {
        self.read_reported(PLAN_TEXT, LEFT_PLAN_TEXT)
    }

    /// How the run ended, as the process has recorded it.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid.
    pub(crate) fn result<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        self.read_json(RESULT)
    }

    /// What the program has said that checks the plan (`after-plan`). The process writes it when it ends.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid.
    pub(crate) fn plan_check<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        self.read_json(AFTER_PLAN)
    }

    /// A file that the attempt reported. If it was too large for a report, or the server was away for
    /// too long, it is only among the files that the process wrote.
    fn read_reported(&self, name: &str, left: &str) -> io::Result<Option<Vec<u8>>> {
        match self.read(name)? {
            Some(reported) => Ok(Some(reported)),
            None => self.read(left),
        }
    }

    /// Records that no process can be started for the attempt.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn record_failed_start(&self, ending: Ending, why: &str) -> io::Result<()> {
        self.write_json(FAILED_START, &FailedStart { ending, why: why.to_owned() })
    }

    /// How the attempt ended, if nothing could be started.
    pub(super) fn failed_start(&self) -> Option<AttemptResult> {
        if let Ok(Some(FailedStart { ending, why })) = self.read_json(FAILED_START) {
            let failure = stored_failure(&why);
            return Some(AttemptResult { failure, ..AttemptResult::ended(ending) });
        }
        // As earlier versions wrote it.
        self.read_json(FAILED_START).ok().flatten().map(AttemptResult::ended)
    }

    /// The SHA-256 of the plan that the attempt reported.
    pub(super) fn plan_digest(&self) -> Option<PlanDigest> {
        let plan = self.plan_json().ok()??;
        Some(PlanDigest::new(hex::encode(Sha256::digest(plan))))
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a document atomically, with mode 0600.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_json(&self, name: &str, document: &impl Serialize) -> io::Result<()> {
        let temporary = self.path.join(format!("{name}.new"));
        write_private(&temporary, &serde_json::to_vec(document)?)?;
        // After a power cut, the file is complete or missing.
        fs::File::open(&temporary)?.sync_all()?;
        fs::rename(temporary, self.path.join(name))
    }

    /// Reads a document that [`AttemptDirectory::write_json`] or the process wrote; `None` if it
    /// does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or is not valid.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let text = self.read(name)?;
        Ok(text.map(|text| serde_json::from_slice(&text)).transpose()?)
    }

    /// Removes what only the process needed: its token, home, and temporary files. The directory of
    /// its run is empty by then, unless it was killed.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn tidy(&self) -> io::Result<()> {
        if_exists(fs::remove_file(self.token()))?;
        remove_directory(&self.home())?;
        if let Some(temporary) = self.temporary() {
            // Another user can have taken the name before this one did.
            let found = std::fs::symlink_metadata(&temporary);
            if found.is_ok_and(|found| found.is_dir() && found.uid() == user()) {
                remove_directory(&temporary)?;
            }
        }
        if_exists(fs::remove_file(self.temporary_record()))
    }

    /// Whether nothing is left of what [`Self::tidy`] removes: it can be killed at any point.
    #[must_use]
    pub fn is_tidy(&self) -> bool {
        let removed = [self.token(), self.home(), self.temporary_record()];
        !removed.iter().any(|path| path.exists())
    }

    /// Removes the directory at `path` with everything in it, unless a process of the attempt exists,
    /// or it has a state that could not be stored: nothing else has that state.
    ///
    /// # Errors
    /// If that cannot be established, or something cannot be removed.
    pub fn remove(path: &Path) -> io::Result<()> {
        if !path.exists() || Self::at(path).is_alive()? {
            return Ok(());
        }
        let recovery = Self::at(path).recovery();
        if has_entries(&recovery)? {
            let recovery = recovery.display();
            tracing::warn!("an old attempt is kept, because `{recovery}` has a state");
            return Ok(());
        }
        // Its TMPDIR is elsewhere.
        Self::at(path).tidy()?;
        remove_directory(path)
    }

    /// Whether the process left the directory of its run, because it was killed.
    ///
    /// # Errors
    /// If this cannot be read.
    pub(super) fn has_leftovers(&self) -> io::Result<bool> {
        has_entries(&self.work())
    }
}

/// The states of layers, if `attempt` is the directory of an attempt in a data directory.
#[must_use]
pub fn states_beside(attempt: &Path) -> Option<PathBuf> {
    Some(attempt.parent()?.parent()?.join(STATES))
}

/// The same, except that a missing file is not an error.
fn if_exists(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether a directory exists and has something in it.
fn has_entries(directory: &Path) -> io::Result<bool> {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
