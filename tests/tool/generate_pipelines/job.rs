//! Executes the steps of a generated file as its CI system does.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Target::{self, Azure, Bitbucket, CircleCi, Tekton};
use super::VERSION;
use butler_testing::authority::Authority;
use butler_testing::release_site::{ReleaseSite, platform};
use butler_testing::world::{RUN_ID, TOKEN, World, wrapped};

/// A script of a generated file, with its own variables.
pub(super) struct Step {
    pub(super) script: String,
    pub(super) variables: Value,
    /// The condition of the step; empty if it runs after successful steps.
    pub(super) condition: String,
}

impl Step {
    /// Whether the step runs after a failure. `said` is the output of the steps before it.
    fn is_after_failure(&self, said: &str) -> bool {
        match self.condition.as_str() {
            "on_fail" => true,
            // Steps set the variable with a command in their output.
            "and(not(succeeded()), ne(variables['BUTLER_STAGE'], 'started'))" => {
                reported_stage(said) != Some("started")
            }
            _ => false,
        }
    }
}

/// The last value of the variable `BUTLER_STAGE` that steps on Azure have set.
fn reported_stage(said: &str) -> Option<&str> {
    let mark = "##vso[task.setvariable variable=BUTLER_STAGE]";
    said.lines().rev().find_map(|line| line.strip_prefix(mark))
}

/// A released executable that starts the runner of this test run. The runner itself is too large to be
/// downloaded in a test.
pub(super) const RELAY: &str = "#!/bin/sh\nexec 'RUNNER' \"$@\"\n";

/// A site with one release, whose archive contains an executable. It also issues tokens for jobs.
pub(super) struct JobSite {
    pub(super) authority: Authority,
    pub(super) files: ReleaseSite,
}

impl JobSite {
    pub(super) fn with(executable: &str) -> Self {
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
    pub(super) fn url(&self) -> String {
        self.files.url().as_str().trim_end_matches('/').to_owned()
    }
}

/// Executes the steps of a file that installs from `site`. Returns the output of the step with the run,
/// or of the first failed step; its standard error includes that of the steps after a failure.
pub(super) async fn execute_pipeline(
    target: Target,
    world: &World,
    site: &JobSite,
    options: &[&str],
) -> Output {
    let releases = format!("--releases={}/releases", site.url());
    let authorities = format!("--ca-bundle={}", site.authority.bundle().display());
    let text = target.write(&[&[&*releases, &*authorities], options].concat());
    execute_steps(target, world, site, &target.steps(&text), &[]).await
}

/// Executes these steps, with `paths` before PATH.
pub(super) async fn execute_steps(
    target: Target,
    world: &World,
    site: &JobSite,
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
        let mut command = step_command(target, world, step, Some(site), &paths);
        command.envs(reported_stage(&all_said).map(|stage| ("BUTLER_STAGE", stage)));
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
pub(super) fn step_command(
    target: Target,
    world: &World,
    step: &Step,
    site: Option<&JobSite>,
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
    let path = path.map_or_else(butler_testing::environment::search_path, |(_, path)| path.clone());
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

/// Replaces the expressions of each CI system by their values.
pub(super) fn substituted(text: &str, job: &Path) -> String {
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

/// Installs a link to the runner and returns its directory.
pub(super) fn install_relay(world: &World) -> String {
    let directory = world.path("installed");
    std::fs::create_dir_all(&directory).unwrap();
    let runner = env!("CARGO_BIN_EXE_butler-runner");
    std::os::unix::fs::symlink(runner, directory.join("butler-runner")).unwrap();
    directory.to_str().unwrap().to_owned()
}
