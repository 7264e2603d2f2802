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
