//! Whether there is a place for the cache, for runs, and for their secret files.

use std::path::Path;

use super::finding::Finding;
use crate::run::secrets_directory;
use crate::settings::Settings;
use butler_base::platform::room;

const CACHE: &str = "cache";

/// A version of Terraform with its archive while it is unpacked.
const VERSION: u64 = 200_000_000;

/// The providers of a module of ordinary size.
const PROVIDERS: u64 = 1_000_000_000;

/// A plan's variables, and a few keys.
const SECRETS: u64 = 16_000_000;

/// Everything there is room for.
pub(super) fn look(run: &Settings) -> Vec<Finding> {
    let cache = Place {
        check: CACHE,
        path: &run.tool.cache_dir,
        enough: VERSION,
        starts: true,
        setting: "--cache-dir (BUTLER_CACHE_DIR)",
    };
    let work = Place {
        check: "work directory",
        path: &run.work_dir,
        enough: PROVIDERS,
        starts: true,
        setting: "--work-dir (BUTLER_WORK_DIR)",
    };
    vec![cache.look(), work.look(), secrets(run)]
}

fn secrets(run: &Settings) -> Finding {
    let (check, setting) = ("secret files", "--tmpfs-dir (BUTLER_TMPFS_DIR)");
    match secrets_directory(run.tmpfs_dir.as_deref()) {
        Some(path) => {
            Place { check, path: &path, enough: SECRETS, starts: false, setting }.look()
        }
        None => Finding::warning(check, "no file system in memory has enough free space: secret files are written to the work directory and overwritten at the end")
            .hint(format!("mount a tmpfs and name it with {setting}")),
    }
}

/// A directory that is needed.
struct Place<'run> {
    check: &'static str,
    path: &'run Path,
    /// How much should be free, in bytes.
    enough: u64,
    /// Whether programs are started from it.
    starts: bool,
    /// What names it.
    setting: &'static str,
}

impl Place<'_> {
    /// Where it does not exist, what is above it counts.
    fn look(&self) -> Finding {
        let (check, shown) = (self.check, self.path.display());
        let Some(existing) = self.path.ancestors().find(|path| path.is_dir()) else {
            return Finding::failed(check, format!("cannot create `{shown}`"));
        };
        let elsewhere = format!("set another directory with {}", self.setting);
        // Without a name, so that nothing is left of it.
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
        if self.starts && !room.starts_programs {
            let message = format!("cannot start programs from `{shown}` (noexec)");
            return Finding::failed(check, message).hint(elsewhere);
        }
        let (free, total) = (room.free, room.total.max(1));
        let full = 100 - (u128::from(free.min(total)) * 100 / u128::from(total));
        let message = format!("`{shown}` is writable; {} free, {full} % full", size(free));
        if free < self.enough {
            Finding::warning(check, message).hint(format!("free disk space, or {elsewhere}"))
        } else {
            Finding::ok(check, message)
        }
    }
}

fn has_content(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    let (unit, name) =
        if bytes >= 1_000_000_000 { (1_000_000_000, "GB") } else { (1_000_000, "MB") };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn look(path: &Path, enough: u64) -> Finding {
        Place { check: CACHE, path, enough, starts: true, setting: "--cache-dir" }.look()
    }

    #[test]
    fn a_place_that_is_not_there_yet_is_judged_by_what_is_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let finding = look(&directory.path().join("a/b"), 0);
        assert_eq!(finding.state, State::Ok, "{finding:?}");
        assert!(!directory.path().join("a").exists());
        let finding = look(Path::new("/proc/nonexistent/cache"), 0);
        assert_eq!(finding.state, State::Failed, "{finding:?}");
        assert_eq!(finding.hint.as_deref(), Some("set another directory with --cache-dir"));
    }

    #[test]
    fn a_cache_that_cannot_be_written_can_still_be_used() {
        let finding = look(Path::new("/proc"), 0);
        assert_eq!(finding.state, State::Warning, "{finding:?}");
    }

    #[test]
    fn too_little_room_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(look(directory.path(), u64::MAX).state, State::Warning);
    }
}
