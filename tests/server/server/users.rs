//! `serve --isolation user`: each attempt has a user of its own.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use butler_base::http::{self, Redirects};

use super::faults::HeldBackend;
use super::*;
use butler_testing::release_site::platform;
use butler_testing::root::as_root_async;

/// Starts a program of the module when a plan is made. It is not a provider, so the plan fails then.
const MODULE: &str = r#"
terraform {
  required_providers {
    hostile = { source = "example.com/test/hostile" }
  }
}
provider "hostile" {}
resource "hostile_one" "one" {}
"#;

/// Adds a line to `$out/did` for each thing that it could do: to the server with the data directory `$data`, and to
/// its attempts. `$secret` is a file that only the server can read.
const ATTACK: &str = r#"#!/bin/sh
runners= attempts=
for process in /proc/[0-9]*; do
  words=$(tr '\0' ' ' < "$process/cmdline" 2> /dev/null)
  case $words in
    *" internal-attempt $data/attempts/"*)
      runners="$runners ${process#/proc/}"
      words=${words#*" internal-attempt "}
      attempts="$attempts ${words%% *}" ;;
    *" serve "*"$data"*) runners="$runners ${process#/proc/}" ;;
  esac
done
export runners attempts
set -- $attempts
echo "$# attempts" > "$out/seen"
id -u > "$out/user"
exec 2> /dev/null
try() { if sh -c "$2" > /dev/null 2>&1; then echo "$1" >> "$out/did"; fi }
try list-data 'ls "$data"'
try read-administrator 'cat "$data/admin.token"'
try read-store 'cat "$data/store.sqlite"'
try read-journal 'cat "$data/store.sqlite-wal"'
try read-port 'cat "$data/attempts.port"'
try read-mirror 'cat "$data/mirrors/infra/HEAD"'
try read-secret 'cat "$secret"'
try list-attempts 'ls "$data/attempts"'
try list-an-attempt 'for it in $attempts; do ls "$it" && exit; done; exit 1'
try read-a-token 'for it in $attempts; do cat "$it/token" && exit; done; exit 1'
try read-a-log 'for it in $attempts; do cat "$it/log.jsonl" && exit; done; exit 1'
try list-runs 'ls "$data/work/other"'
try list-own-run 'ls ../..'
try write-beside-the-module 'echo x > ../../planted'
try list-states 'ls "$data/states/other"'
try write-states 'echo x > "$data/states/other/x"'
try link-store 'ln "$data/store.sqlite" linked'
try write-cache 'echo x > "$data/cache/x"'
try read-environment 'for it in $runners; do cat "/proc/$it/environ" && exit; done; exit 1'
try read-memory 'for it in $runners; do true < "/proc/$it/mem" && exit; done; exit 1'
try list-descriptors 'for it in $runners; do ls "/proc/$it/fd/" && exit; done; exit 1'
try signal 'for it in $runners; do kill -0 "$it" && exit; done; exit 1'
try write-to-the-module 'echo x > written && cat written'
try write-to-home 'echo x > ~/written'
try write-to-the-temporary-directory 'rm $(mktemp)'
exit 1
"#;

/// What a module must be able to do in any case.
const ALLOWED: [&str; 3] =
    ["write-to-the-module", "write-to-home", "write-to-the-temporary-directory"];

/// A directory that all users can enter.
fn installation() -> Installation {
    let directory = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open.clone()).unwrap();
    let installation = Installation::in_directory(directory);
    std::fs::set_permissions(installation.path("tmp"), open).unwrap();
    installation
}

fn level(isolation: &str) -> Vec<String> {
    ["--isolation", isolation].map(str::to_owned).to_vec()
}

/// A repository with a hostile module, and one that waits while it is planned.
fn hostile(backend: &HeldBackend) -> Repository {
    let provider = format!(
        "hostile/terraform.d/plugins/example.com/test/hostile/1.0.0/{}/terraform-provider-hostile_v1.0.0",
        platform()
    );
    let repository = Repository::create(&[
        ("hostile/main.tf", MODULE),
        ("other/main.tf", &backend.reading_module()),
        (&provider, ATTACK),
    ]);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(repository.path().join(&provider), executable).unwrap();
    repository.git(&["commit", "--quiet", "--all", "--message", "Make the provider executable"]);
    repository
}

