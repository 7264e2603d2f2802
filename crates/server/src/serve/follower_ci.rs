//! The adapters of CI systems: a run is started by the existing triggers, under the name of the follower's run as its id.
//!
//! The CI system names the run with that id (`run-name`, a variable or a parameter), so that a server which did not start
//! the run finds it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::secret::Redactor;
use butler_cluster::Creation;
use butler_follower::config::{CiJob, CiPlace, ExternalRun, Follower, StageWork};
use butler_follower::{Action, Commit, Sighting};
use butler_protocol::references::SecretSources;
use butler_protocol::spec::SensitiveValues;
use butler_start::trigger::{
    CiConfig, Provider, ProviderName, RunState, RunStatus, StartRequest, StartedRun, TriggerError,
    TriggerSettings,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::attempts::{SecretError, Secrets};
use crate::config::SecretSource;
use crate::followers::Wanted;

/// How long one operation may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// Starts and reads runs of CI systems.
#[derive(Debug)]
pub(super) struct CiRuns {
    secrets: Secrets,
    ca_bundle: Option<PathBuf>,
    /// The current run of each follower: its name, and the id that the CI system has given it. Others are searched for.
    known: Mutex<HashMap<String, (String, String)>>,
}

impl CiRuns {
    pub(super) fn new(secrets: Secrets, ca_bundle: Option<PathBuf>) -> Self {
        Self { secrets, ca_bundle, known: Mutex::default() }
    }

    /// What is known of a run.
    pub(super) async fn read(&self, job: &CiJob, wanted: Wanted<'_>) -> Sighting {
        match self.state(job, wanted).await {
            Ok(Some(state)) => Sighting::Found(describe(&state, wanted.commit)),
            Ok(None) => Sighting::Absent,
            Err(sighting) => sighting,
        }
    }

    /// The state of a run, or why it is not known.
    async fn state(&self, job: &CiJob, wanted: Wanted<'_>) -> Result<Option<RunState>, Sighting> {
        let denied = |why: String| Sighting::Denied { why };
        let provider = self.provider(wanted.follower, job).await.map_err(denied)?;
        let name = &wanted.object.name;
        let known = self.known().get(&wanted.follower.id).cloned();
        let id = if let Some((_, id)) = known.filter(|(run, _)| run == name) {
            id
        } else {
            let start = request(wanted.follower, job, name, wanted.commit).map_err(denied)?;
            let found = Box::pin(provider.find(&start)).await.map_err(|error| unread(&error))?;
            let Some(found) = found else { return Ok(None) };
            self.keep(wanted.follower, name, &found.external_run_id);
            found.external_run_id
        };
        let state = Box::pin(provider.state(&id)).await.map_err(|error| unread(&error))?;
        // A queue item becomes a build, which has another id.
        self.keep(wanted.follower, name, &state.external_run_id);
        Ok(Some(state))
    }

    /// Starts a run, unless it exists.
    pub(super) async fn submit(
        &self,
        follower: &Follower,
        job: &CiJob,
        action: &Action,
    ) -> Creation {
        let unknown = |why: String| Creation::Unknown { why };
        let name = &action.object.name;
        let (provider, start) = match self
            .provider(follower, job)
            .await
            .and_then(|provider| Ok((provider, request(follower, job, name, &action.commit)?)))
        {
            Ok(prepared) => prepared,
            Err(why) => return Creation::Refused { why },
        };
        // Another server, or this one before its end, can have started it.
        match Box::pin(provider.find(&start)).await {
            Ok(Some(found)) => {
                self.keep(follower, name, &found.external_run_id);
                return Creation::Exists;
            }
            Ok(None) => {}
            Err(error) => return unknown(chain(&error)),
        }
        // Its future is not `Send`: the search for a lost run has closures that borrow.
        let runtime = Handle::current();
        let starting = spawn_blocking(move || runtime.block_on(Box::pin(provider.start(&start))));
        match starting.await {
            Err(error) => unknown(chain(&error)),
            Ok(result) => self.started(follower, name, result),
        }
    }

    fn started(
        &self,
        follower: &Follower,
        name: &str,
        result: Result<StartedRun, TriggerError>,
    ) -> Creation {
        match result {
            Ok(started) => {
                self.keep(follower, name, &started.external_run_id);
                Creation::Exists
            }
            Err(error) if is_final(&error) => Creation::Refused { why: chain(&error) },
            Err(error) => Creation::Unknown { why: chain(&error) },
        }
    }

    async fn provider(&self, follower: &Follower, job: &CiJob) -> Result<Provider, String> {
        let tokens = {
            let (token, api_token) = (job.token.clone(), job.api_token.clone());
            let used_by = format!("the follower `{}`", follower.id);
            let secrets = self.secrets.clone();
            move || -> Result<_, SecretError> {
                let read = |source| secrets.read(&SecretSource::from(source), &used_by);
                Ok((read(&token)?, api_token.as_ref().map(read).transpose()?))
            }
        };
        let (ci_token, ci_api_token) =
            blocking(move |_| tokens()).await.map_err(|error| chain(&error))?;
        let (name, config) = config(follower, job)?;
        let settings = TriggerSettings {
            ca_bundle: self.ca_bundle.clone(),
            request_timeout: REQUEST,
            secrets: SecretSources {
                environment: BTreeMap::new(),
                directory: None,
                values: SensitiveValues::Literal,
            },
            ci_token: Some(ci_token),
            ci_api_token,
        };
        let redactor = Arc::new(Redactor::new());
        Provider::new(name, &config, &settings, Instant::now() + DEADLINE, &redactor)
            .map_err(|error| chain(&error))
    }

    fn keep(&self, follower: &Follower, run: &str, id: &str) {
        self.known().insert(follower.id.clone(), (run.to_owned(), id.to_owned()));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (String, String)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CI job of a stage, if it has one.
pub(super) fn job_of<'a>(follower: &'a Follower, stage: &str) -> Option<&'a CiJob> {
    let stage = follower.stages.iter().find(|known| known.name == stage)?;
    match &stage.work {
        StageWork::Run(ExternalRun::Ci(job)) => Some(job),
        _ => None,
    }
}

/// The settings of the existing triggers.
fn config(follower: &Follower, job: &CiJob) -> Result<(ProviderName, CiConfig), String> {
    let url = job.url.as_deref().map(butler_start::trigger::parse_url).transpose();
    let mut config = CiConfig {
        url: url.map_err(|error| error.to_string())?,
        git_ref: Some(follower.source.branch.clone()),
        user: job.user.clone(),
        ..CiConfig::default()
    };
    let name = match &job.place {
        CiPlace::GithubActions { repository, workflow } => {
            config.repository = Some(repository.clone());
            config.workflow_file = Some(workflow.clone());
            ProviderName::GitHub
        }
        CiPlace::GitlabCi { project } => {
            config.repository = Some(project.clone());
            ProviderName::GitLab
        }
        CiPlace::Jenkins { job } => {
            config.job = Some(job.clone());
            ProviderName::Jenkins
        }
    };
    Ok((name, config))
}

/// The run to start, with the commit as an input.
fn request(
    follower: &Follower,
    job: &CiJob,
    name: &str,
    commit: &Commit,
) -> Result<StartRequest, String> {
    let run_id =
        name.parse().map_err(|error| format!("`{name}` is not an id of a run: {error}"))?;
    // Variables and parameters have capital letters there.
    let own = match job.place {
        CiPlace::GithubActions { .. } => [("commit", commit.as_str()), ("follower", &follower.id)],
        CiPlace::GitlabCi { .. } | CiPlace::Jenkins { .. } => {
            [("COMMIT", commit.as_str()), ("FOLLOWER", &follower.id)]
        }
    };
    let mut inputs = job.inputs.clone();
    inputs.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(StartRequest { run_id, runner: None, inputs })
}

/// The sighting of a run after this error.
fn unread(error: &TriggerError) -> Sighting {
    let why = chain(error);
    if is_final(error) { Sighting::Denied { why } } else { Sighting::Unknown { why } }
}

/// Whether a repetition of the request cannot help.
const fn is_final(error: &TriggerError) -> bool {
    matches!(
        error,
        TriggerError::Config(_)
            | TriggerError::Credentials(_)
            | TriggerError::Refused { .. }
            | TriggerError::Redirected { .. }
            | TriggerError::NotTheApi { .. }
            | TriggerError::UnusableJob { .. }
    )
}

/// A run, as the object of a stage.
fn describe(state: &RunState, commit: &Commit) -> Value {
    let phase = match state.status {
        RunStatus::Pending | RunStatus::Queued | RunStatus::Running => "running",
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed | RunStatus::Cancelled | RunStatus::TimedOut | RunStatus::Skipped => {
            "failed"
        }
    };
    let place = state.external_url.as_ref().unwrap_or(&state.external_run_id);
    json!({
        "spec": {"commit": commit.as_str()},
        "status": {"phase": phase, "message": format!("{}, see {place}", state.reported)},
    })
}
