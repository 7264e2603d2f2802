//! An apply or destroy that does not complete: the page, the summary, `result.json`, the status and
//! the CI system report completed and missing changes consistently.

use serde_json::{Value, json};

use butler_testing::browser::Browser;
use butler_testing::stand_in::StandIn;
use butler_testing::world::{RunEnd, World};

/// `good` is created. `bad` fails after its creation. `refused` does not start because its
/// precondition fails. `never` depends on `bad`.
const FAILING: &str = r#"
resource "terraform_data" "good" {
  input = "a"
}
resource "terraform_data" "bad" {
  input = "b"
  provisioner "local-exec" {
    command = "exit 3"
  }
}
resource "terraform_data" "refused" {
  lifecycle {
    precondition {
      condition     = terraform_data.good.output == "something else"
      error_message = "Not what was expected."
    }
  }
}
resource "terraform_data" "never" {
  input = terraform_data.bad.id
}
"#;

/// A module that sends `signal` to Terraform while `slow` is being created, after `good`.
fn signalled(signal: &str) -> String {
    format!(
        r#"
resource "terraform_data" "good" {{
  input = "a"
}}
resource "terraform_data" "slow" {{
  depends_on = [terraform_data.good]
  provisioner "local-exec" {{
    command = "kill -{signal} $PPID; exec sleep 600"
  }}
}}
resource "terraform_data" "never" {{
  input = terraform_data.slow.id
}}
"#
    )
}

/// A module in the directory `network`, and the reports of a run in it.
struct ModuleRun {
    world: World,
}

impl ModuleRun {
    async fn new(module: &str) -> Self {
        let world = World::new(&[]).await;
        std::fs::create_dir(world.path("network")).unwrap();
        let place = Self { world };
        place.write(module);
        place
    }

    fn write(&self, module: &str) {
        std::fs::write(self.world.path("network/main.tf"), module).unwrap();
    }

    async fn run(&self, operation: &str) -> RunEnd {
        let words = ["execute", "--local", "--operation", operation];
        let mut command = self.world.command(&words);
        command.arg("--module-dir").arg(self.world.path("network"));
        command.arg("--report").arg(self.world.path("page.html"));
        command.arg("--summary").arg(self.world.path("summary.md"));
        command.arg("--report-dir").arg(self.world.path("reports"));
        self.world.end(&command.output().await.unwrap())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.world.path(name)).unwrap()
    }

    fn result(&self) -> Value {
        serde_json::from_str(&self.read("reports/result.json")).unwrap()
    }

    /// Address and outcome of each incomplete change.
    fn incomplete(&self) -> Vec<(String, String)> {
        let result = self.result();
        let changes = result["incomplete"]["changes"].as_array().unwrap();
        let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
        changes.iter().map(|change| (text(change, "address"), text(change, "outcome"))).collect()
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let text = |name: &str, outcome: &str| (format!("terraform_data.{name}"), outcome.to_owned());
    expected.iter().map(|(name, outcome)| text(name, outcome)).collect()
}

