//! `tool uninstall`: removes a version that nobody uses.

use clap::Args;
use serde::Serialize;

use super::{Answer, Failure, Toolbox};
use crate::cancel::Stop;
use crate::run::{Exit, signals};
use crate::tool::{UninstallError, Uninstalled, uninstall};

/// Remove a version, unless a run uses it or begins to within the drain period
#[derive(Args)]
pub(super) struct Uninstall {
    /// The exact version: 1.9.0 or opentofu-1.8.3
    version: String,
}

/// What was removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    product: &'static str,
    version: String,
    removed: bool,
    bytes: u64,
}

impl Uninstall {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<Answer, Failure> {
        let request = tools.request(&self.version)?;
        let stop = Stop::new();
        let _signals = signals(&stop).map_err(|error| Failure {
            exit: Exit::Failed,
            message: format!("cannot watch for signals: {error}"),
            advice: None,
        })?;
        let progress = |step: &str| tracing::info!("{step}");
        let ended = uninstall(&request, &tools.options, tools.drain_period, &stop, &progress).await;
        let (bytes, text) = match ended {
            Ok(Uninstalled::Removed { bytes }) => (Some(bytes), format!("removed {request}")),
            Ok(Uninstalled::NotInstalled) => (None, format!("{request} is not installed")),
            Err(error) => return Err(failure(error)),
        };
        Answer::new(
            &Removed {
                product: request.product.name(),
                version: request.version.to_string(),
                removed: bytes.is_some(),
                bytes: bytes.unwrap_or_default(),
            },
            text,
        )
    }
}

fn failure(error: UninstallError) -> Failure {
    let exit = match error {
        UninstallError::Stopped { signal, .. } => Exit::Signal(signal),
        _ => Exit::Failed,
    };
    Failure { exit, ..error.into() }
}
