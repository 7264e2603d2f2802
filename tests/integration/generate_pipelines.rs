//! `generate` for Bitbucket Pipelines, `CircleCI`, Azure Pipelines and Tekton: what it writes, that the
//! linters of these systems take it, and what its shell does, from the download to the exit code.

mod failing;
mod fragments;
mod secrets;

use std::path::Path;
use std::process::{Command, Output};

use expect_test::{expect, expect_file};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::authority::Authority;
use crate::support::linters::{
    Schema, check_jsonschema, kubernetes_validate, shellcheck, tekton_lint, yaml, yamllint,
};
use crate::support::machine::Machine;
use crate::support::release_site::{Fault, ReleaseSite, platform};
use crate::support::stand_in::{AtPlan, StandIn};
use crate::support::world::{MODULE, RUN_ID, TOKEN, World, wrapped};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Every option but those that say where the job runs, what it waits for and how the runner gets there.
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

/// A target, and how its file is checked.
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

    /// Options that mean something else for each target.
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
        Machine::new().run(&words).well().stdout
    }

    /// The shell that runs the scripts, as `ShellCheck` calls it.
    const fn shell(self) -> &'static str {
        match self {
            Azure | CircleCi => "bash",
            Bitbucket | Tekton => "sh",
        }
    }

    /// The scripts of a file, in order.
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

/// A script of a file, with the variables that are set for it alone.
struct Step {
    script: String,
    variables: Value,
    /// When it is done, if not after steps that went well.
    condition: String,
}

impl Step {
    /// Whether it is for jobs that failed; it may decide for itself that there is nothing to do.
    fn is_after_failure(&self, said: &str) -> bool {
        match self.condition.as_str() {
            "on_fail" => true,
            // The variable is what steps have said.
            "and(not(succeeded()), ne(variables['BUTLER_STAGE'], 'started'))" => {
                stage(said) != Some("started")
            }
            _ => false,
        }
    }
}

/// What steps on Azure have set the variable to.
fn stage(said: &str) -> Option<&str> {
    let mark = "##vso[task.setvariable variable=BUTLER_STAGE]";
    said.lines().rev().find_map(|line| line.strip_prefix(mark))
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
    for target in Target::ALL {
        let own = [ALL, target.own()].concat();
        let image: &[&str] = &["--image", "--cache", "--oidc=aws", "--oidc=gcp", "--oidc=azure"];
        for options in [&[], own.as_slice(), image] {
            let text = target.write(options);
            yamllint(&text).unwrap();
            match target {
                Azure => check_jsonschema(Schema::AzurePipelines, &text).unwrap(),
                Bitbucket => check_jsonschema(Schema::BitbucketPipelines, &text).unwrap(),
                CircleCi => check_jsonschema(Schema::CircleCi, &text).unwrap(),
                Tekton => tekton_lint(&text).unwrap(),
            }
            let steps = target.steps(&text);
            assert!(steps.iter().any(|step| step.script.contains("butler-runner execute")));
            for step in steps {
                shellcheck(target.shell(), &substituted(&step.script, Path::new("/job"))).unwrap();
            }
        }
    }
}

/// What Tekton makes of a task is a pod, and that is something with a schema: the step's fields are a
/// container's, but for its script.
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
        kubernetes_validate(&pod.to_string()).unwrap();
        kubernetes_validate(&resources[0].to_string()).unwrap();

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
    let said = |words: &[&str]| machine.run(&[&["generate"], words].concat()).shown().to_owned();
    let shown = [
        said(&["circleci", "--label=a", "--label=b"]),
        said(&["circleci", "--gate=<< pipeline.id >>"]),
        said(&["azure-pipelines", "--gate=$(Build.Reason)"]),
        said(&["tekton", "--gate=production"]),
        said(&["tekton", PINNED]),
        said(&["tekton", "--label=linux"]),
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

#[tokio::test]
async fn pipeline_downloads_the_runner_executes_the_run_and_returns_its_exit_code() {
    for target in [Azure, Bitbucket, CircleCi] {
        for (operation, code, status) in [("plan", 0, "succeeded"), ("explode", 1, "failed")] {
            let world = World::new(&[("main.tf", MODULE)]).await;
            world.add_run(world.config(operation));
            let site = Site::with(&RELAY.replace("RUNNER", env!("CARGO_BIN_EXE_butler-runner")));
            let output = carry_out(target, &world, &site, &["--cache"]).await;
            let shown = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{target:?} {operation}\n{shown}");
            assert_eq!(world.last_status()["status"], status, "{target:?}");
            world.end(&output);
        }
    }
}

#[tokio::test]
async fn modified_release_is_not_executed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = Site::with("#!/bin/sh\ntouch \"$HOME/was-run\"\n");
        site.files.misbehave(".tar.gz", Fault::Changed);
        let output = carry_out(target, &world, &site, &[]).await;
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{target:?}\n{shown}");
        assert!(shown.contains("the release says"), "{shown}");
        assert!(!world.path("home/was-run").exists());
        assert_eq!(world.statuses(), ["failed"], "the registry is told");
    }
}

