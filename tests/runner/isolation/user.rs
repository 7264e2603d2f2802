//! `--isolation user`: hostile modules, and everything that must still work, with real Terraform.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;

use super::working::{PrivateModule, change_packages, fetch_private_module};
use super::{SECRET, USE, attack, config, deeds, execute, names, run, world};
use butler_testing::release_site::ReleaseSite;
use butler_testing::root::as_root_async;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, World};

/// Leaves links to a secret where the runner looks for results of the run, and fails.
const LINKS: &str = r#"
resource "terraform_data" "links" {
  provisioner "local-exec" {
    command = "for name in errored.tfstate crash.log ../tool/plan.tfplan ../data/terraform.tfstate; do ln -sf $outside/secret $name; done; ln -sfn $outside linked; exit 1"
  }
}
"#;

/// Starts processes that start two others and end, outside of the process group, as many as the user can have. Those
/// that are not killed fill the places of those that are. They end after a while also if none is killed.
const SWARM: &str = r#"
resource "terraform_data" "swarm" {
  provisioner "local-exec" {
    command = <<-EOT
      id -u > $outside/user
      export N=0 S='[ $N -lt 1000 ] && N=$((N+1)) && { sh -c "$S" & sh -c "$S" & }'
      ulimit -p 100 || ulimit -u 100
      setsid sh -c "$S" < /dev/null > /dev/null 2>&1 &
    EOT
  }
}
"#;

/// The processes of a user that run. Dead ones can wait for process 1 to notice their end.
fn processes_of(user: &str) -> Vec<String> {
    let found = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let status = found.filter_map(|path| std::fs::read_to_string(path.join("status")).ok());
    let is_of = |status: &String| {
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        ids.split_whitespace().any(|id| id == user) && !status.contains("State:\tZ")
    };
    status.filter(is_of).collect()
}

#[tokio::test]
async fn processes_that_start_others_faster_than_they_are_found_do_not_outlive_the_run() {
    as_root_async(async {
        let world = world(&[("main.tf", SWARM)]).await;
        // Written by the module.
        let user = world.path("user");
        std::fs::write(&user, "").unwrap();
        std::fs::set_permissions(&user, Permissions::from_mode(0o666)).unwrap();
        let end = run(&world, config(&world, "apply"), "user").await;
        let user = std::fs::read_to_string(user).unwrap();
        assert!(user.trim().parse::<u32>().unwrap() >= 61_184, "{user}");
        // One look does not see each process of a swarm.
        for _ in 0..50 {
            assert_eq!(processes_of(user.trim()), [""; 0]);
        }
        assert!(!end.stderr.contains("are left"), "{}", end.stderr);
    })
    .await;
}

fn error(world: &World) -> String {
    world.last_error().0
}

#[tokio::test]
async fn module_with_a_user_of_its_own_cannot_use_files_or_processes_outside() {
    as_root_async(async {
        let world = attack("user").await;
        let log = world.received().log_text();
        assert_eq!(deeds(&world), names(USE), "{log}");
        let outputs = &world.received().outputs[0]["outputs"];
        assert_eq!(outputs["file"]["value"], "denied", "{outputs}");
        assert_eq!(outputs["names"]["value"], 0, "{outputs}");
        for name in ["removed", "moved", "overwritten"] {
            assert_eq!(std::fs::read_to_string(world.path(name)).unwrap(), SECRET, "{name}");
        }
        assert!(!world.path("created").exists());
        // The state belongs to the user, whose number the log has.
        let state = world.path("states/terraform.tfstate").metadata().unwrap();
        let announced = format!("Isolation: the user {}; ", state.uid());
        assert!(log.contains(&announced), "{log}");
        assert!((61_184..=65_519).contains(&state.uid()), "{}", state.uid());
        assert_eq!(state.gid(), state.uid());
    })
    .await;
}

#[tokio::test]
async fn runner_reports_nothing_that_links_of_a_module_lead_to() {
    as_root_async(async {
        let mut world = world(&[("main.tf", LINKS)]).await;
        let recovery = world.path("recovery");
        world.set("BUTLER_RECOVERY_DIR", &recovery);
        world.add_run(config(&world, "apply"));
        let end = world.end(&execute(&world, "user").output().await.unwrap());
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert_eq!(std::fs::read_to_string(world.path("secret")).unwrap(), SECRET);
        let reported = world.reports_and_output(&end);
        assert!(!reported.contains(SECRET), "{reported}");
        assert!(!reported.contains("pushing it again"), "{reported}");
        assert!(!recovery.exists());
    })
    .await;
}

