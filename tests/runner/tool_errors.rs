//! The classes, reasons and hints of errors, with real Terraform against servers that fail.

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::IntoResponse;
use butler_registry::memory::Server;
use serde_json::{Value, json};

use butler_testing::Postgres;
use butler_testing::ports::HeldPort;
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World};

/// A state server. Requests of `…/get/CODE` get that status, and locks of `…/lock/CODE`.
async fn state_server() -> Server {
    let answer = |method: Method, uri: Uri| async move {
        let mut parts = uri.path().rsplit('/');
        let (code, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let fails = kind == "get" || method.as_str() == "LOCK";
        let code = if fails { code.parse().unwrap_or(500) } else { 404 };
        (StatusCode::from_u16(code).unwrap(), "not JSON").into_response()
    };
    Server::start(Router::new().fallback(answer)).await.unwrap()
}

fn http(address: &str) -> Value {
    json!({"type": "http", "config": {"address": address, "lock_address": address, "retry_max": 0}})
}

/// The class, the message and the hint of a plan in this backend.
async fn failed_plan(backend: &Value) -> (String, String, String) {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let end = world.run(world.config_in("plan", backend)).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, advice) = world.last_error();
    (world.last_status()["error"]["class"].as_str().unwrap().to_owned(), message, advice)
}

#[tokio::test]
async fn failure_of_a_state_server_has_its_class_its_detail_and_a_hint() {
    let server = state_server().await;
    let closed = HeldPort::new();
    let of = |path: &str| http(&format!("{}/{path}", server.endpoint()));
    for (backend, class, said, hint) in [
        (of("get/401"), "credentials", "requires auth", "credentials"),
        (of("get/403"), "credentials", "invalid auth", "permissions"),
        (of("get/429"), "network", "giving up after 1 attempt", "retry later"),
        (of("get/500"), "network", "giving up after 1 attempt", "retry later"),
        (of("lock/401"), "credentials", "state lock: HTTP remote state endpoint requires auth", ""),
        (
            of("lock/503"),
            "network",
            "Error acquiring the state lock: Failed to lock",
            "retry later",
        ),
        (
            http(&format!("http://127.0.0.1:{}/x", closed.port())),
            "network",
            "connection refused",
            "HTTPS_PROXY",
        ),
    ] {
        let (found, message, advice) = failed_plan(&backend).await;
        assert_eq!(found, class, "{message}");
        assert!(message.contains(said), "{message}");
        assert!(advice.contains(hint), "{advice}");
    }
}

#[tokio::test]
async fn command_that_gets_no_lock_is_not_named_as_its_holder() {
    let server = state_server().await;
    for code in ["423", "409"] {
        let backend = http(&format!("{}/lock/{code}", server.endpoint()));
        let (class, message, advice) = failed_plan(&backend).await;
        assert_eq!(class, "lock", "{message}");
        assert!(message.contains("the state is locked; its backend does not report"), "{message}");
        assert!(!advice.contains("force-unlock"), "{advice}");
    }
}

#[tokio::test]
async fn postgresql_that_refuses_a_login_is_a_failure_of_credentials() {
    let server = Postgres::start();
    let wrong =
        server.connection_string().replacen("postgres://postgres:", "postgres://postgres:no", 1);
    assert_ne!(wrong, server.connection_string());
    let backend = json!({"type": "pg", "config": {"conn_str": wrong}});
    let (class, message, advice) = failed_plan(&backend).await;
    assert_eq!(class, "credentials", "{message}");
    assert!(message.contains("password authentication failed"), "{message}");
    assert!(advice.contains("credentials"), "{advice}");
}

#[tokio::test]
async fn crash_of_terraform_is_called_one() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let crash = "{ echo '!!!!!!!!!!!!!!!!!!!!!!!!!!! TERRAFORM CRASH !!!!!!!!!!!!!!!!!!!!!!!!!!!!'; \
         echo 'panic: runtime error: index out of range'; echo; echo 'goroutine 1 [running]:'; } >&2; exit 11";
    StandIn::install(&mut world, AtPlan::Do(crash));
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, advice) = world.last_error();
    assert!(message.contains("it crashed: runtime error: index out of range"), "{message}");
    assert!(advice.contains("bug of the tool"), "{advice}");
}

#[tokio::test]
async fn arguments_of_the_environment_reach_the_commands_that_know_them() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("TF_CLI_ARGS", "-input=false -lock-timeout=60s -lock=true -parallelism=3");
    world.set("TF_CLI_ARGS_plan", "-detailed-exitcode");
    world.set("TF_CLI_ARGS_output", "-raw");
    let state = json!({"type": "local", "config": {"path": world.path("terraform.tfstate")}});
    let end = world.run(world.config_in("apply", &state)).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn clean_up_of_tests_that_fails_names_what_is_left() {
    let module = "resource \"terraform_data\" \"left\" {\n  provisioner \"local-exec\" {\n    \
                  when = destroy\n    command = \"exit 1\"\n  }\n}\noutput \"x\" {\n  value = 1\n}\n";
    let test = "run \"one\" {\n  assert {\n    condition = output.x == 1\n    error_message = \"no\"\n  }\n}\n";
    let world = World::new(&[("main.tf", module), ("main.tftest.hcl", test)]).await;
    let end = world.run(world.config("test")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = world.last_error();
    let left = "the clean-up of the tests left resources that must be removed manually: terraform_data.left";
    assert_eq!(message, left);
    let summary = world.last_status()["plan_summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("Tests: 1 passed, 0 failed, 0 skipped; the clean-up"), "{summary}");
}
