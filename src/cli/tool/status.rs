//! `tool status`: the current version of a product, operations in progress, and the history.

use clap::Args;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::cli::columns::columns;
use crate::tool::{
    HistoryEntry, InProgress, InstalledVersion, OperationOutcome, ToolOperation, ToolStatus,
    VersionUser, status,
};

/// How many entries of the history the text shows; JSON has all of them.
const SHOWN_ENTRIES: usize = 5;

/// Print the current version and its status, other installed versions, and the history
#[derive(Args)]
pub(super) struct Show;

impl Show {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        let status = status(tools.product(), &tools.options).await?;
        let text = text(&status);
        CommandOutput::new(&status, text)
    }
}

fn text(status: &ToolStatus) -> String {
    let title = match &status.current_version {
        Some(version) => format!("{} {version}: {}", status.product, status.state),
        None if status.installed.is_empty() => format!("{}: {}", status.product, status.state),
        None => format!("{}: {}, no default version", status.product, status.state),
    };
    let mut facts: Vec<(&str, String)> = Vec::new();
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact("path", status.binary_path.clone());
    fact("installed", status.installed_at.clone());
    fact("from", status.source.as_ref().map(|source| source.url.clone()));
    fact("checksum", status.source.as_ref().map(|source| source.checksum.clone()));
    fact("signed by", status.signed_by.as_ref().map(ToString::to_string));
    let unsigned = status.trust.filter(|_| status.signed_by.is_none());
    fact("trusted by", unsigned.map(|trust| trust.to_string()));
    for user in &status.users {
        fact("in use by", Some(describe_user(user)));
    }
    fact("under way", status.queue.in_progress.as_ref().map(describe_operation));
    fact("waiting", Some(status.queue.pending).filter(|it| *it > 0).map(|it| it.to_string()));
    let facts: Vec<_> =
        facts.into_iter().map(|(name, value)| vec![format!("  {name}"), value]).collect();
    let installed: Vec<_> = status.installed.iter().map(version_row).collect();
    let history: Vec<_> = status.history.iter().take(SHOWN_ENTRIES).map(history_row).collect();
    let mut parts = vec![title];
    if !facts.is_empty() {
        parts.push(columns(&facts));
    }
    for (heading, rows) in [("versions:", installed), ("history:", history)] {
        if !rows.is_empty() {
            parts.push(format!("{heading}\n{}", columns(&rows)));
        }
    }
    parts.join("\n")
}

fn describe_user(user: &VersionUser) -> String {
    format!("{} (pid {}, since {})", user.owner, user.pid, user.since)
}

fn describe_operation(running: &InProgress) -> String {
    let InProgress { version, operation, pid, owner, since, drains_until } = running;
    let left = drains_until.as_ref().map(|until| format!(", left to its users until {until}"));
    let left = left.unwrap_or_default();
    format!(
        "{} of {version} by {owner} (pid {pid}, since {since}{left})",
        operation_name(*operation)
    )
}

fn version_row(version: &InstalledVersion) -> Vec<String> {
    vec![
        format!("  {}", version.version),
        version.state.to_string(),
        if version.default { "default" } else { "" }.to_owned(),
        version.problem.clone().unwrap_or_default(),
    ]
}

fn history_row(entry: &HistoryEntry) -> Vec<String> {
    let outcome = match (entry.state, &entry.error) {
        (OperationOutcome::Succeeded, _) => "succeeded".to_owned(),
        (OperationOutcome::Failed, None) => "failed".to_owned(),
        (OperationOutcome::Failed, Some(error)) => format!("failed: {error}"),
    };
    let operation = operation_name(entry.operation).to_owned();
    vec![format!("  {}", entry.completed_at), operation, entry.version.to_string(), outcome]
}

const fn operation_name(operation: ToolOperation) -> &'static str {
    match operation {
        ToolOperation::Install => "install",
        ToolOperation::Uninstall => "uninstall",
    }
}
