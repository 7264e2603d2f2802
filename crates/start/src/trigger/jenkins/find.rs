//! Finds the queue item or build of a request whose response was lost, and the build of an expired queue
//! item.

use serde::Deserialize;
use serde_json::Value;

use super::queue::Item;
use super::run_reference::RunReference;
use super::{Build, Jenkins, RUN_ID};
use crate::trigger::{Order, TriggerError};

/// How many builds are looked through.
const BUILDS: &str = "{0,100}";

impl Jenkins {
    /// Searches the queue and the builds from `next_build` on; earlier builds belong to earlier
    /// requests. `why` says why it is unclear whether the request was accepted.
    pub(super) async fn find(
        &self,
        order: &Order,
        next_build: u64,
        why: String,
    ) -> Result<RunReference, TriggerError> {
        let place = format!("the queue and the builds of `{}`", self.job);
        let look = async || self.find_once(order, next_build).await;
        self.server.find_lost(why, &place, look).await
    }

    /// The queue first: what leaves it between the two questions is a build by then.
    async fn find_once(
        &self,
        order: &Order,
        next_build: u64,
    ) -> Result<Option<RunReference>, TriggerError> {
        #[derive(Deserialize)]
        struct Queue {
            items: Vec<Item>,
        }
        let run_id = order.run_id.as_str();
        let what = "read the queue";
        let mut url = self.server.url(["queue", "api", "json"]);
        url.set_query(Some("tree=items[id,task[url],actions[parameters[name,value]]]"));
        let answer = self.get(what, &url).await?;
        let queue: Queue = self.server.parse(what, &answer)?;
        let is_ours = |item: &&Item| {
            item.address().is_some_and(|address| self.job.is_at(address))
                && has_run(&item.actions, run_id)
        };
        if let Some(id) = queue.items.iter().find(is_ours).and_then(|item| item.id) {
            return Ok(Some(RunReference::QueueItem(id)));
        }
        let builds = self.builds("number,actions[parameters[name,value]]").await?;
        let is_ours =
            |build: &&Build| build.number >= next_build && has_run(&build.actions, run_id);
        Ok(builds.iter().find(is_ours).map(|build| RunReference::Build(build.number)))
    }

    /// The build that came of a place in the queue.
    pub(super) async fn build_of_item(&self, item: &str) -> Result<Option<u64>, TriggerError> {
        let builds = self.builds("number,queueId").await?;
        let is_it = |build: &&Build| build.queue_id.is_some_and(|id| id.to_string() == item);
        Ok(builds.iter().find(is_it).map(|build| build.number))
    }

    /// The newest builds with these fields.
    async fn builds(&self, fields: &str) -> Result<Vec<Build>, TriggerError> {
        #[derive(Deserialize)]
        struct Job {
            builds: Vec<Build>,
        }
        let what = "list the job's builds";
        let mut url = self.job_url(&["api", "json"]);
        url.set_query(Some(&format!("tree=builds[{fields}]{BUILDS}")));
        let answer = self.get(what, &url).await?;
        Ok(self.server.parse::<Job>(what, &answer)?.builds)
    }
}

/// Whether these actions of a build have a parameter that says that it is this run.
fn has_run(actions: &[Value], run_id: &str) -> bool {
    let parameters = actions.iter().filter_map(|action| action.get("parameters")?.as_array());
    parameters
        .flatten()
        .any(|parameter| parameter["name"] == RUN_ID && parameter["value"] == run_id)
}
