//! What becomes of a run that a server makes in place of the tool (`cloud` and `remote` with remote execution).
//!
//! The tool only watches such a run. If the tool is stopped, the run goes on, so the runner cancels it. A plan that is
//! not applied waits on the server and can keep all other runs of the workspace waiting, so the runner discards it.

mod api;
mod login;

use std::path::PathBuf;
use std::time::Duration;

use super::grace::within;
use crate::engine::{Engine, RemoteRun};
use crate::report::RunLog;
use api::{Action, Api, RunStatus};
use butler_base::error::chain;
use butler_base::http::{Redirects, client};

/// How long the runner waits for the end of a run on a server.
const WAITING: Duration = Duration::from_mins(1);

/// The time between two requests for the status of a run.
const INTERVAL: Duration = Duration::from_secs(1);

/// How an apply on a server has ended.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::run::steps) enum RemoteEnd {
    /// It has ended, so the state shows what it has changed.
    Ended,
    /// It has not ended, or it is not known whether it has. For users.
    Open(String),
}

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

    /// The end of an apply whose command has failed or was stopped; none if no server has made it. One that was stopped
    /// is cancelled first.
    pub(in crate::run::steps) async fn end_of_apply(
        &self,
        engine: &Engine<'_, RunLog>,
    ) -> Option<RemoteEnd> {
        let run = engine.remote_runs.take()?;
        let is_stopped = engine.stop.reason().is_some();
        let work = async {
            let api = self.api(engine, &run).await?;
            if is_stopped {
                engine.log.announce(&format!("Cancelling the run {}", run.url));
                api.act(&run, Action::Cancel).await?;
            }
            loop {
                let status = api.status(&run).await?;
                if status.has_ended() {
                    return Ok(status);
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        let ended = within(engine, WAITING, work).await;
        if let Some(Ok(RunStatus(status))) = &ended {
            engine.log.announce(&format!("The run {} has ended: {status}", run.url));
        }
        Some(end(ended, &run))
    }

    /// Discards the plan of a run on a server that the operation has neither applied nor saved. If that fails, the user
    /// has to, so it is a warning.
    pub(in crate::run::steps) async fn discard(&self, engine: &Engine<'_, RunLog>) {
        let Some(run) = engine.remote_runs.take() else { return };
        let work = async {
            let api = self.api(engine, &run).await?;
            // One that is still being made cannot be discarded.
            let is_done = api.act(&run, Action::Discard).await?
                || api.act(&run, Action::Cancel).await?
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

/// What is known about the end of an apply; nothing if there was no time to ask.
fn end(ended: Option<Result<RunStatus, String>>, run: &RemoteRun) -> RemoteEnd {
    let why = match ended {
        Some(Ok(_)) => return RemoteEnd::Ended,
        Some(Err(why)) => format!(" ({why})"),
        None => String::new(),
    };
    RemoteEnd::Open(format!(
        "the apply may go on at {}{why}, and what it changes is not known",
        run.url
    ))
}
