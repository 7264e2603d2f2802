//! `tool install`: makes a version ready and says where it is.

use std::time::Duration;

use clap::{ArgAction, Args};
use serde::Serialize;

use super::{Answer, Failure, Toolbox};
use crate::settings::interval;
use crate::tool::{Origin, WhenBusy, ready};

/// Download and verify a version, unless it is in the cache, and print its path
#[derive(Args)]
pub(super) struct Install {
    /// The exact version: 1.9.0 or opentofu-1.8.3
    version: String,
    /// How long it may take, with the wait for another process that installs it; before --tool-timeout
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    timeout: Option<Duration>,
    /// Whether to wait for another process that installs it
    #[arg(long, value_name = "BOOLEAN", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    wait: bool,
}

/// What was made ready.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    product: &'static str,
    version: String,
    path: String,
    downloaded: bool,
}

impl Install {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<Answer, Failure> {
        let request = tools.request(&self.version)?;
        let mut options = tools.options.clone();
        options.timeout = self.timeout.unwrap_or(options.timeout);
        options.when_busy = if self.wait { WhenBusy::Wait } else { WhenBusy::Refuse };
        let tool = ready(&request, &options, &|step| tracing::info!("{step}")).await?;
        let path = tool.path.display().to_string();
        Answer::new(
            &Installed {
                product: request.product.name(),
                version: request.version.to_string(),
                path: path.clone(),
                downloaded: tool.origin == Origin::Downloaded,
            },
            path,
        )
    }
}