#[tokio::test]
async fn cached_terraform_is_executed_by_the_user_whatever_the_umask_is() {
    as_root_async(async {
        let (program, version) = machine_terraform();
        let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
        let mut world = world(&[("main.tf", MODULE)]).await;
        world.use_bare_path();
        world.use_site(&site);
        std::fs::set_permissions(world.path("cache"), Permissions::from_mode(0o700)).unwrap();
        let mut config = config(&world, "plan");
        config["terraformVersion"] = json!(version);
        world.add_run(config);
        let mut command = world.execute_in_shell("umask 077; exec \"$0\" \"$@\"");
        command.args(["--isolation", "user", "--isolation-users", "64000-64099"]);
        let end = world.end(&command.output().await.unwrap());
        let log = world.received().log_text();
        assert_eq!(end.code, Some(0), "{}{log}", end.stderr);
        assert!(log.contains("Isolation: the user 640"), "{log}");
        assert!(log.contains("terraform_data.hello will be created"), "{log}");
        // It can be entered, and not listed or written.
        let cache = world.path("cache").metadata().unwrap();
        assert_eq!((cache.mode() & 0o777, cache.uid()), (0o711, 0));
    })
    .await;
}

#[tokio::test]
async fn user_fetches_private_modules_with_the_credentials_of_the_run() {
    as_root_async(async {
        let log = fetch_private_module("user").await;
        assert!(log.contains("Isolation: the user "), "{log}");
        assert!(!log.contains("is closed to other users"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn runner_that_the_user_cannot_execute_is_named() {
    as_root_async(async {
        let private = PrivateModule::new().await;
        let (world, runner) = (&private.world, private.world.path("butler-runner"));
        std::fs::set_permissions(&runner, Permissions::from_mode(0o700)).unwrap();
        world.add_run(private.config.clone());
        let end = world.end(&execute(world, "user").output().await.unwrap());
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let (log, runner) = (world.received().log_text(), runner.display());
        let warning = format!("cannot execute `{runner}`, because `{runner}` is closed to other users, so git gets no login");
        assert!(log.contains(&warning), "{log}");
    })
    .await;
}

#[tokio::test]
async fn user_cannot_change_the_packages_of_the_provider_cache() {
    as_root_async(change_packages("user")).await;
}

#[tokio::test]
async fn state_that_the_user_cannot_write_is_the_reason_of_the_failure() {
    as_root_async(async {
        let world = world(&[("main.tf", MODULE)]).await;
        let states = world.path("states");
        std::fs::set_permissions(&states, Permissions::from_mode(0o755)).unwrap();
        world.add_run(config(&world, "plan"));
        let end = world.end(&execute(&world, "user").output().await.unwrap());
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let expected = format!("of this run cannot write `{}`", states.display());
        assert!(error(&world).contains(&expected), "{}", error(&world));
        assert_eq!(states.metadata().unwrap().uid(), 0);
    })
    .await;
}

#[tokio::test]
async fn run_without_a_free_user_fails() {
    as_root_async(async {
        let mut world = world(&[("main.tf", MODULE)]).await;
        let user = 64_199;
        world.set("BUTLER_ISOLATION_USERS", format!("{user}-{user}"));
        let mut other = std::process::Command::new("setpriv");
        other.args(["--reuid", &user.to_string(), "--clear-groups", "sleep", "1000"]);
        let mut other = other.spawn().unwrap();
        let status = format!("/proc/{}/status", other.id());
        let is_other = || std::fs::read_to_string(&status).unwrap().contains(&user.to_string());
        butler_testing::world::eventually("a process of the user", is_other).await;
        world.add_run(config(&world, "plan"));
        let end = world.end(&execute(&world, "user").output().await.unwrap());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let expected = format!("none of the users {user} to {user} is free");
        assert!(error(&world).contains(&expected), "{}", error(&world));
        // It is free when its process has ended.
        run(&world, config(&world, "plan"), "user").await;
    })
    .await;
}

#[tokio::test]
async fn runner_that_is_not_root_cannot_use_another_user() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    let mut command = world.execute_as_user();
    let end = world.end(&command.args(["--isolation", "user"]).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (error, advice) = world.last_error();
    assert!(error.ends_with("a user of its own: the runner is not root"), "{error}");
    assert!(advice.contains("start the runner as root"), "{advice}");
}

#[tokio::test]
async fn local_run_keeps_its_owner_and_is_refused() {
    as_root_async(async {
        let world = World::new(&[]).await;
        let directory = world.path("module");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("main.tf"), MODULE).unwrap();
        let mut command = world.command(&["plan", "--isolation", "user"]);
        let end = world.end(&command.arg(&directory).output().await.unwrap());
        assert_eq!(end.code, Some(1), "{}{}", end.stdout, end.stderr);
        assert!(end.stderr.contains("directory of its user"), "{}", end.stderr);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        assert_eq!(directory.join("main.tf").metadata().unwrap().uid(), 0);
    })
    .await;
}
