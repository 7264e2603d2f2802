//! The report of a run that fails: its class, its reason, and the lock of another command.

use serde_json::{Value, json};

use super::engine::{Engine, engines};
use butler_testing::http_backend::HttpBackend;
use butler_testing::world::World;

/// A failure that a module or its backend causes, and its report.
struct Situation {
    /// Its cause, for messages.
    name: &'static str,
    module: &'static str,
    backend: Option<Value>,
    class: &'static str,
    /// A part of the reason.
    reason: &'static str,
}

impl Situation {
    fn of_module(
        name: &'static str,
        module: &'static str,
        class: &'static str,
        reason: &'static str,
    ) -> Self {
        Self { name, module, backend: None, class, reason }
    }
}

fn situations() -> Vec<Situation> {
    let unreachable =
        json!({"type": "http", "config": {"address": "http://127.0.0.1:1/state", "retry_max": 0}});
    vec![
        Situation::of_module(
            "a block that is not closed",
            "resource \"terraform_data\" \"a\" {\n",
            "syntax",
            "Unclosed configuration block",
        ),
        Situation::of_module(
            "an unknown attribute",
            "resource \"terraform_data\" \"a\" {\n  nothing = 1\n}\n",
            "syntax",
            "Unsupported argument",
        ),
        Situation::of_module(
            "a variable without a value",
            "variable \"x\" {}\noutput \"x\" {\n  value = var.x\n}\n",
            "configuration",
            "No value for required variable: The root module input variable \"x\" is not set",
        ),
        Situation::of_module(
            "a condition that does not hold",
            "locals {\n  one = 1\n}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    precondition {\n      condition     = local.one == 2\n      error_message = \"one is not two\"\n    }\n  }\n}\n",
            "module",
            "one is not two",
        ),
        Situation::of_module(
            "a provisioner that fails",
            "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"exit 3\"\n  }\n}\n",
            "module",
            "local-exec provisioner error",
        ),
        Situation {
            name: "a backend that cannot be reached",
            module: "resource \"terraform_data\" \"a\" {}\n",
            backend: Some(unreachable),
            class: "network",
            reason: "connection refused",
        },
        Situation {
            name: "a backend that does not exist",
            module: "resource \"terraform_data\" \"a\" {}\n",
            backend: Some(json!({"type": "nonsense", "config": {}})),
            class: "configuration",
            reason: "nonsense",
        },
    ]
}

async fn fail(engine: &Engine, world: &World, situation: &Situation) -> Value {
    let end = engine
        .run_with(world, "apply", |config| {
            if let Some(backend) = &situation.backend {
                config["stateBackend"] = backend.clone();
            }
        })
        .await;
    assert_ne!(end.code, Some(0), "{}, {}: {}", engine.name(), situation.name, end.stdout);
    world.last_status()["error"].clone()
}

#[tokio::test]
async fn each_failure_has_its_class_and_its_reason() {
    for engine in engines() {
        for situation in situations() {
            let world = engine.world(&[("main.tf", situation.module)]).await;
            let error = fail(&engine, &world, &situation).await;
            let what = format!("{}, {}: {error}", engine.name(), situation.name);
            assert_eq!(error["class"], situation.class, "{what}");
            assert!(error["message"].as_str().unwrap().contains(situation.reason), "{what}");
        }
    }
}

#[tokio::test]
async fn holder_of_a_lock_is_named_and_the_lock_can_be_removed() {
    for engine in engines() {
        let name = engine.name();
        let server = HttpBackend::start().await;
        let world = engine.world(&[("main.tf", "resource \"terraform_data\" \"a\" {}\n")]).await;
        let backend = json!({"type": "http", "config": server.config()});
        let in_backend = |config: &mut Value| config["stateBackend"] = backend.clone();
        let end = engine.run_with(&world, "apply", in_backend).await;
        engine.assert_succeeded(&world, &end);
        let id = "6a3f2b1c-9d8e-4f70-a1b2-c3d4e5f60718";
        server.set_lock(Some(
            json!({"ID": id, "Operation": "OperationTypeApply", "Who": "user@host"}),
        ));
        let end = engine.run_with(&world, "plan", in_backend).await;
        assert_ne!(end.code, Some(0), "{name}");
        let error = world.last_status()["error"].clone();
        assert_eq!(error["class"], "lock", "{name}: {error}");
        assert_eq!(error["lock"]["id"], id, "{name}: {error}");
        let remove = |config: &mut Value| {
            in_backend(config);
            config["forceUnlock"] = json!(id);
        };
        let end = engine.run_with(&world, "plan", remove).await;
        engine.assert_succeeded(&world, &end);
        assert_eq!(server.lock(), None, "{name}");
        // The lock is free now, and that is not a failure.
        let end = engine.run_with(&world, "plan", remove).await;
        engine.assert_succeeded(&world, &end);
    }
}
