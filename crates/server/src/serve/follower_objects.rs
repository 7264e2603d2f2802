//! The repositories, clusters and layers of followers.

use std::sync::Arc;

use butler_cluster::{Creation, NativeObject, Reading};
use butler_follower::config::{Follower, Source};
use butler_follower::object::ObjectReference;
use butler_follower::state::Record;
use butler_follower::{Action, Sighting, Submission};
use serde_json::Value;

use super::follower_ci::{CiRuns, job_of};
use super::follower_layer;
use crate::api::ApiState;
use crate::followers::{BranchHead, Copies, Surroundings, Wanted};
use crate::store::Store;

/// What followers read and change: the mirrors of the server, its layers, and a cluster.
#[derive(Debug)]
pub(super) struct FollowerObjects<S> {
    state: Arc<ApiState<S>>,
    copies: Copies,
    ci: CiRuns,
}

impl<S: Store + 'static> FollowerObjects<S> {
    pub(super) fn new(state: Arc<ApiState<S>>, ci: CiRuns) -> Self {
        Self { state, copies: Copies::default(), ci }
    }
}

impl<S: Store + 'static> Surroundings for FollowerObjects<S> {
    async fn head(&self, source: &Source) -> BranchHead {
        let desired = &self.state.desired;
        desired.followed.head(&desired.config(), source)
    }

    async fn read(&self, wanted: Wanted<'_>) -> Sighting {
        let object = wanted.object;
        if object.is_run() {
            return match job_of(wanted.follower, wanted.stage) {
                Some(job) => self.ci.read(job, wanted).await,
                None => follower_layer::read(&self.state.views, wanted),
            };
        }
        let meant = NativeObject {
            api_version: &object.api_version,
            kind: &object.kind,
            namespace: object.namespace.as_deref(),
            name: &object.name,
        };
        let reading = match self.state.follower_cluster.objects().await {
            Ok(objects) => objects.read(meant).await,
            Err(why) => Reading::Unknown { why },
        };
        match reading {
            Reading::Found(found) => Sighting::Found(found),
            Reading::Absent => Sighting::Absent,
            Reading::Denied { why } => Sighting::Denied { why },
            Reading::Unknown { why } => Sighting::Unknown { why },
        }
    }

    async fn task_runs(&self, pipeline_run: &ObjectReference) -> Result<Vec<Value>, String> {
        let kind = NativeObject {
            api_version: &pipeline_run.api_version,
            kind: "TaskRun",
            namespace: pipeline_run.namespace.as_deref(),
            name: "",
        };
        let label = format!("tekton.dev/pipelineRun={}", pipeline_run.name);
        self.state.follower_cluster.objects().await?.labelled(kind, &label).await
    }

    async fn submit(&self, follower: &Follower, action: &Action) -> Creation {
        match &action.submission {
            Submission::Run(_) => match job_of(follower, &action.stage) {
                Some(job) => self.ci.submit(follower, job, action).await,
                None => follower_layer::submit(&self.state, follower, action).await,
            },
            Submission::Object(object) => match self.state.follower_cluster.objects().await {
                Ok(objects) => objects.create(object).await,
                Err(why) => Creation::Unknown { why },
            },
        }
    }

    async fn copy(&self, namespace: &str, record: &Record) {
        let Some(object) = self.copies.next(namespace, record) else { return };
        let written = match self.state.follower_cluster.objects().await {
            Ok(objects) => Box::pin(objects.apply(&object, false)).await.map(|_| ()),
            Err(why) => Err(why),
        };
        let follower = &record.follower;
        match written {
            Ok(()) => self.copies.written(follower, &object),
            Err(why) if self.copies.failed(follower, &why) => {
                tracing::warn!(
                    follower,
                    namespace,
                    "cannot copy the state of a follower to a config map: {why}"
                );
            }
            Err(_) => {}
        }
    }
}
