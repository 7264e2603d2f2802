//! The queue item of a start request, and the build that it becomes.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::run_reference::QUEUE_PREFIX;
use super::{Build, Jenkins};
use crate::trigger::{ConfigError, RunState, Started, State, TriggerError};
use butler_base::pace::jittered;

/// How long is waited between two looks at the queue.
const PAUSE: Duration = Duration::from_secs(1);

/// What is asked for.
const WHAT: &str = "read the queue item";

/// A place in the queue.
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
    /// The address of the job that waits there.
    pub(super) fn address(&self) -> Option<&str> {
        self.task.as_ref()?.url.as_deref()
    }
}

impl Jenkins {
    /// Waits until the queue item becomes a build. An item that is still queued when the time is over
    /// counts as started.
    pub(super) async fn wait(&self, item: u64) -> Result<Started, TriggerError> {
        let item = item.to_string();
        let mut said = None;
        loop {
            let found = match self.item(&item).await {
                Ok(found) => found,
                Err(error) => {
                    let error = butler_base::error::chain(&error);
                    tracing::warn!(
                        "the job is in the queue, but its build number is unknown: {error}"
                    );
                    return Ok(self.queued(&item));
                }
            };
            if let Some(build) = found.executable {
                return Ok(self.build_started(build.number));
            }
            if found.cancelled {
                return Err(TriggerError::Withdrawn { server: "Jenkins" });
            }
            if found.why != said {
                said = found.why;
                tracing::info!("in the queue: {}", said.as_deref().unwrap_or("no reason is given"));
            }
            if self.server.left() < PAUSE * 2 {
                tracing::warn!("the job is still in the queue; ask for it with `ci-status`");
                return Ok(self.queued(&item));
            }
            tokio::time::sleep(jittered(PAUSE)).await;
        }
    }

    pub(super) async fn state_in_queue(&self, item: &str) -> Result<RunState, TriggerError> {
        let found = match self.item(item).await {
            Ok(found) => found,
            // Jenkins forgets a place some minutes after it was left; its build remembers it.
            Err(error @ TriggerError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                return match self.build_of_item(item).await? {
                    Some(number) => self.state_of_build(&number.to_string()).await,
                    None => Err(self.forgotten(error)),
                };
            }
            Err(error) => return Err(error),
        };
        if found.address().is_some_and(|address| !self.job.is_at(address)) {
            let problem = format!("is a queue item of another job than `{}`", self.job);
            return Err(ConfigError::Value { key: "externalRunId", problem }.into());
        }
        if let Some(build) = found.executable {
            return self.state_of_build(&build.number.to_string()).await;
        }
        let (status, reported) = if found.cancelled {
            (State::Cancelled, "cancelled in the queue".to_owned())
        } else {
            (State::Queued, found.why.unwrap_or_else(|| "waiting in the queue".to_owned()))
        };
        let Started { external_run_id, external_url } = self.queued(item);
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    async fn item(&self, number: &str) -> Result<Item, TriggerError> {
        let url = self.server.url(["queue", "item", number, "api", "json"]);
        let answer = self.get(WHAT, &url).await?;
        self.server.parse(WHAT, &answer)
    }

    /// The error where neither the queue nor a build knows the place.
    fn forgotten(&self, error: TriggerError) -> TriggerError {
        let TriggerError::Refused { server, what, status, message, .. } = error else {
            return error;
        };
        let advice = Some(format!(
            "no recent build of `{}` started from it: it was cancelled in the queue, or its build is old; look at the job's builds",
            self.job
        ));
        TriggerError::Refused { server, what, status, message, advice }
    }

    fn queued(&self, item: &str) -> Started {
        let url = format!("{}/", self.server.url(["queue", "item", item]));
        Started { external_run_id: format!("{QUEUE_PREFIX}{item}"), external_url: Some(url) }
    }
}
