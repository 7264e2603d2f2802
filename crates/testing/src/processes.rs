//! Processes by their parents and by their directories, as the kernel's table has them.
//!
//! Never by a number that was kept: the kernel uses numbers again.

use std::path::Path;

use memchr::memmem;
use nix::unistd::Pid;

/// A process as it was when the table was read.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its command line, the words separated by spaces.
    pub command: String,
}

/// The processes that have `text` in their environment.
pub fn with_environment(text: &Path) -> Vec<Process> {
    select(|process| contains(&process.join("environ"), text))
}

/// The processes that name `directory`, or something in it, in their environment or on their command line, or that are
/// in it.
pub fn in_directory(directory: &Path) -> Vec<Process> {
    select(|process| {
        contains(&process.join("environ"), directory)
            || contains(&process.join("cmdline"), directory)
            || std::fs::read_link(process.join("cwd")).is_ok_and(|it| it.starts_with(directory))
    })
}

/// The processes whose entry in `/proc` fulfils a condition. One that ends meanwhile may be missing.
fn select(condition: impl Fn(&Path) -> bool) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let processes = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let pid = Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?);
        condition(&path).then(|| {
            let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
            Process { pid, command: String::from_utf8_lossy(&words).replace('\0', " ") }
        })
    });
    processes.collect()
}

fn contains(file: &Path, text: &Path) -> bool {
    let text = text.as_os_str().as_encoded_bytes();
    std::fs::read(file).is_ok_and(|content| memmem::find(&content, text).is_some())
}

/// The children of a process.
pub fn children(parent: Pid) -> Vec<Pid> {
    let mark = format!("PPid:\t{parent}\n");
    let is_child = |process: &Path| {
        std::fs::read_to_string(process.join("status")).is_ok_and(|it| it.contains(&mark))
    };
    select(is_child).into_iter().map(|process| process.pid).collect()
}

/// A process and everything below it.
pub fn tree(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children(parent));
        next += 1;
    }
    found
}
