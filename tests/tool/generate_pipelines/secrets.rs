//! `--secret`: secrets of the CI system in the environment of a run.

use serde_json::json;

use super::Target::{Azure, Bitbucket, CircleCi, Tekton};
use super::job::{JobSite, execute_pipeline, execute_steps};
use butler_testing::linters::yaml;
use butler_testing::world::{MODULE, World};

const OPTION: &str = "--secret=DB_PASSWORD=PROD_PASSWORD";

/// A runner that only records its environment.
const RECORD_ENVIRONMENT: &str = "#!/bin/sh\nenv >\"$HOME/environment\"\n";

fn recorded_password(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.path("home/environment")).unwrap();
    let is_password = |line: &&str| line.starts_with("DB_PASSWORD=");
    text.lines().filter(is_password).map(str::to_owned).collect()
}

#[tokio::test]
async fn run_receives_the_forwarded_secrets() {
    for target in [Azure, Bitbucket, CircleCi] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let site = JobSite::with(RECORD_ENVIRONMENT);
        let releases = format!("--releases={}/releases", site.url());
        let authorities = format!("--ca-bundle={}", site.authority.bundle().display());
        let text = target.write(&[&releases, &authorities, OPTION]);
        assert!(text.contains("PROD_PASSWORD: a secret of runs, in the variable DB_PASSWORD"));
        // Azure replaces variables in the file; the other systems set them in the environment.
        let text = text.replace("$(PROD_PASSWORD)", "hunter2");
        if target != Azure {
            world.set("PROD_PASSWORD", "hunter2");
        }
        let output = execute_steps(target, &world, &site, &target.steps(&text), &[]).await;
        assert!(output.status.success(), "{target:?} {output:?}");
        assert_eq!(recorded_password(&world), ["DB_PASSWORD=hunter2"], "{target:?}");
    }
}

/// Azure does not replace the reference to a variable that the pipeline does not have.
#[tokio::test]
async fn missing_azure_secret_does_not_become_its_own_name() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let site = JobSite::with(RECORD_ENVIRONMENT);
    let output = execute_pipeline(Azure, &world, &site, &[OPTION]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(recorded_password(&world), [""; 0]);
}

#[test]
fn tekton_task_reads_secrets_from_kubernetes_secrets() {
    let text = Tekton.write(&["--secret=DB_PASSWORD", "--secret=TF_VAR_key=prod/api.key"]);
    let step = &yaml(&text)[0]["spec"]["steps"][0];
    let variable = |name: &str| {
        let variables = step["env"].as_array().unwrap().iter();
        variables.filter(|it| it["name"] == name).map(|it| it["valueFrom"].clone()).next().unwrap()
    };
    let reference = |secret: &str, key: &str| json!({"secretKeyRef": {"name": secret, "key": key, "optional": true}});
    assert_eq!(variable("DB_PASSWORD"), reference("butler-runner", "DB_PASSWORD"));
    assert_eq!(variable("TF_VAR_key"), reference("prod", "api.key"));
}
