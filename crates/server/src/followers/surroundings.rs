//! What followers read and change outside of the store.

use std::future::Future;

use butler_cluster::Creation;
use butler_follower::config::{Follower, Source};
use butler_follower::object::ObjectReference;
use butler_follower::state::{Record, StageRecord};
use butler_follower::{Action, Commit, Head, Sighting};
use serde_json::Value;

use crate::model::Moment;

/// The head of a branch, and when it was read.
#[derive(Clone, Debug)]
pub struct BranchHead {
    /// The head.
    pub head: Head,
    /// When the reading began, by the clock of the store. `None` if it failed.
    pub read_at: Option<Moment>,
}

/// An object that is read.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The follower.
    pub follower: &'a Follower,
    /// The name of the stage.
    pub stage: &'a str,
    /// The commit that is delivered.
    pub commit: &'a Commit,
    /// The object.
    pub object: &'a ObjectReference,
    /// What is stored of the stage for this commit.
    pub known: Option<&'a StageRecord>,
}

/// The repositories, clusters and CI systems of followers.
pub trait Surroundings: Send + Sync {
    /// The head of a branch.
    fn head(&self, source: &Source) -> impl Future<Output = BranchHead> + Send;

    /// What is known of an object.
    fn read(&self, wanted: Wanted<'_>) -> impl Future<Output = Sighting> + Send;

    /// The `TaskRun`s of a `PipelineRun`, or why they cannot be read.
    fn task_runs(
        &self,
        pipeline_run: &ObjectReference,
    ) -> impl Future<Output = Result<Vec<Value>, String>> + Send;

    /// Submits an object, and does not wait for its end. One that exists is not changed.
    fn submit(&self, follower: &Follower, action: &Action)
    -> impl Future<Output = Creation> + Send;

    /// Copies a record to where people look for it beside the server, in the namespace of the controller.
    fn copy(&self, namespace: &str, record: &Record) -> impl Future<Output = ()> + Send;
}
