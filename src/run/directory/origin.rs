//! The machine of a run, and whether a lock of the run that looks free is really free.
//!
//! A lock is only visible to other processes of the same kernel, or on a file system that one kernel mounts at a time.
//! On other file systems, each machine can have locks of its own.

use std::path::Path;

/// The id of this boot of this machine, on Linux. Containers share it with their node.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The name of the host, on Linux. A container has its own.
const HOST: &str = "/proc/sys/kernel/hostname";

/// The kernel and the host of a process. Unknown values are empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::run) struct Origin {
    boot: String,
    host: String,
}

impl Origin {
    /// The origin of this process.
    pub(in crate::run) fn here() -> Self {
        let read = |path: &str| {
            let text = std::fs::read_to_string(Path::new(path)).unwrap_or_default();
            text.split_whitespace().next().unwrap_or_default().to_owned()
        };
        Self { boot: read(BOOT), host: read(HOST) }
    }

    /// Both values in one line.
    pub(in crate::run) fn to_line(&self) -> String {
        format!("{} {}", self.boot, self.host)
    }

    /// Parses a line of [`Self::to_line`]. Both values are empty if it is not such a line.
    pub(in crate::run) fn parse_line(line: &str) -> Self {
        match line.split_once(' ') {
            Some((boot, host)) => Self { boot: boot.to_owned(), host: host.to_owned() },
            None => Self::default(),
        }
    }

    /// The host's name, for people.
    pub(in crate::run) fn host(&self) -> &str {
        if self.host.is_empty() { "unknown" } else { &self.host }
    }

    /// Whether a lock of a process of this origin that looks free at `here` is free: the process was on the same
    /// kernel, or no other kernel can have mounted the file system.
    pub(in crate::run) fn has_visible_locks(&self, here: &Self, is_local: bool) -> bool {
        is_local || (self.is_same_host(here) && !self.boot.is_empty() && self.boot == here.boot)
    }

    /// Whether both have the same directories. A path of another host can lead to another directory.
    pub(in crate::run) fn is_same_host(&self, here: &Self) -> bool {
        !self.host.is_empty() && self.host == here.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_lock_proves_a_dead_owner_only_if_this_kernel_would_see_the_lock() {
        let here = Origin::parse_line("boot-1 node-1");
        for (owner, is_local, visible) in [
            ("boot-1 node-1", false, true),
            ("boot-1 node-1", true, true),
            // The node was rebooted.
            ("boot-0 node-1", true, true),
            ("boot-0 node-1", false, false),
            // Another pod on this node.
            ("boot-1 pod-2", true, true),
            ("boot-1 pod-2", false, false),
            ("boot-2 node-2", false, false),
            // Killed before the line was written, or without /proc.
            ("", true, true),
            ("", false, false),
            (" ", false, false),
        ] {
            let owner = Origin::parse_line(owner);
            assert_eq!(owner.has_visible_locks(&here, is_local), visible, "{owner:?} {is_local}");
        }
        let unknown = Origin::parse_line(" ");
        assert!(!unknown.has_visible_locks(&unknown, false));
        assert!(!unknown.is_same_host(&unknown));
    }

    #[test]
    fn written_origin_is_parsed_again() {
        let here = Origin::here();
        assert_eq!(Origin::parse_line(&here.to_line()), here);
        #[cfg(target_os = "linux")]
        assert!(here.has_visible_locks(&Origin::here(), false), "{here:?}");
    }
}
