//! The running server: polls repositories, decides about layers, and answers requests.

mod desired;
mod listener;
mod poller;
mod reload;
mod scheduler;
mod server;
mod view;
mod waiting;

pub use desired::{Desired, Poll};
pub use listener::ListenError;
pub use poller::PollError;
pub use server::{Options, Pass, ServeError, once, serve};
pub use view::{AttemptView, DriftView, LayerView, RunView, Timestamp, Views};