#[tokio::test]
async fn job_logs_in_to_the_cloud_with_its_own_oidc_token() {
    let seen = "#!/bin/sh\nset -e\ncat \"$AWS_WEB_IDENTITY_TOKEN_FILE\" >\"$HOME/aws\"\n\
                stat -c %a \"$AWS_WEB_IDENTITY_TOKEN_FILE\" >\"$HOME/mode\"\n\
                cp \"$GOOGLE_APPLICATION_CREDENTIALS\" \"$HOME/gcp.json\"\n\
                env >\"$HOME/environment\"\n";
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        let site = Site::with(seen);
        let clouds: Vec<_> = ALL.iter().filter(|word| is_of_a_cloud(word)).copied().collect();
        let output = carry_out(target, &world, &site, &clouds).await;
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{target:?}\n{shown}");
        let read = |name: &str| std::fs::read_to_string(world.path("home").join(name)).unwrap();
        assert_eq!(read("aws"), "the.jobs.token", "{target:?}");
        assert_eq!(read("mode"), "600\n");
        let google: Value = serde_json::from_str(&read("gcp.json")).unwrap();
        let token = google["credential_source"]["file"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(token).unwrap(), "the.jobs.token");
        let place = Path::new(token).parent().unwrap();
        // The agent of Azure Pipelines empties the job's directory itself.
        assert_eq!(place.starts_with("/dev/shm"), target != Azure, "{token}");
        std::fs::remove_dir_all(place).unwrap();
        assert_eq!(google["type"], "external_account");
        let environment = read("environment");
        assert!(environment.contains("\nAWS_ROLE_ARN=arn:aws:iam::123456789012:role/terraform\n"));
        assert!(environment.contains("\nARM_USE_OIDC=true\n"), "{target:?}");
        if target == Azure {
            // Asked for with the job's own key, which is not an argument of any process.
            let asked = &site.files.seen("/oidc")[0];
            assert_eq!(asked.authorization.as_deref(), Some("Bearer the-jobs-key"));
        }
    }
}

/// The agent signals the process of the step and no other.
#[tokio::test]
async fn cancelled_step_stops_terraform_gracefully() {
    for (target, signal) in [(Azure, Signal::SIGINT), (CircleCi, Signal::SIGTERM)] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let terraform = StandIn::install(&mut world, AtPlan::Wait);
        world.add_run(world.config("plan"));
        let text = target.write(&[]);
        let mut steps = target.steps(&text);
        let position = steps.iter().position(|step| step.script.contains("butler-runner execute"));
        let step = steps.swap_remove(position.unwrap());
        let bin = relay(&world);
        let child = command(target, &world, &step, None, &[bin]).spawn().unwrap();
        let process = Pid::from_raw(child.id().unwrap().try_into().unwrap());
        terraform.planning().await;
        kill(process, signal).unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(terraform.record("signals"), "TERM\n", "{target:?}");
        assert_eq!(world.statuses(), ["running", "cancelled"], "{target:?}");
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{target:?}");
        world.end(&output);
    }
}

