//! Checks the directories for the cache, for runs, and for secret files: write access and free space.

use std::path::Path;

use super::finding::Finding;
use crate::run::secrets_directory;
use crate::settings::Settings;
use butler_base::platform::room;

const CACHE: &str = "cache";

/// A version of Terraform with its archive while it is unpacked.
const TOOL_SPACE: u64 = 200_000_000;

/// The providers of a module of ordinary size.
const PROVIDERS_SPACE: u64 = 1_000_000_000;

/// A plan's variables, and a few keys.
const SECRETS_SPACE: u64 = 16_000_000;

pub(super) fn check_directories(run: &Settings) -> Vec<Finding> {
    let cache = RequiredDirectory {
        check: CACHE,
        path: &run.tool.cache_dir,
        required_space: TOOL_SPACE,
        runs_programs: true,
        setting: "--cache-dir (BUTLER_CACHE_DIR)",
    };
    let work = RequiredDirectory {
        check: "work directory",
        path: &run.work_dir,
        required_space: PROVIDERS_SPACE,
        runs_programs: true,
        setting: "--work-dir (BUTLER_WORK_DIR)",
    };
    vec![cache.check(), work.check(), check_secrets_directory(run)]
}

fn check_secrets_directory(run: &Settings) -> Finding {
    let (check, setting) = ("secret files", "--tmpfs-dir (BUTLER_TMPFS_DIR)");
    match secrets_directory(run.tmpfs_dir.as_deref()) {
        Some(path) => {
            RequiredDirectory { check, path: &path, required_space: SECRETS_SPACE, runs_programs: false, setting }.check()
        }
        None => Finding::warning(check, "no file system in memory has enough free space: secret files are written to the work directory and overwritten at the end")
            .hint(format!("mount a tmpfs and name it with {setting}")),
    }
}

/// A directory that runs need.
struct RequiredDirectory<'run> {
    check: &'static str,
    path: &'run Path,
    /// The space that should be free, in bytes.
    required_space: u64,
    /// Whether programs are started from it.
    runs_programs: bool,
    /// The setting with its path.
    setting: &'static str,
}

impl RequiredDirectory<'_> {
    /// If the directory does not exist, checks its nearest existing parent.
    fn check(&self) -> Finding {
        let (check, shown) = (self.check, self.path.display());
        let Some(existing) = self.path.ancestors().find(|path| path.is_dir()) else {
            return Finding::failed(check, format!("cannot create `{shown}`"));
        };
        let elsewhere = format!("set another directory with {}", self.setting);
        // An unnamed file, which disappears when it is closed.
        if let Err(error) = tempfile::tempfile_in(existing) {
            let message = format!("cannot write to `{shown}`: {error}");
            return if check == CACHE && has_content(self.path) {
                Finding::warning(check, message)
                    .hint("installed versions can be used, but others cannot be installed")
            } else {
                Finding::failed(check, message).hint(elsewhere)
            };
        }
        let Some(room) = room(existing) else {
            return Finding::warning(check, format!("cannot read the free space of `{shown}`"));
        };
        if self.runs_programs && !room.starts_programs {
            let message = format!("cannot start programs from `{shown}` (noexec)");
            return Finding::failed(check, message).hint(elsewhere);
        }
        let (free, total) = (room.free, room.total.max(1));
        let full = 100 - (u128::from(free.min(total)) * 100 / u128::from(total));
        let message = format!("`{shown}` is writable; {} free, {full} % full", size(free));
        if free < self.required_space {
            Finding::warning(check, message).hint(format!("free disk space, or {elsewhere}"))
        } else {
            Finding::ok(check, message)
        }
    }
}

fn has_content(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// A size with a decimal unit.
fn size(bytes: u64) -> String {
    let (unit, name) =
        if bytes >= 1_000_000_000 { (1_000_000_000, "GB") } else { (1_000_000, "MB") };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    fn check_cache(path: &Path, required_space: u64) -> Finding {
        RequiredDirectory {
            check: CACHE,
            path,
            required_space,
            runs_programs: true,
            setting: "--cache-dir",
        }
        .check()
    }

    #[test]
    fn missing_directory_is_checked_by_its_existing_parent() {
        let directory = tempfile::tempdir().unwrap();
        let finding = check_cache(&directory.path().join("a/b"), 0);
        assert_eq!(finding.state, FindingState::Ok, "{finding:?}");
        assert!(!directory.path().join("a").exists());
        let finding = check_cache(Path::new("/proc/nonexistent/cache"), 0);
        assert_eq!(finding.state, FindingState::Failed, "{finding:?}");
        assert_eq!(finding.hint.as_deref(), Some("set another directory with --cache-dir"));
    }

    #[test]
    fn read_only_cache_is_still_used() {
        let finding = check_cache(Path::new("/proc"), 0);
        assert_eq!(finding.state, FindingState::Warning, "{finding:?}");
    }

    #[test]
    fn low_disk_space_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(check_cache(directory.path(), u64::MAX).state, FindingState::Warning);
    }
}
