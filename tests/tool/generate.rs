//! `generate`: the files for each CI system, and that the vendor's tools accept them.

mod failing;
mod github;
mod run;
mod secrets;
mod server;

use expect_test::{ExpectFile, expect, expect_file};
use serde_json::Value;

use butler_testing::linters::{
    Schema, actionlint, check_jsonschema, groovy_lint, shellcheck, yaml, yamllint, zizmor,
};
use butler_testing::machine::{CommandOutput, Machine};

const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Options of all targets except `generic`.
const ALL: &[&str] = &[
    "--endpoint=https://portal.example.com/api/registry",
    "--runner-version=1.2.3",
    "--aws-role=arn:aws:iam::123456789012:role/terraform",
    "--aws-region=eu-central-1",
    "--gcp-provider=projects/1/locations/global/workloadIdentityPools/ci/providers/jobs",
    "--gcp-service-account=terraform@project.iam.gserviceaccount.com",
    "--azure-client-id=00000000-0000-0000-0000-000000000001",
    "--azure-tenant-id=00000000-0000-0000-0000-000000000002",
    "--azure-subscription-id=00000000-0000-0000-0000-000000000003",
    "--gate=production",
    "--cache",
    "--label=self-hosted",
    "--label=linux",
    "--timeout=90m",
    "--secret=DB_PASSWORD",
    "--secret=TF_VAR_token=PROD_TOKEN",
    "--proxy=http://proxy.example.com:3128",
    "--no-proxy=localhost,.example.com",
    "--ca-bundle=/etc/ssl/company.pem",
];

/// The binary from a mirror, pinned to one archive.
fn pinned() -> Vec<String> {
    let checksum = format!("--checksum={DIGEST}");
    let releases = "--releases=https://mirror.example.com/butler-runner/releases".to_owned();
    all().chain([checksum, releases]).collect()
}

/// In the image, with the cloud identity left to the CI system.
fn in_image() -> Vec<String> {
    let digest = format!("--digest=sha256:{DIGEST}");
    let kept =
        all().filter(|option| !option.starts_with("--aws-") && !option.starts_with("--gcp-"));
    let kept = kept.filter(|option| !option.starts_with("--azure-"));
    let own = ["--image", "--oidc=aws", "--oidc=gcp", "--oidc=azure"].map(str::to_owned);
    kept.chain(own).chain([digest]).collect()
}

fn all() -> impl Iterator<Item = String> {
    ALL.iter().map(|option| (*option).to_owned())
}

fn generate(target: &str, options: &[String]) -> CommandOutput {
    let mut words = vec!["generate", target];
    words.extend(options.iter().map(String::as_str));
    Machine::new().run(&words)
}

/// The files with no options, with all options for the binary, and with all options for the image.
fn variants(target: &str, expected: [ExpectFile; 3]) -> [String; 3] {
    let options = [Vec::new(), pinned(), in_image()];
    let texts = options.map(|options| generate(target, &options).expect_success().stdout);
    for (text, expected) in texts.iter().zip(expected) {
        expected.assert_eq(text);
    }
    texts
}

