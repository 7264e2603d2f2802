//! State locks, and states that cannot be stored, with real Terraform and real backends.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use butler_testing::Postgres;
use butler_testing::environment::find_program;
use butler_testing::http_backend::HttpBackend;
use butler_testing::object_store::ObjectStore;
use butler_testing::stand_in::StandIn;
use butler_testing::terraform::TestModule;
use butler_testing::world::{MODULE, RUN_ID, RunEnd, World, eventually};

/// An apply that blocks while it holds the lock, and stops on SIGTERM as Terraform does.
const STANDS: &str = ": > READY; exec sleep 1000";

/// An apply whose Terraform does not respond to signals: only SIGKILL ends it.
const HANGS: &str = "kill -STOP $PPID; : > READY; exec sleep 1000";

/// A grace period whose second half, in which the runner asks for the lock of a tool that does not
/// stop, is long enough on a busy machine.
const TIME_TO_ASK: &str = "12s";

/// A module whose apply executes `act`. `READY` in it is replaced by the file that signals its
/// start.
fn module(world: &World, act: &str) -> String {
    let act = act.replace("READY", ready(world).to_str().unwrap());
    format!(
        "resource \"terraform_data\" \"standing\" {{\n  provisioner \"local-exec\" {{\n    \
         command = \"{act}\"\n  }}\n}}\n"
    )
}

fn ready(world: &World) -> std::path::PathBuf {
    world.path("ready")
}

/// Applies `act` in the world with this backend, and sends SIGTERM during the apply.
async fn interrupted(world: &World, backend: &Value, act: &str) -> RunEnd {
    world.commit(&[("main.tf", &module(world, act))]);
    world.add_run(world.config_in("apply", backend));
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    eventually("a provisioner", || ready(world).exists()).await;
    kill(pid, Signal::SIGTERM).unwrap();
    let output: Output = child.wait_with_output().await.unwrap();
    // Also asserts that no process of the run is left.
    let end = world.end(&output);
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"]);
    end
}

/// Asserts that another run can get the lock.
async fn assert_free(world: &World, backend: &Value) {
    let end = world.run(world.config_in("plan", backend)).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

fn local(world: &World) -> Value {
    json!({"type": "local", "config": {"path": world.path("terraform.tfstate")}})
}

fn pg(server: &Postgres) -> Value {
    let connection = server.connection_string();
    json!({"type": "pg", "config": {"conn_str": connection, "schema_name": "team"}})
}

fn http(server: &HttpBackend) -> Value {
    json!({"type": "http", "config": server.config()})
}

#[tokio::test]
async fn graceful_stop_releases_the_lock_of_a_local_state() {
    let world = World::new(&[]).await;
    let backend = local(&world);
    interrupted(&world, &backend, STANDS).await;
    assert!(!world.path(".terraform.tfstate.lock.info").exists());
    assert_free(&world, &backend).await;
}

#[tokio::test]
async fn graceful_stop_releases_the_lock_of_a_state_in_postgresql() {
    let server = Postgres::start();
    let world = World::new(&[]).await;
    interrupted(&world, &pg(&server), STANDS).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(server.query(locks), ["0"]);
    assert_free(&world, &pg(&server)).await;
}

#[tokio::test]
async fn graceful_stop_releases_the_lock_of_an_http_state() {
    let server = HttpBackend::start().await;
    let world = World::new(&[]).await;
    interrupted(&world, &http(&server), STANDS).await;
    assert_eq!(server.lock(), None);
    assert!(server.state().is_some(), "what was done is in the state");
    assert_free(&world, &http(&server)).await;
}

#[tokio::test]
async fn lock_of_a_local_state_ends_with_the_killed_tool() {
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", "1s");
    let backend = local(&world);
    interrupted(&world, &backend, HANGS).await;
    let (_, advice) = world.last_error();
    assert!(advice.contains("the state lock has ended with the tool"), "{advice}");
    assert_free(&world, &backend).await;
}

#[tokio::test]
async fn lock_of_a_state_in_postgresql_ends_with_the_killed_tool() {
    let server = Postgres::start();
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", "1s");
    interrupted(&world, &pg(&server), HANGS).await;
    let (_, advice) = world.last_error();
    assert!(advice.contains("the state lock has ended with the tool"), "{advice}");
    assert_free(&world, &pg(&server)).await;
}

#[tokio::test]
async fn stale_lock_of_a_killed_tool_is_reported_with_the_unlock_command() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", TIME_TO_ASK);
    let end = interrupted(&world, &http(&server), HANGS).await;
    let lock = server.lock().expect("nobody has removed it");
    assert_eq!(lock["Operation"], "OperationTypeApply");
    let id = lock["ID"].as_str().unwrap();
    let (message, advice) = world.last_error();
    assert!(message.contains(&format!("it left the state lock `{id}`")), "{message}");
    let command = format!("`terraform force-unlock {id}`");
    assert!(advice.contains(&command), "{advice}");
    assert!(end.stderr.contains(&command), "{}", end.stderr);

    // For the next run the lock belongs to another process, even with `--force-unlock-own`.
    world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    let end = world.run(world.config_in("plan", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, advice) = world.last_error();
    assert!(message.contains(&format!("the state is locked (id {id};")), "{message}");
    assert!(advice.contains("--lock-timeout") && advice.contains(&command), "{advice}");
    assert_eq!(server.lock().unwrap()["ID"], id);
}

#[tokio::test]
async fn stale_lock_of_a_killed_tool_is_removed_with_force_unlock_own() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", TIME_TO_ASK);
    world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    interrupted(&world, &http(&server), HANGS).await;
    assert_eq!(server.lock(), None);
    assert_eq!(server.refusals(), 1, "there is no time to ask again for what is known");
    let (message, _) = world.last_error();
    assert!(message.contains("that it left was removed"), "{message}");
    assert_free(&world, &http(&server)).await;
}

