//! The workflow of `generate github-actions` and the action of this repository, executed step by
//! step as by GitHub, from the event to the artifact.

use std::process::Command;

use expect_test::expect_file;
use serde_json::{Value, json};

use super::run::{Releases, shown, world};
use super::{generate, steps};
use butler_testing::github_actions::{Job, Step};
use butler_testing::linters::{
    Schema, actionlint, check_jsonschema, shellcheck, yaml, yamllint, zizmor, zizmor_action,
};
use butler_testing::world::{RUN_ID, TOKEN, World};

/// The origin of steps: a workflow, or an action that a workflow uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Workflow,
    Action,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Workflow, Self::Action];

    /// The steps of a job for `event`.
    pub(super) fn job<'world>(
        self,
        world: &'world World,
        event: &Value,
        options: &[&str],
    ) -> (Job<'world>, Value) {
        let mut job = Job::new(world, event);
        if self == Self::Action {
            let action = &yaml(&read("action.yml"))[0];
            job.declare(&action["inputs"]);
            job.set("inputs", "endpoint", &world.endpoint());
            return (job, action["runs"]["steps"].clone());
        }
        job.set("secrets", "BUTLER_REGISTRY_URL", &world.endpoint());
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let workflow = &yaml(&generate("github-actions", &options).expect_success().stdout)[0];
        (job, workflow["jobs"]["run"]["steps"].clone())
    }
}

fn read(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(path).unwrap()
}

/// The event of a manual start or of `trigger`.
pub(super) fn by_hand() -> Value {
    let inputs = json!({"callback_token": TOKEN, "run_id": RUN_ID});
    json!({"inputs": inputs, "ref": "refs/heads/main"})
}

/// The event that the registry sends, with these fields of clouds.
pub(super) fn dispatched(clouds: &Value) -> Value {
    let mut payload = json!({
        "butler_url": "",
        "run_id": RUN_ID,
        "callback_token": TOKEN,
        "operation": "plan",
        "module_name": r#"x","callback_token":"brce_other"#,
    });
    butler_testing::world::merge(&mut payload, clouds);
    json!({"action": "butler-run", "client_payload": payload})
}

pub(super) fn step<'steps>(steps: &'steps [Step], name: &str) -> &'steps Step {
    let found = steps.iter().find(|step| step.name == name);
    found.unwrap_or_else(|| panic!("there is no step `{name}`: {steps:?}"))
}

#[tokio::test]
async fn github_job_masks_installs_runs_and_uploads_the_report() {
    let releases = Releases::that_starts_the_runner();
    for (kind, event, operation) in [
        (Kind::Workflow, by_hand(), "plan"),
        (Kind::Workflow, dispatched(&json!({})), "explode"),
        (Kind::Action, by_hand(), "explode"),
        (Kind::Action, dispatched(&json!({})), "plan"),
    ] {
        let world = world(operation, &releases).await;
        let (mut job, steps) = kind.job(&world, &event, &["--oidc=aws", "--oidc=gcp"]);
        let done = job.execute(&steps).await;
        let run = step(&done, "Execute the run");
        let output = run.output.as_ref().unwrap();
        let (code, statuses): (_, &[_]) =
            if operation == "plan" { (0, &["running", "succeeded"]) } else { (1, &["failed"]) };
        assert_eq!(output.status.code(), Some(code), "{kind:?} {}", shown(output));
        assert_eq!(world.statuses(), statuses, "{kind:?}");
        assert_eq!(step(&done, "Report a run that did not start").outcome, "skipped");
        for name in ["Log in to AWS", "Log in to Google Cloud"] {
            assert_eq!(step(&done, name).outcome, "skipped", "{kind:?} {event}");
        }
        let kept = step(&done, "Keep the report");
        assert_eq!(kept.outcome, "success");
        assert_eq!(kept.given["name"], format!("butler-run-{RUN_ID}"));
        for file in kept.given["path"].lines() {
            assert!(std::path::Path::new(file).is_file(), "{file}: {}", shown(output));
        }
        let names = kept.given["path"].lines().map(|file| file.rsplit('/').next().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["report.html", "result.json"], "{kind:?}");
    }
}

