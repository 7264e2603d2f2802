//! The end of a run that a server executes in place of the tool (`cloud` and `remote` with remote execution).
//!
//! The tool only watches such a run. If the tool is stopped, the run continues, so the runner cancels it. A plan that
//! is not applied waits on the server and can block all other runs of the workspace, so the runner discards it.

mod api;
mod login;

use std::path::PathBuf;
use std::time::Duration;

use super::grace::within;
use crate::engine::{Engine, RemoteRun};
use crate::report::RunLog;
use api::{Api, RunAction, RunStatus};
use butler_base::error::chain;
use butler_base::http::{Redirects, client};

/// How long the runner waits for the end of a run on a server.
const WAITING: Duration = Duration::from_mins(1);

/// The time between two requests for the status of a run.
const INTERVAL: Duration = Duration::from_secs(1);

/// The settings for requests to servers of runs.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct RemoteAccess {
    /// Further certificates that are trusted.
    pub(in crate::run::steps) ca_bundle: Option<PathBuf>,
}

impl RemoteAccess {
    /// The API of the server of `run`, with the token of the tool.
    async fn api(&self, engine: &Engine<'_, RunLog>, run: &RemoteRun) -> Result<Api, String> {
        let host = run.host.as_str();
        let (environment, product) = (&engine.environment, engine.tool.product);
        let token = login::token(&run.host, environment, engine.directory, product);
        let token = token.ok_or_else(|| format!("no token for {host} was found"))?;
        let client = client(self.ca_bundle.as_deref(), Redirects::Refuse);
        Api::find(client.map_err(|error| chain(&error))?, run, token).await
    }

    /// Waits for the end of an apply on a server after its command has failed or was stopped. Cancels the apply first
    /// if the run was stopped. Returns a sentence for users if the apply may continue, because it has not ended in time
    /// or its status is not known. Returns none if it has ended, so that the state shows its changes, or if no server
    /// executes it.
    pub(in crate::run::steps) async fn wait_for_apply(
        &self,
        engine: &Engine<'_, RunLog>,
    ) -> Option<String> {
        let run = engine.remote_runs.take()?;
        let is_stopped = engine.stop.reason().is_some();
        let work = async {
            let api = self.api(engine, &run).await?;
            if is_stopped {
                engine.log.announce(&format!("Cancelling the run {}", run.url));
                api.act(&run, RunAction::Cancel).await?;
            }
            loop {
                let status = api.status(&run).await?;
                if status.has_ended() {
                    return Ok::<RunStatus, String>(status);
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        let why = match within(engine, WAITING, work).await {
            Some(Ok(RunStatus(status))) => {
                engine.log.announce(&format!("The run {} has ended: {status}", run.url));
                return None;
            }
            Some(Err(why)) => format!(" ({why})"),
            None => String::new(),
        };
        Some(format!("the apply may go on at {}{why}, and what it changes is not known", run.url))
    }

    /// Discards the plan of a run on a server that the operation has neither applied nor saved. Warns the user, who
    /// must discard it, if that fails.
    pub(in crate::run::steps) async fn discard(&self, engine: &Engine<'_, RunLog>) {
        let Some(run) = engine.remote_runs.take() else { return };
        let work = async {
            let api = self.api(engine, &run).await?;
            // A plan that is not complete cannot be discarded, only cancelled.
            let is_done = api.act(&run, RunAction::Discard).await?
                || api.act(&run, RunAction::Cancel).await?
                || api.status(&run).await?.has_ended();
            if is_done { Ok(()) } else { Err("the server refuses to discard it".to_owned()) }
        };
        let why = match within(engine, WAITING, work).await {
            Some(Ok(())) => return,
            Some(Err(why)) => why,
            None => "the server does not answer in time".to_owned(),
        };
        engine.log.warn(&format!(
            "the plan of the run {} is not applied and was not discarded ({why}): discard it there, because other runs of \
             the workspace can wait for it",
            run.url
        ));
    }
}
