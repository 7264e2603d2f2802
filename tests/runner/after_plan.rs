//! `--after-plan`: a program that checks each plan before it is applied.

use std::path::PathBuf;

use serde_json::{Value, json};

use butler_testing::world::{MODULE, RunEnd, TOKEN, World, eventually};

/// A module with a secret that only the plan marks, and a secret of the run.
const SECRETS: &str = r#"
variable "password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "kept" {
  input = { region = "eu-central-1", password = var.password, made = sensitive("hunter22-of-the-module") }
}
"#;

/// A world with the program `judge`.
struct AfterPlanWorld {
    world: World,
}

impl AfterPlanWorld {
    async fn new(module: &str, script: &str) -> Self {
        let mut world = World::new(&[("main.tf", module)]).await;
        let judge = world.path("judge");
        let head = format!("#!/bin/sh\nset -eu\nwork={}\n", world.directory.path().display());
        // Another process writes the file. If this process had it open for writing, a child that
        // another test starts at the same time could inherit the descriptor, and the file could not
        // be executed.
        let write = "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let mut shell = std::process::Command::new("/bin/sh");
        let shell = shell.args(["-c", write, "sh"]).arg(&judge).arg(format!("{head}{script}\n"));
        assert!(shell.status().unwrap().success());
        world.set("BUTLER_AFTER_PLAN", format!("{} one  two", judge.display()));
        Self { world }
    }