/// What the hostile module could do while an attempt of another layer runs, and the server.
async fn attack(isolation: &str) -> (Vec<String>, Installation) {
    let mut installation = installation();
    let backend = HeldBackend::start().await;
    let repository = hostile(&backend);
    let (out, secret) = (installation.path("out"), installation.path("secret"));
    std::fs::create_dir(&out).unwrap();
    std::fs::set_permissions(&out, PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(&secret, "hunter22").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let other = format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  other: {{repository: infra, ref: main, path: other, backend: {{type: local}}, retries: {{max: 1}}}}
",
        repository.url()
    );
    installation.configure(&other);
    installation
        .serve(&[level(isolation), vec!["--concurrency".into(), "2".into()]].concat())
        .await;
    backend.wait_for_request().await;
    let [data, out_shown] = [installation.data(), out.clone()].map(|it| it.display().to_string());
    installation.configure(&format!(
        "{other}  hostile:
    repository: infra
    ref: main
    path: hostile
    retries: {{max: 1}}
    env: {{data: '{data}', out: '{out_shown}', secret: '{}'}}
",
        secret.display()
    ));
    installation.until("hostile", "Failed", 1).await;
    let seen = std::fs::read_to_string(out.join("seen")).unwrap();
    assert_eq!(seen, "2 attempts\n");
    let user: u32 = std::fs::read_to_string(out.join("user")).unwrap().trim().parse().unwrap();
    assert_eq!((61_184..=65_519).contains(&user), isolation == "user", "{user}");
    backend.release();
    installation.until("other", "Failed", 1).await;
    installation.until_tidy().await;
    let did = std::fs::read_to_string(out.join("did")).unwrap();
    (did.lines().map(str::to_owned).collect(), installation)
}

#[tokio::test]
async fn hostile_module_with_a_user_of_its_own_reads_nothing_of_the_server_or_of_other_attempts() {
    as_root_async(async {
        let (did, mut installation) = attack("user").await;
        assert_eq!(did, ALLOWED);
        let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
        assert!(log.lines().next().unwrap().contains("isolation=\"user\""), "{log}");
        let ready = format!("{}/readyz", installation.server.as_ref().unwrap().address);
        let ready = http::client(None, Redirects::Refuse).unwrap().get(ready).send().await.unwrap();
        let ready: Value = serde_json::from_slice(&ready.bytes().await.unwrap()).unwrap();
        assert_eq!(ready, serde_json::json!({"ok": true, "isolation": "user"}));
        closed_but_for_entering(&installation.data());
        assert_eq!(installation.terminate().await, Some(0));

        // The next server closes the directory, with another level.
        let pass = installation.once(&level("landlock")).await;
        let mode = installation.data().metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", text(&pass));
    })
    .await;
}

/// Asserts that other users can enter the directories on the way to the files of attempts and of the cache, and can
/// use nothing else.
fn closed_but_for_entering(data: &Path) {
    let mut waiting = vec![data.to_owned()];
    let mut open = BTreeSet::new();
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let others = found.mode() & 0o077;
            if found.is_symlink() || others == 0 {
                continue;
            }
            assert!(found.is_dir() && others == 0o011, "{others:o} {}", path.display());
            let below = path.strip_prefix(data).unwrap();
            open.insert(below.components().next().unwrap().as_os_str().to_owned());
            waiting.push(path);
        }
    }
    let expected = ["attempts", "states", "work"].map(Into::into);
    assert_eq!(open, expected.into(), "{}", data.display());
}

#[tokio::test]
async fn the_same_module_can_do_all_of_that_without_isolation() {
    as_root_async(async {
        let (did, _installation) = attack("none").await;
        let all = ATTACK.lines().filter_map(|line| line.strip_prefix("try "));
        let all = all.map(|line| line.split(' ').next().unwrap());
        assert_eq!(did, all.collect::<Vec<_>>());
    })
    .await;
}

/// The owners of the modules of the attempts that run.
fn owners(data: &Path) -> Vec<u32> {
    let runs = left_by_runs(data).into_iter();
    runs.map(|run| run.join("source").metadata().unwrap().uid()).collect()
}

#[tokio::test]
async fn attempts_at_the_same_time_have_different_users_and_killed_ones_leave_nothing() {
    as_root_async(async {
        let mut installation = installation();
        let backend = HeldBackend::start().await;
        let module = backend.reading_module();
        let repository =
            Repository::create(&[("envs/a/main.tf", &*module), ("envs/b/main.tf", &module)]);
        let mut arguments = Installation::quick_start(&repository);
        arguments.extend(level("user"));
        arguments
            .extend(["--concurrency", "2", "--isolation-users", "64300-64399"].map(str::to_owned));
        installation.serve(&arguments).await;
        backend.wait_for_request().await;
        backend.wait_for_request().await;
        let users: BTreeSet<_> = owners(&installation.data()).into_iter().collect();
        assert_eq!(users.len(), 2, "{users:?}");
        assert!(users.iter().all(|user| (64_300..=64_399).contains(user)), "{users:?}");
        installation.kill().await;
        for pid in running(&installation.data()) {
            butler_base::platform::kill_child(Pid::from_raw(pid)).unwrap();
        }
        backend.release();
        installation.serve(&arguments).await;
        installation.until_tidy().await;
        for user in users {
            let left = butler_base::platform::processes_of_user(user).unwrap();
            assert_eq!(left, [], "{user}");
        }
    })
    .await;
}

