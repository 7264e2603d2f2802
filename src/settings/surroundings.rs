//! What surrounds the process: whose job it is in, what that job's system takes from it, and how much
//! time it leaves after a signal.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, Variable, variable};
use crate::ci::{Job, System};

/// The directory for a job's reports where none is named, in the job's own.
const REPORTS_OF_JOB: &str = "butler-report";

/// How much time there is after a signal: for the tool, and then for the reports.
#[derive(Clone, Copy)]
pub(super) struct Platform {
    pub(super) grace: Duration,
    pub(super) report: Duration,
}

/// The default.
const ELSEWHERE: Platform =
    Platform { grace: Duration::from_mins(1), report: Duration::from_secs(10) };

/// Kubernetes kills 30 s after its SIGTERM; a second is for the process's own end.
const KUBERNETES: Platform =
    Platform { grace: Duration::from_secs(20), report: Duration::from_secs(9) };

/// GitHub sends SIGINT, 7.5 s later SIGTERM, and kills 2.5 s after that. The grace is over before
/// the second signal comes, so that nobody mistakes it for a user who has lost patience.
const GITHUB: Platform = Platform { grace: Duration::from_secs(5), report: Duration::from_secs(4) };

/// GitLab sends SIGTERM to every process of the job's container and removes the container 10 s later
/// (gitlab-runner, `executors/docker`, `sendSIGTERMToContainerProcs`). Jenkins lets a step that was
/// aborted go on for 10 s (workflow-durable-task-step, `DurableTaskStep.stop`).
const GITLAB_AND_JENKINS: Platform =
    Platform { grace: Duration::from_secs(5), report: Duration::from_secs(4) };

/// The CI system whose job this is.
pub(super) fn surrounding(environment: &Environment) -> System {
    let has = |name: &str| environment.value(name).is_some_and(|value| value != "false");
    System::detect(has, |path| Path::new(path).exists())
}

/// Where the job of `system` takes what, from the variables that it sets.
pub(super) fn job(system: System, environment: &Environment, report_dir: Option<&Path>) -> Job {
    let path = |variable: &Variable| environment.value(variable.name).map(PathBuf::from);
    let text = |variable: &Variable| {
        environment.value(variable.name).and_then(OsStr::to_str).map(str::to_owned)
    };
    let reports = report_dir.map(Path::to_owned);
    let job = Job { system, reports, ..Job::default() };
    match system {
        System::GitHubActions => Job {
            summary: path(&variable::GITHUB_STEP_SUMMARY),
            outputs: path(&variable::GITHUB_OUTPUT),
            workspace: path(&variable::GITHUB_WORKSPACE),
            repository: text(&variable::GITHUB_REPOSITORY),
            address: text(&variable::GITHUB_SERVER_URL),
            commit: text(&variable::GITHUB_SHA),
            ..job
        },
        System::AzurePipelines => Job {
            workspace: path(&variable::BUILD_SOURCESDIRECTORY),
            repository: text(&variable::BUILD_REPOSITORY_NAME),
            address: text(&variable::BUILD_REPOSITORY_URI),
            commit: text(&variable::BUILD_SOURCEVERSION),
            ..job
        },
        System::GitLabCi => {
            // GitLab picks up only what lies below it.
            let default = path(&variable::CI_PROJECT_DIR).map(|it| it.join(REPORTS_OF_JOB));
            Job { reports: job.reports.or(default), ..job }
        }
        System::Jenkins
        | System::BitbucketPipelines
        | System::CircleCi
        | System::Buildkite
        | System::TeamCity
        | System::Tekton
        | System::Plain
        | System::None => job,
    }
}

/// How much time there is where this process runs.
pub(super) fn platform(environment: &Environment) -> Platform {
    // Whoever names another system is killed by this one all the same.
    match surrounding(environment) {
        System::GitHubActions => GITHUB,
        System::GitLabCi | System::Jenkins => GITLAB_AND_JENKINS,
        _ if environment.value(variable::KUBERNETES_SERVICE_HOST.name).is_some() => KUBERNETES,
        _ => ELSEWHERE,
    }
}
