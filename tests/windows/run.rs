//! Runs with the real runner.

use std::fs::File;
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

use crate::stand_in::{HOLD, LOCKS, NAME};

/// The time in which ended processes must disappear.
const LONGEST: Duration = Duration::from_secs(30);

/// A directory for runs, with the stand-in on its `PATH`.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["bin", "temp", "module", "home"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let program = directory.path().join("bin").join(NAME).with_extension("exe");
        std::fs::copy(std::env::current_exe().unwrap(), program).unwrap();
        let module = "resource \"terraform_data\" \"one\" {\n  input = \"x\"\n}\n";
        std::fs::write(directory.path().join("module/main.tf"), module).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn runner(&self, arguments: &[&str]) -> Command {
        // The runner is next to the test if both were copied from the build.
        let beside = std::env::current_exe().unwrap().with_file_name("butler-runner.exe");
        let built = Path::new(env!("CARGO_BIN_EXE_butler-runner"));
        let mut command = Command::new(if built.exists() { built } else { &*beside });
        let own = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.path("bin")).chain(std::env::split_paths(&own));
        command
            .args(arguments)
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("USERPROFILE", self.path("home"))
            .env("TMP", self.path("temp"))
            .env("TEMP", self.path("temp"))
            .env_remove("HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// An apply that holds its locks.
    fn hold(&self) -> Child {
        let module = self.path("module");
        let mut command =
            self.runner(&["execute", "--local", "--operation", "apply", "--grace-period", "60s"]);
        command.arg("--module-dir").arg(module).env(HOLD, self.0.path());
        let mut child = command.creation_flags(CREATE_NEW_PROCESS_GROUP).spawn().unwrap();
        // The child of the command is the last to lock its file.
        while !LOCKS.iter().all(|name| is_locked(&self.path(name))) {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{}",
                combined_output(&child.wait_with_output().unwrap())
            );
            std::thread::yield_now();
        }
        child
    }

    /// The leftovers of runs in the directory for temporary files.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("temp")).unwrap();
        let all = entries.map(|entry| entry.unwrap().path());
        all.filter(|path| path.to_string_lossy().contains("butler-runner-run-")).collect()
    }
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_err())
}

fn combined_output(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{stdout}\n{stderr}")
}

pub(crate) fn demo_goes_through() {
    let world = World::new();
    let output = world.runner(&["demo"]).output().unwrap();
    let said = combined_output(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("plan, apply and destroy went through"), "{said}");
    assert!(said.contains("the secret in it: masked"), "{said}");
    assert_eq!(world.left(), [] as [PathBuf; 0], "{said}");
}

pub(crate) fn commands_end_with_their_runner() {
    let world = World::new();
    let mut runner = world.hold();
    runner.kill().unwrap();
    runner.wait().unwrap();
    // The job object ends all processes that hold a lock.
    let begun = Instant::now();
    while LOCKS.iter().any(|name| is_locked(&world.path(name))) {
        assert!(begun.elapsed() < LONGEST, "a command lives on without its runner");
        std::thread::yield_now();
    }
    // The next run removes the leftovers of the killed one.
    assert_eq!(world.left().len(), 1);
    let module = world.path("module");
    let mut next = world.runner(&["execute", "--local", "--operation", "plan"]);
    let output = next.arg("--module-dir").arg(module).output().unwrap();
    assert!(output.status.success(), "{}", combined_output(&output));
    assert_eq!(world.left(), [] as [PathBuf; 0], "{}", combined_output(&output));
}

#[expect(unsafe_code, reason = "console events are sent by a C function only")]
pub(crate) fn command_is_asked_to_end() {
    let world = World::new();
    let mut runner = world.hold();
    // SAFETY: the function does not use memory of this process.
    let sent = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, runner.id()) };
    if sent == 0 {
        let error = std::io::Error::last_os_error();
        runner.kill().unwrap();
        runner.wait().unwrap();
        let on_wine = std::env::var_os("BUTLER_TEST_WINE").is_some();
        assert!(on_wine, "cannot send Ctrl-Break: {error}");
        println!("     this system cannot send Ctrl-Break to anybody ({error}): not shown");
        return;
    }
    let output = runner.wait_with_output().unwrap();
    let shown = combined_output(&output);
    assert!(shown.contains("Gracefully shutting down..."), "{shown}");
    assert!(!shown.contains("grace period is over"), "{shown}");
    assert_eq!(output.status.code(), Some(128 + 15), "{shown}");
    assert_eq!(world.left(), [] as [PathBuf; 0], "{shown}");
}
