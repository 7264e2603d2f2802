//! Runs as Jobs in a Kubernetes cluster: builds the manifests, creates the Job, follows it to its end.
//!
//! [`follow`] is for a user who waits for one run. A server that has started many asks for the state of each
//! ([`Cluster::job_state`]), and is told by a watch ([`watch_jobs`]) when to ask.
//!
//! [`Manifests`] are built once, in the cluster's own types: `generate kubernetes` prints the objects that
//! `--apply` creates. Only the token differs: it is only in the request that creates the run's Secret.
//! The runner in the pod reports to the registry itself. This module only shows the progress to a waiting
//! user; losing the connection does not affect the run.

mod access;
mod account;
mod advice;
mod apply;
mod backoff;
mod check;
mod classify;
mod client;
mod comments;
mod error;
mod events;
mod failure;
mod follow;
mod installation;
mod job_state;
mod kubeconfig;
mod log;
mod manifest;
mod names;
mod native;
mod native_lists;
mod native_logs;
mod network;
mod notices;
mod options;
mod outage;
mod outcome;
mod pod;
mod resources;
mod retry_after;
mod secret;
mod secret_data;
mod status;
mod token_file;
mod unreadable;
mod values;
mod variable;
mod watch;
mod watch_jobs;
mod yaml;

pub use access::{ClusterAccess, KubeconfigFiles, Proxies};
pub use apply::{CreatedJob, apply};
pub use check::check;
pub use client::Cluster;
pub use error::ClusterError;
pub use failure::JobFailure;
pub use follow::{Follower, follow};
pub use installation::{
    CommandJob, FOLLOWER_JOB_NAME, FOLLOWER_TOKEN_SECRET, FollowedKind, Installation,
    InstalledFollowers, InstalledResources, InstalledServer, InstalledServerError, RoleNames,
    ServerCertificate, SharedStore,
};
pub use job_state::{JobEnd, JobState, JobWait};
pub use manifest::Manifests;
pub use names::JobName;
pub use native::{Creation, NativeObject, NativeObjects, Reading};
pub use native_logs::{ContainerLog, pod_label};
pub use options::{
    Azure, CaBundle, Cache, Egress, Identity, JobOptions, Network, Resources, Run, Toleration,
};
pub use outcome::{Outcome, OutcomeSource};
pub use resources::{
    Condition, ConditionStatus, CustomObject, KnownResources, ResourceKey, ResourceKind,
    ResourceStatus, WatchedResources, definitions,
};
pub use secret_data::SecretUnread;
pub use status::{Progress, create, status};
pub use values::{object_name, quantity};
pub use watch_jobs::{ChangedJob, JobNews, watch_jobs};
