//! `--fragment`: files for pipelines that exist already.

use super::*;

#[test]
fn gitlab_fragment_is_a_hidden_job_that_others_extend() {
    let words = ["generate", "gitlab-ci", "--fragment", "--cache", "--oidc=aws"];
    let fragment = Machine::new().run(&words).expect_success().stdout;
    yamllint(&[&fragment]).unwrap();
    let mut included = yaml(&fragment).remove(0);
    let keys: Vec<_> = included.as_object().unwrap().keys().collect();
    assert_eq!(keys, [".butler-run"], "nothing starts by itself");
    let whole =
        Machine::new().run(&["generate", "gitlab-ci", "--cache", "--oidc=aws"]).expect_success();
    assert_eq!(included[".butler-run"], yaml(&whole.stdout)[0]["butler-run"]);
    // As the comment at its head has it.
    included["stages"] = json!(["build", "deploy"]);
    included["compile"] = json!({
        "stage": "build",
        "script": ["make"],
        "rules": [{"if": "$RUN_ID", "when": "never"}, {"when": "on_success"}],
    });
    included["butler-run"] = json!({"extends": ".butler-run", "stage": "deploy"});
    check_jsonschema(Schema::GitLabCi, &[&included.to_string()]).unwrap();
}

#[test]
fn bitbucket_fragment_fits_below_the_custom_pipelines_of_another_file() {
    let fragment = Bitbucket.write(&["--fragment", "--cache"]);
    assert!(fragment.contains("`butler-runner: ~/.butler-runner`"), "{fragment}");
    let existing = "definitions:\n  caches:\n    butler-runner: ~/.butler-runner\n\
                    pipelines:\n  default:\n    - step:\n        script:\n          - make\n  custom:\n    \
                    nightly:\n      - step:\n          script:\n            - make nightly\n";
    let together = format!("{existing}{fragment}");
    yamllint(&[&together]).unwrap();
    check_jsonschema(Schema::BitbucketPipelines, &[&together]).unwrap();
    let whole = &yaml(&Bitbucket.write(&["--cache"]))[0];
    let custom = &yaml(&together)[0]["pipelines"]["custom"];
    assert_eq!(custom["butler-run"], whole["pipelines"]["custom"]["butler-run"]);
    assert!(custom["nightly"].is_array());
}

#[test]
fn circleci_fragment_can_be_merged_into_another_configuration() {
    let fragment = CircleCi.write(&["--fragment", "--gate=production"]);
    yamllint(&[&fragment]).unwrap();
    let mut together = json!({
        "version": 2.1,
        "parameters": {"nightly": {"type": "boolean", "default": false}},
        "jobs": {"build": {"docker": [{"image": "cimg/base:current"}], "steps": ["checkout"]}},
        "workflows": {"build": {
            "when": {"not": "<< pipeline.parameters.run_id >>"},
            "jobs": ["build"],
        }},
    });
    butler_testing::world::merge(&mut together, &yaml(&fragment)[0]);
    check_jsonschema(Schema::CircleCi, &[&together.to_string()]).unwrap();
    let whole = &yaml(&CircleCi.write(&["--gate=production"]))[0];
    assert_eq!(together["jobs"]["butler-run"], whole["jobs"]["butler-run"]);
    assert_eq!(together["workflows"]["butler-run"], whole["workflows"]["butler-run"]);
    assert!(together["parameters"]["run_id"].is_object());
    assert!(yaml(&fragment)[0]["version"].is_null(), "{fragment}");
}

#[test]
fn targets_without_fragments_name_the_alternative() {
    let machine = Machine::new();
    let said =
        |target: &str| machine.run(&["generate", target, "--fragment"]).normalized().to_owned();
    let targets = ["github-actions", "azure-pipelines", "jenkins", "tekton", "generic"];
    expect![[r"
        exit 2
        error: `github-actions` does not support `--fragment`
        hint: a workflow has a file of its own; a job of another one uses butlerdotdev/butler-runner as a step
        exit 2
        error: `azure-pipelines` does not support `--fragment`
        hint: a pipeline has a file of its own: make a pipeline of it in the same project
        exit 2
        error: `jenkins` does not support `--fragment`
        hint: a Jenkinsfile is a whole pipeline: make a job of it, which another starts with the step `build`
        exit 2
        error: `tekton` does not support `--fragment`
        hint: its objects are applied beside those that are there
        exit 2
        error: `generic` does not support `--fragment`
        hint: `runner.install` and `runner.command` are what a script includes
    "]].assert_eq(&targets.map(said).concat());
}
