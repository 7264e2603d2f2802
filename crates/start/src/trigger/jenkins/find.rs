//! Finds the queue item or build of a request whose response was lost, and the build of an expired queue
//! item.

use serde::Deserialize;
use serde_json::Value;

use super::client::{Build, Jenkins, RUN_ID};
use super::queue::Item;
use super::run_reference::{QUEUE_PREFIX, RunReference};
use crate::trigger::{StartRequest, StartedRun, TriggerError};

/// The range of builds that are searched, newest first.
const BUILD_RANGE: &str = "{0,100}";

impl Jenkins {
    /// The queue item or the newest build with this id.
    pub(in crate::trigger) async fn find_existing(
        &self,
        start: &StartRequest,
    ) -> Result<Option<StartedRun>, TriggerError> {
        let found = self.find_once(start, 0).await?;
        Ok(found.map(|found| match found {
            RunReference::Build(number) => self.started_build(number),
            RunReference::QueueItem(item) => {
                StartedRun { external_run_id: format!("{QUEUE_PREFIX}{item}"), external_url: None }
            }
        }))
    }

    /// Searches the queue and the builds from `next_build` on; earlier builds belong to earlier
    /// requests. `why` is the reason why it is unclear whether the request was accepted.
    pub(super) async fn find(
        &self,
        start: &StartRequest,
        next_build: u64,
        why: String,
    ) -> Result<RunReference, TriggerError> {
        let place = format!("the queue and the builds of `{}`", self.job);
        let look = async || self.find_once(start, next_build).await;
        self.server.find_lost_run(why, &place, look).await
    }

    /// Searches the queue first, because an item that leaves the queue between the two requests is then among
    /// the builds.
    async fn find_once(
        &self,
        start: &StartRequest,
        next_build: u64,
    ) -> Result<Option<RunReference>, TriggerError> {
        #[derive(Deserialize)]
        struct Queue {
            items: Vec<Item>,
        }
        let run_id = start.run_id.as_str();
        let what = "read the queue";
        let mut url = self.server.url(["queue", "api", "json"]);
        url.set_query(Some("tree=items[id,task[url],actions[parameters[name,value]]]"));
        let response = self.get(what, &url).await?;
        let queue: Queue = self.server.parse(what, &response)?;
        let is_ours = |item: &&Item| {
            item.job_address().is_some_and(|address| self.job.is_at(address))
                && has_run(&item.actions, run_id)
        };
        if let Some(id) = queue.items.iter().find(is_ours).and_then(|item| item.id) {
            return Ok(Some(RunReference::QueueItem(id)));
        }
        let builds = self.list_builds("number,actions[parameters[name,value]]").await?;
        let is_ours =
            |build: &&Build| build.number >= next_build && has_run(&build.actions, run_id);
        Ok(builds.iter().find(is_ours).map(|build| RunReference::Build(build.number)))
    }

    /// The number of the build that a queue item became.
    pub(super) async fn build_of_item(&self, item: &str) -> Result<Option<u64>, TriggerError> {
        let builds = self.list_builds("number,queueId").await?;
        let is_of_item = |build: &&Build| build.queue_id.is_some_and(|id| id.to_string() == item);
        Ok(builds.iter().find(is_of_item).map(|build| build.number))
    }

    /// The newest builds with these fields.
    async fn list_builds(&self, fields: &str) -> Result<Vec<Build>, TriggerError> {
        #[derive(Deserialize)]
        struct Job {
            builds: Vec<Build>,
        }
        let what = "list the job's builds";
        let mut url = self.job_url(&["api", "json"]);
        url.set_query(Some(&format!("tree=builds[{fields}]{BUILD_RANGE}")));
        let response = self.get(what, &url).await?;
        Ok(self.server.parse::<Job>(what, &response)?.builds)
    }
}

/// Whether the actions of a build contain the parameter `RUN_ID` with this id.
fn has_run(actions: &[Value], run_id: &str) -> bool {
    let parameters = actions.iter().filter_map(|action| action.get("parameters")?.as_array());
    parameters
        .flatten()
        .any(|parameter| parameter["name"] == RUN_ID && parameter["value"] == run_id)
}
