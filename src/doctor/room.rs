//! Whether there is a place for the cache, for runs, and for their secret files.

use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::Finding;
use crate::run::secret_place;
use crate::settings::Settings;

/// A version of Terraform with its archive while it is unpacked.
const CACHE: u64 = 200_000_000;

/// The providers of a module of ordinary size.
const WORK: u64 = 1_000_000_000;

/// Everything there is room for.
pub(super) fn look(run: &Settings) -> Vec<Finding> {
    vec![
        place("cache", &run.tool.cache_dir, CACHE, "--cache-dir (BUTLER_CACHE_DIR)"),
        place("work directory", &run.work_dir, WORK, "--work-dir (BUTLER_WORK_DIR)"),
        memory(run),
    ]
}

/// A directory, or where it is going to be, that is written to and programs are started from.
fn place(check: &'static str, path: &Path, enough: u64, setting: &str) -> Finding {
    let shown = path.display();
    let Some(existing) = path.ancestors().find(|path| path.is_dir()) else {
        return Finding::failed(check, format!("there can be no `{shown}`"));
    };
    let elsewhere = format!("name another directory with {setting}");
    // Without a name, so that nothing is left of it.
    if let Err(error) = tempfile::tempfile_in(existing) {
        let has_content = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        let message = format!("`{shown}` cannot be written: {error}");
        return if check == "cache" && has_content {
            Finding::warning(check, message)
                .hint("what is in it can be used, but nothing can be installed")
        } else {
            Finding::failed(check, message).hint(elsewhere)
        };
    }
    let Ok(system) = statvfs(existing) else {
        return Finding::warning(check, format!("nothing says how full `{shown}` is"));
    };
    if system.flags().contains(FsFlags::ST_NOEXEC) {
        return Finding::failed(
            check,
            format!("no program can be started from `{shown}` (noexec)"),
        )
        .hint(elsewhere);
    }
    let free = system.blocks_available() * system.fragment_size();
    let total = (system.blocks() * system.fragment_size()).max(1);
    let full = 100 - (u128::from(free.min(total)) * 100 / u128::from(total));
    let message = format!("`{shown}` can be written; {} free, {full} % full", size(free));
    if free < enough {
        Finding::warning(check, message).hint(format!("make room, or {elsewhere}"))
    } else {
        Finding::ok(check, message)
    }
}

fn memory(run: &Settings) -> Finding {
    const CHECK: &str = "secret files";
    match secret_place(run.tmpfs_dir.as_deref()) {
        None => Finding::warning(CHECK, "there is no file system in memory with room for them: they go to the work directory, and are overwritten at the end")
            .hint("mount a tmpfs and name it with --tmpfs-dir (BUTLER_TMPFS_DIR)"),
        Some(place) => match tempfile::tempfile_in(&place) {
            Ok(_) => Finding::ok(CHECK, format!("are kept in `{}`", place.display())),
            Err(error) => {
                Finding::failed(CHECK, format!("`{}` cannot be written: {error}", place.display()))
                    .hint("name another directory with --tmpfs-dir (BUTLER_TMPFS_DIR)")
            }
        },
    }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    let (unit, name) =
        if bytes >= 1_000_000_000 { (1_000_000_000, "GB") } else { (1_000_000, "MB") };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_place_that_is_not_there_yet_is_judged_by_what_is_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let finding = place("cache", &directory.path().join("a/b"), 0, "--cache-dir");
        assert_eq!(finding.state, State::Ok, "{finding:?}");
        assert!(!directory.path().join("a").exists());
        let finding = place("cache", Path::new("/proc/nonexistent/cache"), 0, "--cache-dir");
        assert_eq!(finding.state, State::Failed, "{finding:?}");
    }

    #[test]
    fn too_little_room_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let finding = place("cache", directory.path(), u64::MAX, "--cache-dir");
        assert_eq!(finding.state, State::Warning);
    }
}