/// Tekton signals the shell and everything that it started alike.
#[tokio::test]
async fn tekton_result_contains_the_outcome_also_of_a_cancelled_run() {
    for is_cancelled in [false, true] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let terraform = is_cancelled.then(|| StandIn::install(&mut world, AtPlan::Wait));
        world.add_run(world.config("plan"));
        let step = Tekton.steps(&Tekton.write(&[])).remove(0);
        let bin = relay(&world);
        let mut command = command(Tekton, &world, &step, None, &[bin]);
        let report = world.path("home/report");
        command.env("BUTLER_REPORT_DIR", report).process_group(0);
        let child = command.spawn().unwrap();
        let group = Pid::from_raw(child.id().unwrap().try_into().unwrap());
        if let Some(terraform) = &terraform {
            terraform.planning().await;
            killpg(group, Signal::SIGTERM).unwrap();
        }
        let output = child.wait_with_output().await.unwrap();
        let result = |name: &str| std::fs::read_to_string(world.path("job").join(name)).unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        let (code, status) = if is_cancelled { (143, "cancelled") } else { (0, "succeeded") };
        assert_eq!(output.status.code(), Some(code), "{shown}");
        assert_eq!(result("exit-code"), code.to_string());
        assert_eq!(result("status"), status, "{shown}");
        world.end(&output);
    }
}

/// A release that hands the runner of this test run on: the runner itself is too large for a test.
const RELAY: &str = "#!/bin/sh\nexec 'RUNNER' \"$@\"\n";

/// A site with one release, whose archive holds this executable. It also makes tokens for jobs.
struct Site {
    authority: Authority,
    files: ReleaseSite,
}

impl Site {
    fn with(executable: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("butler-runner"), executable).unwrap();
        let mut tar = Command::new("tar");
        let tar = tar.args(["-cz", "butler-runner"]).current_dir(&directory).output().unwrap();
        let archive = tar.stdout;
        let name = format!("butler-runner_{}.tar.gz", platform());
        let sums = format!("{}  {name}\n", hex::encode(Sha256::digest(&archive)));
        let from = format!("/releases/download/v{VERSION}/{name}");
        let authority = Authority::create();
        let files: [(&str, &[u8]); 3] = [
            (&format!("{from}.sha256"), sums.as_bytes()),
            (&from, &archive),
            ("/oidc", br#"{"oidcToken":"the.jobs.token"}"#),
        ];
        let files = ReleaseSite::start_with_files(&authority, &files);
        Self { authority, files }
    }

    /// `https://127.0.0.1:...`, without a slash at its end.
    fn url(&self) -> String {
        self.files.url().as_str().trim_end_matches('/').to_owned()
    }
}

/// Carries out the steps of a file that installs from `site`. Returns how the run's step ended, or the
/// first one that failed, with what steps for that case have said on standard error.
async fn carry_out(target: Target, world: &World, site: &Site, options: &[&str]) -> Output {
    let releases = format!("--releases={}/releases", site.url());
    let authorities = format!("--ca-bundle={}", site.authority.bundle().display());
    let text = target.write(&[&[&*releases, &*authorities], options].concat());
    carry_out_steps(target, world, site, &target.steps(&text), &[]).await
}

/// Carries out these steps, with `paths` before PATH.
async fn carry_out_steps(
    target: Target,
    world: &World,
    site: &Site,
    steps: &[Step],
    paths: &[String],
) -> Output {
    let mut paths = paths.to_vec();
    let mut ended: Option<Output> = None;
    let mut all_said = String::new();
    for step in steps {
        let has_failed = ended.as_ref().is_some_and(|output| !output.status.success());
        let is_wanted =
            if has_failed { step.is_after_failure(&all_said) } else { step.condition.is_empty() };
        if !is_wanted {
            continue;
        }
        let mut command = command(target, world, step, Some(site), &paths);
        command.envs(stage(&all_said).map(|stage| ("BUTLER_STAGE", stage)));
        let output = command.output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let added = said.lines().filter_map(|line| line.strip_prefix("##vso[task.prependpath]"));
        paths.extend(added.map(str::to_owned));
        all_said += &said;
        if has_failed {
            ended.as_mut().unwrap().stderr.extend(output.stderr);
        } else if step.script.contains("butler-runner execute") || !output.status.success() {
            ended = ended.or(Some(output));
        }
    }
    ended.unwrap()
}

