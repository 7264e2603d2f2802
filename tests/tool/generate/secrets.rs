//! `--secret`: secrets of the CI system in the environment of a run.

use expect_test::expect;
use serde_json::{Value, json};

use super::github::{Kind, by_hand, step};
use super::run::{Releases, in_gitlab, in_jenkins, shown, world};
use super::{generate, gitlab_script, jenkins_script};
use butler_testing::world::World;

/// A module that can be planned only by a job with the secret.
const WITH_SECRET: &str = r#"
variable "password" {
  type      = string
  sensitive = true
  validation {
    condition     = var.password == "hunter2-of-production"
    error_message = "this is another password"
  }
}
resource "terraform_data" "database" {
  input = "made"
}
"#;

const PASSWORD: &str = "hunter2-of-production";

fn options() -> Vec<String> {
    vec!["--secret=DB_PASSWORD=PROD_PASSWORD".to_owned()]
}

/// A run whose variable refers to the secret.
async fn run_with_secret(releases: &Releases) -> World {
    let world = world("plan", releases).await;
    world.commit(&[("main.tf", WITH_SECRET)]);
    let mut config = world.config("plan");
    config["variables"] = json!({"password": {"value": "DB_PASSWORD", "sensitive": true}});
    world.add_run(config);
    world
}

#[tokio::test]
async fn run_in_github_receives_the_forwarded_secrets() {
    let releases = Releases::that_starts_the_runner();
    let world = run_with_secret(&releases).await;
    let options = options();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let (mut job, steps) = Kind::Workflow.job(&world, &by_hand(), &options);
    job.set("secrets", "PROD_PASSWORD", PASSWORD);
    let done = job.execute(&steps).await;
    let output = step(&done, "Execute the run").output.as_ref().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(output));
    for other in done.iter().filter(|other| other.name != "Execute the run") {
        assert!(!other.given.values().any(|value| value == PASSWORD), "{other:?}");
    }
}

#[tokio::test]
async fn run_in_gitlab_and_jenkins_receives_the_forwarded_secrets() {
    let releases = Releases::that_starts_the_runner();
    let gitlab = gitlab_script(&generate("gitlab-ci", &options()).expect_success().stdout);
    let pipeline = generate("jenkins", &options()).expect_success().stdout;
    let line = "string(variable: 'DB_PASSWORD', credentialsId: 'PROD_PASSWORD'),\n";
    assert!(pipeline.contains(line), "{pipeline}");
    for is_jenkins in [false, true] {
        let world = run_with_secret(&releases).await;
        let mut job = if is_jenkins {
            let mut job = in_jenkins(&world, &jenkins_script(&pipeline));
            job.env("DB_PASSWORD", PASSWORD);
            job
        } else {
            in_gitlab(&world, &gitlab)
        };
        let output = job.env("PROD_PASSWORD", PASSWORD).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    }
}

#[test]
fn container_receives_secrets_but_not_as_arguments() {
    for target in ["github-actions", "jenkins", "azure-pipelines"] {
        let options = [options(), vec!["--image".to_owned()]].concat();
        let text = generate(target, &options).expect_success().stdout;
        assert!(text.contains("--env DB_PASSWORD \\"), "{target}: {text}");
        assert!(!text.contains("--env DB_PASSWORD="), "{target}: {text}");
    }
}

#[test]
fn json_for_other_systems_lists_each_secret() {
    let answer = generate("generic", &options()).expect_success().json();
    assert_eq!(answer["runner"]["envVars"]["DB_PASSWORD"], "<secret PROD_PASSWORD>");
    assert_eq!(answer["manual"].get("DB_PASSWORD"), None::<&Value>);
}

#[test]
fn malformed_secret_names_are_refused() {
    let shown = |target: &str, options: &[&str]| {
        let options: Vec<_> = options.iter().map(|option| format!("--secret={option}")).collect();
        generate(target, &options).normalized().to_owned()
    };
    let refused = [
        shown("github-actions", &["db-password"]),
        shown("github-actions", &["DB_PASSWORD=prod/db"]),
        shown("github-actions", &["BUTLER_TOKEN"]),
        shown("github-actions", &["GITHUB_TOKEN=BOT"]),
        shown("gitlab-ci", &["DB_PASSWORD", "DB_PASSWORD=OTHER"]),
        shown("azure-pipelines", &["DB_PASSWORD=$(X)"]),
        shown("tekton", &["DB_PASSWORD=a/b/c"]),
        shown("kubernetes", &["DB_PASSWORD"]),
    ];
    expect![[r"
        exit 2
        error: invalid value 'db-password' for '--secret <NAME[=OTHER]>': it must begin with the name of an environment variable
        hint: run `butler-runner generate github-actions --help`
        exit 2
        error: a secret of `github-actions` cannot be called `prod/db`
        hint: it must consist of letters, digits and `_`, without a digit at the beginning
        exit 2
        error: invalid value 'BUTLER_TOKEN' for '--secret <NAME[=OTHER]>': `BUTLER_TOKEN` is a setting of the runner and not a secret of runs
        hint: run `butler-runner generate github-actions --help`
        exit 2
        error: `--secret GITHUB_TOKEN` sets a variable that is set already
        hint: name each variable once, and none that the wrapper itself sets for the job
        exit 2
        error: `--secret DB_PASSWORD` sets a variable that is set already
        hint: name each variable once, and none that the wrapper itself sets for the job
        exit 2
        error: `azure-pipelines` would evaluate the `$(` in `$(X)` of `--secret`
        hint: leave the option out: the file then names a variable of the CI system's own
        exit 2
        error: a secret of `tekton` cannot be called `a/b/c`
        hint: it is the key in the Secret `butler-runner`, or SECRET/KEY: letters, digits, `-`, `_` and `.`
        exit 2
        error: invalid value 'DB_PASSWORD' for '--secret <NAME>': name a Secret of the cluster with `--env-from` or `--mount-secret` instead
        hint: run `butler-runner generate kubernetes --help`
    "]].assert_eq(&refused.concat());
    for target in ["github-actions", "gitlab-ci", "jenkins"] {
        generate(target, &["--secret=BUTLER_GIT_TOKEN".to_owned()]).expect_success();
    }
}
