//! The running server: polls repositories, decides about layers, and answers requests.

mod connections;
mod copies;
mod credentials;
mod desired;
#[cfg(test)]
mod desired_tests;
mod dry_run;
mod includes;
mod leadership;
mod listener;
mod once;
mod options;
mod parts;
mod plan_files;
mod poller;
mod read_includes;
mod reload;
mod remembered;
mod retention;
mod run_view;
mod scheduler;
mod server;
mod start_rate;
mod stopping;
mod timestamp;
mod tls;
mod view;
mod waiting;

pub use desired::{Desired, Poll, PollResults};
pub use dry_run::{DryRun, dry_run};
pub use leadership::Leadership;
pub use listener::ListenError;
pub use once::{Pass, once};
pub use options::{Options, ServeError};
pub use poller::PollError;
pub use reload::ConfigFiles;
pub(crate) use run_view::describe;
pub use run_view::{AttemptView, LockView, RunView};
pub use server::serve;
pub use timestamp::Timestamp;
pub use tls::{TlsError, TlsFiles};
pub use view::{DriftView, LayerView, Views};
