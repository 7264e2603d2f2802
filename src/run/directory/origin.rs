//! Where a run is or was carried out, and whether its locks tell anything here.
//!
//! A lock is known to be held only where the same kernel keeps it, or where the file system is one
//! that a single kernel has at a time. On others, locks may be kept by each machine for itself.

use std::path::Path;

/// Where Linux says which boot of which machine this is; containers share it with their node.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Where Linux says the host's name; a container has its own.
const HOST: &str = "/proc/sys/kernel/hostname";

/// The kernel and the host of a process; what is not known is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::run) struct Origin {
    boot: String,
    host: String,
}

impl Origin {
    /// Where this process is.
    pub(in crate::run) fn here() -> Self {
        let read = |path: &str| {
            let text = std::fs::read_to_string(Path::new(path)).unwrap_or_default();
            text.split_whitespace().next().unwrap_or_default().to_owned()
        };
        Self { boot: read(BOOT), host: read(HOST) }
    }

    /// Both in one line.
    pub(in crate::run) fn line(&self) -> String {
        format!("{} {}", self.boot, self.host)
    }

    /// What such a line says; nothing where it is no such line.
    pub(in crate::run) fn of_line(line: &str) -> Self {
        match line.split_once(' ') {
            Some((boot, host)) => Self { boot: boot.to_owned(), host: host.to_owned() },
            None => Self::default(),
        }
    }

    /// The host's name, for people.
    pub(in crate::run) fn host(&self) -> &str {
        if self.host.is_empty() { "unknown" } else { &self.host }
    }

    /// Whether a lock that nobody seems to hold is really free: its owner was where `here` is, or
    /// no other kernel can have the file system that it is on.
    pub(in crate::run) fn is_told_by_locks(&self, here: &Self, is_local: bool) -> bool {
        is_local || (self.is_host_of(here) && !self.boot.is_empty() && self.boot == here.boot)
    }

    /// Whether both have the same directories: paths of another host may lead elsewhere.
    pub(in crate::run) fn is_host_of(&self, here: &Self) -> bool {
        !self.host.is_empty() && self.host == here.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_lock_tells_of_a_dead_owner_only_where_this_kernel_would_know_of_a_living_one() {
        let here = Origin::of_line("boot-1 node-1");
        for (owner, is_local, told) in [
            ("boot-1 node-1", false, true),
            ("boot-1 node-1", true, true),
            // The node was started anew.
            ("boot-0 node-1", true, true),
            ("boot-0 node-1", false, false),
            // Another pod on this node.
            ("boot-1 pod-2", true, true),
            ("boot-1 pod-2", false, false),
            ("boot-2 node-2", false, false),
            // Killed before it was written, or where there is no /proc.
            ("", true, true),
            ("", false, false),
            (" ", false, false),
        ] {
            let owner = Origin::of_line(owner);
            assert_eq!(owner.is_told_by_locks(&here, is_local), told, "{owner:?} {is_local}");
        }
        let unknown = Origin::of_line(" ");
        assert!(!unknown.is_told_by_locks(&unknown, false));
        assert!(!unknown.is_host_of(&unknown));
    }

    #[test]
    fn what_is_written_of_this_place_is_read_as_this_place() {
        let here = Origin::here();
        assert_eq!(Origin::of_line(&here.line()), here);
        #[cfg(target_os = "linux")]
        assert!(here.is_told_by_locks(&Origin::here(), false), "{here:?}");
    }
}
