//! `tool verify`: compares the checksums of all installed executables with the verified ones.

use clap::Args;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::cli::columns::columns;
use crate::cli::complete::versions;
use crate::exit::Exit;
use crate::tool::{AuditResult, AuditedVersion, audit};

/// Check that every installed version is unchanged since it was installed
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Verify {
    /// Only this version: 1.9.0 or opentofu-1.8.3; by default all versions, of all products or of --product
    #[arg(add = versions())]
    version: Option<String>,
}

/// The exit codes in `--help`.
const EXIT_CODES: &str =
    "Exit codes: 0 all versions are unchanged, 1 a version was changed, 2 usage";

impl Verify {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        let wanted = self.version.map(|version| tools.request(&version)).transpose()?;
        let products = wanted.as_ref().map_or_else(|| tools.products(), |it| vec![it.product]);
        let mut versions = Vec::new();
        for product in products {
            versions.extend(audit(product, &tools.options).await?);
        }
        if let Some(wanted) = wanted {
            versions.retain(|it| it.version == wanted.version);
            if versions.is_empty() {
                return Err(CommandFailure {
                    exit: Exit::Failed,
                    message: format!("{wanted} is not installed"),
                    advice: Some(format!(
                        "`butler-runner tool install {}` installs it",
                        wanted.product.spelled(&wanted.version.to_string())
                    )),
                });
            }
        }
        let rows: Vec<_> = versions.iter().map(row).collect();
        let text = if rows.is_empty() { "nothing is installed".to_owned() } else { columns(&rows) };
        let answer = CommandOutput::new(&versions, text)?;
        let bad: Vec<_> = versions.iter().filter(|it| it.state.is_bad()).collect();
        if bad.is_empty() {
            return Ok(answer);
        }
        let replaceable = bad.iter().find(|it| it.state != AuditResult::Unreadable);
        let advice = match replaceable {
            Some(AuditedVersion { product, version, .. }) => {
                format!("`butler-runner tool install {product}-{version}` replaces it")
            }
            None => "give this user the right to read it, or remove it".to_owned(),
        };
        let message = format!("{} of {} cannot be trusted", bad.len(), count(versions.len()));
        Ok(answer.failed(message, format!("nothing was removed; {advice}")))
    }
}

fn count(versions: usize) -> String {
    if versions == 1 { "1 version".to_owned() } else { format!("{versions} versions") }
}

fn row(version: &AuditedVersion) -> Vec<String> {
    let signer = match (&version.signed_by, version.state) {
        (Some(signer), _) => format!("signed by {signer}"),
        (None, AuditResult::NoRecord) => String::new(),
        (None, _) => "checksum only".to_owned(),
    };
    vec![
        version.product.to_owned(),
        version.version.to_string(),
        version.state.to_string(),
        version.problem.clone().unwrap_or(signer),
    ]
}
