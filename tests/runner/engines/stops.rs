//! Runs that are stopped while the engine works.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::engine::engines;
use butler_testing::world::eventually;

#[tokio::test]
async fn stopped_apply_keeps_what_it_has_created_and_leaves_no_lock() {
    for engine in engines() {
        let name = engine.name();
        let world = engine.world(&[]).await;
        let began = world.path("began");
        let module = format!(
            "resource \"terraform_data\" \"first\" {{}}\nresource \"terraform_data\" \"second\" {{\n  depends_on = \
             [terraform_data.first]\n  provisioner \"local-exec\" {{\n    command = \": > {}; exec sleep \
             1000\"\n  }}\n}}\nresource \"terraform_data\" \"third\" {{\n  depends_on = [terraform_data.second]\n}}\n",
            began.display()
        );
        world.commit(&[("main.tf", &module)]);
        let mut config = world.config("apply");
        config["terraformVersion"] = json!(engine.requested());
        world.add_run(config);
        let child = world.execute().spawn().unwrap();
        eventually("a provisioner", || began.exists()).await;
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let end = world.end(&child.wait_with_output().await.unwrap());
        assert_eq!(end.code, Some(143), "{name}: {}", end.stderr);
        let status = world.last_status();
        assert_eq!(status["resources_to_add"], 1, "{name}: {status}");
        let state = std::fs::read(world.path("terraform.tfstate")).unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        let kept = state["resources"].as_array().unwrap();
        assert!(kept.iter().any(|resource| resource["name"] == "first"), "{name}: {state}");
        assert!(kept.iter().all(|resource| resource["name"] != "third"), "{name}: {state}");
        world.commit(&[("main.tf", "resource \"terraform_data\" \"first\" {}\n")]);
        let end = engine.run(&world, "apply").await;
        engine.assert_succeeded(&world, &end);
    }
}
