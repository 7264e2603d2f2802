//! What the handlers of the API need.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::access::Access;
use super::disk::DiskLook;
use super::hosts::Hosts;
use super::rendered::Rendered;
use super::sign_in::SignIns;
use crate::artifacts::{AttemptFiles, NotCopied};
use crate::attempts::LogWatch;
use crate::data::DataDirectory;
use crate::event::Event;
use crate::followers::FollowerCluster;
use crate::layers::LayerSource;
use crate::metrics::{AttemptMetrics, NotificationMetrics, PollDurations, TransactionDurations};
use crate::model::LayerName;
use crate::serve::{Desired, FollowerRequests, Leadership, Views};
use crate::webhooks::Deliveries;

/// What the handlers of the API need.
#[derive(Debug)]
pub struct ApiState<S> {
    /// The facts.
    pub store: Arc<S>,
    /// The layers as people see them.
    pub views: Arc<Views>,
    /// The configuration.
    pub desired: Arc<Desired>,
    /// Mirrors of repositories.
    pub data: DataDirectory,
    /// Whether the data directory can be written.
    pub disk: DiskLook,
    /// The plans on pages.
    pub plans: Rendered,
    /// Logs and plans.
    pub files: Arc<AttemptFiles>,
    /// The attempts of this server that wait for the object store.
    pub not_copied: Arc<NotCopied>,
    /// Makes the server decide about a layer.
    pub events: mpsc::UnboundedSender<Event>,
    /// Who may do what.
    pub access: Access,
    /// How browsers sign in.
    pub sign_ins: SignIns,
    /// Under which names the server is reached.
    pub hosts: Hosts,
    /// What modules are kept from, in one word.
    pub isolation: String,
    /// Whether this server decides.
    pub leadership: watch::Receiver<Leadership>,
    /// The attempts that have started and ended.
    pub attempts: Arc<AttemptMetrics>,
    /// How long polls took.
    pub poll_durations: Arc<PollDurations>,
    /// How long transactions of the store took.
    pub transactions: Arc<TransactionDurations>,
    /// Those who follow logs.
    pub log_watch: Arc<LogWatch>,
    /// What people ask of followers.
    pub followers: Arc<FollowerRequests>,
    /// The cluster of followers.
    pub follower_cluster: Arc<FollowerCluster>,
    /// What git hosts told about commits.
    pub deliveries: Arc<Deliveries>,
    /// The deliveries of notifications.
    pub notifications: Arc<NotificationMetrics>,
    /// Whether `/metrics` needs no token.
    pub metrics_open: bool,
}

impl<S> ApiState<S> {
    /// What the configuration says about a layer.
    pub(crate) fn source(&self, layer: &LayerName) -> Option<Arc<LayerSource>> {
        self.desired.catalogs().borrow().layers.get(layer).cloned()
    }
}

/// Shared by all requests.
pub(crate) type Shared<S> = Arc<ApiState<S>>;
