//! Finds a process again that may have been started by another process.

use std::io;

use serde::{Deserialize, Serialize};

use super::table;
use crate::platform::Pid;

/// Identifies one process of this machine for ever: process ids are used again, but not with the
/// same start time since the same start of the system.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ProcessIdentity {
    /// The id of the system's start (`/proc/sys/kernel/random/boot_id`).
    boot: String,
    /// The process id.
    pub pid: u32,
    /// The start time, in clock ticks since the system's start.
    start: u64,
}

impl ProcessIdentity {
    /// The identity of this process. It stays the same if the process becomes another program.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        let process = table::process(Pid::this())?;
        Ok(Self { boot: boot()?, pid: std::process::id(), start: process.start })
    }

    /// Whether the process exists and has not ended, or a process of its session does: a process that
    /// is killed leaves its children.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn is_alive(&self) -> io::Result<bool> {
        // Reading one process is cheap, and reading all of them is not.
        Ok(self.is_running()? || !self.session()?.is_empty())
    }

    /// The processes of its session that have not ended.
    fn session(&self) -> io::Result<Vec<table::Process>> {
        let Ok(pid) = i32::try_from(self.pid) else { return Ok(Vec::new()) };
        if boot()? != self.boot {
            return Ok(Vec::new());
        }
        // A session keeps its id for itself, so only its own processes can be found here.
        let session = Pid::from_raw(pid);
        let is_of_it = |process: &table::Process| {
            process.session == session && process.start >= self.start && !process.is_zombie
        };
        Ok(table::processes().into_iter().filter(is_of_it).collect())
    }

    /// Asks the providers of its session to end whose Terraform is gone. If the process was killed, its
    /// Terraform goes on until it prints something; the providers would wait for requests for ever.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn end_orphaned_providers(&self) -> io::Result<()> {
        if self.is_running()? {
            return Ok(());
        }
        let session = self.session()?;
        for process in &session {
            let is_orphaned = !session.iter().any(|other| other.pid == process.parent);
            if is_orphaned && table::is_provider(process.pid) {
                crate::platform::ask_to_end(process.pid);
            }
        }
        Ok(())
    }

    /// Whether the process itself exists and has not ended.
    fn is_running(&self) -> io::Result<bool> {
        let Ok(pid) = i32::try_from(self.pid) else { return Ok(false) };
        if boot()? != self.boot {
            return Ok(false);
        }
        let running = table::process(Pid::from_raw(pid));
        Ok(running.is_ok_and(|process| process.start == self.start && !process.is_zombie))
    }

    /// Asks the process to end, if it exists.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn ask_to_end(&self) -> io::Result<()> {
        if self.is_running()?
            && let Ok(pid) = i32::try_from(self.pid)
        {
            crate::platform::ask_to_end(Pid::from_raw(pid));
        }
        Ok(())
    }
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_with_another_start_is_not() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.is_alive().unwrap());
        let later = ProcessIdentity { start: own.start + 1, ..own.clone() };
        let before_restart = ProcessIdentity { boot: "other".to_owned(), ..own.clone() };
        let unknown = ProcessIdentity { pid: u32::MAX >> 1, ..own };
        for gone in [later, before_restart, unknown] {
            assert!(!gone.is_alive().unwrap(), "{gone:?}");
        }
    }
}