#[tokio::test]
async fn stale_s3_lock_file_of_a_killed_tool_is_removed_with_force_unlock_own() {
    let store = ObjectStore::start().await;
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", TIME_TO_ASK);
    let mut settings = store.config();
    settings["use_lockfile"] = json!(true);
    let lock = format!("{}.tflock", settings["key"].as_str().unwrap());
    let backend = json!({"type": "s3", "config": settings});
    interrupted(&world, &backend, HANGS).await;
    let left = store.object(&lock).await.expect("nobody has removed it");
    let (message, _) = world.last_error();
    let id = left["ID"].as_str().unwrap();
    assert!(message.contains(&format!("it left the state lock `{id}`")), "{message}");

    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", TIME_TO_ASK);
    world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    let mut settings = store.config();
    settings["use_lockfile"] = json!(true);
    settings["key"] = json!("another.tfstate");
    let backend = json!({"type": "s3", "config": settings});
    interrupted(&world, &backend, HANGS).await;
    assert_eq!(store.object("another.tfstate.tflock").await, None);
    let (message, _) = world.last_error();
    assert!(message.contains("that it left was removed"), "{message}");
    assert_free(&world, &backend).await;
}

#[tokio::test]
async fn lock_of_unclear_owner_is_never_removed() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", TIME_TO_ASK);
    world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    // Another process kills the tool, so the runner could not look up the owner of the lock.
    let act = "kill -KILL $PPID; exec sleep 1000";
    world.commit(&[("main.tf", &module(&world, act))]);
    let end = world.run(world.config_in("apply", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"]);
    let lock = server.lock().expect("nobody has removed it");
    let id = lock["ID"].as_str().unwrap();
    let (message, advice) = world.last_error();
    assert!(message.contains("was killed by signal 9"), "{message}");
    assert!(message.contains(id) && message.contains("may be its own lock"), "{message}");
    let command = format!("when no other run holds it, run `terraform force-unlock {id}`");
    assert!(advice.contains(&command), "{advice}");
}

#[tokio::test]
async fn lock_found_after_a_run_without_locking_is_never_its_own() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[]).await;
    world.set("BUTLER_GRACE_PERIOD", TIME_TO_ASK);
    world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    for command in ["plan", "apply"] {
        world.set(&format!("TF_CLI_ARGS_{command}"), "-lock=false");
    }
    server.set_lock(Some(json!({"ID": "theirs", "Who": "alice@elsewhere"})));
    interrupted(&world, &http(&server), HANGS).await;
    assert_eq!(server.lock().expect("nobody has removed it")["ID"], "theirs");
    let (message, advice) = world.last_error();
    assert!(message.contains("(id theirs;"), "{message}");
    assert!(advice.contains("when no other run holds it"), "{advice}");
}

/// A Terraform of another user that blocks while it holds the lock. It ends when this is dropped.
struct BlockingTerraform(Child);

