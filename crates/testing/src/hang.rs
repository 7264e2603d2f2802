//! What is known of a test that takes too long: the logs of its servers, and its processes.
//!
//! A test runner sends SIGTERM to a test at the end of its time. Without this, the test would end without a word.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use nix::sys::signal::{Signal, raise};
use tokio::signal::unix::{SignalKind, signal};

use super::processes::in_directory;

/// How many bytes at the end of a log are shown.
const SHOWN: usize = 16 * 1024;

/// The directories of this process's tests.
static WATCHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// From now on, SIGTERM writes the ends of the logs in `directory`, and its processes, to standard error. Then it ends
/// this process, as without it.
#[expect(clippy::print_stderr, reason = "for the person who reads why a test did not end")]
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
                eprintln!("{}", report(directory));
            }
            raise(Signal::SIGKILL)
        });
    });
}

/// The ends of the logs in a directory, and the processes that belong to it.
fn report(directory: &Path) -> String {
    let mut text = format!("the test was asked to end; in {}:\n", directory.display());
    for process in in_directory(directory) {
        writeln!(text, "process {}: {}", process.pid, process.command).unwrap();
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    for log in files.filter(|path| path.extension().is_some_and(|it| it == "log")) {
        let content = std::fs::read(&log).unwrap_or_default();
        let end = &content[content.len().saturating_sub(SHOWN)..];
        writeln!(text, "{}:\n{}", log.display(), String::from_utf8_lossy(end)).unwrap();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    use super::*;

    /// Names the directory of the test that hangs, in the process that is it.
    const DIRECTORY: &str = "BUTLER_TEST_HANGS_IN";

    #[test]
    fn test_that_is_asked_to_end_shows_its_logs_and_processes() {
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            watch(Path::new(&directory));
            std::fs::write(Path::new(&directory).join("ready"), "").unwrap();
            loop {
                std::thread::park();
            }
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("server.log"), "waits for a lease").unwrap();
        let name = "hang::tests::test_that_is_asked_to_end_shows_its_logs_and_processes";
        let hanging = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !directory.path().join("ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let pid = Pid::from_raw(i32::try_from(hanging.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let output = hanging.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.contains("waits for a lease"), "{shown}");
        assert!(shown.contains(&format!("process {pid}: ")), "{shown}");
        assert_eq!(output.status.signal(), Some(Signal::SIGKILL as i32), "{shown}");
    }
}
