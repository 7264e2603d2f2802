//! The queue item of a start request, and the build that it becomes.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::client::{Build, Jenkins};
use super::run_reference::QUEUE_PREFIX;
use crate::trigger::{ConfigError, RunState, RunStatus, StartedRun, TriggerError};
use butler_base::pace::jittered;

/// The pause between two requests for a queue item.
const PAUSE: Duration = Duration::from_secs(1);

/// The request, as errors name it.
const WHAT: &str = "read the queue item";

/// The fields of a queue item that the runner reads.
#[derive(Deserialize)]
pub(super) struct Item {
    pub(super) id: Option<u64>,
    why: Option<String>,
    #[serde(default)]
    cancelled: bool,
    executable: Option<Build>,
    #[serde(default)]
    pub(super) actions: Vec<Value>,
    task: Option<Task>,
}

#[derive(Deserialize)]
struct Task {
    url: Option<String>,
}

impl Item {
    /// The address of the queued job.
    pub(super) fn job_address(&self) -> Option<&str> {
        self.task.as_ref()?.url.as_deref()
    }
}

impl Jenkins {
    /// Waits until the queue item becomes a build. An item that is still queued when the time is over
    /// counts as started.
    pub(super) async fn wait_for_build(&self, item: u64) -> Result<StartedRun, TriggerError> {
        let item = item.to_string();
        let mut logged = None;
        loop {
            let found = match self.read_item(&item).await {
                Ok(found) => found,
                Err(error) => {
                    let error = butler_base::error::chain(&error);
                    tracing::warn!(
                        "the job is in the queue, but its build number is unknown: {error}"
                    );
                    return Ok(self.started_in_queue(&item));
                }
            };
            if let Some(build) = found.executable {
                return Ok(self.started_build(build.number));
            }
            if found.cancelled {
                return Err(TriggerError::CancelledInQueue { server: "Jenkins" });
            }
            if found.why != logged {
                logged = found.why;
                tracing::info!(
                    "in the queue: {}",
                    logged.as_deref().unwrap_or("no reason is given")
                );
            }
            if self.server.left() < PAUSE * 2 {
                tracing::warn!("the job is still in the queue; ask for it with `ci-status`");
                return Ok(self.started_in_queue(&item));
            }
            tokio::time::sleep(jittered(PAUSE)).await;
        }
    }

    /// The state of a run by its queue item.
    pub(super) async fn state_in_queue(&self, item: &str) -> Result<RunState, TriggerError> {
        let found = match self.read_item(item).await {
            Ok(found) => found,
            // Jenkins deletes an item some minutes after it left the queue; the build has its id.
            Err(error @ TriggerError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                return match self.build_of_item(item).await? {
                    Some(number) => self.state_of_build(&number.to_string()).await,
                    None => Err(self.expired_item(error)),
                };
            }
            Err(error) => return Err(error),
        };
        if found.job_address().is_some_and(|address| !self.job.is_at(address)) {
            let problem = format!("is a queue item of another job than `{}`", self.job);
            return Err(ConfigError::Value { key: "externalRunId", problem }.into());
        }
        if let Some(build) = found.executable {
            return self.state_of_build(&build.number.to_string()).await;
        }
        let (status, reported) = if found.cancelled {
            (RunStatus::Cancelled, "cancelled in the queue".to_owned())
        } else {
            (RunStatus::Queued, found.why.unwrap_or_else(|| "waiting in the queue".to_owned()))
        };
        let StartedRun { external_run_id, external_url } = self.started_in_queue(item);
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    async fn read_item(&self, number: &str) -> Result<Item, TriggerError> {
        let url = self.server.url(["queue", "item", number, "api", "json"]);
        let response = self.get(WHAT, &url).await?;
        self.server.parse(WHAT, &response)
    }

    /// The error if neither the queue nor a recent build has the item.
    fn expired_item(&self, error: TriggerError) -> TriggerError {
        let TriggerError::Refused { server, what, status, message, .. } = error else {
            return error;
        };
        let advice = Some(format!(
            "no recent build of `{}` started from it: it was cancelled in the queue, or its build is old; look at the job's builds",
            self.job
        ));
        TriggerError::Refused { server, what, status, message, advice }
    }

    fn started_in_queue(&self, item: &str) -> StartedRun {
        let url = format!("{}/", self.server.url(["queue", "item", item]));
        StartedRun { external_run_id: format!("{QUEUE_PREFIX}{item}"), external_url: Some(url) }
    }
}
