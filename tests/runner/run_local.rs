//! Runs without a registry: in a directory of the user, from a file, and the demo.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use butler_testing::release_site::ReleaseSite;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, RunEnd, TOKEN, World};

/// Reads one variable from each possible source.
const LOCAL_MODULE: &str = r#"
variable "from_default" { default = "default" }
variable "from_file" { default = "" }
variable "from_own" { default = "" }
variable "from_environment" { default = "" }
resource "terraform_data" "it" {
  input = "${var.from_default} ${var.from_own} ${var.from_file} ${var.from_environment}"
}
output "it" { value = terraform_data.it.output }
"#;

/// Names of everything below `directory`.
fn names(directory: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && !path.is_symlink() {
            names.extend(self::names(&path).into_iter().map(|inner| format!("{name}/{inner}")));
        }
        names.insert(name);
    }
    names
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A world with a directory of the user, which has no registry.
async fn world_with_directory(files: &[(&str, &str)]) -> World {
    let world = World::new(&[]).await;
    let directory = world.path("module");
    std::fs::create_dir(&directory).unwrap();
    for (name, text) in files {
        std::fs::write(directory.join(name), text).unwrap();
    }
    world
}

async fn local(world: &World, operation: &str, arguments: &[&str]) -> RunEnd {
    let directory = world.path("module");
    let begin = [
        "execute",
        "--local",
        "--module-dir",
        directory.to_str().unwrap(),
        "--operation",
        operation,
    ];
    let output = world.command(&[&begin, arguments].concat()).output().await.unwrap();
    world.end(&output)
}

#[tokio::test]
async fn local_run_works_in_place_and_leaves_only_files_of_terraform() {
    let mut world = world_with_directory(&[
        ("main.tf", LOCAL_MODULE),
        ("terraform.tfvars", "from_own = \"own\"\n"),
        ("notes.txt", "mine"),
    ])
    .await;
    // A program that answers prompts would be asked first.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        world.set(name, format!("http://{}", proxy.local_addr().unwrap()));
    }
    world.set("NO_PROXY", "");
    // Settings for other runs do not turn this run into one of a registry.
    world.add_run(world.config("plan"));
    world.set("BUTLER_ENDPOINT", world.endpoint());
    world.set("BUTLER_TOKEN", TOKEN);
    world.set("TF_VAR_from_environment", "environment");
    let variables = world.path("more.tfvars");
    std::fs::write(&variables, "from_file = \"file\"\n").unwrap();
    let var_file = ["--var-file", variables.to_str().unwrap()];
    let before = names(&world.path("module"));

    let expected = "default own file environment";
    for (operation, said, state) in [
        ("validate", "The configuration is valid.", false),
        ("plan", "Plan: 1 to add, 0 to change, 0 to destroy.", false),
        ("apply", "Apply complete! Resources: 1 added", true),
        ("plan", "No changes.", true),
        ("drift-check", "No changes.", true),
        ("destroy", "Apply complete! Resources: 0 added, 0 changed, 1 destroyed.", true),
    ] {
        let arguments: &[&str] = if operation == "validate" { &[] } else { &var_file };
        let end = local(&world, operation, arguments).await;
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
        let printed = format!("{}{}", end.stdout, end.stderr);
        assert!(printed.contains(said), "{operation}: {printed}");
        let kept = world.path("module/terraform.tfstate");
        assert_eq!(kept.exists(), state, "{operation}");
        if operation == "apply" {
            let state: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
            assert_eq!(state["outputs"]["it"]["value"], expected);
        }
        let new: Vec<_> = names(&world.path("module")).difference(&before).cloned().collect();
        let terraforms = |name: &String| {
            [".terraform", "terraform.tfstate", "terraform.tfstate.backup", ".terraform.lock.hcl"]
                .contains(&name.as_str())
        };
        assert!(new.iter().all(terraforms), "{operation}: {new:?}");
    }
    for (name, text) in [("terraform.tfvars", "from_own = \"own\"\n"), ("notes.txt", "mine")] {
        assert_eq!(std::fs::read_to_string(world.path("module").join(name)).unwrap(), text);
    }
    assert_eq!(world.received().request_names(), [""; 0], "the registry heard nothing");
    let asked = proxy.accept().map_err(|error| error.kind());
    assert!(matches!(asked, Err(std::io::ErrorKind::WouldBlock)), "{asked:?}");
}

