//! `tool install`: downloads, verifies and installs a version, and prints its path.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{ArgAction, Args};
use serde::Serialize;

use super::command_output::{CommandFailure, CommandOutput};
use super::install_source::InstallSource;
use super::toolbox::Toolbox;
use crate::cli::complete::versions;
use crate::settings::interval;
use crate::tool::{Origin, Reach, WhenBusy, adopt_default, check_required_checksum, ready};

/// Download and verify a version if it is not in the cache, and print its path
#[derive(Args)]
pub(super) struct Install {
    /// The version: 1.9.8, opentofu-1.8.3, '~> 1.9', '>= 1.6, < 2' or latest; by default the
    /// version that the version files or `required_version` of the current directory request
    #[arg(add = versions())]
    version: Option<String>,
    /// Install the version that the version files or `required_version` of this directory request; if
    /// `required_version` allows it, `BUTLER_DEFAULT_TOOL_VERSION` is preferred
    #[arg(long, value_name = "DIR", conflicts_with = "version")]
    from: Option<PathBuf>,
    /// Install the newest matching release, even if an older matching version is installed
    #[arg(long)]
    latest: bool,
    /// The timeout, including the choice of the version and the wait for another process that installs it; overrides --tool-timeout
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    timeout: Option<Duration>,
    /// Whether to wait for another process that installs it
    #[arg(long, value_name = "BOOLEAN", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    wait: bool,
    #[command(flatten)]
    source: InstallSource,
}

/// An installed version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    product: &'static str,
    version: String,
    path: String,
    downloaded: bool,
    /// Whether it is the default version.
    default: bool,
}

impl Install {
    pub(super) async fn run(self, tools: &mut Toolbox) -> Result<CommandOutput, CommandFailure> {
        self.source.apply(tools)?;
        // One deadline for all steps: fetching the lists of versions may take long too.
        tools.options.timeout = self.timeout.unwrap_or(tools.options.timeout);
        let deadline = Instant::now() + tools.options.timeout;
        let reach = if self.latest { Reach::Released } else { Reach::InstalledFirst };
        let request = match (&self.version, self.from) {
            (Some(version), _) => tools.choose(version, reach).await?,
            (None, Some(directory)) => tools.choose_for(&directory, reach).await?,
            (None, None) => tools.choose_for(".".as_ref(), reach).await?,
        };
        let mut options = tools.options.clone();
        options.timeout = deadline.saturating_duration_since(Instant::now());
        options.when_busy = if self.wait { WhenBusy::Wait } else { WhenBusy::Refuse };
        let tool = ready(&request, &options, &|step| tracing::info!("{step}")).await?;
        check_required_checksum(&tool, &options)?;
        let path = tool.path.display().to_string();
        CommandOutput::new(
            &Installed {
                product: request.product.name(),
                version: request.version.to_string(),
                path: path.clone(),
                downloaded: tool.origin == Origin::Downloaded,
                default: adopt_default(&request, &tools.options).await?,
            },
            path,
        )
    }
}
