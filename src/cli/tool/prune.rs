//! `tool prune`: makes room in the cache.

use std::time::Duration;

use clap::Args;

use super::{Answer, Failure, Toolbox};
use crate::settings::bytes;
use crate::tool::{Fate, Limits, Pruned, PrunedVersion, prune};

/// Remove versions that nobody has used for long, and what killed processes left
///
/// Without a limit only leftovers go. A version that is in use stays, whatever the limits say.
#[derive(Args)]
pub(super) struct Prune {
    /// Remove versions that were not used for this long: 30d
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    unused_for: Option<Duration>,
    /// Remove the least recently used versions until all take no more than this: 5GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    larger_than: Option<u64>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<Answer, Failure> {
        let limits = Limits {
            unused_for: self.unused_for,
            larger_than: self.larger_than,
            keep: Vec::new(),
            dry_run: self.dry_run,
        };
        let pruned = prune(&tools.products, &limits, &tools.options).await?;
        Answer::new(&pruned, text(&pruned, self.dry_run))
    }
}

fn text(pruned: &Pruned, dry_run: bool) -> String {
    let (removed, freed) =
        if dry_run { ("would remove", "would free") } else { ("removed", "freed") };
    let mut lines: Vec<_> = pruned
        .versions
        .iter()
        .map(|PrunedVersion { product, version, last_used, bytes, fate }| match fate {
            Fate::Removed => {
                format!("{removed} {product} {version}, {}, last used {last_used}", sized(*bytes))
            }
            Fate::Kept { reason } => format!("kept {product} {version}, {reason}"),
            Fate::Failed { reason } => format!("could not remove {product} {version}: {reason}"),
        })
        .collect();
    match pruned.leftovers {
        0 => {}
        1 => lines.push(format!("{removed} 1 leftover of a killed process")),
        count => lines.push(format!("{removed} {count} leftovers of killed processes")),
    }
    lines.push(match pruned.bytes {
        0 if lines.is_empty() => "nothing to remove".to_owned(),
        bytes => format!("{freed} {}", sized(bytes)),
    });
    lines.join("\n")
}

/// A number of bytes for people.
fn sized(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}