#[tokio::test]
async fn github_job_logs_in_to_the_clouds_of_the_event() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    let aws = json!({"aws_role_arn": "arn:aws:iam::1:role/a"});
    let gcp = json!({
        "gcp_wif_provider": "projects/1/providers/p",
        "gcp_service_account": "a@b",
        "gcp_project_id": "project-1",
    });
    let mut both = aws.clone();
    butler_testing::world::merge(&mut both, &gcp);
    let in_europe = json!({"aws_role_arn": "arn:aws:iam::1:role/a", "aws_region": "eu-north-1"});
    for kind in Kind::ALL {
        for (event, has_defaults, expected) in [
            (dispatched(&json!({})), false, [None, None]),
            (by_hand(), false, [None, None]),
            (dispatched(&aws), false, [Some("arn:aws:iam::1:role/a in us-east-1"), None]),
            (dispatched(&in_europe), false, [Some("arn:aws:iam::1:role/a in eu-north-1"), None]),
            (dispatched(&gcp), false, [None, Some("projects/1/providers/p a@b project-1")]),
            (
                dispatched(&both),
                false,
                [
                    Some("arn:aws:iam::1:role/a in us-east-1"),
                    Some("projects/1/providers/p a@b project-1"),
                ],
            ),
            // The repository's own identities are used for events without a cloud.
            (by_hand(), true, [Some("role in us-east-1"), Some("provider  ")]),
            (dispatched(&aws), true, [Some("arn:aws:iam::1:role/a in us-east-1"), None]),
            (dispatched(&gcp), true, [None, Some("projects/1/providers/p a@b project-1")]),
        ] {
            let (mut job, steps) = kind.job(&world, &event, &["--oidc=aws", "--oidc=gcp"]);
            if has_defaults {
                let (context, role, provider) = match kind {
                    Kind::Workflow => ("vars", "AWS_ROLE_ARN", "GCP_WORKLOAD_IDENTITY_PROVIDER"),
                    Kind::Action => ("inputs", "aws-role", "gcp-provider"),
                };
                job.set(context, role, "role");
                job.set(context, provider, "provider");
            }
            // Steps after the logins do not matter here.
            let logins = steps.as_array().unwrap().iter();
            let logins = logins.filter(|step| step["name"].as_str().unwrap().starts_with("Log in"));
            let done = job.execute(&Value::Array(logins.cloned().collect())).await;
            let shown = |name: &str, show: &dyn Fn(&Step) -> String| {
                let step = step(&done, name);
                (step.outcome != "skipped").then(|| show(step))
            };
            let logged_in = [
                shown("Log in to AWS", &|step| {
                    format!("{} in {}", step.given["role-to-assume"], step.given["aws-region"])
                }),
                shown("Log in to Google Cloud", &|step| {
                    let given = |name: &str| &step.given[name];
                    let provider = given("workload_identity_provider");
                    format!("{provider} {} {}", given("service_account"), given("project_id"))
                }),
            ];
            let expected = expected.map(|text| text.map(str::to_owned));
            assert_eq!(logged_in, expected, "{kind:?} {event} {has_defaults}");
        }
    }
}

#[test]
fn first_step_masks_only_the_token_of_the_event() {
    let workflow = generate("github-actions", &[]).expect_success().stdout;
    let (name, script) = steps(&workflow).remove(0);
    assert_eq!(name, "Mask the callback token");
    let action = &yaml(&read("action.yml"))[0];
    assert_eq!(action["runs"]["steps"][0]["run"].as_str().unwrap(), script);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("event.json");
    let mask = |event: &str| {
        std::fs::write(&file, event).unwrap();
        let mut command = Command::new("/bin/bash");
        command.args(["-eo", "pipefail", "-c", &script]).env("GITHUB_EVENT_PATH", &file);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for event in [format!("{:#}", by_hand()), dispatched(&json!({})).to_string()] {
        assert_eq!(mask(&event), (Some(0), format!("::add-mask::{TOKEN}\n")), "{event}");
    }
    for event in ["{}", r#"{"inputs":{"callback_token":""}}"#, ""] {
        assert_eq!(mask(event).0, Some(1), "{event}");
    }
}

/// `UPDATE_EXPECT=1` rewrites the file.
#[test]
fn action_of_this_repository_matches_the_generated_workflow() {
    let documented = read("docs/ci-output.md");
    let (_, table) = documented.split_once("<!-- outputs -->\n").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    let outputs: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    assert!(outputs.contains(&"plan-changes"), "{outputs:?}");
    // The template needs a static string.
    let outputs = outputs.into_iter().map(|name| &*name.to_owned().leak()).collect();
    let action = butler_start::generate::action(outputs);
    expect_file!["../../../action.yml"].assert_eq(&action);
    check_jsonschema(Schema::GitHubActions, &[&action]).unwrap();
    yamllint(&[&action]).unwrap();
    zizmor_action(&action).unwrap();
    for step in yaml(&action)[0]["runs"]["steps"].as_array().unwrap() {
        if let Some(script) = step["run"].as_str() {
            shellcheck("bash", &[script]).unwrap();
        }
    }
}

#[test]
fn documented_workflow_uses_the_action_and_is_short() {
    let documented = read("docs/ci-systems.md");
    let (_, text) = documented.split_once("```yaml\nname: Butler run\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let workflow = format!("name: Butler run\n{text}");
    check_jsonschema(Schema::GitHubWorkflows, &[&workflow]).unwrap();
    yamllint(&[&workflow]).unwrap();
    actionlint(&[&workflow]).unwrap();
    zizmor("regular", &[&workflow.replace("@v", "@0123456789012345678901234567890123456789 # v")])
        .unwrap();
    let used = format!("butlerdotdev/butler-runner@v{}", env!("CARGO_PKG_VERSION"));
    assert!(workflow.contains(&used), "{workflow}");
    let lines = workflow.lines().filter(|line| !line.trim().is_empty());
    assert!(lines.count() <= 12, "{workflow}");
    let given = &yaml(&workflow)[0]["jobs"]["run"]["steps"][0]["with"];
    let inputs = &yaml(&read("action.yml"))[0]["inputs"];
    for name in given.as_object().unwrap().keys() {
        assert!(inputs[name].is_object(), "{name}");
    }
}
