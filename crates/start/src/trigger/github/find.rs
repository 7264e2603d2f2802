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

use super::{GitHub, Run};
use crate::trigger::lost::contains_id;
use crate::trigger::{Event, Order, Started, TriggerError};
use butler_base::http::now;
use butler_base::pace::jittered;

/// How far the clocks of the server's machines may be apart.
const SKEW: Duration = Duration::from_mins(1);

/// How many runs are asked for at a time (the most that the API gives).
const PAGE: usize = 100;

/// How many pages are read: the API ends after a thousand.
const PAGES: usize = 10;

/// The first pause between two looks, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How things stood before the order.
pub(super) struct Before {
    /// What time it was there.
    time: SystemTime,
    /// The runs of this name that were there already.
    known: BTreeSet<u64>,
}

impl GitHub {
    /// Looks before the order is given.
    pub(super) async fn look_before(&self, order: &Order) -> Result<Before, TriggerError> {
        let (runs, time) = self.page(None, 1).await?;
        let known = runs.iter().filter(|run| self.is_of(run, order)).map(|run| run.id).collect();
        Ok(Before { time, known })
    }

    /// Searches for the run until it is listed or the time is over. `lost` says why it is unclear
    /// whether one exists.
    pub(super) async fn find(
        &self,
        order: &Order,
        before: &Before,
        lost: Option<String>,
    ) -> Result<Started, TriggerError> {
        let begun = Instant::now();
        let since =
            before.time.checked_sub(SKEW).unwrap_or(before.time).max(SystemTime::UNIX_EPOCH);
        let mut pause = FIRST_PAUSE;
        loop {
            let found = match self.find_once(order, before, since).await {
                Ok(found) => found,
                // The order is given: what fails now must not read as if nothing had been started.
                Err(error) => return Err(self.not_found(begun.elapsed(), lost, Some(&error))),
            };
            if let Some(run) = found {
                return Ok(Started {
                    external_run_id: run.id.to_string(),
                    external_url: run.html_url,
                });
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
        order: &Order,
        before: &Before,
        since: SystemTime,
    ) -> Result<Option<Run>, TriggerError> {
        for number in 1..=PAGES {
            let (runs, _) = self.page(Some(since), number).await?;
            let is_last = runs.len() < PAGE;
            let is_new = |run: &Run| !before.known.contains(&run.id) && self.is_of(run, order);
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

    /// A page of runs, newest first, and what time it is there.
    async fn page(
        &self,
        since: Option<SystemTime>,
        number: usize,
    ) -> Result<(Vec<Run>, SystemTime), TriggerError> {
        #[derive(Deserialize)]
        struct Page {
            workflow_runs: Vec<Run>,
        }
        let what = "list the workflow's runs";
        let mut url = self.runs();
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
        let answer = self.get(what, &url).await?;
        let time = now(&answer.headers);
        Ok((self.server.parse::<Page>(what, &answer)?.workflow_runs, time))
    }

    fn runs(&self) -> Url {
        match (&self.workflow, self.event) {
            (Some(workflow), Event::WorkflowDispatch) => {
                self.url(["actions", "workflows", workflow, "runs"])
            }
            _ => self.url(["actions", "runs"]),
        }
    }

    /// Whether a run is named after the order's, and is one of this workflow.
    fn is_of(&self, run: &Run, order: &Order) -> bool {
        let file = run.path.as_deref().and_then(|path| path.split('@').next()?.rsplit('/').next());
        let is_workflow = match (&self.workflow, file) {
            (Some(workflow), Some(file)) if !workflow.bytes().all(|it| it.is_ascii_digit()) => {
                workflow == file
            }
            _ => true,
        };
        let title = run.display_title.as_deref().unwrap_or_default();
        is_workflow && contains_id(title, order.run_id.as_str())
    }

    /// `lost` says why it is unclear whether the request was accepted, `trouble` why the search ended.
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
            return self.server.unsure(why, &place);
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
        TriggerError::NotSeen { server, waited: rounded(waited), advice }
    }
}

/// In full seconds, for people.
fn rounded(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs().max(1))
}
