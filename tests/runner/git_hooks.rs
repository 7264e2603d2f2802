//! Runs that git starts: in hooks and aliases, where git tells its children which repository it works on.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use butler_testing::git_server::Repository;
use butler_testing::programs::runner_path;
use butler_testing::world::World;

/// A repository whose module calls a module in another repository.
struct Hooked {
    world: World,
    called: Repository,
}

impl Hooked {
    async fn new() -> Self {
        let called = Repository::create(&[("main.tf", "output \"called\" { value = 1 }")]);
        let module = format!(
            "module \"called\" {{\n  source = \"git::file://{}\"\n}}\n",
            called.path().display()
        );
        let ignored = ".terraform\n.terraform.lock.hcl\n";
        let world = World::new(&[("app/main.tf", &module), (".gitignore", ignored)]).await;
        Self { world, called }
    }

    /// git in `directory`, with the environment of a job.
    fn git(&self, directory: &Path, arguments: &[&str]) -> Output {
        let job = self.world.command(&[]);
        std::process::Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .envs(job.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap()
    }

    fn git_successfully(&self, directory: &Path, arguments: &[&str]) -> String {
        let output = self.git(directory, arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn repository(&self) -> PathBuf {
        self.world.path("repository")
    }

    /// Whether the last commit in `directory` contains `conf` and the module, and nothing is left to commit.
    fn assert_committed(&self, directory: &Path, what: &str) {
        let files = self.git_successfully(directory, &["ls-tree", "-r", "--name-only", "HEAD"]);
        assert_eq!(
            files.lines().collect::<Vec<_>>(),
            [".gitignore", "app/main.tf", "conf"],
            "{what}"
        );
        assert_eq!(self.git_successfully(directory, &["status", "--porcelain"]), "", "{what}");
        let called = self.called.git(&["status", "--porcelain"]);
        assert_eq!(called, "", "{what}");
    }
}

/// Writes a hook that executes `command`, in which `$runner` is the runner.
fn write_hook(git_directory: &Path, name: &str, command: &str) {
    let hook = git_directory.join("hooks").join(name);
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script = format!("#!/bin/sh\nrunner='{}'\n{command}\n", runner_path().display());
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(hook, PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn run_in_a_commit_hook_leaves_the_commit_as_it_is() {
    for (command, linked) in [
        ("exec \"$runner\" validate app", true),
        ("exec \"$runner\" validate app", false),
        ("exec \"$runner\" plan app", true),
    ] {
        let hooked = Hooked::new().await;
        let repository = hooked.repository();
        write_hook(&repository.join(".git"), "pre-commit", command);
        let mut directory = repository.clone();
        if linked {
            directory = hooked.world.path("linked");
            let linked = directory.to_str().unwrap();
            hooked
                .git_successfully(&repository, &["worktree", "add", "--quiet", "-b", "b", linked]);
        }
        std::fs::write(directory.join("conf"), "committed").unwrap();
        hooked.git_successfully(&directory, &["add", "conf"]);
        hooked.git_successfully(&directory, &["commit", "--quiet", "--message", "with a hook"]);
        hooked.assert_committed(&directory, command);
        assert!(directory.join("app/.terraform/modules/called/main.tf").exists(), "{command}");
    }
}

#[tokio::test]
async fn run_in_a_hook_of_a_push_fetches_modules() {
    let hooked = Hooked::new().await;
    let bare = hooked.world.path("bare.git");
    let shown = bare.to_str().unwrap();
    hooked.git_successfully(hooked.world.directory.path(), &["init", "--quiet", "--bare", shown]);
    let module = hooked.repository().join("app");
    // In a quarantine, git refuses to write any reference, also those of a clone.
    let command = format!("exec \"$runner\" validate '{}'", module.display());
    write_hook(&bare, "pre-receive", &command);
    hooked.git_successfully(&hooked.repository(), &["push", "--quiet", shown, "main"]);
    assert!(module.join(".terraform/modules/called/main.tf").exists());
}

#[tokio::test]
async fn settings_of_git_in_the_environment_reach_module_downloads() {
    let hooked = Hooked::new().await;
    let module = "module \"called\" {\n  source = \"git::https://git.example.com/called.git\"\n}\n";
    std::fs::write(hooked.repository().join("app/main.tf"), module).unwrap();
    let called = format!("file://{}", hooked.called.path().display());
    let mut command = hooked.world.command(&["validate", "app"]);
    command
        .current_dir(hooked.repository())
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", format!("url.{called}.insteadOf"))
        .env("GIT_CONFIG_VALUE_0", "https://git.example.com/called.git");
    let end = hooked.world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
}
