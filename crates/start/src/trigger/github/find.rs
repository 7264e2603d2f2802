//! Finds the workflow run of a request by its name, which contains the run's id (`run-name` of the
//! workflow), among those created since just before the request.
//!
//! The server's clock and the list of earlier runs decide which runs are new: this machine's clock may
//! be wrong, and another process may have started the same run a moment ago.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use super::client::{GitHub, Run};
use crate::trigger::lost_response::contains_id;
use crate::trigger::{Event, StartRequest, StartedRun, TriggerError};
use butler_base::http::now;
use butler_base::pace::jittered;

/// The largest assumed difference between the clocks of the server's machines.
const SKEW: Duration = Duration::from_mins(1);

/// Runs in a page: the API's maximum.
const PAGE: usize = 100;

/// Pages that are read: the API lists at most a thousand runs.
const PAGES: usize = 10;

/// Pages in which the run of an earlier process is searched.
const EXISTING_PAGES: usize = 3;

/// The first and the longest pause between two searches.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The runs that existed before the start request.
pub(super) struct RunsBeforeStart {
    /// The server's time.
    time: SystemTime,
    /// The runs with the id in their names.
    known: BTreeSet<u64>,
}

impl GitHub {
    /// Lists the runs that exist before the start request.
    pub(super) async fn list_runs_before_start(
        &self,
        start: &StartRequest,
    ) -> Result<RunsBeforeStart, TriggerError> {
        let (runs, time) = self.list_runs(None, 1).await?;
        let known =
            runs.iter().filter(|run| self.is_requested(run, start)).map(|run| run.id).collect();
        Ok(RunsBeforeStart { time, known })
    }

    /// The newest run with this id.
    pub(in crate::trigger) async fn find_existing(
        &self,
        start: &StartRequest,
    ) -> Result<Option<StartedRun>, TriggerError> {
        for number in 1..=EXISTING_PAGES {
            let (runs, _) = self.list_runs(None, number).await?;
            let is_last = runs.len() < PAGE;
            if let Some(run) = runs.into_iter().find(|run| self.is_requested(run, start)) {
                return Ok(Some(run.into()));
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    /// Searches for the run until it is listed or the time is over. `lost` is the reason why it is unclear
    /// whether the run exists.
    pub(super) async fn find(
        &self,
        start: &StartRequest,
        before: &RunsBeforeStart,
        lost: Option<String>,
    ) -> Result<StartedRun, TriggerError> {
        let begun = Instant::now();
        let since =
            before.time.checked_sub(SKEW).unwrap_or(before.time).max(SystemTime::UNIX_EPOCH);
        let mut pause = FIRST_PAUSE;
        loop {
            let found = match self.find_once(start, before, since).await {
                Ok(found) => found,
                // The request was sent, so the error must not claim that no run was started.
                Err(error) => return Err(self.not_found(begun.elapsed(), lost, Some(&error))),
            };
            if let Some(run) = found {
                return Ok(run.into());
            }
            if pause >= self.server.left() {
                return Err(self.not_found(begun.elapsed(), lost, None));
            }
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }

    async fn find_once(
        &self,
        start: &StartRequest,
        before: &RunsBeforeStart,
        since: SystemTime,
    ) -> Result<Option<Run>, TriggerError> {
        for number in 1..=PAGES {
            let (runs, _) = self.list_runs(Some(since), number).await?;
            let is_last = runs.len() < PAGE;
            let is_new =
                |run: &Run| !before.known.contains(&run.id) && self.is_requested(run, start);
            // If two processes requested the same run at the same time, either match is correct.
            if let Some(run) = runs.into_iter().find(is_new) {
                return Ok(Some(run));
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    /// A page of runs, newest first, and the server's time.
    async fn list_runs(
        &self,
        since: Option<SystemTime>,
        number: usize,
    ) -> Result<(Vec<Run>, SystemTime), TriggerError> {
        #[derive(Deserialize)]
        struct Page {
            workflow_runs: Vec<Run>,
        }
        let what = "list the workflow's runs";
        let mut url = self.runs_url();
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("event", self.event.name());
            query.append_pair("per_page", &PAGE.to_string());
            query.append_pair("page", &number.to_string());
            if let Some(since) = since {
                let since = humantime::format_rfc3339_seconds(since);
                query.append_pair("created", &format!(">={since}"));
            }
        }
        let response = self.get(what, &url).await?;
        let time = now(&response.headers);
        Ok((self.server.parse::<Page>(what, &response)?.workflow_runs, time))
    }

    fn runs_url(&self) -> Url {
        match (&self.workflow, self.event) {
            (Some(workflow), Event::WorkflowDispatch) => {
                self.url(["actions", "workflows", workflow, "runs"])
            }
            _ => self.url(["actions", "runs"]),
        }
    }

    /// Whether a run belongs to this workflow and has the id of the requested run in its name.
    fn is_requested(&self, run: &Run, start: &StartRequest) -> bool {
        let file = run.path.as_deref().and_then(|path| path.split('@').next()?.rsplit('/').next());
        let is_workflow = match (&self.workflow, file) {
            (Some(workflow), Some(file)) if !workflow.bytes().all(|it| it.is_ascii_digit()) => {
                workflow == file
            }
            _ => true,
        };
        let title = run.display_title.as_deref().unwrap_or_default();
        is_workflow && contains_id(title, start.run_id.as_str())
    }

    /// The error after an unsuccessful search. `lost` is the reason why it is unclear whether the request was
    /// accepted, `trouble` the error that ended the search.
    fn not_found(
        &self,
        waited: Duration,
        lost: Option<String>,
        trouble: Option<&TriggerError>,
    ) -> TriggerError {
        let place = format!("the Actions page of `{}/{}`", self.owner, self.name);
        let server = self.server.name();
        let trouble = trouble.map(|error| butler_base::error::chain(error));
        if let Some(why) = lost {
            let why = trouble.map_or(why.clone(), |trouble| format!("{why}; {trouble}"));
            return self.server.outcome_unclear(why, &place);
        }
        let reason = match (trouble, self.event) {
            (Some(trouble), _) => format!("its runs could not be listed ({trouble})"),
            (None, Event::WorkflowDispatch) => {
                "the workflow's `run-name` has to carry the input run_id; or wait for longer with --timeout".to_owned()
            }
            (None, Event::RepositoryDispatch) => {
                "a workflow on the default branch has to wait for `repository_dispatch` with the type butler-run, and its `run-name` has to carry the run_id of the payload; or wait for longer with --timeout".to_owned()
            }
        };
        let advice = format!("look at {place}: {reason}");
        TriggerError::RunNotListed { server, waited: rounded(waited), advice }
    }
}

/// Full seconds, at least one, for messages.
fn rounded(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs().max(1))
}
