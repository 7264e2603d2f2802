//! Whole runs through Terragrunt: installed from a signed site, around the real Terraform.
//!
//! Terragrunt itself is a stand-in, a script that does what its documentation and its source say: it
//! copies the unit, once with its `source` where it has one, below `TG_DOWNLOAD_DIR`, starts `TG_TF_PATH`
//! there as a child with the arguments behind `run --`, sets `inputs`, logs to standard error, and
//! keeps SIGTERM to itself for a while. What only the real one does is not shown here.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::http_backend::HttpBackend;
use crate::support::release_site::ReleaseSite;
use crate::support::terraform::machine_terraform;
use crate::support::world::{End, MODULE, World, eventually};

/// A unit that gets its module from elsewhere, as the stand-in reads it.
const UNIT: &str = "terraform {\n  source = \"../module\"\n}\ninputs = {\n  name = \"unit\"\n}\n";

/// The stand-in in this version.
fn terragrunt(world: &World, version: &str) -> String {
    let record = world.path("record");
    format!(
        r#"#!/bin/sh
if [ "$*" = --version ]; then echo 'terragrunt version v{version}'; exit; fi
record='{record}'
echo "$@" >> "$record/arguments"
env | grep -E '^(TG|TERRAGRUNT)_' | sort > "$record/environment"
tool=$TG_TF_PATH downloads=${{TG_DOWNLOAD_DIR:-.terragrunt-cache}}
case {version} in
0.[1-8]*) tool=$TERRAGRUNT_TFPATH downloads=${{TERRAGRUNT_DOWNLOAD:-.terragrunt-cache}} ;;
*) if [ "$1 $2" != "run --" ]; then echo "unknown command: $1" >&2; exit 1; fi; shift 2 ;;
esac
echo "12:00:00.000 INFO   Downloading Terraform configurations" >&2
copy=$downloads/aa/bb
mkdir -p "$copy"
source=$(sed -n 's/^  source = "\(.*\)"$/\1/p' terragrunt.hcl)
[ -z "$source" ] || [ -e "$copy/.version" ] || cp -R "$source"/. "$copy"
: > "$copy/.version"
cp -R ./* "$copy"
name=$(sed -n 's/^  name = "\(.*\)"$/\1/p' terragrunt.hcl)
[ -z "$name" ] || export TF_VAR_name="$name"
cd "$copy" || exit 1
trap 'echo TERM >> "$record/signals"' TERM
"$tool" "$@" <&0 &
child=$!
while wait "$child"; code=$?; kill -0 "$child" 2>/dev/null; do :; done
[ "$code" = 0 ] || echo "12:00:01.000 ERROR  terraform invocation failed" >&2
exit "$code"
"#,
        record = record.display()
    )
}

/// A world with the stand-in on a release site, and a run of it.
struct Bench {
    world: World,
    _site: ReleaseSite,
    version: &'static str,
}

impl Bench {
    async fn new(files: &[(&str, &str)], version: &'static str) -> Self {
        let mut world = World::new(files).await;
        std::fs::create_dir(world.path("record")).unwrap();
        let script = terragrunt(&world, version);
        let name = format!("terragrunt-{version}");
        let site = ReleaseSite::start(&[(&name, script.as_bytes())]);
        world.use_site(&site);
        Self { world, _site: site, version }
    }

    /// The configuration of a run on the unit in `unit`.
    fn config(&self, operation: &str) -> Value {
        let mut config = self.world.config(operation);
        config["terraformVersion"] = json!(format!("terragrunt-{}", self.version));
        config["source"]["workingDirectory"] = json!("unit");
        config
    }

    fn record(&self, name: &str) -> String {
        std::fs::read_to_string(self.world.path("record").join(name)).unwrap_or_default()
    }

    fn state(&self) -> Value {
        let state = std::fs::read(self.world.path("terraform.tfstate")).unwrap();
        serde_json::from_slice(&state).unwrap()
    }
}

fn assert_well(end: &End) {
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn a_unit_without_a_module_of_its_own_is_planned_applied_and_destroyed() {
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    let bench = Bench::new(&files, "1.0.0").await;
    let terraform = machine_terraform().1;

    assert_well(&bench.world.run(bench.config("plan")).await);
    let plan = &bench.world.received().plans[0];
    assert!(plan.to_string().contains("terraform_data.hello"), "{plan}");
    assert_eq!(bench.world.last_status()["resources_to_add"], 1);

    assert_well(&bench.world.run(bench.config("apply")).await);
    let received = bench.world.received();
    let outputs = received.outputs.last().unwrap();
    assert!(outputs.to_string().contains("hello unit"), "{outputs}");
    let tool = format!("terragrunt 1.0.0 with terraform {terraform}");
    assert_eq!(bench.world.last_status()["tool"], tool);
    let log = received.log_text();
    assert!(log.contains("Using terragrunt 1.0.0 ("), "{log}");
    assert!(log.contains("INFO   Downloading Terraform configurations"), "{log}");
    assert_eq!(bench.state()["resources"][0]["name"], "hello");

    assert_well(&bench.world.run(bench.config("destroy")).await);
    assert_eq!(bench.state()["resources"], json!([]));
    for (operation, said) in [("validate", "valid"), ("refresh", ""), ("drift-check", "")] {
        let end = bench.world.run(bench.config(operation)).await;
        assert_well(&end);
        assert!(bench.world.received().log_text().contains(said));
    }
    let arguments = bench.record("arguments");
    assert!(arguments.lines().all(|line| line.starts_with("run -- ")), "{arguments}");
    let environment = bench.record("environment");
    for line in ["TG_NON_INTERACTIVE=true", "TG_NO_AUTO_INIT=true", "TG_TF_FORWARD_STDOUT=true"] {
        assert!(environment.contains(line), "{environment}");
    }
    assert!(!environment.contains("TERRAGRUNT_"), "{environment}");
}

#[tokio::test]
async fn an_older_terragrunt_is_told_the_same_by_its_own_names() {
    let files = [("unit/terragrunt.hcl", ""), ("unit/main.tf", MODULE)];
    // From before the signatures, so it is on PATH.
    let mut world = World::new(&files).await;
    std::fs::create_dir(world.path("record")).unwrap();
    let bin = world.use_bare_path();
    let script = terragrunt(&world, "0.55.1");
    crate::support::release_site::executable(&bin.join("terragrunt"), script);
    std::os::unix::fs::symlink(machine_terraform().0, bin.join("terraform")).unwrap();
    for name in ["grep", "sort", "sed", "mkdir", "cp", "env"] {
        let program = crate::support::environment::find_program(name).unwrap();
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    let mut config = world.config("apply");
    config["terraformVersion"] = json!("terragrunt-0.55.1");
    config["source"]["workingDirectory"] = json!("unit");
    assert_well(&world.run(config).await);
    let record = |name: &str| std::fs::read_to_string(world.path("record").join(name)).unwrap();
    assert!(record("arguments").starts_with("init -input=false"), "{}", record("arguments"));
    assert!(!record("environment").contains("\nTG_"), "{}", record("environment"));
    assert!(record("environment").contains("TERRAGRUNT_NO_AUTO_INIT=true"));
}

#[tokio::test]
async fn the_tool_behind_it_is_chosen_by_the_version_files_of_the_module() {
    let terraform = machine_terraform().1;
    let files = [
        ("unit/terragrunt.hcl", UNIT),
        ("unit/.terraform-version", "9.9.9"),
        ("module/main.tf", ""),
    ];
    let bench = Bench::new(&files, "1.0.0").await;
    let end = bench.world.run(bench.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let message = bench.world.last_status()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("terraform 9.9.9 was not found"), "{message}");

    bench.world.commit(&[("unit/.terraform-version", &terraform), ("module/main.tf", MODULE)]);
    assert_well(&bench.world.run(bench.config("plan")).await);
}

#[tokio::test]
async fn a_signal_goes_to_terraform_once_and_its_state_is_stored() {
    let files = [("unit/terragrunt.hcl", "")];
    let mut bench = Bench::new(&files, "1.0.0").await;
    let started = bench.world.path("started");
    let module = format!(
        "resource \"terraform_data\" \"endless\" {{\n  provisioner \"local-exec\" {{\n    command = \": > '{}'; exec sleep 1000\"\n  }}\n}}\n",
        started.display()
    );
    bench.world.commit(&[("unit/main.tf", &module)]);
    bench.world.set("BUTLER_GRACE_PERIOD", "1h");
    bench.world.add_run(bench.config("apply"));
    let child = bench.world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    eventually("an apply that has begun", || started.exists()).await;
    kill(pid, Signal::SIGTERM).unwrap();
    let end = bench.world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(bench.world.statuses(), ["running", "cancelled"]);
    let log = bench.world.received().log_text();
    assert!(log.contains("Interrupt received."), "{log}");
    assert!(!log.contains("Two interrupts received"), "{log}");
    assert_eq!(bench.record("signals"), "", "Terragrunt itself is left alone");
    assert_eq!(bench.state()["resources"][0]["name"], "endless");
}

#[tokio::test]
async fn a_state_that_terraform_could_not_store_in_the_copy_is_kept_and_named() {
    let files = [
        ("unit/terragrunt.hcl", UNIT),
        ("module/main.tf", MODULE),
        ("module/errored.tfstate", "not of this run"),
    ];
    let mut bench = Bench::new(&files, "1.0.0").await;
    let server = HttpBackend::start().await;
    let recovery = bench.world.path("volume/recovery");
    bench.world.set("BUTLER_RECOVERY_DIR", &recovery);
    server.refuse(&["OperationTypeApply", "state-push"]);
    let mut config = bench.config("apply");
    config["stateBackend"] = json!({"type": "http", "config": server.config()});
    let end = bench.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(
        server.stored().iter().any(|operation| operation == "state-push"),
        "{}",
        bench.world.received().log_text()
    );
    let kept: Vec<_> = std::fs::read_dir(&recovery).unwrap().map(|it| it.unwrap().path()).collect();
    let [kept] = kept.as_slice() else { panic!("{kept:?}: {}", end.stderr) };
    assert_eq!(std::fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    let state: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(state["resources"][0]["name"], "hello");
    let command = format!("terragrunt state push {}", kept.display());
    let log = bench.world.received().log_text();
    assert!(log.lines().last().unwrap().contains(&command), "{log}");
}

#[tokio::test]
async fn a_state_that_terraform_could_not_store_at_first_is_pushed_through_terragrunt() {
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    let bench = Bench::new(&files, "1.0.0").await;
    let server = HttpBackend::start().await;
    server.refuse(&["OperationTypeApply"]);
    let mut config = bench.config("apply");
    config["stateBackend"] = json!({"type": "http", "config": server.config()});
    let end = bench.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(server.stored().last().unwrap(), "state-push");
    let message = bench.world.last_status()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("was then pushed by the runner"), "{message}");
    assert!(!bench.world.path("cache/recovery").exists(), "nothing is kept that is stored");
}

#[tokio::test]
async fn a_state_in_terragrunts_copy_is_refused_unless_it_may_be_lost() {
    let generated = "terraform {\n  backend \"local\" {\n    path = \"PATH\"\n  }\n}\n";
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    for (path, message) in [
        (None, "the state, in Terragrunt's copy of the module, is lost at the end"),
        (Some("own.tfstate"), "the state, in Terragrunt's copy of the module, is lost at the end"),
        (Some("/"), ""),
    ] {
        let mut bench = Bench::new(&files, "1.0.0").await;
        let outside = bench.world.path("outside.tfstate");
        if let Some(path) = path {
            let path = if path == "/" { outside.to_str().unwrap() } else { path };
            bench.world.commit(&[("module/backend.tf", &generated.replace("PATH", path))]);
        }
        let mut config = bench.config("apply");
        config["stateBackend"] = Value::Null;
        let end = bench.world.run(config.clone()).await;
        if message.is_empty() {
            assert_well(&end);
            assert!(outside.exists());
            continue;
        }
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let error = bench.world.last_status()["error"].clone();
        assert_eq!(error["message"], message);
        assert!(error["advice"].as_str().unwrap().contains("remote_state"), "{error}");
        assert!(!bench.record("arguments").contains("plan"), "{}", bench.record("arguments"));
        bench.world.set("BUTLER_ALLOW_EPHEMERAL_STATE", "true");
        assert_well(&bench.world.run(config).await);
    }
}

#[tokio::test]
async fn a_local_run_leaves_terragrunts_copies_where_terragrunt_has_them() {
    let bench = Bench::new(&[], "1.0.0").await;
    let module = bench.world.path("own");
    std::fs::create_dir(&module).unwrap();
    std::fs::write(module.join("terragrunt.hcl"), "").unwrap();
    std::fs::write(module.join("main.tf"), MODULE).unwrap();
    let arguments = ["execute", "--local", "--operation", "apply", "--tf-version"];
    let mut command = bench.world.command(&arguments);
    command.args(["terragrunt-1.0.0", "--module-dir"]).arg(&module);
    assert_well(&bench.world.end(&command.output().await.unwrap()));
    // Without a backend, the state is there.
    let state = module.join(".terragrunt-cache/aa/bb/terraform.tfstate");
    assert!(std::fs::read_to_string(state).unwrap().contains("hello world"));
}

#[tokio::test]
async fn a_unit_needs_terragrunt_and_says_so() {
    let world = World::new(&[("terragrunt.hcl", UNIT)]).await;
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    assert!(
        error["message"].as_str().unwrap().contains("Terragrunt's configuration only"),
        "{error}"
    );
    assert!(error["advice"].as_str().unwrap().contains("terragrunt-1.0.0"), "{error}");
}

#[tokio::test]
async fn a_terragrunt_that_cannot_be_told_what_a_run_needs_is_refused() {
    let world = World::new(&[("terragrunt.hcl", UNIT)]).await;
    let mut config = world.config("plan");
    config["terraformVersion"] = json!("terragrunt-0.38.1");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["message"], "terragrunt 0.38.1 is too old to carry out a run");
    assert!(error["advice"].as_str().unwrap().contains("0.48.7"), "{error}");
}
