//! Secrets in what an engine prints, and variables that reach its other commands.

use serde_json::json;

use super::engine::engines;

const SECRET: &str = "hunter22-0815 with spaces";

#[tokio::test]
async fn secret_is_masked_in_errors_plans_and_outputs() {
    // A part of a module, and what shows how far its apply came.
    const BODIES: [(&str, &str); 3] = [
        (
            "output \"x\" {\n  value = tonumber(nonsensitive(var.s))\n}\n",
            "Invalid function argument",
        ),
        (
            "resource \"terraform_data\" \"a\" {\n  input = nonsensitive(var.s)\n}\n",
            "1 added, 0 changed, 0 destroyed",
        ),
        (
            "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"echo $S; exit 1\"\n    environment = { S = nonsensitive(var.s) }\n  }\n}\n",
            "local-exec provisioner error",
        ),
    ];
    for engine in engines() {
        for (body, reached) in BODIES {
            let module = format!("variable \"s\" {{\n  sensitive = true\n}}\n{body}");
            let world = engine.world(&[("main.tf", &module)]).await;
            let end = engine
                .run_with(&world, "apply", |config| {
                    config["variables"] = json!({"s": {"value": SECRET, "sensitive": true}});
                })
                .await;
            let shown = world.reports_and_output(&end);
            assert!(!shown.contains("hunter22"), "{}: {shown}", engine.name());
            assert!(shown.contains(reached), "{}: {shown}", engine.name());
        }
    }
}

/// `OpenTofu` reads the state with the variables of the run, also where a plan that has them is applied. Before 1.11 it
/// takes them from the environment only.
#[tokio::test]
async fn variables_of_the_encryption_reach_every_command() {
    const MODULE: &str = r#"
variable "pass" { type = string }
terraform {
  encryption {
    key_provider "pbkdf2" "k" {
      passphrase = var.pass
      iterations = 200000
    }
    method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
    state { method = method.aes_gcm.m }
  }
}
resource "terraform_data" "a" { input = "kept" }
output "it" { value = terraform_data.a.output }
"#;
    let all =
        engines().into_iter().filter(|engine| engine.is_opentofu() && engine.has((1, 11), (9, 0)));
    for engine in all {
        let world = engine.world(&[("main.tf", MODULE)]).await;
        for operation in ["apply", "plan", "refresh", "destroy"] {
            let end = engine
                .run_with(&world, operation, |config| {
                    config["variables"] = json!({"pass": {"value": SECRET, "sensitive": true}});
                })
                .await;
            engine.assert_succeeded(&world, &end);
            let state = std::fs::read_to_string(world.path("terraform.tfstate")).unwrap();
            assert!(state.contains("encrypted_data"), "{} {operation}: {state}", engine.name());
        }
    }
}

#[tokio::test]
async fn variables_reach_init_where_the_engine_evaluates_them() {
    let module = "variable \"m\" {\n  type = string\n}\nmodule \"x\" {\n  source = \"./mods/${var.m}\"\n}\noutput \"o\" {\n  value = module.x.o\n}\n";
    let files = [
        ("main.tf", module),
        ("mods/a/main.tf", "output \"o\" {\n  value = \"A\"\n}\n"),
        ("mods/b/main.tf", "output \"o\" {\n  value = \"B\"\n}\n"),
    ];
    // Terraform can only use constants there.
    let all =
        engines().into_iter().filter(|engine| engine.is_opentofu() && engine.has((1, 8), (9, 0)));
    for engine in all {
        let world = engine.world(&files).await;
        let end = engine
            .run_with(&world, "apply", |config| config["variables"] = json!({"m": {"value": "b"}}))
            .await;
        engine.assert_succeeded(&world, &end);
        let outputs = world.received().outputs.pop().unwrap();
        assert_eq!(outputs["outputs"]["o"]["value"], "B", "{}", engine.name());
    }
}