#[tokio::test]
async fn plans_are_applied_and_the_state_is_given_to_the_user_of_each_attempt_and_back() {
    as_root_async(async {
        let installation = installation();
        let repository = Repository::create(&[("module/main.tf", LAYER)]);
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers:
  one: {{repository: infra, ref: main, path: module, backend: {{type: local}}, strategy: auto}}
",
            repository.url()
        ));
        let pass = async |user: &str| {
            let users = ["--isolation-users", &format!("{user}-{user}")].map(str::to_owned);
            let pass = installation.once(&[level("user"), users.to_vec()].concat()).await;
            assert!(pass.status.success(), "{}", text(&pass));
        };
        // The plan and its apply are two attempts.
        pass("64501").await;
        let states = installation.data().join("states/one");
        let state = states.join("terraform.tfstate");
        let owners = || [&states, &state].map(|path| path.metadata().unwrap().uid());
        assert_eq!(owners(), [0, 0]);
        // What a link of a module leads to keeps its owner.
        std::os::unix::fs::symlink(installation.path("butler.yaml"), states.join("link")).unwrap();

        repository
            .commit("Change", &[("module/main.tf", LAYER.replace("\"a\"", "\"b\"").as_str())]);
        pass("64502").await;
        assert_eq!(owners(), [0, 0]);
        let state: Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
        let resources = state["resources"].as_array().unwrap();
        assert_eq!(resources.len(), 1);
        assert_eq!(resources[0]["instances"][0]["attributes"]["output"]["value"], "b", "{state}");
        assert_eq!(installation.path("butler.yaml").metadata().unwrap().uid(), 0);
        assert_eq!(installation.temporary(), Vec::<PathBuf>::new());
    })
    .await;
}

#[tokio::test]
async fn user_that_a_killed_run_left_its_state_to_is_not_that_of_another_layer() {
    as_root_async(async {
        let mut installation = installation();
        let repository = Repository::create(&[("module/main.tf", LAYER)]);
        let layers = |names: &[&str]| {
            let layer = |name: &&str| {
                format!(
                    "  {name}: {{repository: infra, ref: main, path: module, backend: {{type: local}}, \
                     strategy: auto}}\n"
                )
            };
            let layers: String = names.iter().map(layer).collect();
            format!("repositories: {{infra: {{url: '{}'}}}}\nlayers:\n{layers}", repository.url())
        };
        let users = ["--isolation-users", "64503-64503"].map(str::to_owned);
        let arguments = [level("user"), users.to_vec()].concat();
        installation.configure(&layers(&["a"]));
        let pass = installation.once(&arguments).await;
        assert!(pass.status.success(), "{}", text(&pass));
        let states = installation.data().join("states/a");
        let state = std::fs::read(states.join("terraform.tfstate")).unwrap();
        // As a runner leaves them that is killed during an apply.
        for path in [&states, &states.join("terraform.tfstate")] {
            std::os::unix::fs::chown(path, Some(64_503), Some(64_503)).unwrap();
        }
        installation.configure(&layers(&["a", "b"]));
        installation.serve(&arguments).await;
        let refused = "none of the users 64503 to 64503 is free";
        eventually("an attempt of `b` without a user", || {
            let runs = installation.runs("b");
            let id = runs.first().and_then(|run| run["id"].as_str());
            id.is_some_and(|id| text(&installation.ask(&["run", "logs", id])).contains(refused))
        })
        .await;
        // The layer itself can use the number.
        assert!(installation.ask(&["layer", "plan", "a"]).status.success());
        eventually("states of root", || states.metadata().unwrap().uid() == 0).await;
        assert_eq!(std::fs::read(states.join("terraform.tfstate")).unwrap(), state);
    })
    .await;
}

#[tokio::test]
async fn data_directory_that_users_of_attempts_cannot_reach_is_refused() {
    as_root_async(async {
        let installation = Installation::new();
        std::fs::set_permissions(installation.path(""), PermissionsExt::from_mode(0o700)).unwrap();
        let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
        let arguments = [Installation::quick_start(&repository), level("user")].concat();
        let pass = installation.once(&arguments).await;
        assert_eq!(pass.status.code(), Some(2), "{}", text(&pass));
        assert!(text(&pass).contains("cannot reach the data directory"), "{}", text(&pass));
        assert!(!installation.data().exists());
    })
    .await;
}
