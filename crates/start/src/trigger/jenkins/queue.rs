//! The place in the queue that an order gets, and how it becomes a build.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{Build, Jenkins};
use crate::trigger::{ConfigError, RunState, Started, State, TriggerError};
use butler_base::pace::jittered;

/// What stands before the number of a place in the queue, where a build's number would stand.
pub(super) const QUEUE: &str = "queue/";

/// How long is waited between two looks at the queue.
const PAUSE: Duration = Duration::from_secs(1);

/// What is asked for.
const WHAT: &str = "read the place in the queue";

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
    /// Waits until the item in the queue has become a build. What is still in the queue when the
    /// time is over was started all the same.
    pub(super) async fn wait(&self, item: u64) -> Result<Started, TriggerError> {
        let item = item.to_string();
        let mut said = None;
        loop {
            let found = match self.item(&item).await {
                Ok(found) => found,
                Err(error) => {
                    let error = butler_base::error::chain(&error);
                    tracing::warn!(
                        "the job is in the queue, but its build's number is not known: {error}"
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
            let problem = format!("is a place in the queue of another job than `{}`", self.job);
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
        self.server.understand(WHAT, &answer)
    }

    /// The error where neither the queue nor a build knows the place.
    fn forgotten(&self, error: TriggerError) -> TriggerError {
        let TriggerError::Refused { server, what, status, message, .. } = error else {
            return error;
        };
        let advice = Some(format!(
            "no build of `{}` has come of it lately: it was cancelled in the queue, or is long over; look at the job's builds",
            self.job
        ));
        TriggerError::Refused { server, what, status, message, advice }
    }

    fn queued(&self, item: &str) -> Started {
        let url = format!("{}/", self.server.url(["queue", "item", item]));
        Started { external_run_id: format!("{QUEUE}{item}"), external_url: Some(url) }
    }
}

/// The number in `.../queue/item/39/`.
pub(super) fn item_number(location: &str) -> Option<u64> {
    let (_, after) = location.rsplit_once("/queue/item/")?;
    after.trim_end_matches('/').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_is_taken_from_where_the_server_says_that_it_is() {
        assert_eq!(item_number("http://inside:8080/jenkins/queue/item/39/"), Some(39));
        assert_eq!(item_number("/queue/item/39"), Some(39));
        assert_eq!(item_number("http://inside/job/x/"), None);
        assert_eq!(item_number("http://inside/queue/item/39/../../x"), None);
    }
}