    async fn run(&self, operation: &str) -> RunEnd {
        self.world.run(self.world.config(operation)).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

#[tokio::test]
async fn accepted_plan_is_applied_and_its_json_is_masked() {
    let script = "cat > $work/plan.json; echo \"$# $1 $2 $BUTLER_OPERATION $BUTLER_RUN_ID\"; pwd > $work/cwd";
    for kind in ["clean", "raw"] {
        let mut judged = AfterPlanWorld::new(SECRETS, script).await;
        judged.world.set("BUTLER_PLAN_JSON", kind);
        let mut config = judged.world.config("apply");
        config["variables"] =
            json!({"password": {"value": "hunter22-of-the-run", "sensitive": true}});
        config["sensitiveValues"] = json!("literal");
        let end = judged.world.run(config).await;
        assert_eq!(end.code, Some(0), "{kind}: {}", end.stderr);
        let text = judged.read("plan.json");
        let plan: Value = serde_json::from_str(&text).unwrap();
        let after = &plan["resource_changes"][0]["change"]["after"]["input"];
        assert_eq!(after["region"], "eu-central-1");
        assert!(!text.contains("hunter22"), "{kind}: {text}");
        let said = "2 one two apply 550e8400-e29b-41d4-a716-446655440000";
        assert!(judged.world.received().log_text().contains(said));
        assert!(end.stdout.contains(said), "{}", end.stdout);
        let own = std::env::current_dir().unwrap();
        assert_eq!(judged.read("cwd").trim(), own.display().to_string(), "not the module's");
    }
}

#[tokio::test]
async fn rejected_plan_is_not_applied_and_the_output_is_the_reason() {
    let script = "cat > /dev/null; echo 'FAIL: no owner tag'; echo 'and more' >&2; exit 7";
    for operation in ["plan", "apply", "destroy"] {
        let judged = AfterPlanWorld::new(MODULE, script).await;
        let end = judged.run(operation).await;
        assert_eq!(end.code, Some(1), "{operation}: {}", end.stderr);
        let status = judged.world.last_status();
        assert_eq!(status["status"], "failed");
        assert_eq!(status["error"]["phase"], "after-plan");
        let message = status["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("`judge` (--after-plan) stopped the run with exit code 7: "));
        assert!(
            message.contains("FAIL: no owner tag") && message.contains("and more"),
            "{message}"
        );
        assert!(!judged.path("terraform.tfstate").exists(), "nothing was applied");
        assert_eq!(judged.world.received().plans.len(), 1, "the plan is reported all the same");
    }
}

#[tokio::test]
async fn operations_without_a_plan_do_not_start_the_program() {
    for operation in ["validate", "drift-check", "refresh"] {
        let judged = AfterPlanWorld::new(MODULE, "exit 7").await;
        let end = judged.run(operation).await;
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
    }
}

#[tokio::test]
async fn environment_of_the_program_has_no_secret_of_the_run() {
    let script =
        "cat > /dev/null; env > $work/env; tr '\\0' '\\n' < /proc/self/environ >> $work/env";
    let mut judged = AfterPlanWorld::new(SECRETS, script).await;
    for (name, value) in [
        ("TF_VAR_password", "hunter22-of-the-job"),
        ("TF_TOKEN_app_terraform_io", "hunter22-token"),
        ("AWS_SECRET_ACCESS_KEY", "hunter22-cloud"),
        ("DB_PASSWORD", "hunter22-of-the-run"),
        ("BUTLER_GIT_TOKEN", "hunter22-git"),
        ("INFRACOST_API_KEY", "ico-0123456789"),
        ("LC_ALL", "C"),
    ] {
        judged.world.set(name, value);
    }
    let settings = judged.path("settings.yaml");
    let program = judged.path("judge");
    std::fs::write(
        &settings,
        format!(
            "afterPlan:\n  command: [{}, a b]\n  env: [INFRACOST_API_KEY]\n",
            program.display()
        ),
    )
    .unwrap();
    judged.world.variables.retain(|(name, _)| name != "BUTLER_AFTER_PLAN");
    judged.world.set("BUTLER_SETTINGS", settings);
    let mut config = judged.world.config("plan");
    config["variables"] = json!({"password": {"value": "DB_PASSWORD", "sensitive": true}});
    config["envVars"] = json!({"SOME_TOKEN": {"value": "hunter22-env", "sensitive": true}});
    let end = judged.world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let environment = judged.read("env");
    assert!(!environment.contains("hunter22") && !environment.contains(TOKEN), "{environment}");
    for name in ["PATH=", "HOME=", "LC_ALL=C", "INFRACOST_API_KEY=ico-", "BUTLER_OPERATION=plan"] {
        assert!(environment.lines().any(|line| line.starts_with(name)), "{name}: {environment}");
    }
}

#[tokio::test]
async fn output_of_the_program_is_masked_and_truncated() {
    let script = "cat > /dev/null; echo leak: hunter22-of-the-run; yes 'a line of the flood' | head -n 100000; exit 1";
    let judged = AfterPlanWorld::new(SECRETS, script).await;
    let mut config = judged.world.config("plan");
    config["variables"] = json!({"password": {"value": "hunter22-of-the-run", "sensitive": true}});
    config["sensitiveValues"] = json!("literal");
    let end = judged.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let shown = judged.world.reports_and_output(&end);
    assert!(!shown.contains("hunter22-of-the-run"), "{shown}");
    let log = judged.world.received().log_text();
    assert!(log.contains("leak: ***"), "{log}");
    let flood = log.lines().filter(|line| line.contains("a line of the flood")).count();
    // 64 KiB of output, and 4 KiB again in the reason.
    assert!((3200..3500).contains(&flood), "{flood}");
    assert!(end.stderr.contains("is cut after 64 KiB"), "{}", end.stderr);
    let message = judged.world.last_error().0;
    assert!(message.contains("leak: ***") && message.len() < 5000, "{}", message.len());
}

/// Half a secret would not be recognised later.
#[tokio::test]
async fn secret_at_the_limit_of_the_output_is_masked_before_the_output_is_cut() {
    // 63 lines of 1 KiB, and a line whose eighth last character before the limit begins the secret.
    let script = "cat > /dev/null; xs() { head -c \"$1\" /dev/zero | tr '\\0' x; }
        for i in $(seq 63); do xs 1023; echo; done; xs 1016; echo hunter22-of-the-run; exit 1";
    let judged = AfterPlanWorld::new(SECRETS, script).await;
    let mut config = judged.world.config("plan");
    config["variables"] = json!({"password": {"value": "hunter22-of-the-run", "sensitive": true}});
    config["sensitiveValues"] = json!("literal");
    let end = judged.world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let log = judged.world.received().log_text();
    assert!(log.contains("xxx***"), "the last line is there: {}", log.len());
    assert!(!judged.world.reports_and_output(&end).contains("hunter22"));
}

#[tokio::test]
async fn stop_during_the_program_cancels_the_run_and_ends_all_processes() {
    let judged = AfterPlanWorld::new(MODULE, "echo > $work/begun; exec sleep 600").await;
    judged.world.add_run(judged.world.config("apply"));
    let child = judged.world.execute().spawn().unwrap();
    let begun = judged.path("begun");
    eventually("the program to begin", || begun.exists()).await;
    let runner = nix::unistd::Pid::from_raw(child.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(runner, nix::sys::signal::Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let end = judged.world.end(&output);
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(judged.world.last_status()["error"]["class"], "stopped");
    assert!(!judged.path("terraform.tfstate").exists());
}

#[tokio::test]
async fn program_that_cannot_be_started_is_refused_before_any_request() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    std::fs::write(world.path("settings.yaml"), "afterPlan: {command: [no-such-judge]}\n").unwrap();
    for (name, value, said) in [
        ("BUTLER_AFTER_PLAN", "no-such-judge -", "cannot find the program `no-such-judge` in PATH"),
        ("BUTLER_AFTER_PLAN", "/etc/passwd", "`/etc/passwd` is not an executable file"),
        ("BUTLER_AFTER_PLAN", "sh -c 'exit 0'", "has quotes"),
        ("BUTLER_SETTINGS", "settings.yaml", "cannot find the program `no-such-judge` in PATH"),
    ] {
        let value = match name {
            "BUTLER_SETTINGS" => world.path(value).into_os_string(),
            _ => value.into(),
        };
        world.variables = vec![(name.into(), value)];
        let end = world.end(&world.execute().output().await.unwrap());
        assert_eq!(end.code, Some(2), "{}", end.stderr);
        assert!(end.stderr.contains(said), "{said}: {}", end.stderr);
    }
    assert_eq!(world.statuses(), [""; 0]);
}

#[tokio::test]
async fn after_plan_program_of_a_run_is_ignored() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    let program = world.path("started");
    config["terraformSettings"] =
        json!({"afterPlan": {"command": ["touch", program.display().to_string()]}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(!program.exists());
    let said = "`afterPlan` of the run's `terraformSettings` is ignored";
    assert!(world.received().log_text().contains(said));
}

#[tokio::test]
async fn rejected_plan_is_not_saved_and_a_saved_plan_is_checked_before_apply() {
    let judged = AfterPlanWorld::new(MODULE, "cat > /dev/null; ! test -e $work/strict").await;
    let run = async |words: &[&str]| {
        let mut command = judged.world.command(words);
        command.current_dir(judged.path("repository"));
        judged.world.end(&command.output().await.unwrap())
    };
    std::fs::write(judged.path("strict"), "").unwrap();
    let end = run(&["plan", "--out", "saved"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(!judged.path("repository/saved").exists());
    std::fs::remove_file(judged.path("strict")).unwrap();
    let end = run(&["plan", "--out", "saved"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    std::fs::write(judged.path("strict"), "").unwrap();
    let end = run(&["apply", "saved"]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("stopped the run with exit code 1"), "{}", end.stderr);
    assert!(!judged.path("repository/terraform.tfstate").exists());
    std::fs::remove_file(judged.path("strict")).unwrap();
    let end = run(&["apply", "saved"]).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(judged.path("repository/terraform.tfstate").exists());
}
