//! How much memory the job may still use, and whether the OOM killer ended a process. On systems
//! without `/proc`, both are unknown.
//!
//! SIGKILL does not reveal its sender. The control group of this process, which its children share,
//! counts how many of its processes the OOM killer has ended: `oom_kill` in `memory.events`
//! (version 2) or in `memory.oom_control` (version 1). Without this counter, the cause is unknown.

use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A limit of at least this size means no limit: version 1 writes a number near 2^63 for it.
const NO_LIMIT: u64 = 1 << 60;

/// The OOM killer has ended at least one process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory {
    /// The memory limit of the job in bytes, if there is one.
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

/// The counter at one moment, for a comparison with a later one.
#[derive(Debug)]
pub(super) struct OomWatch(Option<(Group, u64)>);

impl OomWatch {
    /// Reads the counter now.
    pub(super) fn begin() -> Self {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::on(groups_in(&groups, Path::new(MOUNT)))
    }

    fn on(groups: Vec<Group>) -> Self {
        Self(groups.into_iter().find_map(|group| {
            let before = group.killed()?;
            Some((group, before))
        }))
    }

    /// Whether the OOM killer has ended a process since [`Self::begin`]; none if it has not, or if
    /// that is unknown.
    pub(super) fn end(&self) -> Option<OutOfMemory> {
        let (group, before) = self.0.as_ref()?;
        (group.killed()? > *before).then(|| OutOfMemory { limit: group.limit() })
    }
}

/// How many bytes this process and its children can allocate in addition, within the machine's
/// memory and the job's limit. None if unknown.
#[must_use]
pub fn memory_left() -> Option<u64> {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    left(&text("/proc/meminfo"), &text("/proc/self/cgroup"), Path::new(MOUNT))
}

fn left(machine: &str, groups: &str, mount: &Path) -> Option<u64> {
    let available = machine.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = available.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let of_groups = groups_in(groups, mount).into_iter().filter_map(|group| group.left());
    of_groups.chain([kilobytes * 1024]).min()
}

/// A control group: its directory, and the names of its files.
#[derive(Debug, Eq, PartialEq)]
struct Group {
    directory: PathBuf,
    names: &'static Names,
}

#[derive(Debug, Eq, PartialEq)]
struct Names {
    events: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The page cache that was not used for a while, which the kernel reclaims first; includes the
    /// groups below.
    files: &'static str,
}

const VERSION_1: Names = Names {
    events: "memory.oom_control",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    files: "total_inactive_file ",
};

const VERSION_2: Names = Names {
    events: "memory.events",
    limit: "memory.max",
    usage: "memory.current",
    files: "inactive_file ",
};

impl Group {
    /// How many processes the OOM killer has ended.
    fn killed(&self) -> Option<u64> {
        self.value(self.names.events, "oom_kill ")
    }

    fn limit(&self) -> Option<u64> {
        self.value(self.names.limit, "").filter(|limit| *limit < NO_LIMIT)
    }

    /// The rest of its limit, if it has one.
    fn left(&self) -> Option<u64> {
        let limit = self.limit()?;
        let files = self.value("memory.stat", self.names.files).unwrap_or_default();
        let used = self.value(self.names.usage, "")?.saturating_sub(files);
        Some(limit.saturating_sub(used))
    }

    /// The number after `name` in the file `file`.
    fn value(&self, file: &str, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.directory.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

/// The groups that this process may be in, by the text of `/proc/self/cgroup`, the innermost first.
/// A container sees its own group at the mount point itself, while the text can contain the host's
/// path.
fn groups_in(text: &str, mount: &Path) -> Vec<Group> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (base, names) = if controllers.is_empty() {
            (mount.to_owned(), &VERSION_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            (mount.join("memory"), &VERSION_1)
        } else {
            continue;
        };
        let path = Path::new(path.trim_start_matches('/'));
        let directories = path.ancestors().map(|path| base.join(path));
        found.extend(directories.map(|directory| Group { directory, names }));
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
        let watch = OomWatch::on(groups_in(groups, mount.path()));
        assert_eq!(watch.end(), None, "nothing has happened yet");
        std::fs::write(directory.join(files[0].0), after).unwrap();
        watch.end().map(|found| found.to_string())
    }

    #[test]
    fn oom_kill_is_detected_with_both_versions_of_control_groups() {
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
    fn memory_left_is_the_minimum_of_machine_and_groups() {
        const MACHINE: &str = "MemTotal: 99 kB\nMemFree:  1 kB\nMemAvailable:  8000 kB\n";
        let mount = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = mount.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        let left = |groups: &str| left(MACHINE, groups, mount.path());
        assert_eq!(left("0::/pod/c\n"), Some(8000 * 1024));
        write("pod/c/memory.max", "max\n");
        write("pod/memory.max", "1000\n");
        write("pod/memory.current", "900\n");
        assert_eq!(left("0::/pod/c\n"), Some(100));
        write("pod/memory.stat", "active_file 7\ninactive_file 350\n");
        assert_eq!(left("0::/pod/c\n"), Some(450));
        write("memory/memory.limit_in_bytes", "50\n");
        write("memory/memory.usage_in_bytes", "60\n");
        assert_eq!(left("3:memory:/elsewhere\n0::/pod/c\n"), Some(0));
        assert_eq!(super::left("", "", mount.path()), None);
    }

    #[test]
    fn unchanged_or_missing_counter_reports_no_oom_kill() {
        let files = [("memory.events", "oom 7\noom_kill 3\n"), ("memory.max", "max\n")];
        assert_eq!(watched("0::/a\n", "a", files, "oom 9\noom_kill 3\n"), None);
        assert_eq!(OomWatch::on(groups_in("garbage\n0::/x\n", Path::new("/nowhere"))).end(), None);
    }
}
