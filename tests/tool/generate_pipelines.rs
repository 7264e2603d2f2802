//! `generate` for Bitbucket Pipelines, `CircleCI`, Azure Pipelines and Tekton: the generated files, and
//! that they pass the linters of these systems.

mod failing;
mod fragments;
mod job;
mod run;
mod secrets;

use std::path::Path;

use expect_test::{expect, expect_file};
use serde_json::{Value, json};

use self::job::{Step, substituted};
use butler_testing::linters::{
    Schema, check_jsonschema, kubernetes_validate, shellcheck, tekton_lint, yaml, yamllint,
};
use butler_testing::machine::Machine;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Every option except those for the agent, the approval and the installation of the runner.
const ALL: &[&str] = &[
    "--endpoint=https://portal.example.com/api/registry",
    "--oidc=aws",
    "--aws-role=arn:aws:iam::123456789012:role/terraform",
    "--aws-region=eu-central-1",
    "--gcp-provider=projects/1/locations/global/workloadIdentityPools/ci/providers/jobs",
    "--gcp-service-account=terraform@project.iam.gserviceaccount.com",
    "--azure-client-id=11111111-1111-1111-1111-111111111111",
    "--azure-tenant-id=22222222-2222-2222-2222-222222222222",
    "--azure-subscription-id=33333333-3333-3333-3333-333333333333",
    "--cache",
    "--timeout=90m",
    "--secret=DB_PASSWORD",
    "--secret=TF_VAR_token=PROD_TOKEN",
    "--proxy=http://proxy.example.com:3128",
    "--no-proxy=localhost,.example.com",
    "--ca-bundle=/etc/ssl/corporate.pem",
];

const PINNED: &str = "--checksum=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A CI system for which pipeline files are generated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Target {
    Azure,
    Bitbucket,
    CircleCi,
    Tekton,
}

use Target::{Azure, Bitbucket, CircleCi, Tekton};

impl Target {
    const ALL: [Self; 4] = [Azure, Bitbucket, CircleCi, Tekton];

    const fn name(self) -> &'static str {
        match self {
            Azure => "azure-pipelines",
            Bitbucket => "bitbucket-pipelines",
            CircleCi => "circleci",
            Tekton => "tekton",
        }
    }

    /// Options whose values differ between targets.
    const fn own(self) -> &'static [&'static str] {
        match self {
            Azure => {
                &["--gate=production", "--label=Linux", "--label=Agent.OS -equals Linux", PINNED]
            }
            Bitbucket => &["--gate=production", "--label=self.hosted", "--label=linux", PINNED],
            CircleCi => &["--gate=production", "--label=acme/linux", PINNED],
            Tekton => &[
                "--label=kubernetes.io/arch=amd64",
                "--image=registry.example.com/butler-runner",
                "--digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            ],
        }
    }

    fn write(self, options: &[&str]) -> String {
        let words: Vec<_> = ["generate", self.name()].iter().chain(options).copied().collect();
        Machine::new().run(&words).expect_success().stdout
    }

    /// The shell that runs the scripts, as `ShellCheck` calls it.
    const fn shell(self) -> &'static str {
        match self {
            Azure | CircleCi => "bash",
            Bitbucket | Tekton => "sh",
        }
    }

    /// The scripts of a generated file, in order.
    fn steps(self, text: &str) -> Vec<Step> {
        let documents = yaml(text);
        let first = &documents[0];
        let each = |steps: &Value, command: &str, variables: &str| -> Vec<Step> {
            let steps = steps.as_array().unwrap().iter();
            steps
                .filter_map(|step| {
                    let script = step[command].as_str()?.to_owned();
                    let condition = step["condition"].as_str().or(step["when"].as_str());
                    let condition = condition.unwrap_or_default().to_owned();
                    Some(Step { script, variables: step[variables].clone(), condition })
                })
                .collect()
        };
        match self {
            Azure => {
                let job = &first["jobs"][0];
                let deployed = &job["strategy"]["runOnce"]["deploy"]["steps"];
                each(if deployed.is_null() { &job["steps"] } else { deployed }, "bash", "env")
            }
            Bitbucket => {
                let items = first["pipelines"]["custom"]["butler-run"].as_array().unwrap();
                let items = items.last().unwrap()["step"]["script"].as_array().unwrap();
                let script = items.iter().map(|item| item.as_str().unwrap()).collect();
                vec![Step { script, variables: Value::Null, condition: String::new() }]
            }
            CircleCi => {
                let steps = first["jobs"]["butler-run"]["steps"].as_array().unwrap();
                let runs = steps.iter().map(|step| step["run"].clone()).collect();
                each(&Value::Array(runs), "command", "environment")
            }
            Tekton => each(&first["spec"]["steps"], "script", ""),
        }
    }
}

#[test]
fn pipeline_files_match_their_snapshots() {
    for (target, default, all) in [
        (
            Azure,
            expect_file!["../data/generated/azure-pipelines.yml"],
            expect_file!["../data/generated/azure-pipelines-all.yml"],
        ),
        (
            Bitbucket,
            expect_file!["../data/generated/bitbucket-pipelines.yml"],
            expect_file!["../data/generated/bitbucket-pipelines-all.yml"],
        ),
        (
            CircleCi,
            expect_file!["../data/generated/circleci.yml"],
            expect_file!["../data/generated/circleci-all.yml"],
        ),
        (
            Tekton,
            expect_file!["../data/generated/tekton.yaml"],
            expect_file!["../data/generated/tekton-all.yaml"],
        ),
    ] {
        default.assert_eq(&target.write(&[]).replace(VERSION, "<version>"));
        all.assert_eq(&target.write(&[ALL, target.own()].concat()).replace(VERSION, "<version>"));
    }
}

