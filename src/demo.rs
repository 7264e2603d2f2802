//! Demonstrates runs without other infrastructure: a development registry on loopback, a small module
//! in a temporary git repository, and a real Terraform.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};
use url::Url;

use crate::exit::Exit;
use crate::run::{Terminal, execute};
use crate::settings::{Arguments, Environment, Settings, setting};
use butler_base::secret::Redactor;
use butler_registry::memory::{MemoryRegistry, Received, serve};

/// The module. It uses only built-in resources, so that no provider is downloaded. Its constraint allows
/// an installed version or else the newest release.
const MODULE: &str = r#"terraform {
  required_version = ">= 1.4.0"
}

variable "environment" {
  type = string
}

variable "replicas" {
  type = number
}

variable "db_password" {
  type      = string
  sensitive = true
}

resource "terraform_data" "server" {
  count = var.replicas
  input = "${var.environment}-${count.index}"
}

resource "terraform_data" "database" {
  input = { name = "${var.environment}-db", password = var.db_password }
}

output "servers" {
  value = terraform_data.server[*].output
}

output "database" {
  value     = terraform_data.database.output
  sensitive = true
}
"#;

/// The secret of the demonstration, which must be redacted in all reports.
const SECRET: &str = "correct-horse-battery-staple";

/// The callback token of the demonstration's runs.
const TOKEN: &str = "brce_demonstration";

/// The runs, in their order.
const OPERATIONS: [&str; 3] = ["plan", "apply", "destroy"];

/// Runs plan, apply and destroy, and shows what the registry received beside Terraform's own
/// output, in what `terminal` makes.
///
/// # Errors
/// When something of the demonstration itself cannot be set up.
pub async fn demo(
    arguments: Arguments,
    environment: &Environment,
    redactor: &Arc<Redactor>,
    terminal: impl Fn() -> Terminal,
) -> anyhow::Result<Exit> {
    let mut out = terminal().stdout;
    let directory = tempfile::Builder::new()
        .prefix("butler-demo-")
        .tempdir()
        .context("no temporary directory")?;
    let repository = directory.path().join("module");
    create_repository(&repository).context("cannot make the module's repository")?;
    let registry = Arc::new(MemoryRegistry::default());
    let server = serve(registry.clone()).await.context("cannot start the development registry")?;
    writeln!(out, "A development registry listens at {}", server.endpoint())?;

    for operation in OPERATIONS {
        let run_id = format!("demo-{operation}");
        registry.add_run(&run_id, TOKEN, config(&run_id, operation, &repository, directory.path()));
        let arguments = arguments
            .clone()
            .with(&setting::ENDPOINT, server.endpoint().as_str())
            .with(&setting::RUN_ID, run_id.as_str());
        let environment = environment.clone().with(setting::TOKEN.variables[0], TOKEN);
        let settings = Settings::resolve(&arguments, &environment)?;
        writeln!(out, "\n=== butler-runner execute: {operation}\n")?;
        let exit = Box::pin(execute(settings, redactor.clone(), terminal())).await;
        let run = registry.run(&run_id).context("the run is gone")?;
        summarize(&mut out, operation, &run.received)?;
        if exit != Exit::Success {
            return Ok(exit);
        }
    }
    writeln!(out, "\nplan, apply and destroy went through; nothing is left behind.")?;
    Ok(Exit::Success)
}

fn create_repository(path: &Path) -> anyhow::Result<()> {
    let repository = git2::Repository::init(path)?;
    fs_err::write(path.join("main.tf"), MODULE)?;
    let mut index = repository.index()?;
    index.add_path(Path::new("main.tf"))?;
    let tree = repository.find_tree(index.write_tree()?)?;
    let author = git2::Signature::now("butler-runner demo", "demo@localhost")?;
    let commit = repository.commit(None, &author, &author, "Add the module", &tree, &[])?;
    repository.reference("refs/heads/main", commit, true, "first commit")?;
    Ok(())
}

/// The configuration of a run from the registry (ADR-001, New API Endpoint for Runner).
fn config(run_id: &str, operation: &str, repository: &Path, directory: &Path) -> Value {
    let repository = Url::from_directory_path(repository).expect("the path is absolute");
    let callback = |name: &str| format!("/v1/ci/module-runs/{run_id}/{name}");
    json!({
        "runId": run_id,
        "operation": operation,
        "source": {"type": "git", "gitRepo": repository.as_str().trim_end_matches('/'), "gitRef": "main"},
        "variables": {
            "environment": {"value": "demo"},
            "replicas": {"value": 2},
            "db_password": {"value": SECRET, "sensitive": true},
        },
        "stateBackend": {"type": "local", "config": {"path": directory.join("terraform.tfstate")}},
        "callbacks": {
            "statusUrl": callback("status"),
            "logsUrl": callback("logs"),
            "planUrl": callback("plan"),
            "outputsUrl": callback("outputs"),
        },
    })
}

fn summarize(out: &mut impl Write, operation: &str, received: &Received) -> anyhow::Result<()> {
    writeln!(out, "\n--- what the registry received for {operation}")?;
    writeln!(out, "requests: {}", received.request_names().join(", "))?;
    writeln!(out, "log lines: {}", received.logs.len())?;
    for plan in &received.plans {
        let bytes = plan.to_string().len();
        writeln!(
            out,
            "plan: {bytes} bytes, the secret in it: {}",
            if plan.to_string().contains(SECRET) { "SHOWN" } else { "masked" }
        )?;
    }
    for outputs in &received.outputs {
        let names: Vec<_> = outputs["outputs"]
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys().cloned())
            .collect();
        writeln!(out, "outputs: {}", names.join(", "))?;
    }
    for status in &received.statuses {
        writeln!(out, "status: {status}")?;
    }
    Ok(())
}
