//! Runs as Jobs in a Kubernetes cluster: what such a Job is, creating it, following it to its end.
//!
//! [`Manifests`] are made once as the cluster's own types; what `generate kubernetes` prints and what
//! `--apply` creates is the same, but for the token, which is only ever in the request that creates the
//! run's Secret. The runner in the pod talks to the registry itself: what is followed here is for whoever
//! waits, and losing sight of it changes nothing about the run.

mod absence;
mod account;
mod advice;
mod apply;
mod check;
mod client;
mod comments;
mod error;
mod events;
mod failure;
mod follow;
mod kubeconfig;
mod log;
mod manifest;
mod names;
mod network;
mod notices;
mod options;
mod outcome;
mod pod;
mod secret;
mod status;
mod token_file;
mod watch;
mod yaml;

pub use apply::{Applied, apply};
pub use check::check;
pub use client::{Access, Cluster, Proxies};
pub use error::ClusterError;
pub use follow::{Follower, follow};
pub use kubeconfig::Files;
pub use manifest::Manifests;
pub use names::JobName;
pub use options::{
    Azure, CaBundle, Cache, Egress, Identity, JobOptions, Network, Resources, Run, Toleration,
};
pub use outcome::Outcome;
pub use status::{Progress, create, status};