#[test]
fn pipeline_files_pass_the_linters_of_their_system() {
    let mut all = Vec::new();
    for target in Target::ALL {
        let (mut texts, mut scripts) = (Vec::new(), Vec::new());
        let own = [ALL, target.own()].concat();
        let image: &[&str] = &["--image", "--cache", "--oidc=aws", "--oidc=gcp", "--oidc=azure"];
        for options in [&[], own.as_slice(), image] {
            let text = target.write(options);
            let steps = target.steps(&text);
            let executes = ["butler-runner execute", "exec \"$@\" execute"];
            let is_executed = |step: &Step| executes.iter().any(|text| step.script.contains(text));
            assert!(steps.iter().any(is_executed), "{text}");
            scripts.extend(steps.iter().map(|step| substituted(&step.script, Path::new("/job"))));
            texts.push(text);
        }
        match target {
            Azure => check_jsonschema(Schema::AzurePipelines, &texts).unwrap(),
            Bitbucket => check_jsonschema(Schema::BitbucketPipelines, &texts).unwrap(),
            CircleCi => check_jsonschema(Schema::CircleCi, &texts).unwrap(),
            // Not together, because they define the same names.
            Tekton => texts.iter().for_each(|text| tekton_lint(&[text]).unwrap()),
        }
        shellcheck(target.shell(), &scripts).unwrap();
        all.append(&mut texts);
    }
    yamllint(&all).unwrap();
}

/// Tekton turns a task into a pod, which has a schema: the fields of a step are those of a container,
/// except for its script.
#[test]
fn pod_of_the_tekton_task_is_valid_and_unprivileged() {
    for options in [&[], [ALL, Tekton.own()].concat().as_slice()] {
        let documents = yaml(&Tekton.write(options));
        let spec = &documents[0]["spec"];
        let mut container = spec["steps"][0].clone();
        let fields = container.as_object_mut().unwrap();
        fields.remove("script");
        let resources = fields.remove("computeResources").unwrap();
        fields.insert("resources".to_owned(), resources);
        let resources = &documents[2]["spec"]["resourcetemplates"];
        let run = &resources[1]["spec"]["taskRunTemplate"];
        let mut pod = run["podTemplate"].clone();
        pod["containers"] = json!([container]);
        pod["volumes"] = spec["volumes"].clone();
        if !run["serviceAccountName"].is_null() {
            pod["serviceAccountName"] = run["serviceAccountName"].clone();
        }
        let metadata = json!({"name": "butler-run"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod});
        kubernetes_validate(&[&pod.to_string()]).unwrap();
        kubernetes_validate(&[&resources[0].to_string()]).unwrap();

        let security = &pod["spec"]["containers"][0]["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    }
}

#[test]
fn unsupported_options_of_a_target_are_errors() {
    let machine = Machine::new();
    let output =
        |words: &[&str]| machine.run(&[&["generate"], words].concat()).normalized().to_owned();
    let shown = [
        output(&["circleci", "--label=a", "--label=b"]),
        output(&["circleci", "--gate=<< pipeline.id >>"]),
        output(&["azure-pipelines", "--gate=$(Build.Reason)"]),
        output(&["tekton", "--gate=production"]),
        output(&["tekton", PINNED]),
        output(&["tekton", "--label=linux"]),
    ];
    expect![[r"
        exit 2
        error: `circleci` does not support `--label`
        hint: a job has one resource class: give the option once
        exit 2
        error: `circleci` would evaluate the `<<` in `<< pipeline.id >>` of `--gate`
        hint: leave the option out: the file then names a variable of the CI system's own
        exit 2
        error: `azure-pipelines` would evaluate the `$(` in `$(Build.Reason)` of `--gate`
        hint: leave the option out: the file then names a variable of the CI system's own
        exit 2
        error: `tekton` does not support `--gate`
        hint: Tekton has no approvals: let the registry ask for one
        exit 2
        error: `tekton` does not support `--checksum`
        hint: a step is an image: name it with `--image` and `--digest`
        exit 2
        error: `tekton` does not support `--label`
        hint: pods are placed by labels of nodes: `--label key=value`
    "]]
    .assert_eq(&shown.concat());
}

#[test]
fn input_values_are_never_evaluated_by_the_ci_system() {
    let gate = "it's \"production\": - # `x` {{ y }}";
    let words = [format!("--gate={gate}"), "--label=a: b # c".to_owned()];
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let azure = &yaml(&Azure.write(&words))[0];
    assert_eq!(azure["jobs"][0]["environment"], gate);
    assert_eq!(azure["jobs"][0]["pool"]["name"], "a: b # c");
    let bitbucket = &yaml(&Bitbucket.write(&words))[0];
    let step = &bitbucket["pipelines"]["custom"]["butler-run"][2]["step"];
    assert_eq!(step["deployment"], gate);
    assert_eq!(step["runs-on"], json!(["a: b # c"]));
    let circleci = &yaml(&CircleCi.write(&words))[0];
    assert_eq!(circleci["workflows"]["butler-run"]["jobs"][0][gate]["type"], "approval");
    assert_eq!(circleci["jobs"]["butler-run"]["resource_class"], "a: b # c");
}

#[test]
fn azure_publishes_the_report_also_after_a_cancelled_run() {
    let document = &yaml(&Azure.write(&[]))[0];
    let steps = document["jobs"][0]["steps"].as_array().unwrap();
    let conditions: Vec<_> = steps.iter().filter_map(|step| step["condition"].as_str()).collect();
    assert_eq!(
        conditions[1..],
        ["always()", "and(always(), eq(variables['BUTLER_TESTED'], 'true'))"]
    );
}