#[tokio::test]
async fn local_run_uses_the_backend_of_the_module() {
    let backend = "terraform {\n  backend \"local\" {\n    path = \"state/own.tfstate\"\n  }\n}\n";
    let world = world_with_directory(&[("main.tf", MODULE), ("backend.tf", backend)]).await;
    let before = names(&world.path("module"));
    let end = local(&world, "apply", &[]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let new: Vec<_> = names(&world.path("module")).difference(&before).cloned().collect();
    let kept = [".terraform", ".terraform/terraform.tfstate", "state", "state/own.tfstate"];
    assert_eq!(new, kept);
}

#[tokio::test]
async fn failed_local_run_prints_the_reason_and_does_not_change_the_directory() {
    let broken = "output \"x\" { value = file(\"missing\") }";
    let world = world_with_directory(&[("main.tf", broken)]).await;
    let before = names(&world.path("module"));
    let end = local(&world, "apply", &[]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("ERROR plan: "), "{}", end.stderr);
    let new: Vec<_> = names(&world.path("module")).difference(&before).cloned().collect();
    assert!(new.iter().all(|name| name.starts_with(".terraform")), "{new:?}");
}

/// Executes the run in the file `run.json`, and returns the report directory.
async fn from_file(world: &World, config: &str) -> (RunEnd, std::path::PathBuf) {
    let (file, reports) = (world.path("run.json"), world.path("reports/of this run"));
    std::fs::write(&file, config).unwrap();
    let arguments =
        ["execute", "--config", file.to_str().unwrap(), "--report-dir", reports.to_str().unwrap()];
    let output = world.command(&arguments).output().await.unwrap();
    (world.end(&output), reports)
}

fn report(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[tokio::test]
async fn run_from_a_file_writes_its_reports_to_a_private_directory() {
    let module = r#"
variable "number" { type = number }
variable "password" { type = string }
resource "terraform_data" "it" {
  input = var.password
  provisioner "local-exec" {
    command = "echo 'told: ${var.password}'"
  }
}
output "number" { value = var.number }
output "password" { value = var.password }
"#;
    let world = World::new(&[("main.tf", module)]).await;
    let mut config = world.config("apply");
    config["variables"] = json!({
        "number": {"value": "NUMBER"},
        "password": {"value": "hunter22-hidden", "sensitive": true},
    });
    let number = "1234567890123456789012345678901234567890.5";
    let config = config.to_string().replace("\"NUMBER\"", number);
    let (end, reports) = from_file(&world, &config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let written = [
        "log.txt",
        "outputs.json",
        "plan.json",
        "plan.txt",
        "result.json",
        "status.json",
        "timings.txt",
    ];
    assert_eq!(names(&reports).iter().collect::<Vec<_>>(), written);
    assert_eq!(mode(&reports), 0o700);
    for name in written {
        assert_eq!(mode(&reports.join(name)), 0o600, "{name}");
        assert_eq!(report(&reports, name).contains("hunter22"), name == "outputs.json", "{name}");
    }
    assert!(!end.stdout.contains("hunter22") && !end.stderr.contains("hunter22"));
    assert!(report(&reports, "log.txt").contains("told: ***"), "{}", report(&reports, "log.txt"));
    assert!(
        report(&reports, "log.txt").contains("Resolved 2 variables: number, password [sensitive]")
    );
    assert!(report(&reports, "plan.txt").contains("# terraform_data.it will be created"));
    let plan: Value = serde_json::from_str(&report(&reports, "plan.json")).unwrap();
    assert_eq!(plan["resource_changes"][0]["address"], "terraform_data.it");
    let outputs = report(&reports, "outputs.json");
    assert!(outputs.contains(number), "every digit: {outputs}");
    let status: Value = serde_json::from_str(&report(&reports, "status.json")).unwrap();
    assert_eq!((&status["status"], &status["resources_to_add"]), (&json!("succeeded"), &json!(1)));
}

#[tokio::test]
async fn test_run_from_a_file_writes_a_junit_report() {
    let test = r#"
run "good" {
  command = plan
}
run "bad" {
  command = plan
  assert {
    condition     = var.name == "another"
    error_message = "it is ${var.name}"
  }
}
"#;
    let world = World::new(&[("main.tf", MODULE), ("main.tftest.hcl", test)]).await;
    let mut config = world.config("test");
    config["variables"] = json!({"name": {"value": "hunter22-hidden", "sensitive": true}});
    config["envVars"] = json!({"TF_VAR_kind": {"value": "testsuite", "sensitive": true}});
    let (end, reports) = from_file(&world, &config.to_string()).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let written = ["junit.xml", "log.txt", "result.json", "status.json", "timings.txt"];
    assert_eq!(names(&reports).iter().collect::<Vec<_>>(), written);
    assert_eq!(mode(&reports.join("junit.xml")), 0o600);
    let junit = report(&reports, "junit.xml");
    assert!(junit.contains("testcase name=\"good\"") && junit.contains("it is ***"), "{junit}");
    assert!(junit.contains("<testsuites>") && junit.contains("<testsuite "), "{junit}");
    for name in written {
        assert!(!report(&reports, name).contains("hunter22"), "{name}");
    }
    let status: Value = serde_json::from_str(&report(&reports, "status.json")).unwrap();
    assert_eq!(status["tests"], json!({"passed": 1, "failed": 1, "skipped": 0}));
}

#[tokio::test]
async fn failed_run_from_a_file_writes_its_reports() {
    let world = World::new(&[("main.tf", "output \"x\" { value = file(\"missing\") }")]).await;
    let (end, reports) = from_file(&world, &world.config("plan").to_string()).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(
        names(&reports).iter().collect::<Vec<_>>(),
        ["log.txt", "result.json", "status.json", "timings.txt"]
    );
    let status: Value = serde_json::from_str(&report(&reports, "status.json")).unwrap();
    assert_eq!((&status["status"], &status["error"]["phase"]), (&json!("failed"), &json!("plan")));
    let reason = status["error"]["message"].as_str().unwrap();
    assert!(report(&reports, "log.txt").contains(reason), "the log ends with the reason");
}

#[tokio::test]
async fn malformed_run_file_is_a_one_line_usage_error() {
    let world = World::new(&[]).await;
    for config in [
        "{\"variables\": {\"a\": {\"value\": \"hunter22\"}",
        "[]",
        "{\"operation\": 7, \"token\": \"hunter22\"}",
    ] {
        let (end, _) = from_file(&world, config).await;
        assert_eq!(end.code, Some(2), "{config}: {}", end.stderr);
        assert_eq!(end.stderr.lines().count(), 1, "{}", end.stderr);
        assert!(
            end.stderr.contains("--config") && end.stderr.contains("BUTLER_CONFIG"),
            "{}",
            end.stderr
        );
        assert!(!end.stderr.contains("hunter22"), "{}", end.stderr);
        assert_eq!(end.stdout, "");
    }
}

fn assert_shown(end: &RunEnd) {
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for operation in ["plan", "apply", "destroy"] {
        let title = format!("--- what the registry received for {operation}");
        assert!(end.stdout.contains(&title), "{operation}: {}", end.stdout);
    }
    for line in [
        "requests: GET status, GET config, POST status, POST logs, POST plan, POST outputs, POST status",
        "outputs: database, servers",
    ] {
        assert!(end.stdout.lines().any(|it| it == line), "{line}: {}", end.stdout);
    }
    assert!(end.stdout.contains("the secret in it: masked"), "{}", end.stdout);
    for text in [&end.stdout, &end.stderr] {
        assert!(!text.contains("correct-horse"), "the secret is shown: {text}");
    }
}

#[tokio::test]
async fn demo_prints_the_registry_requests_and_leaves_no_files() {
    let world = World::new(&[]).await;
    let before = names(world.directory.path());
    let output = world.command(&["demo"]).output().await.unwrap();
    assert_shown(&world.end(&output));
    let left: Vec<_> = names(world.directory.path()).difference(&before).cloned().collect();
    assert!(left.iter().all(|name| name.starts_with("cache/")), "{left:?}");
}

#[tokio::test]
async fn demo_installs_terraform_if_it_is_missing() {
    let (program, version) = machine_terraform();
    let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
    let mut world = World::new(&[]).await;
    world.use_bare_path();
    world.use_site(&site);
    let output = world.command(&["demo"]).output().await.unwrap();
    assert_shown(&world.end(&output));
}

#[tokio::test]
async fn run_file_with_an_unknown_operation_fails_the_run() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let (config, report) = (world.path("run.json"), world.path("report"));
    std::fs::write(&config, world.config("explode").to_string()).unwrap();
    let mut command = world.command(&["execute"]);
    command.env("BUTLER_CONFIG", &config).env("BUTLER_REPORT_DIR", &report);
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let status = std::fs::read_to_string(report.join("status.json")).unwrap();
    assert!(status.contains("unknown operation `explode`"), "{status}");
}

#[tokio::test]
async fn ephemeral_variable_of_a_users_file_reaches_the_apply() {
    let world = World::new(&[]).await;
    let module = world.path("module");
    std::fs::create_dir(&module).unwrap();
    let text = "variable \"pin\" {\n  type      = string\n  ephemeral = true\n}\nresource \"terraform_data\" \"x\" {}\n";
    std::fs::write(module.join("main.tf"), text).unwrap();
    let values = world.path("values.tfvars");
    std::fs::write(&values, "pin = \"1234\"\n").unwrap();
    let mut command =
        world.command(&["execute", "--local", "--operation", "apply", "--module-dir"]);
    command.arg(&module).arg("--var-file").arg(&values);
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn values_of_ephemeral_variables_are_masked_from_every_source() {
    let names = ["typed", "named", "own", "ambient"];
    let variables = names.map(|name| {
        format!("variable \"{name}\" {{\n  type      = string\n  ephemeral = true\n}}\n")
    });
    let given = names.map(|name| format!("      {name} = var.{name}\n"));
    let resource = format!(
        "resource \"terraform_data\" \"x\" {{\n  provisioner \"local-exec\" {{\n    \
         command = \"echo $typed $named $own $ambient; exit 3\"\n    environment = {{\n{}    }}\n  }}\n}}\n",
        given.concat()
    );
    let main = variables.concat() + &resource;
    let mut world = world_with_directory(&[
        ("main.tf", &main),
        ("terraform.tfvars", "own = \"hunter-1-own\"\n"),
    ])
    .await;
    world.set("TF_VAR_ambient", "hunter-2-ambient");
    let values = world.path("more.tfvars");
    std::fs::write(&values, "named = \"hunter-3-named\"\n").unwrap();
    let report = world.path("report");
    let mut command = world.command(&["apply", "--yes", "--var", "typed=hunter-4-typed"]);
    command.arg("--var-file").arg(&values).arg("--report-dir").arg(&report);
    command.arg(world.path("module"));
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("*** *** *** ***"), "{}", end.stderr);
    let files =
        ["log.txt", "result.json"].map(|name| std::fs::read_to_string(report.join(name)).unwrap());
    for text in [&end.stdout, &end.stderr, &files[0], &files[1]] {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[tokio::test]
async fn values_of_sensitive_variables_are_masked_from_every_source() {
    let main = r#"
variable "given" { sensitive = true }
variable "own" { sensitive = true }
variable "automatic" { sensitive = true }
variable "unset" {
  sensitive = true
  default   = { inside = "hunter-4-default" }
}
variable "open" { default = "open-default" }
output "all" {
  value = "${nonsensitive(var.given)} ${nonsensitive(var.own)} ${nonsensitive(var.automatic[0])} ${nonsensitive(var.unset.inside)} ${var.open}"
}
"#;
    let world = world_with_directory(&[
        ("main.tf", main),
        ("terraform.tfvars", "own = \"hunter-2-own\"\n"),
        ("a.auto.tfvars.json", r#"{"automatic": ["hunter-3-automatic"], "open": "open-value"}"#),
    ])
    .await;
    let variables = world.path("more.tfvars");
    std::fs::write(&variables, "given = \"hunter2\"\n").unwrap();
    let end = local(&world, "plan", &["--var-file", variables.to_str().unwrap()]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let printed = format!("{}{}", end.stdout, end.stderr);
    assert!(!printed.contains("hunter"), "{printed}");
    assert!(printed.contains("*** *** *** *** open-value"), "{printed}");
}
