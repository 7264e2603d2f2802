//! The entry point of the image on this machine, with the runner on PATH as in the image. `make
//! image-test` runs it in the image itself.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{project, succeeded};
use butler_testing::environment::search_path;
use butler_testing::linters::shellcheck;
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World};

/// A directory with the runner, and a PATH that starts with it.
struct Installed {
    _directory: tempfile::TempDir,
    path: OsString,
}

impl Installed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runner = env!("CARGO_BIN_EXE_butler-runner");
        symlink(runner, directory.path().join("butler-runner")).unwrap();
        let mut paths = vec![directory.path().to_owned()];
        paths.extend(std::env::split_paths(&search_path()));
        Self { _directory: directory, path: std::env::join_paths(paths).unwrap() }
    }

    /// `docker run IMAGE WORDS`.
    fn container(&self, words: &[&str]) -> Command {
        let mut command = Command::new(project("packaging/entrypoint.sh"));
        command.args(words).env_clear().env("PATH", &self.path);
        command
    }

    fn says(&self, words: &[&str]) -> String {
        succeeded(&self.container(words).output().unwrap())
    }
}

#[test]
fn image_accepts_every_command_of_the_runner_as_an_argument() {
    let installed = Installed::new();
    let commands = butler_runner::cli::command();
    let mut names = Vec::new();
    for command in commands.get_subcommands().filter(|command| !command.is_hide_set()) {
        names.push(command.get_name());
        names.extend(command.get_all_aliases());
    }
    assert!(names.contains(&"exec") && names.contains(&"tool"), "{names:?}");
    for name in names {
        let said = installed.says(&[name, "--help"]);
        assert!(said.contains("Usage: butler-runner "), "{name}: {said}");
    }
    assert_eq!(installed.says(&["-V"]), format!("butler-runner {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn other_arguments_of_the_image_are_executed_as_programs() {
    let installed = Installed::new();
    assert_eq!(installed.says(&["sh", "-c", "echo \"$1\"", "sh", "a  b"]), "a  b\n");
    assert_eq!(installed.says(&["/bin/echo", "exec"]), "exec\n");
    assert!(installed.says(&["butler-runner", "--help"]).contains("Usage: butler-runner"));
    let code = installed.container(&["sh", "-c", "exit 7"]).status().unwrap().code();
    assert_eq!(code, Some(7));
    let output = installed.container(&["--nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a flag is the runner's: {output:?}");
    let output = installed.container(&["exce"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: `exce` is neither a command of butler-runner nor a program in this image\n\
         hint: `butler-runner --help` lists the commands\n"
    );
}

#[tokio::test]
async fn image_executes_a_run_with_exec_and_without_arguments() {
    let installed = Installed::new();
    for words in [&[][..], &["exec"], &["butler-runner", "execute"]] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let execute = world.execute();
        let mut command = tokio::process::Command::from(installed.container(words));
        let variables =
            execute.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(variables.filter(|(name, _)| *name != "PATH")).env("CI", "true");
        let output = command.output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{words:?}: {}", end.stderr);
        assert_eq!(world.statuses(), ["running", "succeeded"], "{words:?}");
    }
}

#[test]
fn image_without_arguments_executes_a_run_only_if_settings_name_one() {
    let installed = Installed::new();
    assert!(installed.says(&[]).contains("Usage: butler-runner"));
    // CI systems set variables to empty values.
    let output = installed.container(&[]).env("BUTLER_URL", "").output().unwrap();
    assert!(succeeded(&output).contains("Usage: butler-runner"));
    for (name, value) in [
        ("BUTLER_ENDPOINT", "https://portal.example.com"),
        ("BUTLER_URL", "https://portal.example.com"),
        ("BUTLER_RUN_ID", RUN_ID),
        ("BUTLER_TOKEN", TOKEN),
        ("BUTLER_TOKEN_FILE", "/run/token"),
        ("BUTLER_CONFIG", "/nonexistent/run.json"),
    ] {
        let output = installed.container(&[]).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: what is missing is said: {output:?}");
        assert!(output.stderr.starts_with(b"error: "), "{name}: {output:?}");
    }
    // A local run plans the working directory by default.
    let output = installed.container(&[]).env("BUTLER_LOCAL", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("holds no Terraform configuration"), "{said}");
}

#[test]
fn entry_point_is_an_executable_posix_script() {
    let script = project("packaging/entrypoint.sh");
    shellcheck("sh", &[&std::fs::read_to_string(&script).unwrap()]).unwrap();
    let dockerfile = std::fs::read_to_string(project("Dockerfile")).unwrap();
    let copied = dockerfile.lines().find_map(|line| {
        line.strip_prefix("COPY --chmod=0755 packaging/entrypoint.sh ").map(Path::new)
    });
    let name = copied.unwrap().file_name().unwrap().to_str().unwrap();
    assert!(dockerfile.ends_with(&format!("ENTRYPOINT [\"{name}\"]\n")), "{dockerfile}");
}