#[tokio::test]
async fn failed_apply_counts_changes_in_the_state_and_marks_the_others_in_all_reports() {
    let mut place = ModuleRun::new(FAILING).await;
    place.world.set("GITHUB_ACTIONS", "true");
    place.world.set("GITHUB_OUTPUT", place.world.path("outputs"));
    let end = place.run("apply").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);

    let result = place.result();
    assert_eq!(result["counts"]["add"], 1);
    assert_eq!(result["resources_after"], 2, "what is tainted exists");
    let incomplete = &result["incomplete"];
    assert_eq!(incomplete["planned"]["add"], 4);
    let kinds = ["tainted", "failed", "interrupted", "not_started"];
    assert_eq!(kinds.map(|kind| incomplete[kind].as_u64().unwrap()), [1, 0, 0, 2]);
    let expected =
        pairs(&[("bad", "tainted"), ("never", "not-started"), ("refused", "not-started")]);
    assert_eq!(place.incomplete(), expected);
    assert_eq!(
        result["summary"],
        "Applied before it ended: 1 added, 0 changed, 0 destroyed; 1 tainted, 2 not started. Plan: 4 to add, 0 to change, 0 to destroy."
    );

    let summary = place.read("summary.md");
    assert!(summary.starts_with("## ❌ Apply failed: `network`\n"), "{summary}");
    let counts =
        "**1** added · **0** changed · **0** destroyed · **1** tainted · **2** not started";
    assert!(summary.contains(counts), "{summary}");
    for row in [
        "| ❌ | tainted | `terraform_data.bad` | the next apply replaces it |",
        "| + | created | `terraform_data.good` |  |",
        "| ⏭️ | not created | `terraform_data.never` |  |",
        "| ⏭️ | not created | `terraform_data.refused` |  |",
    ] {
        assert!(summary.contains(row), "{row}: {summary}");
    }
    assert!(summary.contains("| **apply** ❌ |"), "{summary}");

    let outputs = place.read("outputs");
    let output = |name: &str| {
        let (_, rest) = outputs.split_once(&format!("{name}<<")).unwrap();
        rest.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(["add", "failed", "not-started"].map(output), ["1", "1", "2"]);
}

#[tokio::test]
async fn page_of_a_failed_apply_marks_failed_resources_red_and_names_the_run() {
    let place = ModuleRun::new(FAILING).await;
    let end = place.run("apply").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let browser = Browser::start(&[]).await;
    browser.open(&place.world.path("page.html")).await;

    let started = place.result()["timings"]["started_at"].as_str().unwrap().to_owned();
    let started = format!("{} {} UTC", &started[..10], &started[11..19]);
    let title = browser.run("return document.title").await;
    assert_eq!(title, format!("Apply failed: network · {started}"));
    let heading = browser.run("return document.querySelector('h1').textContent.trim()").await;
    assert_eq!(heading, "Apply failed: network");
    let facts = browser
        .run("return Object.fromEntries([...document.querySelectorAll('.facts > div')].map((fact) => [...fact.children].map((part) => part.textContent)))")
        .await;
    assert_eq!(facts["Module"], place.world.path("network").display().to_string());
    assert_eq!((&facts["Operation"], &facts["Started"]), (&json!("apply"), &json!(started)));

    let tiles = "return document.querySelector('.tiles').innerText.replace(/\\s+/g, ' ')";
    let counts = "1 added 0 changed 0 destroyed 1 tainted 2 not started";
    assert_eq!(browser.run(tiles).await, counts);
    let section = "return document.getElementById('plan').textContent";
    assert_eq!(browser.run(section).await, "Changes");
    let changes = browser
        .run("return Object.fromEntries([...document.querySelectorAll('#changes details.change')].map((change) => [change.querySelector('.address').textContent.split('.')[1], [change.querySelector('.verb').textContent, getComputedStyle(change).borderLeftColor]]))")
        .await;
    let label = |name: &str| changes[name][0].as_str().unwrap();
    assert_eq!(
        ["good", "bad", "refused", "never"].map(label),
        ["created", "tainted", "not created", "not created"]
    );
    let colour = |name: &str| changes[name][1].as_str().unwrap();
    assert_ne!(colour("bad"), colour("good"));
    assert_ne!(colour("never"), colour("good"));
    assert_ne!(colour("never"), colour("bad"));

    // Only the failed phase has the colour of a failure.
    let bars = browser
        .run("return Object.fromEntries([...document.querySelectorAll('.timings tbody tr')].map((row) => [row.querySelector('th').firstChild.textContent.trim(), getComputedStyle(row.querySelector('rect')).fill]))")
        .await;
    let red =
        browser.run("return getComputedStyle(document.querySelector('h1 circle')).fill").await;
    let bars = bars.as_object().unwrap();
    let coloured: Vec<_> =
        bars.iter().filter(|(_, fill)| **fill == red).map(|(it, _)| it).collect();
    assert_eq!(coloured, ["apply"], "{bars:?}");
    assert_eq!(browser.console().await, [json!(null); 0]);
}

