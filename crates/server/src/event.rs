//! What happens while the server runs, and makes it decide about a layer.

use crate::model::LayerName;
use crate::store::AttemptId;

/// Something that happened. Events can be lost: what happened is in the store.
#[derive(Clone, Debug)]
pub enum Event {
    /// The facts of a layer have changed.
    Changed(LayerName),
    /// The repository of a layer was read for the first time since the server started.
    FirstRead(LayerName),
    /// A repository cannot be read, for another reason than before.
    Unread(String),
    /// An attempt of the layer has reported its end, so others may start.
    Finished(LayerName),
    /// A person has reset the breaker.
    BreakerReset,
    /// The process of an attempt has ended, or its Job has changed.
    Exited(AttemptId),
}
