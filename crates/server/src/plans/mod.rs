//! How saved plans are protected: they contain secrets in clear text, so they are encrypted on the disk, and
//! what they were made from is kept as hashes only.

mod credentials;
mod inputs;
mod keys;
mod seal;

pub use inputs::PlanInputs;
pub use keys::{KeyError, PlanKeys};
pub(crate) use seal::{OpenError, Sealer, open};
