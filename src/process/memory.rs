//! Tells whether the kernel killed a process because the job's memory was used up.
//!
//! SIGKILL does not say who sent it. The control group of this process, which its children share,
//! counts how many of its processes the OOM killer has ended: `oom_kill` in `memory.events` (version
//! 2) or in `memory.oom_control` (version 1). Where there is no counter, nothing is known.

use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A limit from here on is none: version 1 writes a number near 2^63 for it.
const NO_LIMIT: u64 = 1 << 60;

/// The OOM killer has ended at least one process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory {
    /// How much memory the job may use, in bytes, where that is limited.
    pub limit: Option<u64>,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.limit {
            Some(limit) => {
                write!(formatter, "the OOM killer (memory limit {} MiB)", limit / 1024 / 1024)
            }
            None => write!(formatter, "the OOM killer"),
        }
    }
}

/// Watches the counter from one moment to a later one.
#[derive(Debug)]
pub(super) struct OomWatch(Option<(Counter, u64)>);

impl OomWatch {
    /// Begins now.
    pub(super) fn begin() -> Self {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::on(counters(&groups, Path::new(MOUNT)))
    }

    fn on(counters: Vec<Counter>) -> Self {
        Self(counters.into_iter().find_map(|counter| {
            let before = counter.read()?;
            Some((counter, before))
        }))
    }

    /// Whether the OOM killer has ended a process since the beginning; none may mean that nobody
    /// knows.
    pub(super) fn end(&self) -> Option<OutOfMemory> {
        let (counter, before) = self.0.as_ref()?;
        (counter.read()? > *before).then(|| OutOfMemory { limit: counter.limit() })
    }
}

/// A control group's files.
#[derive(Debug, Eq, PartialEq)]
struct Counter {
    events: PathBuf,
    limit: PathBuf,
}

impl Counter {
    fn read(&self) -> Option<u64> {
        let text = std::fs::read_to_string(&self.events).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    fn limit(&self) -> Option<u64> {
        let text = std::fs::read_to_string(&self.limit).ok()?;
        text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
    }
}

/// Where the counter may be, by the text of `/proc/self/cgroup`. A container sees its own group at
/// the mount itself, while the text may have the host's path.
fn counters(groups: &str, mount: &Path) -> Vec<Counter> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (base, events, limit) = if controllers.is_empty() {
            (mount.to_owned(), "memory.events", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (mount.join("memory"), "memory.oom_control", "memory.limit_in_bytes")
        } else {
            continue;
        };
        for directory in [base.join(path.trim_start_matches('/')), base] {
            found.push(Counter { events: directory.join(events), limit: directory.join(limit) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control group in which one process is killed between two looks.
    fn watched(groups: &str, group: &str, files: [(&str, &str); 2], after: &str) -> Option<String> {
        let mount = tempfile::tempdir().unwrap();
        let directory = mount.path().join(group);
        std::fs::create_dir_all(&directory).unwrap();
        for (name, content) in files {
            std::fs::write(directory.join(name), content).unwrap();
        }
        let watch = OomWatch::on(counters(groups, mount.path()));
        assert_eq!(watch.end(), None, "nothing has happened yet");
        std::fs::write(directory.join(files[0].0), after).unwrap();
        watch.end().map(|found| found.to_string())
    }

    #[test]
    fn a_process_that_was_killed_for_its_memory_is_counted_in_both_versions() {
        let two = watched(
            "0::/kubepods/pod1\n",
            "kubepods/pod1",
            [("memory.events", "low 0\noom 1\noom_kill 1\n"), ("memory.max", "536870912\n")],
            "low 0\noom 2\noom_kill 2\n",
        );
        assert_eq!(two.as_deref(), Some("the OOM killer (memory limit 512 MiB)"));
        let one = watched(
            "5:cpu,memory:/docker/abc\n0::/\n",
            "memory",
            [
                ("memory.oom_control", "oom_kill_disable 0\noom_kill 0\n"),
                ("memory.limit_in_bytes", "9223372036854771712\n"),
            ],
            "oom_kill_disable 0\noom_kill 1\n",
        );
        assert_eq!(one.as_deref(), Some("the OOM killer"), "the host's path is not there");
    }

    #[test]
    fn a_counter_that_stays_or_is_missing_says_nothing() {
        let files = [("memory.events", "oom 7\noom_kill 3\n"), ("memory.max", "max\n")];
        assert_eq!(watched("0::/a\n", "a", files, "oom 9\noom_kill 3\n"), None);
        assert_eq!(OomWatch::on(counters("garbage\n0::/x\n", Path::new("/nowhere"))).end(), None);
    }
}