#[tokio::test]
async fn resource_in_progress_is_interrupted_if_terraform_was_killed() {
    let place = ModuleRun::new(&signalled("KILL")).await;
    let end = place.run("apply").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let result = place.result();
    assert_eq!((&result["status"], &result["counts"]["add"]), (&json!("failed"), &json!(1)));
    assert_eq!(place.incomplete(), pairs(&[("never", "not-started"), ("slow", "interrupted")]));
    let summary = place.read("summary.md");
    let row = "| ⚠️ | create interrupted | `terraform_data.slow` | the state may be incomplete |";
    assert!(summary.contains(row), "{summary}");
}

#[tokio::test]
async fn resource_in_progress_is_tainted_if_terraform_stopped_after_sigterm() {
    let place = ModuleRun::new(&signalled("TERM")).await;
    let end = place.run("apply").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(place.result()["counts"]["add"], 1);
    assert_eq!(place.incomplete(), pairs(&[("never", "not-started"), ("slow", "tainted")]));
}

#[tokio::test]
async fn destroy_is_reported_in_the_past_tense_and_lists_remaining_resources() {
    let module = |command: &str| {
        format!(
            r#"
resource "terraform_data" "plain" {{
  count = 2
}}
resource "terraform_data" "base" {{
}}
resource "terraform_data" "stubborn" {{
  depends_on = [terraform_data.base]
  provisioner "local-exec" {{
    when    = destroy
    command = "{command}"
  }}
}}
"#
        )
    };
    let place = ModuleRun::new(&module("exit 1")).await;
    let end = place.run("apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(place.result()["summary"], "Applied: 4 added, 0 changed, 0 destroyed.");
    assert_eq!(place.result()["incomplete"], Value::Null);
    assert!(place.read("summary.md").contains("| + | created | `terraform_data.base` |"));

    let end = place.run("destroy").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let result = place.result();
    assert_eq!((&result["counts"]["destroy"], &result["resources_after"]), (&json!(2), &json!(2)));
    assert_eq!(place.incomplete(), pairs(&[("base", "not-started"), ("stubborn", "failed")]));
    let summary = place.read("summary.md");
    for row in [
        "| − | destroyed | `terraform_data.plain[0]` |",
        "| ⏭️ | not destroyed | `terraform_data.base` |",
        "| ❌ | destroy failed | `terraform_data.stubborn` |",
    ] {
        assert!(summary.contains(row), "{row}: {summary}");
    }

    place.write(&module("true"));
    let end = place.run("destroy").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(place.result()["summary"], "Applied: 0 added, 0 changed, 2 destroyed.");
    for document in ["page.html", "summary.md", "reports/result.json"] {
        let text = place.read(document);
        // Terraform's own output of the plan is in the log.
        let told = text.split("<h2 id=\"log\">").next().unwrap();
        assert!(!told.contains("to destroy"), "{document}: {told}");
    }
    assert!(place.read("summary.md").contains("**2** destroyed"));
}

#[tokio::test]
async fn registry_receives_the_counts_of_completed_changes() {
    let world = World::new(&[("main.tf", FAILING)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let status = world.last_status();
    assert_eq!((&status["status"], &status["resources_to_add"]), (&json!("failed"), &json!(1)));
    assert_eq!(status["resource_count_after"], 2);
    let summary = status["plan_summary"].as_str().unwrap();
    assert!(summary.contains("1 added") && summary.contains("1 tainted"), "{summary}");
}

#[tokio::test]
async fn destroy_that_only_forgets_is_a_success_with_a_warning() {
    let mut world = World::new(&[("main.tf", "")]).await;
    let change = json!({"actions": ["forget"], "before": {"id": "1"}, "after": null});
    let resource = json!({"address": "a.b", "mode": "managed", "change": change});
    let plan = json!({"format_version": "1.2", "resource_changes": [resource]});
    let show = format!("echo '{plan}'");
    StandIn::doing(&mut world, &[("plan", "exit 0"), ("apply", "exit 0"), ("show", &show)]);
    let end = world.run(world.config("destroy")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let said = "1 resource is removed from the state and not destroyed, as the module says";
    assert!(end.stderr.contains(said), "{}", end.stderr);
}
