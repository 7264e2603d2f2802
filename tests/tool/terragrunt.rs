//! Whole runs through Terragrunt: installed from a signed site, around the real Terraform.
//!
//! Terragrunt itself is a stand-in: a script that follows its documentation and source. It copies
//! the unit, and its `source` if there is one, below `TG_DOWNLOAD_DIR`. It starts `TG_TF_PATH`
//! there with the arguments after `run --`, sets `inputs`, logs to standard error and delays
//! SIGTERM. It ends with 255 if its child was killed, or as the unit says. Other behaviour of the
//! real Terragrunt is not tested here.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use butler_testing::http_backend::HttpBackend;
use butler_testing::object_store::ObjectStore;
use butler_testing::provider_mirror::{ProviderMirror, package};
use butler_testing::release_site::{ReleaseSite, executable};
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, RUN_ID, RunEnd, World, eventually};

/// A unit with a `source`, in the form that the stand-in parses.
const UNIT: &str = "terraform {\n  source = \"../module\"\n}\ninputs = {\n  name = \"unit\"\n}\n";

/// An apply that blocks, and stops on SIGTERM as Terraform does.
const STANDS: &str = ": > READY; exec sleep 1000";

/// An apply whose Terraform does not respond to signals: only SIGKILL ends it.
const HANGS: &str = "kill -STOP $PPID; : > READY; exec sleep 1000";

/// An apply whose Terraform is killed by another process.
const DIES: &str = "kill -KILL $PPID; exec sleep 1000";

