//! `tool bundle`: collects versions for machines without network access.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::exit::Exit;
use crate::run::signals;
use crate::tool::{Platform, write_bundle};
use butler_base::cancel::{Stop, StopReason};

/// Download and verify versions, and write them to a bundle for `tool install` without network access
#[derive(Args)]
#[command(after_help = "There: tool install VERSION --url file:///PATH, or \
BUTLER_MIRROR=file:///PATH for runs too.")]
pub(super) struct Bundle {
    /// The exact versions: 1.9.0 or opentofu-1.8.3
    #[arg(required = true, value_name = "VERSION")]
    versions: Vec<String>,
    /// The output: a directory, which may contain a bundle, or a file that ends in .tar
    #[arg(long, value_name = "DIR|FILE.tar", default_value = "bundle.tar", value_parser = parse_output)]
    output: PathBuf,
    /// The platform; can be repeated; by default the platform of this machine
    #[arg(long = "platform", value_name = "OS_ARCH", value_parser = parse_platform)]
    platforms: Vec<Platform>,
}

/// The content of a bundle.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleContent {
    output: String,
    versions: Vec<BundledVersion>,
    platforms: Vec<String>,
}

#[derive(Serialize)]
struct BundledVersion {
    product: &'static str,
    version: String,
}

impl Bundle {
    pub(super) async fn run(mut self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        let requests = self.versions.iter().map(|version| tools.request(version));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        if self.platforms.is_empty() {
            self.platforms
                .push(Platform::current().map_err(|error| CommandFailure::usage(&error))?);
        }
        let say = |step: &str| tracing::info!("{step}");
        let stop = Stop::new();
        let _signals = signals(&stop).map_err(|error| CommandFailure {
            exit: Exit::Failed,
            message: format!("cannot watch for signals: {error}"),
            advice: None,
        })?;
        tokio::select! {
            ended = write_bundle(&requests, &self.platforms, &self.output, &tools.options, &say) => ended?,
            StopReason::Signal(signal) = stop.requested() => {
                let output = self.output.display();
                let message = format!("`{output}` is not finished: stopped by {signal}");
                return Err(CommandFailure { exit: Exit::Signal(signal), message, advice: None });
            }
        }
        let output = std::path::absolute(&self.output).unwrap_or(self.output);
        let output = output.display().to_string();
        let version = |request: &butler_protocol::spec::ToolRequest| BundledVersion {
            product: request.product.name(),
            version: request.version.to_string(),
        };
        let bundled = BundleContent {
            output: output.clone(),
            versions: requests.iter().map(version).collect(),
            platforms: self.platforms.iter().map(ToString::to_string).collect(),
        };
        CommandOutput::new(&bundled, output)
    }
}

/// Refuses other archive formats: the bundle would be a directory with a misleading name.
fn parse_output(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let ending = path.extension().map(|it| it.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("gz" | "tgz" | "bz2" | "xz" | "zst" | "zip") => {
            Err("a bundle is a directory or a tar that is not compressed: FILE.tar".to_owned())
        }
        _ => Ok(path),
    }
}

fn parse_platform(text: &str) -> Result<Platform, String> {
    text.parse().map_err(|error: crate::tool::UnknownPlatform| error.to_string())
}