impl Drop for BlockingTerraform {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn lock_of_another_run_is_reported_with_owner_time_and_id() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let state = world.path("terraform.tfstate");
    let block = format!(
        "terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n",
        state.display()
    );
    let other = TestModule::new(&[("main.tf", &module(&world, STANDS)), ("backend.tf", &block)]);
    other.succeed(&["init"]);
    let mut apply = other.command(&["apply", "-auto-approve"]);
    apply.stdout(Stdio::null()).stderr(Stdio::null());
    let _standing = BlockingTerraform(apply.spawn().unwrap());
    eventually("a provisioner", || ready(&world).exists()).await;
    let lock = std::fs::read(world.path(".terraform.tfstate.lock.info")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    let field = |name: &str| lock[name].as_str().unwrap().to_owned();

    for operation in ["plan", "apply", "destroy", "refresh", "drift-check"] {
        let end = world.run(world.config(operation)).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let (message, advice) = world.last_error();
        let since = field("Created").replace('T', " ");
        for part in
            [field("Who"), since[..19].to_owned(), field("ID"), "OperationTypeApply".to_owned()]
        {
            assert!(message.contains(&part), "{operation}: {part} in {message}");
        }
        let command = format!("`terraform force-unlock {}`", field("ID"));
        assert!(advice.contains(&command) && advice.contains("--lock-timeout"), "{advice}");
    }
}

#[tokio::test]
async fn run_waits_for_a_lock_until_the_lock_timeout() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_LOCK_TIMEOUT", "5m");
    server.set_lock(Some(json!({"ID": "theirs", "Who": "alice@elsewhere"})));
    world.add_run(world.config_in("plan", &http(&server)));
    let run = world.execute().spawn().unwrap();
    server.refused_a_lock().await;
    server.set_lock(None);
    let end = world.end(&run.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn unstored_state_is_pushed_by_the_runner() {
    for operation in ["apply", "refresh"] {
        let server = HttpBackend::start().await;
        let world = World::new(&[("main.tf", MODULE)]).await;
        if operation == "refresh" {
            let end = world.run(world.config_in("apply", &http(&server))).await;
            assert_eq!(end.code, Some(0), "{}", end.stderr);
            let more = format!("{MODULE}output \"more\" {{ value = 1 }}\n");
            world.commit(&[("main.tf", &more)]);
        }
        server.refuse(&["OperationTypeApply"]);
        let end = world.run(world.config_in(operation, &http(&server))).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert_eq!(world.statuses(), ["running", "failed"]);
        assert_eq!(server.stored().last().unwrap(), "state-push");
        assert!(server.state().unwrap()["outputs"]["greeting"].is_object());
        let more = &server.state().unwrap()["outputs"]["more"];
        assert_eq!(more.is_object(), operation == "refresh");
        assert_eq!(server.lock(), None);
        let (message, _) = world.last_error();
        assert!(message.contains("was then pushed by the runner"), "{message}");
        assert!(world.received().log_text().contains("was then pushed by the runner"));
        assert!(!world.path("cache/recovery").exists(), "nothing is kept that is stored");
    }
}

#[tokio::test]
async fn state_that_cannot_be_pushed_is_kept_and_reported_last() {
    let server = HttpBackend::start().await;
    let mut world =
        World::new(&[("main.tf", MODULE), ("errored.tfstate", "not of this run")]).await;
    let recovery = world.path("volume/recovery");
    world.set("BUTLER_RECOVERY_DIR", &recovery);
    server.refuse(&["OperationTypeApply", "state-push"]);
    let end = world.run(world.config_in("apply", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let pushes = server.stored().iter().filter(|operation| *operation == "state-push").count();
    assert!(pushes > 1, "{:?}", server.stored());
    let kept: Vec<_> = std::fs::read_dir(&recovery).unwrap().map(|it| it.unwrap().path()).collect();
    let [kept] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(std::fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    let state: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(state["resources"][0]["name"], "hello");

    let command = format!("terraform state push {}", kept.display());
    let (log, status) = (world.received().log_text(), world.last_status());
    let summary = status["plan_summary"].as_str().unwrap();
    for text in [log.as_str(), &end.stderr, summary] {
        let last = text.lines().last().unwrap();
        assert!(last.contains(&command), "{last}");
    }

    // The documented command works as soon as the backend is available.
    server.refuse(&[]);
    let block = server.block();
    let module = tokio::task::spawn_blocking(move || {
        let module = TestModule::new(&[("main.tf", MODULE), ("backend.tf", &block)]);
        module.succeed(&["init"]);
        module.succeed(&command.split(' ').skip(1).collect::<Vec<_>>());
        module.succeed(&["plan"])
    });
    let plan = module.await.unwrap();
    assert!(plan.contains("No changes."), "{plan}");
}

#[tokio::test]
async fn unstored_state_is_pushed_under_the_unreleased_lock_of_the_run() {
    for remove in [false, true] {
        let server = HttpBackend::start().await;
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.set("BUTLER_FORCE_UNLOCK_OWN", remove.to_string());
        server.be_away_for(&["OperationTypeApply"]);
        let end = world.run(world.config_in("apply", &http(&server))).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        // The push succeeded while the lock of the apply kept other runs out.
        assert_eq!(server.stored(), ["OperationTypeApply"]);
        assert!(server.state().unwrap()["outputs"]["greeting"].is_object());
        assert!(!world.path("cache/recovery").exists(), "nothing is kept that is stored");
        let (message, advice) = world.last_error();
        assert!(message.contains("was then pushed by the runner"), "{message}");
        match server.lock() {
            None => {
                assert!(remove, "nobody wanted it removed");
                assert!(message.contains("that it left was removed"), "{message}");
            }
            Some(lock) => {
                assert!(!remove, "{message}");
                let id = lock["ID"].as_str().unwrap();
                assert!(message.contains(&format!("it left the state lock `{id}`")), "{message}");
                assert!(advice.contains(&format!("`terraform force-unlock {id}`")), "{advice}");
            }
        }
    }
}

/// Plans, with the removal of the lock `id`.
async fn plan_without_lock(world: &World, server: &HttpBackend, id: &str) -> RunEnd {
    let mut config = world.config_in("plan", &http(server));
    config["forceUnlock"] = json!(id);
    world.run(config).await
}

fn lock_of(who: &str, id: &str) -> Value {
    json!({"ID": id, "Operation": "OperationTypeApply", "Who": who, "Created": "2026-01-01T10:00:00Z"})
}

#[tokio::test]
async fn lock_that_the_configuration_names_is_removed_before_the_plan() {
    let server = HttpBackend::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    server.set_lock(Some(lock_of("alice@host", "of-alice")));
    let end = world.run(world.config_in("plan", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    // Terraform's `http` backend reports the id only.
    assert_eq!(world.last_status()["error"]["lock"], json!({"id": "of-alice"}));
    let end = plan_without_lock(&world, &server, "of-alice").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let log = world.received().log_text();
    assert!(log.contains("Removed the state lock `of-alice`"), "{log}");
    assert!(log.contains("Plan: 1 to add"), "{log}");
    assert_eq!(server.lock(), None);

    // The run is tried again after the lock was removed.
    let end = plan_without_lock(&world, &server, "of-alice").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let log = world.received().log_text();
    assert!(log.contains("The state is not locked: `of-alice` is gone already"), "{log}");
}

#[tokio::test]
async fn lock_with_another_id_than_the_configuration_names_stays() {
    let server = HttpBackend::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    server.set_lock(Some(lock_of("bob@host", "of-bob")));
    let end = plan_without_lock(&world, &server, "of-alice").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(server.lock().unwrap()["ID"], "of-bob");
    let status = world.last_status();
    let message = status["error"]["message"].as_str().unwrap();
    let expected = "the state lock `of-alice` is not removed, because another one is held: the state is \
                    locked (id of-bob;";
    assert!(message.contains(expected), "{message}");
    assert_eq!(status["error"]["class"], "lock");
    assert_eq!(status["error"]["lock"], json!({"id": "of-bob"}));
}

#[tokio::test]
async fn lock_stays_if_its_backend_does_not_report_which_one_is_held() {
    let server = HttpBackend::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    server.set_lock(Some(lock_of("alice@host", "of-alice")));
    // The address of the locks does not exist.
    let mut settings = server.config();
    settings["lock_address"] = json!("http://127.0.0.1:9/lock");
    let mut config = world.config_in("plan", &json!({"type": "http", "config": settings}));
    config["forceUnlock"] = json!("of-alice");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(server.lock().unwrap()["ID"], "of-alice");
    let (message, _) = world.last_error();
    let expected = "the backend does not report which lock is held: Error acquiring the state lock";
    assert!(message.contains(expected), "{message}");
}

/// The last line of each human-readable report.
fn last_words(world: &World, end: &RunEnd) -> Vec<String> {
    let (log, status) = (world.received().log_text(), world.last_status());
    let summary = status["plan_summary"].as_str().unwrap_or_default().to_owned();
    let last = |text: &String| text.lines().last().unwrap_or_default().to_owned();
    [log, summary, end.stderr.clone()].iter().map(last).collect()
}

#[tokio::test]
async fn lock_that_prevents_the_push_is_reported_before_it() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    server.keep_locked(&["OperationTypeApply"]);
    let end = world.run(world.config_in("apply", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    // The backend only returns an id, which may belong to another run by now.
    let lock = server.lock().expect("nobody has removed it");
    assert_eq!(server.stored(), ["OperationTypeApply"], "nobody has pushed without a lock");
    let unlock =
        format!("run `terraform force-unlock {}` in the module", lock["ID"].as_str().unwrap());
    for last in last_words(&world, &end) {
        let (before, _) = last.split_once("run `terraform state push ").expect(&last);
        assert!(before.contains(&unlock), "{last}");
    }
    assert!(
        end.stderr.contains("`terraform state push` failed with exit code 1: the state is locked"),
        "{}",
        end.stderr
    );
}

/// Makes the runner use the real Terraform, with this script before each `state push`.
fn before_push(world: &mut World, act: &str) -> StandIn {
    let real = find_program("terraform").unwrap();
    let real = format!("exec '{}' \"$@\"", real.display());
    let state = format!("if [ \"$2\" = push ]; then {act}; fi; {real}");
    StandIn::doing(world, &[("state", &state), ("*", &real)])
}

/// Applies with an unavailable backend, and sends SIGTERM while `act` runs in place of the push.
async fn interrupted_push(act: &str, lock: Option<Value>) -> (World, RunEnd, StandIn) {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let recovery = world.path("volume/recovery");
    world.set("BUTLER_RECOVERY_DIR", &recovery);
    let tool = before_push(&mut world, act);
    server.refuse(&["OperationTypeApply"]);
    world.add_run(world.config_in("apply", &http(&server)));
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    tool.wait_until_running().await;
    server.set_lock(lock);
    kill(pid, Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(std::fs::read_dir(&recovery).unwrap().count(), 1, "{}", end.stderr);
    (world, end, tool)
}

#[tokio::test]
async fn interrupted_state_push_gets_sigterm_before_sigkill() {
    let act = "trap 'echo TERM >> \"$record/signals\"; exit 1' TERM; : > \"$record/planning\"; \
               while :; do sleep 0.05; done";
    let (world, end, tool) = interrupted_push(act, None).await;
    assert_eq!(tool.record("signals"), "TERM\n", "{}", end.stderr);
    assert_eq!(world.statuses().len(), 2);
}

#[tokio::test]
async fn stale_lock_of_a_killed_state_push_is_reported() {
    let act = "trap '' TERM; : > \"$record/planning\"; while :; do sleep 0.05; done";
    let lock = json!({"ID": "of-the-push", "Operation": "state-push"});
    let (world, end, _) = interrupted_push(act, Some(lock)).await;
    for last in last_words(&world, &end) {
        assert!(last.contains("run `terraform force-unlock of-the-push`"), "{last}");
    }
}

#[tokio::test]
async fn cancellation_by_the_registry_does_not_interrupt_a_state_push() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_CANCEL_INTERVAL", "50ms");
    // A slow backend.
    let tool = before_push(&mut world, ": > \"$record/planning\"; sleep 6");
    server.refuse(&["OperationTypeApply"]);
    world.add_run(world.config_in("apply", &http(&server)));
    let child = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    world.registry.set_status(RUN_ID, "cancelled");
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(server.state().is_some(), "{}", end.stderr);
    assert_eq!(server.lock(), None);
}

#[tokio::test]
async fn unstored_state_of_a_local_run_stays_in_the_module_directory() {
    let server = HttpBackend::start().await;
    server.refuse(&["OperationTypeApply"]);
    let world = World::new(&[]).await;
    let directory = world.path("module");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("main.tf"), format!("{MODULE}{}", server.block())).unwrap();
    let directory = directory.to_str().unwrap();
    let arguments = ["execute", "--local", "--module-dir", directory, "--operation", "apply", "-q"];
    let end = world.end(&world.command(&arguments).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let errored = Path::new(directory).join("errored.tfstate");
    assert!(errored.is_file());
    assert!(!server.stored().contains(&"state-push".to_owned()));
    let said = format!("is in `{}`: run `terraform state push errored.tfstate`", errored.display());
    assert!(end.stderr.contains(&said), "{}", end.stderr);
}
