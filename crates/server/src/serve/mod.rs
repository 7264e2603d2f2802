//! The running server: polls repositories, decides about layers, and answers requests.

mod desired;
mod listener;
mod poller;
mod reload;
mod retention;
mod scheduler;
mod server;
mod stopping;
mod tls;
mod view;
mod waiting;

pub use desired::{Desired, Poll};
pub use listener::ListenError;
pub use poller::PollError;
pub use server::{Options, Pass, ServeError, once, serve};
pub use tls::{TlsError, TlsFiles};
pub use view::{AttemptView, DriftView, LayerView, RunView, Timestamp, Views};