/// The scripts of a workflow's steps.
fn steps(workflow: &str) -> Vec<(String, String)> {
    let document = &yaml(workflow)[0];
    let steps = document["jobs"]["run"]["steps"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    steps
        .filter(|step| step.get("run").is_some())
        .map(|step| (text(&step["name"]), text(&step["run"])))
        .collect()
}

/// The job's script in the form that GitLab executes.
fn gitlab_script(job: &str) -> String {
    let document = &yaml(job)[0];
    let entries = document["butler-run"]["script"].as_array().unwrap().iter();
    entries.fold(String::new(), |script, entry| script + entry.as_str().unwrap() + "\n")
}

/// The script of the pipeline's only `sh` step, unquoted as by Groovy.
fn jenkins_script(pipeline: &str) -> String {
    let (_, rest) = pipeline.split_once("sh '''").unwrap();
    let (script, _) = rest.split_once("\n                    '''").unwrap();
    let mut characters = script.chars();
    let mut read = String::new();
    while let Some(character) = characters.next() {
        read.push(if character == '\\' { characters.next().unwrap() } else { character });
    }
    read + "\n"
}

#[test]
fn github_workflows_match_their_snapshots_and_pass_actionlint() {
    let expected = [
        expect_file!["../data/generated/github-actions.yml"],
        expect_file!["../data/generated/github-actions-all.yml"],
        expect_file!["../data/generated/github-actions-image.yml"],
    ];
    let texts = variants("github-actions", expected);
    check_jsonschema(Schema::GitHubWorkflows, &texts).unwrap();
    yamllint(&texts).unwrap();
    actionlint(&texts).unwrap();
    zizmor("pedantic", &texts).unwrap();
    for text in texts {
        let steps = steps(&text);
        let scripts: Vec<_> = steps.iter().map(|(_, script)| script).collect();
        for script in &scripts {
            assert!(!script.contains("${{"), "an expression is put into a script:\n{script}");
        }
        shellcheck("bash", &scripts).unwrap();
        let run = steps.into_iter().find(|(name, _)| name == "Execute the run");
        let (_, last) = run.unwrap();
        let started = last.trim_end().lines().skip_while(|line| !line.starts_with("exec ")).last();
        assert!(started.unwrap().trim_end().ends_with(" execute"), "{last}");
    }
}

#[test]
fn gitlab_jobs_match_their_snapshots_and_the_gitlab_schema() {
    let expected = [
        expect_file!["../data/generated/gitlab-ci.yml"],
        expect_file!["../data/generated/gitlab-ci-all.yml"],
        expect_file!["../data/generated/gitlab-ci-image.yml"],
    ];
    let texts = variants("gitlab-ci", expected);
    check_jsonschema(Schema::GitLabCi, &texts).unwrap();
    yamllint(&texts).unwrap();
    shellcheck("sh", &texts.map(|text| gitlab_script(&text))).unwrap();
}

#[test]
fn jenkinsfiles_match_their_snapshots_and_pass_the_linter() {
    let expected = [
        expect_file!["../data/generated/Jenkinsfile"],
        expect_file!["../data/generated/Jenkinsfile-all"],
        expect_file!["../data/generated/Jenkinsfile-image"],
    ];
    let texts = variants("jenkins", expected);
    let options = hostile_options();
    groovy_lint(&[&texts[..], &[generate("jenkins", &options).expect_success().stdout]].concat())
        .unwrap();
    shellcheck("sh", &texts.map(|text| jenkins_script(&text))).unwrap();
}

#[test]
fn json_for_other_systems_has_the_documented_keys_and_no_secret() {
    let machine = Machine::new();
    let run = serde_json::json!({
        "runId": "550e8400-e29b-41d4-a716-446655440000",
        "operation": "plan",
        "terraformVersion": "1.9.0",
        "source": {
            "gitRepo": "https://user:hunter2@github.com/org/infra.git",
            "gitRef": "v1.2.0",
            "workingDirectory": "modules/vpc",
        },
        "variables": {"password": {"value": "hunter2", "sensitive": true}},
        "callbacks": {"statusUrl": "/v1/ci/module-runs/550e8400-e29b-41d4-a716-446655440000/status"},
    });
    std::fs::write(machine.path("run.json"), run.to_string()).unwrap();
    let words = ["generate", "generic", "--config", "run.json"];
    let words = [&words[..], &["--endpoint", "https://portal.example.com/api/registry"]].concat();
    let said = machine.run(&words).expect_success();
    assert!(!said.stdout.contains("hunter2"), "{}", said.stdout);
    let mut answer = said.json();
    let install = answer["runner"]["install"].take();
    shellcheck("sh", &[install.as_str().unwrap()]).unwrap();
    expect![[r#"
        {
          "manual": {
            "callbackUrl": "https://portal.example.com/api/registry/v1/ci/module-runs/550e8400-e29b-41d4-a716-446655440000/status",
            "gitRef": "v1.2.0",
            "gitRepo": "https://github.com/org/infra.git",
            "operation": "plan",
            "terraformVersion": "1.9.0",
            "token": "<callback token, brce_...>",
            "workingDirectory": "modules/vpc"
          },
          "runner": {
            "command": "./butler-runner execute",
            "envVars": {
              "BUTLER_ENDPOINT": "https://portal.example.com/api/registry",
              "BUTLER_RUN_ID": "550e8400-e29b-41d4-a716-446655440000",
              "BUTLER_TOKEN": "<callback token, brce_...>"
            },
            "install": null
          }
        }"#]]
    .assert_eq(&format!("{answer:#}"));
    expect_file!["../data/generated/generic.json"]
        .assert_eq(&generate("generic", &[]).expect_success().stdout);
}

/// Characters with a meaning in a file of a CI system.
const HOSTILE: &str = r#"it's "x": [y] # \ `z` {{ a }} <<b>> ''' """#;

fn hostile_options() -> [String; 4] {
    ["gate", "label", "no-proxy", "ca-bundle"].map(|option| format!("--{option}={HOSTILE}"))
}

#[test]
fn input_values_are_never_evaluated_by_the_ci_system() {
    let options = hostile_options();
    let workflow = generate("github-actions", &options).expect_success().stdout;
    let job = &yaml(&workflow)[0]["jobs"]["run"];
    assert_eq!(job["environment"], HOSTILE);
    assert_eq!(job["runs-on"][0], HOSTILE);
    assert_eq!(job["env"]["NO_PROXY"], HOSTILE);
    let scripts: String = steps(&workflow).into_iter().map(|(_, script)| script).collect();
    assert_eq!(run::shell_word(&scripts, "cat ", " >>"), HOSTILE);
    let job = generate("gitlab-ci", &options).expect_success().stdout;
    assert_eq!(yaml(&job)[0]["butler-run"]["environment"]["name"], HOSTILE);
    assert_eq!(run::shell_word(&gitlab_script(&job), "export NO_PROXY=", "\n"), HOSTILE);
    let pipeline = generate("jenkins", &options).expect_success().stdout;
    let quoted = r#"'it\'s "x": [y] # \\ `z` {{ a }} <<b>> \'\'\' ""'"#;
    assert!(pipeline.contains(&format!("message {quoted}\n")), "{pipeline}");
    assert!(pipeline.contains(&format!("NO_PROXY = {quoted}\n")), "{pipeline}");
}

#[test]
fn values_that_a_target_would_evaluate_are_refused() {
    let shown = |target, options: &[&str]| {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        generate(target, &options).normalized().to_owned()
    };
    let refused = [
        shown("github-actions", &["--gate=${{ secrets.X }}"]),
        shown("gitlab-ci", &["--label=$CI_JOB_TOKEN"]),
        shown("jenkins", &["--gate=one\ntwo"]),
        shown("generic", &["--cache"]),
        shown("generic", &["--image"]),
        shown("github-actions", &["--endpoint=https://user:hunter2@portal.example.com/"]),
        shown("github-actions", &["--releases=http://mirror.example.com/"]),
        shown("github-actions", &["--latest", &format!("--checksum={DIGEST}")]),
        shown("github-actions", &[&format!("--digest=sha256:{DIGEST}")]),
        shown("github-actions", &["--checksum=123"]),
        shown("github-actions", &["--image=x:latest"]),
    ];
    expect![[r#"
        exit 2
        error: `github-actions` would evaluate the `${{` in `${{ secrets.X }}` of `--gate`
        hint: leave the option out: the file then names a variable of the CI system's own
        exit 2
        error: `gitlab-ci` would evaluate the `$` in `$CI_JOB_TOKEN` of `--label`
        hint: leave the option out: the file then names a variable of the CI system's own
        exit 2
        error: `--gate` contains an invisible character: "one\ntwo"
        exit 2
        error: `generic` does not support `--cache`
        hint: set it where your CI system describes the job
        exit 2
        error: `generic` does not support `--image`
        hint: start `butler-runner execute` in the image, with the variables of `runner.envVars`
        exit 2
        error: invalid value *** for '--endpoint <URL>': must not contain a user name or password, because the file would show it
        hint: run `butler-runner generate github-actions --help`
        exit 2
        error: invalid value 'http://mirror.example.com/' for '--releases <URL>': must begin with https://
        hint: run `butler-runner generate github-actions --help`
        exit 2
        error: `--latest` cannot be used with `--checksum <SHA256>`
        exit 2
        error: `--image [<NAME>]` is missing
        hint: run `butler-runner generate github-actions --help`
        exit 2
        error: invalid value '123' for '--checksum <SHA256>': must be 64 hexadecimal digits
        hint: run `butler-runner generate github-actions --help`
        exit 2
        error: invalid value 'x:latest' for '--image [<NAME>]': must be the name of an image without a tag or a digest
        hint: run `butler-runner generate github-actions --help`
    "#]].assert_eq(&refused.concat());
}

#[test]
fn generated_file_is_written_atomically_and_replaces_a_file_only_with_force() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new();
    let path = machine.path("butler-run.yml");
    let words = ["generate", "github-actions", "--output", "butler-run.yml"];
    machine.run(&words).expect_success();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, generate("github-actions", &[]).stdout);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    std::fs::write(&path, "mine").unwrap();
    let said = machine.run(&words);
    expect![[r"
        exit 2
        error: `butler-run.yml` exists already
        hint: `--force` overwrites it
    "]]
    .assert_eq(said.normalized());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    machine.run(&[&words[..], &["--force"]].concat()).expect_success();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let left = std::fs::read_dir(machine.path("")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".butler")), "{left:?}");
}

#[test]
fn parent_directories_of_the_generated_file_are_created() {
    let machine = Machine::new();
    let path = ".github/workflows/butler-run.yml";
    machine.run(&["generate", "github-actions", "--output", path]).expect_success();
    assert!(machine.path(path).is_file());
    std::fs::write(machine.path("file"), "").unwrap();
    let said = machine.run(&["generate", "circleci", "--output", "file/config.yml"]);
    expect![[r"
        exit 1
        error: cannot write `file/config.yml`: failed to create directory `file`: File exists (os error 17)
    "]]
    .assert_eq(said.normalized());
    // Later errors do not mention an option that the user did not set.
    let said = machine.run(&["generate", "circleci", "--output", "/proc/config.yml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.starts_with("error: cannot write `/proc/config.yml`: "), "{said:?}");
    assert!(!said.stderr.contains(".butler-runner-"), "{said:?}");
}

#[test]
fn proxy_settings_precede_the_first_download() {
    let options = ["--proxy=http://proxy.example.com:3128", "--ca-bundle=/etc/ssl/company.pem"];
    let options = options.map(str::to_owned);
    let script = gitlab_script(&generate("gitlab-ci", &options).expect_success().stdout);
    let place = |text: &str| script.find(text).unwrap_or_else(|| panic!("{text}: {script}"));
    assert!(place("export HTTPS_PROXY='http://proxy.example.com:3128'") < place("curl --fail"));
    assert!(place("export HTTP_PROXY=") < place("curl --fail"));
    assert!(place("export BUTLER_CA_BUNDLE=") < place("curl --fail"));
}

#[test]
fn aws_credentials_last_as_long_as_the_job_timeout() {
    let seconds = |timeout: &str| {
        let options = ["--oidc=aws".to_owned(), format!("--timeout={timeout}")];
        let workflow = generate("github-actions", &options).expect_success().stdout;
        let steps = yaml(&workflow)[0]["jobs"]["run"]["steps"].clone();
        let steps = steps.as_array().unwrap();
        let login = steps.iter().find(|step| step["name"] == "Log in to AWS").unwrap();
        login["with"]["role-duration-seconds"].as_u64()
    };
    // Every role allows one hour, which is also the default.
    assert_eq!((seconds("15m"), seconds("1h")), (None, None));
    assert_eq!((seconds("90m"), seconds("6h")), (Some(5400), Some(21600)));
}

#[test]
fn options_without_effect_in_the_ci_system_are_refused() {
    let shown = |target, options: &[&str]| {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        generate(target, &options).normalized().to_owned()
    };
    let refused = [
        shown("github-actions", &["--timeout=7h"]),
        shown("github-actions", &["--timeout=6d", "--label=self-hosted"]),
        shown("github-actions", &["--label=[self-hosted, linux]"]),
        shown("bitbucket-pipelines", &["--timeout=13h"]),
    ];
    expect![[r"
        exit 2
        error: `github-actions` does not support `--timeout`
        hint: a job on a machine of GitHub's ends after six hours: `--label` names one of yours
        exit 2
        error: `github-actions` does not support `--timeout`
        hint: GitHub ends each job after five days: split the module into smaller ones
        exit 2
        error: `github-actions` does not support `--label`
        hint: give the option once for each label
        exit 2
        error: `bitbucket-pipelines` does not support `--timeout`
        hint: Bitbucket ends each step after twelve hours: split the module into smaller ones
    "]]
    .assert_eq(&refused.concat());
    for (target, options) in [
        ("github-actions", ["--timeout=6h", "--gate=x"]),
        ("github-actions", ["--timeout=5d", "--label=self-hosted"]),
        ("bitbucket-pipelines", ["--timeout=12h", "--gate=x"]),
    ] {
        generate(target, &options.map(str::to_owned)).expect_success();
    }
}

#[test]
fn version_of_the_runner_is_accepted_with_and_without_v() {
    let with = |version: &str| {
        generate("jenkins", &[format!("--runner-version={version}")]).expect_success()
    };
    assert_eq!(with("v1.2.3").stdout, with("1.2.3").stdout);
}

#[test]
fn jenkins_label_with_a_space_is_quoted_as_one_agent() {
    let label = |labels: &[&str]| {
        let options: Vec<_> = labels.iter().map(|label| format!("--label={label}")).collect();
        let pipeline = generate("jenkins", &options).expect_success().stdout;
        let line = pipeline.lines().find_map(|line| line.trim().strip_prefix("agent { label "));
        line.unwrap().trim_end_matches(" }").to_owned()
    };
    assert_eq!(label(&["my agent"]), r#"'"my agent"'"#);
    assert_eq!(label(&["linux && docker", "big"]), "'linux && docker && big'");
}

#[test]
fn container_gets_the_telemetry_variables() {
    let documented = ["settings.md", "telemetry.md"].map(|name| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        std::fs::read_to_string(path).unwrap()
    });
    let documented = documented.concat();
    let words = documented.split(|it: char| !(it.is_ascii_uppercase() || it == '_'));
    // Variables whose row ends in `*` tune the exporter.
    let is_name = |word: &&str| word.starts_with("OTEL_") && !word.ends_with('_');
    let mut names: Vec<_> = words.filter(is_name).collect();
    names.push("TRACEPARENT");
    assert!(names.len() > 5, "{names:?}");
    for target in ["github-actions", "jenkins", "azure-pipelines"] {
        let text = generate(target, &["--image".to_owned()]).expect_success().stdout;
        for name in &names {
            assert!(text.contains(&format!("--env {name} ")), "{target}: {name}");
        }
    }
}
