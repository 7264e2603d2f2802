//! Processes by their parents, as the kernel's table has them.

use nix::unistd::Pid;

/// The children of a process.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let mark = format!("PPid:\t{parent}\n");
    let processes = std::fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|it| it.contains(&mark))
    })
    .map(Pid::from_raw)
    .collect()
}

/// A process and everything below it.
pub(crate) fn tree(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children(parent));
        next += 1;
    }
    found
}
