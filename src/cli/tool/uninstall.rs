//! `tool uninstall`: removes an unused version.

use clap::Args;
use serde::Serialize;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::cli::complete::versions;
use crate::exit::Exit;
use crate::run::signals;
use crate::tool::{UninstallError, Uninstalled, uninstall};
use butler_base::cancel::Stop;

/// Remove a version, unless a run uses it or starts to use it within the drain period
#[derive(Args)]
pub(super) struct Uninstall {
    /// The exact version: 1.9.0 or opentofu-1.8.3
    #[arg(add = versions())]
    version: String,
}

/// The result of a removal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UninstallReport {
    product: &'static str,
    version: String,
    removed: bool,
    was_default: bool,
    bytes: u64,
}

impl Uninstall {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        let request = tools.request(&self.version)?;
        let stop = Stop::new();
        let _signals = signals(&stop).map_err(|error| CommandFailure {
            exit: Exit::Failed,
            message: format!("cannot watch for signals: {error}"),
            advice: None,
        })?;
        let progress = |step: &str| tracing::info!("{step}");
        let ended =
            uninstall(&request, &tools.options, tools.settings.drain_period, &stop, &progress)
                .await;
        let (removed, bytes, was_default) = match ended {
            Ok(Uninstalled::Removed { bytes, was_default }) => (true, bytes, was_default),
            Ok(Uninstalled::NotInstalled) => (false, 0, false),
            Err(error) => return Err(failure(error)),
        };
        let text = match (removed, was_default) {
            (true, true) => {
                format!(
                    "removed {request}, which was the default; set another one with `butler-runner tool use`"
                )
            }
            (true, false) => format!("removed {request}"),
            (false, _) => format!("{request} is not installed"),
        };
        CommandOutput::new(
            &UninstallReport {
                product: request.product.name(),
                version: request.version.to_string(),
                removed,
                was_default,
                bytes,
            },
            text,
        )
    }
}

fn failure(error: UninstallError) -> CommandFailure {
    let exit = match error {
        UninstallError::Stopped { signal, .. } => Exit::Signal(signal),
        _ => Exit::Failed,
    };
    CommandFailure { exit, ..error.into() }
}