/// A step as its system starts it, with `paths` before PATH.
fn command(
    target: Target,
    world: &World,
    step: &Step,
    site: Option<&Site>,
    paths: &[String],
) -> tokio::process::Command {
    let job = world.path("job");
    std::fs::create_dir_all(&job).unwrap();
    let bash_env = job.join("bash-env");
    std::fs::OpenOptions::new().create(true).append(true).open(&bash_env).unwrap();
    let script = substituted(&step.script, &job);
    let words: &[&str] = match target {
        CircleCi => &["/bin/bash", "-eo", "pipefail", "-c", &script],
        Azure => &["/bin/bash", "-c", &script],
        Bitbucket => &["/bin/sh", "-ec", &script],
        Tekton => &["/bin/sh", "-c", &script],
    };
    let mut command = wrapped(&world.command(&[]), words);
    let path = world.variables.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or_else(crate::support::environment::search_path, |(_, path)| path.clone());
    let path = path.into_string().unwrap();
    let path = [paths, &[path]].concat().join(":");
    command
        .current_dir(&job)
        .env("PATH", path)
        .env("BUTLER_REGISTRY_URL", world.endpoint())
        .env("BASH_ENV", bash_env)
        .env("AGENT_TEMPDIRECTORY", &job)
        .env("BITBUCKET_CLONE_DIR", &job)
        .env("RUN_ID", RUN_ID)
        .env("CALLBACK_TOKEN", TOKEN)
        .env("BITBUCKET_STEP_OIDC_TOKEN", "the.jobs.token")
        .env("CIRCLE_OIDC_TOKEN_V2", "the.jobs.token")
        .kill_on_drop(true);
    if target == Tekton {
        command.env("BUTLER_RUN_ID", RUN_ID).env("BUTLER_TOKEN", TOKEN);
    }
    if let Some(site) = site {
        command
            .env("BUTLER_CA_BUNDLE", site.authority.bundle())
            .env("CURL_CA_BUNDLE", site.authority.bundle())
            .env("SYSTEM_OIDCREQUESTURI", format!("{}/oidc", site.url()));
    }
    for (name, value) in step.variables.as_object().into_iter().flatten() {
        command.env(name, substituted(value.as_str().unwrap(), &job));
    }
    command
}

/// What each system puts in the place of its own expressions.
fn substituted(text: &str, job: &Path) -> String {
    let job = job.display().to_string();
    [
        ("${{ parameters.run_id }}", RUN_ID),
        ("$(CALLBACK_TOKEN)", TOKEN),
        ("$(System.AccessToken)", "the-jobs-key"),
        ("$(Agent.TempDirectory)", &job),
        ("<< pipeline.parameters.run_id >>", RUN_ID),
        ("<< pipeline.parameters.callback_token >>", TOKEN),
        ("$(results.exit-code.path)", &format!("{job}/exit-code")),
        ("$(results.status.path)", &format!("{job}/status")),
        ("$(context.taskRun.namespace)", "runs"),
        ("$(context.taskRun.name)", "butler-run-1"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (expression, value)| text.replace(expression, value))
}

/// A directory with the runner as it is installed.
fn relay(world: &World) -> String {
    let directory = world.path("installed");
    std::fs::create_dir_all(&directory).unwrap();
    let runner = env!("CARGO_BIN_EXE_butler-runner");
    std::os::unix::fs::symlink(runner, directory.join("butler-runner")).unwrap();
    directory.to_str().unwrap().to_owned()
}

fn is_of_a_cloud(word: &str) -> bool {
    ["--aws", "--gcp", "--azure"].iter().any(|start| word.starts_with(start))
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

#[tokio::test]
async fn step_executes_the_run_without_the_timeout_program() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let step = CircleCi.steps(&CircleCi.write(&[])).into_iter().nth(1).unwrap();
    let bin = world.path("only");
    crate::support::release_site::executable(
        &bin.join("butler-runner"),
        "#!/bin/sh\necho it began\n",
    );
    std::os::unix::fs::symlink("/bin/sh", bin.join("sh")).unwrap();
    let mut command = command(CircleCi, &world, &step, None, &[]);
    let output = command.env("PATH", &bin).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "it began\n", "{output:?}");
}