/// The stand-in for this version.
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
below=
case $source in *//*) below=${{source#*//}} source=${{source%%//*}} ;; esac
[ -z "$source" ] || [ -e "$copy/.version" ] || cp -R "$source"/. "$copy"
: > "$copy/.version"
copy=$copy/$below
cp -R ./* "$copy"
name=$(sed -n 's/^  name = "\(.*\)"$/\1/p' terragrunt.hcl)
[ -z "$name" ] || export TF_VAR_name="$name"
cd "$copy" || exit 1
trap 'echo TERM >> "$record/signals"' TERM
"$tool" "$@" <&0 &
child=$!
while wait "$child"; code=$?; kill -0 "$child" 2>/dev/null; do :; done
[ "$code" = 0 ] || echo "12:00:01.000 ERROR  terraform invocation failed" >&2
[ "$code" -le 128 ] || code=$(sed -n 's/^# killed: //p' terragrunt.hcl | grep . || echo 255)
exit "$code"
"#,
        record = record.display()
    )
}

/// A world with the stand-in on a release site.
struct TerragruntWorld {
    world: World,
    _site: ReleaseSite,
    version: &'static str,
}

impl TerragruntWorld {
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

    /// Makes the module in `module`, or the unit itself, execute `act` at apply.
    fn does(&self, directory: &str, act: &str) {
        let act = act.replace("READY", self.world.path("ready").to_str().unwrap());
        let module = format!(
            "resource \"terraform_data\" \"endless\" {{\n  provisioner \"local-exec\" {{\n    command = \"{act}\"\n  }}\n}}\n"
        );
        self.world.commit(&[(&format!("{directory}/main.tf"), &module)]);
    }

    /// Starts a run and waits until its apply executes the script.
    async fn start(&self, config: Value) -> (tokio::process::Child, Pid) {
        self.world.add_run(config);
        let child = self.world.execute().spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        let ready = self.world.path("ready");
        eventually("an apply that has begun", || ready.exists()).await;
        (child, pid)
    }

    /// Starts a run, and sends SIGTERM during its apply.
    async fn interrupted(&self, config: Value) -> RunEnd {
        let (child, pid) = self.start(config).await;
        kill(pid, Signal::SIGTERM).unwrap();
        let end = self.world.end(&child.wait_with_output().await.unwrap());
        assert_eq!(end.code, Some(143), "{}", end.stderr);
        assert_eq!(self.world.statuses(), ["running", "failed"]);
        end
    }

    /// The message and the hint of the last status.
    fn error(&self) -> (String, String) {
        let error = self.world.last_status()["error"].clone();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("message"), text("advice"))
    }

    fn state(&self) -> Value {
        let state = std::fs::read(self.world.path("terraform.tfstate")).unwrap();
        serde_json::from_slice(&state).unwrap()
    }
}

fn assert_succeeded(end: &RunEnd) {
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn unit_without_a_local_module_is_planned_applied_and_destroyed() {
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    let bench = TerragruntWorld::new(&files, "1.0.0").await;
    let terraform = machine_terraform().1;

    assert_succeeded(&bench.world.run(bench.config("plan")).await);
    let plan = &bench.world.received().plans[0];
    assert!(plan.to_string().contains("terraform_data.hello"), "{plan}");
    assert_eq!(bench.world.last_status()["resources_to_add"], 1);

    assert_succeeded(&bench.world.run(bench.config("apply")).await);
    let received = bench.world.received();
    let outputs = received.outputs.last().unwrap();
    assert!(outputs.to_string().contains("hello unit"), "{outputs}");
    let tool = format!("terragrunt 1.0.0 with terraform {terraform}");
    assert_eq!(bench.world.last_status()["tool"], tool);
    let log = received.log_text();
    assert!(log.contains("Using terragrunt 1.0.0 ("), "{log}");
    assert!(log.contains("INFO   Downloading Terraform configurations"), "{log}");
    assert_eq!(bench.state()["resources"][0]["name"], "hello");

    assert_succeeded(&bench.world.run(bench.config("destroy")).await);
    assert_eq!(bench.state()["resources"], json!([]));
    for (operation, said) in [("validate", "valid"), ("refresh", ""), ("drift-check", "")] {
        let end = bench.world.run(bench.config(operation)).await;
        assert_succeeded(&end);
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
async fn older_terragrunt_gets_the_settings_by_its_own_names() {
    let files = [("unit/terragrunt.hcl", ""), ("unit/main.tf", MODULE)];
    // This version has no signed releases, so it is on PATH.
    let mut world = World::new(&files).await;
    std::fs::create_dir(world.path("record")).unwrap();
    let bin = world.use_bare_path();
    let script = terragrunt(&world, "0.55.1");
    executable(&bin.join("terragrunt"), script);
    std::os::unix::fs::symlink(machine_terraform().0, bin.join("terraform")).unwrap();
    for name in ["grep", "sort", "sed", "mkdir", "cp", "env"] {
        let program = butler_testing::environment::find_program(name).unwrap();
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    let mut config = world.config("apply");
    config["terraformVersion"] = json!("terragrunt-0.55.1");
    config["source"]["workingDirectory"] = json!("unit");
    assert_succeeded(&world.run(config).await);
    let record = |name: &str| std::fs::read_to_string(world.path("record").join(name)).unwrap();
    assert!(record("arguments").starts_with("init -input=false"), "{}", record("arguments"));
    assert!(!record("environment").contains("\nTG_"), "{}", record("environment"));
    assert!(record("environment").contains("TERRAGRUNT_NO_AUTO_INIT=true"));
}

#[tokio::test]
async fn tool_of_terragrunt_is_chosen_by_the_version_files_of_the_module() {
    let terraform = machine_terraform().1;
    let files = [
        ("unit/terragrunt.hcl", UNIT),
        ("unit/.terraform-version", "9.9.9"),
        ("module/main.tf", ""),
    ];
    let bench = TerragruntWorld::new(&files, "1.0.0").await;
    let end = bench.world.run(bench.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let message = bench.world.last_status()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("terraform 9.9.9 was not found"), "{message}");

    bench.world.commit(&[("unit/.terraform-version", &terraform), ("module/main.tf", MODULE)]);
    assert_succeeded(&bench.world.run(bench.config("plan")).await);
}

#[tokio::test]
async fn terraform_below_terragrunt_gets_one_signal_and_stores_its_state() {
    let files = [("unit/terragrunt.hcl", "")];
    let mut bench = TerragruntWorld::new(&files, "1.0.0").await;
    bench.does("unit", STANDS);
    bench.world.set("BUTLER_GRACE_PERIOD", "1h");
    bench.interrupted(bench.config("apply")).await;
    let log = bench.world.received().log_text();
    assert!(log.contains("Interrupt received."), "{log}");
    assert!(!log.contains("Two interrupts received"), "{log}");
    assert_eq!(bench.record("signals"), "", "Terragrunt itself is left alone");
    assert_eq!(bench.state()["resources"][0]["name"], "endless");
}

#[tokio::test]
async fn terraform_started_by_a_script_on_path_gets_the_signal() {
    let terraform = machine_terraform().0;
    for start in ["exec", ""] {
        let mut bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", "")], "1.0.0").await;
        bench.does("unit", STANDS);
        bench.world.set("BUTLER_GRACE_PERIOD", "1m");
        let shims = bench.world.path("shims");
        std::fs::create_dir(&shims).unwrap();
        let shim = format!("#!/bin/sh\n{start} '{}' \"$@\"\n", terraform.display());
        executable(&shims.join("terraform"), shim);
        bench.world.set("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", shims.display()));
        bench.interrupted(bench.config("apply")).await;
        let log = bench.world.received().log_text();
        assert!(log.contains("Interrupt received."), "{log}");
        assert!(!log.contains("Two interrupts received"), "{log}");
        assert_eq!(bench.record("signals"), "", "Terragrunt itself is left alone");
        assert_eq!(bench.state()["resources"][0]["name"], "endless");
    }
}

#[tokio::test]
async fn stale_lock_is_reported_with_the_unlock_command_of_terragrunt() {
    let server = HttpBackend::start().await;
    let mut bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", UNIT)], "1.0.0").await;
    bench.does("module", HANGS);
    bench.world.set("BUTLER_GRACE_PERIOD", "8s");
    let mut config = bench.config("apply");
    config["stateBackend"] = json!({"type": "http", "config": server.config()});
    bench.interrupted(config).await;
    let lock = server.lock().expect("nobody has removed it");
    let (message, advice) = bench.error();
    let id = lock["ID"].as_str().unwrap();
    assert!(message.contains(&format!("it left the state lock `{id}`")), "{message}");
    assert!(advice.contains(&format!("`terragrunt force-unlock {id}`")), "{advice}");
}

#[tokio::test]
async fn lock_of_a_local_state_configured_by_the_unit_ends_with_the_killed_terraform() {
    let mut bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", UNIT)], "1.0.0").await;
    let outside = bench.world.path("outside.tfstate");
    let backend = format!(
        "terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n",
        outside.display()
    );
    bench.world.commit(&[("module/backend.tf", &backend)]);
    bench.does("module", HANGS);
    bench.world.set("BUTLER_GRACE_PERIOD", "8s");
    let mut config = bench.config("apply");
    config["stateBackend"] = Value::Null;
    bench.interrupted(config).await;
    let (_, advice) = bench.error();
    assert!(advice.contains("the state lock has ended with the tool"), "{advice}");
}

#[tokio::test]
async fn stale_lock_of_a_terraform_that_died_below_terragrunt_is_found() {
    for (code, said) in
        [("255", "may have killed the terraform that it started"), ("1", "exit code 1;")]
    {
        let server = HttpBackend::start().await;
        let unit = format!("{UNIT}# killed: {code}\n");
        let bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", &unit)], "1.0.0").await;
        bench.does("module", DIES);
        let mut config = bench.config("apply");
        config["stateBackend"] = json!({"type": "http", "config": server.config()});
        let end = bench.world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let lock = server.lock().expect("nobody has removed it");
        let id = lock["ID"].as_str().unwrap();
        let (message, advice) = bench.error();
        assert!(message.contains(said) && message.contains(id), "{message}");
        assert!(message.contains("may be its own lock"), "{message}");
        let command = format!("when no other run holds it, run `terragrunt force-unlock {id}`");
        assert!(advice.contains(&command), "{advice}");
    }
}

#[tokio::test]
async fn own_stale_lock_of_a_terraform_that_died_below_terragrunt_is_removed() {
    let store = ObjectStore::start().await;
    let mut bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", UNIT)], "1.0.0").await;
    bench.does("module", DIES);
    bench.world.set("BUTLER_FORCE_UNLOCK_OWN", "true");
    let mut settings = store.config();
    settings["use_lockfile"] = json!(true);
    let lock = format!("{}.tflock", settings["key"].as_str().unwrap());
    let mut config = bench.config("apply");
    config["stateBackend"] = json!({"type": "s3", "config": settings});
    let end = bench.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = bench.error();
    assert!(message.contains("that it left was removed"), "{message}");
    assert_eq!(store.object(&lock).await, None);
}

#[tokio::test]
async fn locks_are_not_searched_after_an_ordinary_failure_below_terragrunt() {
    let server = HttpBackend::start().await;
    let bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", UNIT)], "1.0.0").await;
    bench.does("module", "exit 7");
    let mut config = bench.config("apply");
    config["stateBackend"] = json!({"type": "http", "config": server.config()});
    let end = bench.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = bench.error();
    assert!(message.contains("exit code 1") && !message.contains("lock"), "{message}");
    assert!(!bench.record("arguments").contains("state rm"), "{}", bench.record("arguments"));
}

#[tokio::test]
async fn provider_of_the_module_is_available_after_init() {
    let mirror = ProviderMirror::start(&[("1.2.3", package("1.2.3", "exit 1"))]);
    let (module, lock) = (ProviderMirror::module("1.2.3"), mirror.lock_file("1.2.3"));
    for (unit, lock_file) in
        [(UNIT, "module/.terraform.lock.hcl"), ("", "unit/.terraform.lock.hcl")]
    {
        let module_file = if unit.is_empty() { "unit/main.tf" } else { "module/main.tf" };
        let files = [("unit/terragrunt.hcl", unit), (module_file, &module), (lock_file, &lock)];
        let mut bench = TerragruntWorld::new(&files, "1.0.0").await;
        mirror.serve(&mut bench.world);
        // Runs `test` on a module without tests. Terraform still searches for all packages.
        let end = bench.world.run(bench.config("test")).await;
        assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, bench.world.received().log_text());
    }
}

#[tokio::test]
async fn terragrunt_version_in_use_is_not_removed() {
    let bench = TerragruntWorld::new(&[("unit/terragrunt.hcl", UNIT)], "1.0.0").await;
    let go = bench.world.path("go");
    bench.does(
        "module",
        &format!(": > READY; while [ ! -e '{}' ]; do sleep 0.05; done", go.display()),
    );
    let (child, pid) = bench.start(bench.config("apply")).await;
    let path = bench.world.path("cache/terragrunt/1.0.0/terragrunt");
    assert!(path.exists());
    for words in [
        ["tool", "uninstall", "terragrunt-1.0.0", "--drain-period", "0"].as_slice(),
        &["tool", "prune", "--unused-for", "0s"],
    ] {
        let output = bench.world.command(words).output().await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let by = format!("in use by 1 run: pid {pid}, run {RUN_ID}");
        assert!(said.contains("terragrunt 1.0.0") && said.contains(&by), "{said}");
        assert!(path.exists());
    }
    std::fs::write(go, "").unwrap();
    assert_succeeded(&bench.world.end(&child.wait_with_output().await.unwrap()));
}

#[tokio::test]
async fn run_is_one_unit_despite_terragrunt_variables() {
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    let mut bench = TerragruntWorld::new(&files, "1.0.0").await;
    for name in ["TG_ALL", "TG_GRAPH", "TG_FILTER", "TG_QUEUE_INCLUDE_EXTERNAL", "TERRAGRUNT_ALL"] {
        bench.world.set(name, "true");
    }
    let mut config = bench.config("plan");
    config["envVars"] = json!({
        "TG_ALL": {"value": "true"},
        "TG_FILTERS_FILE": {"value": "../stack"},
        "TG_LOG_LEVEL": {"value": "info"},
    });
    assert_succeeded(&bench.world.run(config.clone()).await);
    let environment = bench.record("environment");
    for name in ["TG_ALL", "TG_GRAPH", "TG_FILTER", "TG_QUEUE", "TERRAGRUNT_ALL"] {
        assert!(!environment.contains(name), "{environment}");
    }
    assert!(environment.contains("TG_LOG_LEVEL=info"), "{environment}");
    let log = bench.world.received().log_text();
    assert!(log.contains("`TG_ALL` of the run is ignored: a run is one unit"), "{log}");

    for name in ["TG_SOURCE", "TG_SOURCE_MAP", "TG_EXPERIMENTAL_ENGINE", "TERRAGRUNT_SOURCE"] {
        config["envVars"] = json!({name: {"value": "/elsewhere"}});
        let end = bench.world.run(config.clone()).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let (message, _) = bench.error();
        assert!(message.contains(name), "{message}");
    }
}

#[tokio::test]
async fn module_below_a_hidden_directory_is_used() {
    let outside = "terraform {\n  backend \"local\" {\n    path = \"PATH\"\n  }\n}\n";
    let unit = UNIT.replace("../module", "../module//.hidden/deep");
    let files = [("unit/terragrunt.hcl", unit.as_str()), ("module/.hidden/deep/main.tf", MODULE)];
    let bench = TerragruntWorld::new(&files, "1.0.0").await;
    let state = bench.world.path("outside.tfstate");
    let backend = outside.replace("PATH", state.to_str().unwrap());
    bench.world.commit(&[("module/.hidden/deep/backend.tf", &backend)]);
    let mut config = bench.config("apply");
    config["stateBackend"] = Value::Null;
    assert_succeeded(&bench.world.run(config).await);
    assert!(state.exists());
}

#[tokio::test]
async fn unstored_state_below_a_hidden_directory_is_pushed_by_the_runner() {
    let unit = UNIT.replace("../module", "../module//.hidden");
    let files = [("unit/terragrunt.hcl", unit.as_str()), ("module/.hidden/main.tf", MODULE)];
    let bench = TerragruntWorld::new(&files, "1.0.0").await;
    let server = HttpBackend::start().await;
    server.refuse(&["OperationTypeApply"]);
    let mut config = bench.config("apply");
    config["stateBackend"] = json!({"type": "http", "config": server.config()});
    let end = bench.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = bench.error();
    assert!(message.contains("was then pushed by the runner"), "{message}");
}

#[tokio::test]
async fn unstored_state_in_terragrunts_copy_is_kept_and_reported() {
    let files = [
        ("unit/terragrunt.hcl", UNIT),
        ("module/main.tf", MODULE),
        ("module/errored.tfstate", "not of this run"),
    ];
    let mut bench = TerragruntWorld::new(&files, "1.0.0").await;
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
async fn unstored_state_is_pushed_through_terragrunt() {
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    let bench = TerragruntWorld::new(&files, "1.0.0").await;
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
async fn state_in_terragrunts_copy_is_refused_unless_loss_is_allowed() {
    let generated = "terraform {\n  backend \"local\" {\n    path = \"PATH\"\n  }\n}\n";
    let files = [("unit/terragrunt.hcl", UNIT), ("module/main.tf", MODULE)];
    for (path, message) in [
        (None, "the state, in Terragrunt's copy of the module, is lost at the end"),
        (Some("own.tfstate"), "the state, in Terragrunt's copy of the module, is lost at the end"),
        (Some("/"), ""),
    ] {
        let mut bench = TerragruntWorld::new(&files, "1.0.0").await;
        let outside = bench.world.path("outside.tfstate");
        if let Some(path) = path {
            let path = if path == "/" { outside.to_str().unwrap() } else { path };
            bench.world.commit(&[("module/backend.tf", &generated.replace("PATH", path))]);
        }
        let mut config = bench.config("apply");
        config["stateBackend"] = Value::Null;
        let end = bench.world.run(config.clone()).await;
        if message.is_empty() {
            assert_succeeded(&end);
            assert!(outside.exists());
            continue;
        }
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let error = bench.world.last_status()["error"].clone();
        assert_eq!(error["message"], message);
        assert!(error["advice"].as_str().unwrap().contains("remote_state"), "{error}");
        assert!(!bench.record("arguments").contains("plan"), "{}", bench.record("arguments"));
        bench.world.set("BUTLER_ALLOW_EPHEMERAL_STATE", "true");
        assert_succeeded(&bench.world.run(config).await);
    }
}

#[tokio::test]
async fn local_run_keeps_the_default_location_of_terragrunts_copies() {
    let bench = TerragruntWorld::new(&[], "1.0.0").await;
    let module = bench.world.path("own");
    std::fs::create_dir(&module).unwrap();
    std::fs::write(module.join("terragrunt.hcl"), "").unwrap();
    std::fs::write(module.join("main.tf"), MODULE).unwrap();
    let arguments = ["execute", "--local", "--operation", "apply", "--tf-version"];
    let mut command = bench.world.command(&arguments);
    command.args(["terragrunt-1.0.0", "--module-dir"]).arg(&module);
    assert_succeeded(&bench.world.end(&command.output().await.unwrap()));
    // Without a backend, the state is in the copy.
    let state = module.join(".terragrunt-cache/aa/bb/terraform.tfstate");
    assert!(std::fs::read_to_string(state).unwrap().contains("hello world"));
}

#[tokio::test]
async fn unit_without_terragrunt_is_an_error() {
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
async fn terragrunt_version_that_is_too_old_is_refused() {
    let world = World::new(&[("terragrunt.hcl", UNIT)]).await;
    let mut config = world.config("plan");
    config["terraformVersion"] = json!("terragrunt-0.38.1");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["message"], "terragrunt 0.38.1 is too old to execute a run");
    assert!(error["advice"].as_str().unwrap().contains("0.48.7"), "{error}");
}
