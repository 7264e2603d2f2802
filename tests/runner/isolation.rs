//! `--isolation`: hostile modules, and everything that must still work, with real Terraform.

mod user;
mod working;

use butler_base::platform::fs::PermissionsExt;
use butler_base::platform::{Landlock, landlock};
use serde_json::{Value, json};

use butler_testing::root::as_root_async;
use butler_testing::world::{RunEnd, World};

const SECRET: &str = "hunter22-of-another";

/// Reads with Terraform's own functions, and starts `attack.sh` when it is applied.
const HOSTILE: &str = r#"
variable "outside" { type = string }
output "file" { value = try(file("${var.outside}/secret"), "denied") }
output "names" { value = length(try(fileset(var.outside, "*"), [])) }
resource "terraform_data" "hostile" {
  provisioner "local-exec" { command = "sh ./attack.sh" }
}
"#;

/// Prints `did NAME` for each thing that it could do. `$runner` is the process of the runner, which has the
/// secret as its descriptor 9.
const ATTACK: &str = r#"
try() { if sh -c "$2" > found 2> refusal; then echo "did $1"; fi }
export secret="$outside/secret"
try read-secret 'grep -q hunter22 "$secret"'
try read-another-run 'grep -q hunter22 "$outside/runs/another/plan.json"'
try read-home 'grep -q hunter22 "$outside/home/.netrc"'
try list-directory 'ls "$outside"'
try read-through-link 'ln -s "$secret" link && grep -q hunter22 link'
try read-through-hard-link 'ln "$secret" hard && grep -q hunter22 hard'
try read-through-descriptor 'grep -q hunter22 <&9'
try read-through-root 'grep -q hunter22 "/proc/$runner/root$secret"'
try read-shadow 'cat /etc/shadow'
try read-environment 'grep -q outside "/proc/$runner/environ"'
try read-memory 'true < "/proc/$runner/mem"'
try write-memory 'true <> "/proc/$runner/mem"'
try list-descriptors 'ls "/proc/$runner/fd/"'
try create-file 'echo x > "$outside/created"'
try overwrite-file 'echo x > "$outside/overwritten"'
try remove-file 'rm "$outside/removed"'
try move-file 'mv "$outside/moved" moved'
try execute-file '"$outside/program"'
try write-beside-the-clone 'echo x > ../planted'
try replace-a-part-of-the-run 'mv ../tool ../another && mv ../another ../tool'
try signal 'kill -0 "$runner"'
try continue-the-runner 'kill -CONT "$runner"'
try use-a-terminal 'true < /dev/tty'
"#;

/// What a module must still be able to do.
const USE: &str = r"
try write-to-the-module 'echo x > written && cat written && chmod 700 written'
try write-to-home 'echo x > ~/written'
try write-to-the-temporary-directory 'rm $(mktemp)'
try move-between-directories 'mv written ~/moved'
try execute-own-program 'cp /bin/true ./own && ./own'
try use-devices 'head -c 1 /dev/urandom > /dev/null'
try read-the-names-of-hosts 'cat /etc/hosts'
try run-git 'git init -q repository && git -C repository status'
try signal-own-child 'sleep 60 & kill $!'
try read-own-process 'cat /proc/sys/kernel/ostype'
";

/// The names that follow `did` in the log.
fn deeds(world: &World) -> Vec<String> {
    let log = world.received().log_text();
    let done = log.lines().filter_map(|line| line.split_once("(local-exec): did "));
    done.map(|(_, name)| name.trim().to_owned()).collect()
}

fn names(script: &str) -> Vec<&str> {
    let calls = script.lines().filter_map(|line| line.strip_prefix("try "));
    calls.filter_map(|call| call.split(' ').next()).collect()
}

