//! Finds all processes that run an executable. Requires `/proc`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::table::{Process, processes};
use crate::platform::fs::MetadataExt;

/// The unit of the kernel's times, as a fraction of a second (`USER_HZ`, time(7)).
const TICKS: f64 = 100.0;

/// A process that runs an executable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Running {
    /// Its id.
    pub pid: u32,
    /// When it was started.
    pub since: SystemTime,
}

/// A snapshot of this machine's processes with the files that they execute, which is read once for
/// any number of executables.
#[derive(Debug)]
pub struct Processes {
    table: Vec<Process>,
    /// The files that processes execute, by device and inode, each with the index of the process.
    programs: Vec<((u64, u64), usize)>,
    boot: SystemTime,
}

impl Processes {
    /// All visible processes. Only root sees the executables of other users' processes.
    #[must_use]
    pub fn now() -> Self {
        let table = processes();
        let program = |(place, process): (usize, &Process)| {
            let found = std::fs::metadata(format!("/proc/{}/exe", process.pid)).ok()?;
            Some(((found.dev(), found.ino()), place))
        };
        let programs = table.iter().enumerate().filter_map(program).collect();
        Self { programs, table, boot: boot() }
    }

    /// The processes that run the file at `executable`, except for descendants of `known`.
    #[must_use]
    pub fn running(&self, executable: &Path, known: &[u32]) -> Vec<Running> {
        let Ok(wanted) = std::fs::metadata(executable) else { return Vec::new() };
        let wanted = (wanted.dev(), wanted.ino());
        let found = self.programs.iter().filter(|(program, _)| *program == wanted);
        found
            .map(|(_, place)| &self.table[*place])
            .filter(|process| !self.is_below(process, known))
            .filter_map(|process| {
                #[expect(clippy::cast_precision_loss, reason = "ticks of years fit")]
                let since = self.boot + Duration::from_secs_f64(process.start as f64 / TICKS);
                Some(Running { pid: u32::try_from(process.pid.as_raw()).ok()?, since })
            })
            .collect()
    }

    fn is_below(&self, process: &Process, known: &[u32]) -> bool {
        let mut pid = process.pid;
        // Parents are older than their children, so this ends; the bound is for a table that
        // changed while it was read.
        for _ in 0..self.table.len() {
            if u32::try_from(pid.as_raw()).is_ok_and(|pid| known.contains(&pid)) {
                return true;
            }
            let parent = self.table.iter().find(|other| other.pid == pid);
            let Some(found) = parent else { return false };
            pid = found.parent;
        }
        false
    }
}

/// When the system was started (`btime` in proc(5)).
fn boot() -> SystemTime {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    let seconds = line.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn table_contains_this_process_with_its_executable_and_start() {
        let executable = std::env::current_exe().unwrap();
        let own = std::process::id();
        let running =
            |executable: &Path, known: &[u32]| Processes::now().running(executable, known);
        let found = running(&executable, &[]);
        let found = found.iter().find(|process| process.pid == own).unwrap();
        let age = SystemTime::now().duration_since(found.since).unwrap_or_default();
        assert!(age < Duration::from_hours(1), "{age:?}");
        assert!(!running(&executable, &[own]).iter().any(|process| process.pid == own));
        let parent = std::os::unix::process::parent_id();
        assert!(!running(&executable, &[parent]).iter().any(|process| process.pid == own));
        assert_eq!(running(Path::new("/nowhere"), &[]), []);
    }
}
