//! What followers read and change outside of the store.

use std::future::Future;

use butler_cluster::Creation;
use butler_follower::config::Source;
use butler_follower::object::ObjectReference;
use butler_follower::{Action, Head, Sighting};

/// The repositories, clusters and CI systems of followers.
pub trait Surroundings: Send + Sync {
    /// The head of a branch.
    fn head(&self, source: &Source) -> impl Future<Output = Head> + Send;

    /// What is known of an object.
    fn read(&self, object: &ObjectReference) -> impl Future<Output = Sighting> + Send;

    /// Submits an object, and does not wait for its end. One that exists is not changed.
    fn submit(&self, action: &Action) -> impl Future<Output = Creation> + Send;
}
