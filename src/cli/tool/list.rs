//! `tool list`: the installed versions, or the released ones.

use clap::Args;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::cli::columns::{columns, size};
use crate::tool::{InstalledVersion, ReleasedVersion, VersionState, available, inventory};

/// Print the installed versions of all products, or of --product
#[derive(Args)]
pub(super) struct List {
    /// Print the versions that the release site or mirror lists instead; of terraform, or of
    /// --product
    #[arg(long)]
    available: bool,
    /// With --available: include prereleases, such as 1.15.0-rc1
    #[arg(long, requires = "available")]
    prereleases: bool,
}

impl List {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        if self.available {
            let mut versions = available(tools.product(), &tools.options).await?;
            versions.retain(|it| self.prereleases || !it.prerelease || it.installed);
            return CommandOutput::new(
                &versions,
                columns(&versions.iter().map(released_row).collect::<Vec<_>>()),
            );
        }
        let mut versions = Vec::new();
        for product in tools.products() {
            versions.extend(inventory(product, &tools.options).await?);
        }
        let rows: Vec<_> = versions.iter().map(installed_row).collect();
        let text = if rows.is_empty() { "nothing is installed".to_owned() } else { columns(&rows) };
        CommandOutput::new(&versions, text)
    }
}

fn released_row(version: &ReleasedVersion) -> Vec<String> {
    let mark = if version.installed { "installed" } else { "" };
    vec![version.version.to_string(), mark.to_owned()]
}

fn installed_row(version: &InstalledVersion) -> Vec<String> {
    let state = match version.state {
        VersionState::Ready => String::new(),
        state => state.to_string(),
    };
    let signer = match &version.signed_by {
        None => version.trust.to_string(),
        Some(signer) => {
            format!("signed by {}", signer.name.as_deref().unwrap_or("a key of your own"))
        }
    };
    let usage = match (version.users.len(), &version.last_used_at) {
        (0, None) => String::new(),
        (0, Some(time)) => format!("last used {}", day(time)),
        (users, _) => format!("in use by {users}"),
    };
    vec![
        version.product.to_owned(),
        version.version.to_string(),
        if version.default { "default" } else { "" }.to_owned(),
        state,
        size(version.size),
        format!("installed {}", day(&version.installed_at)),
        signer,
        usage,
        version.problem.clone().unwrap_or_default(),
    ]
}

/// The day of an RFC 3339 time.
fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}