/// A world with a secret in each place that is not of the run, and with `files` as the module.
async fn world(files: &[(&str, &str)]) -> World {
    let mut world = World::new(files).await;
    for name in ["runs/another", "states"] {
        std::fs::create_dir_all(world.path(name)).unwrap();
    }
    for name in
        ["secret", "runs/another/plan.json", "home/.netrc", "moved", "removed", "overwritten"]
    {
        std::fs::write(world.path(name), SECRET).unwrap();
    }
    std::fs::copy("/bin/true", world.path("program")).unwrap();
    close_to_other_users(&world);
    world.set("BUTLER_WORK_DIR", world.path("runs"));
    world.set("outside", world.path(""));
    world
}

/// Other users can enter the world's directory, and use no file of it except for its states.
fn close_to_other_users(world: &World) {
    let set_mode = |name: &str, mode| {
        std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("", 0o711);
    set_mode("states", 0o777);
    for name in ["home", "runs/another", "program"] {
        set_mode(name, 0o700);
    }
    for name in ["secret", "moved", "removed", "overwritten"] {
        set_mode(name, 0o600);
    }
}

/// The configuration with its state in a directory of its own.
fn config(world: &World, operation: &str) -> Value {
    let path = world.path("states/terraform.tfstate");
    world.config_in(operation, &json!({"type": "local", "config": {"path": path}}))
}

/// Executes the run with the secret as descriptor 9 of the runner, whose process id is in `runner`.
async fn run(world: &World, config: Value, isolation: &str) -> RunEnd {
    world.add_run(config);
    let end = world.end(&execute(world, isolation).output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, world.received().log_text());
    end
}

/// The runner with the run of the registry.
fn execute(world: &World, isolation: &str) -> tokio::process::Command {
    let script = "exec 9< \"$outside/secret\"; export runner=$$; exec \"$0\" \"$@\"";
    let mut command = world.execute_in_shell(script);
    command.args(["--isolation", isolation]);
    command
}

async fn attack(isolation: &str) -> World {
    let attack = format!("{ATTACK}{USE}");
    let world = world(&[("main.tf", HOSTILE), ("attack.sh", &attack)]).await;
    let mut config = config(&world, "apply");
    config["variables"] = json!({"outside": {"value": world.path("").to_str().unwrap()}});
    run(&world, config, isolation).await;
    world
}

#[tokio::test]
async fn isolated_module_cannot_use_files_or_processes_outside() {
    as_root_async(async {
        let world = attack("landlock").await;
        let log = world.received().log_text();
        let mut expected = names(USE);
        if landlock() != Some(Landlock::FilesAndSignals) {
            expected.splice(0..0, ["signal", "continue-the-runner"]);
        }
        assert_eq!(deeds(&world), expected, "{log}");
        let outputs = &world.received().outputs[0]["outputs"];
        assert_eq!(outputs["file"]["value"], "denied", "{outputs}");
        assert_eq!(outputs["names"]["value"], 0, "{outputs}");
        for name in ["removed", "moved", "overwritten"] {
            assert_eq!(std::fs::read_to_string(world.path(name)).unwrap(), SECRET, "{name}");
        }
        assert!(!world.path("created").exists());
        assert!(log.contains("Isolation: Landlock; "), "{log}");
        let state = std::fs::read_to_string(world.path("states/terraform.tfstate")).unwrap();
        assert!(state.contains("terraform_data"), "{state}");
    })
    .await;
}

#[tokio::test]
async fn module_without_isolation_can_use_all_files_and_processes_of_the_user() {
    as_root_async(async {
        let world = attack("none").await;
        let log = world.received().log_text();
        let possible: Vec<_> = names(ATTACK).into_iter().chain(names(USE)).collect();
        // Only a run that a person starts has a terminal.
        let without_terminal = |name: &&str| *name != "use-a-terminal";
        let possible: Vec<_> = possible.into_iter().filter(without_terminal).collect();
        assert_eq!(deeds(&world), possible, "{log}");
        let outputs = &world.received().outputs[0]["outputs"];
        assert_eq!(outputs["file"]["value"], SECRET, "{outputs}");
        assert!(!log.contains("Isolation"), "{log}");
    })
    .await;
}
