//! `tool prune`: frees space in the tool cache and in the provider cache.

use std::time::{Duration, SystemTime};

use clap::Args;
use serde::Serialize;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::providers;
use crate::settings::bytes;
use crate::tool::{PruneLimits, PruneResult, Pruned, PrunedVersion, prune};

/// Remove unused versions and providers, and files that killed processes left
///
/// Without a limit, the command only removes leftovers. It never removes a version in use or the
/// default version. With --product, it only removes versions of this product.
#[derive(Args)]
pub(super) struct Prune {
    /// Remove versions and providers that were not used for this time: 30d
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    unused_for: Option<Duration>,
    /// Remove the least recently used versions until all versions use at most this size, and the same
    /// for providers: 5GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    larger_than: Option<u64>,
    /// Print the planned actions without executing them
    #[arg(long)]
    dry_run: bool,
}

/// The removed versions and providers, or with `--dry-run` those that would be removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PruneReport {
    dry_run: bool,
    #[serde(flatten)]
    tools: Pruned,
    providers: Vec<RemovedProvider>,
    /// The freed space, in bytes.
    freed: u64,
}

/// A package of a provider that was removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RemovedProvider {
    provider: String,
    version: String,
    platform: String,
    last_used: String,
    bytes: u64,
}

impl Prune {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        let Self { unused_for, larger_than, dry_run } = self;
        let limits =
            PruneLimits { unused_for, larger_than, drain: tools.settings.drain_period, dry_run };
        let pruned = prune(&tools.products(), &limits, &tools.options).await?;
        // Providers do not belong to a product.
        let (providers, problem) = match (&tools.named, &tools.settings.provider_cache) {
            (None, Some(cache)) => {
                match providers::prune(cache, unused_for, larger_than, dry_run) {
                    Ok(pruned) => {
                        (pruned.removed.into_iter().map(RemovedProvider::from).collect(), None)
                    }
                    Err(error) => (Vec::new(), Some(CommandFailure::from(error))),
                }
            }
            _ => (Vec::new(), None),
        };
        let freed = pruned.bytes + providers.iter().map(|it| it.bytes).sum::<u64>();
        let has_failed =
            |version: &PrunedVersion| matches!(version.result, PruneResult::Failed { .. });
        let left = pruned.versions.iter().filter(|version| has_failed(version)).count()
            + pruned.left.len();
        let report = PruneReport { dry_run, tools: pruned, providers, freed };
        let answer = CommandOutput::new(&report, report.text())?;
        if let Some(problem) = problem {
            return Ok(CommandOutput { failure: Some(problem), ..answer });
        }
        Ok(match left {
            0 => answer,
            _ => answer.failed(
                "some items could not be removed".to_owned(),
                "see the output for the items and the reasons".to_owned(),
            ),
        })
    }
}

impl From<providers::PrunedPackage> for RemovedProvider {
    fn from(removed: providers::PrunedPackage) -> Self {
        Self {
            provider: removed.provider,
            version: removed.version,
            platform: removed.platform,
            last_used: rfc3339(removed.last_used),
            bytes: removed.size,
        }
    }
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

impl PruneReport {
    fn text(&self) -> String {
        let (removed, freed) =
            if self.dry_run { ("would remove", "would free") } else { ("removed", "freed") };
        let mut lines = Vec::new();
        for PrunedVersion { product, version, last_used, bytes, result } in &self.tools.versions {
            let bytes = binary_size(*bytes);
            lines.push(match result {
                PruneResult::Removed => {
                    format!("{removed} {product} {version}, {bytes}, last used {last_used}")
                }
                PruneResult::Kept { reason } => format!("kept {product} {version}, {reason}"),
                PruneResult::Failed { reason } => {
                    format!("could not remove {product} {version}: {reason}")
                }
            });
        }
        for RemovedProvider { provider, version, platform, last_used, bytes } in &self.providers {
            let bytes = binary_size(*bytes);
            lines.push(format!(
                "{removed} {provider} {version} for {platform}, {bytes}, last used {last_used}"
            ));
        }
        match self.tools.leftovers {
            0 => {}
            1 => lines.push(format!("{removed} 1 leftover of a killed process")),
            count => lines.push(format!("{removed} {count} leftovers of killed processes")),
        }
        lines.extend(self.tools.left.iter().map(|left| format!("could not remove {left}")));
        match self.freed {
            0 if lines.is_empty() => lines.push("nothing to remove".to_owned()),
            0 => {}
            bytes => lines.push(format!("{freed} {}", binary_size(bytes))),
        }
        lines.join("\n")
    }
}

/// A size with a binary unit.
fn binary_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}
