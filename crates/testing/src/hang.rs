//! A report about a test that takes too long: the logs in its directories, and the processes that belong to them.
//!
//! A test runner sends SIGTERM to a test, and to its children, at the end of its time. Without this, the test would end
//! without a word.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

use super::processes::in_directory;

/// How many bytes at the end of a log are shown.
const SHOWN: usize = 16 * 1024;

/// How deep logs are searched: those of attempts are in directories of their own.
const DEPTH: usize = 6;

/// The directories of this process's tests.
static WATCHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// From now on, SIGTERM writes the ends of the logs in `directory` and its processes to standard error, and kills these
/// processes. Then it ends this process.
pub fn watch(directory: &Path) {
    static STARTED: Once = Once::new();
    WATCHED.lock().unwrap().push(directory.to_owned());
    STARTED.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        // Here, so that the signal is handled when this function returns.
        let mut terminations = {
            let _entered = runtime.enter();
            signal(SignalKind::terminate()).unwrap()
        };
        std::thread::spawn(move || {
            runtime.block_on(terminations.recv());
            for directory in WATCHED.lock().unwrap().iter().filter(|it| it.exists()) {
                // Not a macro: the test harness keeps what they print, and they panic if nobody reads it.
                let _ = std::io::stderr().write_all(end(directory).as_bytes());
            }
            raise(Signal::SIGKILL)
        });
    });
}

/// Kills the processes that belong to a directory. Returns the report about it.
fn end(directory: &Path) -> String {
    let mut text = format!("the test was asked to end; in {}:\n", directory.display());
    for process in in_directory(directory) {
        writeln!(text, "process {}: {}", process.pid, process.command).unwrap();
        if process.pid != Pid::this() {
            let _ = kill(process.pid, Signal::SIGKILL);
        }
    }
    for log in logs(directory, DEPTH) {
        let content = std::fs::read(&log).unwrap_or_default();
        let end = &content[content.len().saturating_sub(SHOWN)..];
        writeln!(text, "{}:\n{}", log.display(), String::from_utf8_lossy(end)).unwrap();
    }
    text
}

/// The files `*.log` below a directory.
fn logs(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = paths.flat_map(|path| {
        if path.is_dir() && !path.is_symlink() && depth > 0 {
            return logs(&path, depth - 1);
        }
        let is_log = path.extension().is_some_and(|it| it == "log");
        is_log.then_some(path).into_iter().collect()
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Names the directory of the test that hangs, in the process that is it.
    const DIRECTORY: &str = "BUTLER_TEST_HANGS_IN";

    #[test]
    fn test_that_is_asked_to_end_shows_its_logs_and_processes() {
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            watch(Path::new(&directory));
            // In a session of its own, so that the signal does not reach it.
            let mut sleeping = Command::new("setsid");
            sleeping.args(["sleep", "1000"]).current_dir(&directory).status().unwrap();
            loop {
                std::thread::park();
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("attempts/1/output.log");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(log, "waits for a lease").unwrap();
        let name = "hang::tests::test_that_is_asked_to_end_shows_its_logs_and_processes";
        let mut hanging = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Not before `setsid` has become the process that the report has to name.
        let sleeps = || {
            let found = in_directory(directory.path());
            found.iter().any(|process| process.command.trim_end() == "sleep 1000")
        };
        while !sleeps() {
            assert_eq!(hanging.try_wait().unwrap(), None);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = Pid::from_raw(i32::try_from(hanging.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let output = hanging.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.contains("waits for a lease"), "{shown}");
        assert!(shown.contains(&format!("process {pid}: ")), "{shown}");
        assert!(shown.contains(": sleep 1000"), "{shown}");
        assert!(in_directory(directory.path()).is_empty(), "{shown}");
        assert_eq!(output.status.signal(), Some(Signal::SIGKILL as i32), "{shown}");
    }
}
