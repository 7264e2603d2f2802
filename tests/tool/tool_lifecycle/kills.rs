//! kill -9 at each point of an install and of a removal, and the next install.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::*;
use butler_testing::documented::assert_documented;
use butler_testing::release_site::Fault;
use butler_testing::traced::Stopped;

/// A point at which a process is killed.
struct Case {
    command: &'static str,
    killed: &'static str,
    /// The leftovers in the directory of the product, except metadata of the version.
    stays: Leftovers,
    /// Whether the next install downloads the version.
    next: NextInstall,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leftovers {
    Nothing,
    Half,
    Whole,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum NextInstall {
    Downloads,
    FindsIt,
}

const fn case(
    command: &'static str,
    killed: &'static str,
    stays: Leftovers,
    next: NextInstall,
) -> Case {
    Case { command, killed, stays, next }
}

const CASES: [Case; 12] = [
    case("install", "looking it up", Leftovers::Nothing, NextInstall::Downloads),
    case("install", "waiting for another process", Leftovers::Nothing, NextInstall::Downloads),
    case("install", "fetching the checksums", Leftovers::Nothing, NextInstall::Downloads),
    case("install", "downloading the archive", Leftovers::Nothing, NextInstall::Downloads),
    case("install", "unpacking", Leftovers::Half, NextInstall::Downloads),
    case("install", "before the rename", Leftovers::Half, NextInstall::Downloads),
    case("install", "after the rename", Leftovers::Whole, NextInstall::FindsIt),
    case("uninstall", "pending deletion", Leftovers::Whole, NextInstall::FindsIt),
    case("uninstall", "about to rename it", Leftovers::Whole, NextInstall::FindsIt),
    case("uninstall", "after the rename", Leftovers::Half, NextInstall::Downloads),
    case("uninstall", "in the middle of the deletion", Leftovers::Half, NextInstall::Downloads),
    case("uninstall", "after the deletion", Leftovers::Nothing, NextInstall::Downloads),
];

impl Case {
    fn row(&self) -> String {
        let stays = match self.stays {
            Leftovers::Nothing => "nothing",
            Leftovers::Half => "a directory that is taken for nothing",
            Leftovers::Whole => "the version, whole",
        };
        let next = match self.next {
            NextInstall::Downloads => "downloads it, and removes what was left",
            NextInstall::FindsIt => "finds it, without a request",
        };
        format!("| `{}` | {} | {stays} | {next} |", self.command, self.killed)
    }
}

/// A machine, its site, and the observed state.
struct Scene {
    site: ReleaseSite,
    machine: Machine,
    options: ToolOptions,
}

impl Scene {
    fn new() -> Self {
        let site = ReleaseSite::start(&[("1.9.8", &b"binary ".repeat(100_000))]);
        let machine = Machine::with_site(&site);
        let options = options(&machine, &site);
        Self { site, machine, options }
    }

    /// Kills a process at this point with -9, and asserts that the result matches the table.
    fn hold(case: &Case, kill: impl FnOnce(&Self)) {
        let scene = Self::new();
        let Self { site, machine, options } = &scene;
        if case.command == "uninstall" {
            machine.run(&["tool", "install", "1.9.8"]).expect_success();
        }
        kill(&scene);
        let found = match kept(machine).as_slice() {
            [] => Leftovers::Nothing,
            [name] if name == "1.9.8" => Leftovers::Whole,
            [name] if name.starts_with(".partial-1.9.8~") => Leftovers::Half,
            other => panic!("{}: {other:?}", case.killed),
        };
        assert_eq!(found, case.stays, "{} {}", case.command, case.killed);
        // Records of dead processes are ignored.
        assert_eq!(queue_of(options), Queue::default(), "{}", case.killed);
        assert_eq!(note_count(options, None), 0, "{}", case.killed);
        site.remove_faults();
        let before = site.requests().len();
        let said = machine.run(&["tool", "install", "1.9.8", "--json"]).expect_success();
        assert_eq!(
            said.json()["downloaded"],
            case.next == NextInstall::Downloads,
            "{}",
            case.killed
        );
        let path = machine.installation("terraform", "1.9.8").join("terraform");
        assert!(is_executable(&path));
        assert_eq!(std::fs::read(path).unwrap(), b"binary ".repeat(100_000));
        assert_eq!(
            site.requests().len() == before,
            case.next == NextInstall::FindsIt,
            "{}",
            case.killed
        );
        assert_eq!(kept(machine), ["1.9.8"], "{}: leftovers", case.killed);
        // No process blocks another one.
        machine.run(&["tool", "uninstall", "1.9.8", "--drain-period", "0"]).expect_success();
        assert_eq!(kept(machine), [""; 0]);
    }

    /// Runs `butler-runner WORDS` until `reached` holds, and kills it there.
    fn kill_at(&self, words: &[&str], reached: impl Fn(&Files) -> bool + Send + 'static) {
        let files = Files(self.machine.path("cache/terraform"));
        Stopped::at(&self.machine.command(words), move || reached(&files)).kill();
    }

    /// Starts `butler-runner WORDS` and kills it when `reached` holds.
    fn kill_when(&self, words: &[&str], reached: impl Fn() -> bool) {
        let mut child = spawn(&self.machine, words);
        eventually("the point", reached);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn died(&self, act: &str) {
        let history = history_of(&self.options);
        let last = history.last().unwrap();
        assert!(last.starts_with(&format!("{act} 1.9.8 Failed: process ")), "{history:?}");
        assert!(last.ends_with("exited before it was complete"), "{history:?}");
    }
}

/// The entries of the product's directory.
pub(super) struct Files(pub(super) PathBuf);

impl Files {
    fn partial(&self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.path());
        names.find(|path| path.to_string_lossy().contains(".partial-1.9.8~"))
    }

    /// Whether the temporary directory exists and contains a non-empty `name`.
    fn has_half(&self, name: &str) -> bool {
        let path = self.partial().map(|partial| partial.join(name));
        path.is_some_and(|path| path.metadata().is_ok_and(|found| found.len() > 0))
    }

    pub(super) fn has_version(&self) -> bool {
        self.0.join("1.9.8").exists()
    }

    /// Whether a process has recorded this operation.
    pub(super) fn says(&self, doing: &str) -> bool {
        let entries = std::fs::read_dir(self.0.join(".1.9.8.users")).into_iter().flatten();
        let contents = entries.flatten().filter_map(|entry| {
            let is_note = !entry.file_name().to_string_lossy().starts_with('.');
            is_note.then(|| std::fs::read_to_string(entry.path()).unwrap_or_default())
        });
        contents.into_iter().any(|content| content.contains(&format!("\"doing\":\"{doing}\"")))
    }

    /// Whether a process holds the exclusive lock on the version. Read from the kernel's table,
    /// because an attempt to lock would take the lock.
    pub(super) fn is_exclusively_locked(&self) -> bool {
        let Ok(used) = std::fs::metadata(self.0.join(".1.9.8.users/used")) else { return false };
        let inode = format!(":{}", used.ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words[1..4] == ["FLOCK", "ADVISORY", "WRITE"] && words[5].ends_with(&inode)
        })
    }
}

#[test]
fn kill_during_the_version_lookup_leaves_a_usable_cache() {
    Scene::hold(&CASES[0], |scene| {
        scene.kill_at(&["tool", "install", "1.9.8"], |files| files.says("use"));
    });
}

#[test]
fn kill_while_waiting_for_another_install_leaves_a_usable_cache() {
    Scene::hold(&CASES[1], |scene| {
        scene.site.inject_fault(".zip", Fault::Hanging);
        let mut first = spawn(&scene.machine, &["tool", "install", "1.9.8"]);
        eventually("a download", || archives(&scene.site) == 1);
        let waits = || queue_of(&scene.options).pending == 1;
        scene.kill_when(&["tool", "install", "1.9.8"], waits);
        assert_eq!(queue_of(&scene.options).pending, 0, "the dead do not wait");
        first.kill().unwrap();
        first.wait().unwrap();
        scene.died("Install");
    });
}

#[test]
fn kill_while_fetching_checksums_leaves_a_usable_cache() {
    Scene::hold(&CASES[2], |scene| {
        scene.site.inject_fault("SHA256SUMS", Fault::Hanging);
        let asked = || scene.site.requests().iter().any(|path| path.ends_with("SHA256SUMS"));
        scene.kill_when(&["tool", "install", "1.9.8"], asked);
        scene.died("Install");
    });
}

#[test]
fn kill_during_the_download_leaves_a_usable_cache() {
    Scene::hold(&CASES[3], |scene| {
        scene.site.inject_fault(".zip", Fault::Hanging);
        scene.kill_when(&["tool", "install", "1.9.8"], || archives(&scene.site) == 1);
        scene.died("Install");
    });
}

#[test]
fn kill_while_unpacking_leaves_a_usable_cache() {
    Scene::hold(&CASES[4], |scene| {
        let unpacking = |files: &Files| files.has_half("terraform");
        scene.kill_at(&["tool", "install", "1.9.8"], unpacking);
        scene.died("Install");
    });
}

#[test]
fn kill_before_the_rename_leaves_a_usable_cache() {
    Scene::hold(&CASES[5], |scene| {
        let complete = |files: &Files| files.has_half("install.json");
        scene.kill_at(&["tool", "install", "1.9.8"], complete);
        scene.died("Install");
    });
}

#[test]
fn kill_after_the_rename_leaves_a_usable_cache() {
    Scene::hold(&CASES[6], |scene| {
        scene.kill_at(&["tool", "install", "1.9.8"], Files::has_version);
        scene.died("Install");
    });
}

const UNINSTALL: [&str; 5] = ["tool", "uninstall", "1.9.8", "--drain-period", "0"];

#[test]
fn kill_in_the_drain_period_leaves_a_usable_cache() {
    Scene::hold(&CASES[7], |scene| {
        let pending = || working(&scene.options).is_some_and(|it| it.drains_until.is_some());
        scene.kill_when(&["tool", "uninstall", "1.9.8"], pending);
        assert_eq!(working(&scene.options), None, "the mark ends with its process");
        scene.died("Uninstall");
    });
}

#[test]
fn kill_before_the_rename_of_a_removal_leaves_a_usable_cache() {
    Scene::hold(&CASES[8], |scene| {
        let claimed = |files: &Files| files.says("uninstall") && files.is_exclusively_locked();
        scene.kill_at(&UNINSTALL, claimed);
        scene.died("Uninstall");
    });
}

#[test]
fn kill_after_the_rename_of_a_removal_leaves_a_usable_cache() {
    Scene::hold(&CASES[9], |scene| {
        scene.kill_at(&UNINSTALL, |files| !files.has_version());
        scene.died("Uninstall");
    });
}

#[test]
fn kill_during_the_deletion_leaves_a_usable_cache() {
    Scene::hold(&CASES[10], |scene| {
        let deleting = |files: &Files| !files.has_version() && !files.has_half("removed/terraform");
        scene.kill_at(&UNINSTALL, deleting);
        scene.died("Uninstall");
    });
}

#[test]
fn kill_after_the_deletion_leaves_a_usable_cache() {
    Scene::hold(&CASES[11], |scene| {
        let deleted = |files: &Files| !files.has_version() && files.partial().is_none();
        scene.kill_at(&UNINSTALL, deleted);
        scene.died("Uninstall");
    });
}

#[test]
fn documentation_lists_the_tested_kills() {
    let rows: Vec<_> = CASES.iter().map(Case::row).collect();
    assert_documented("docs/tools.md", "tool kills", &rows);
}
