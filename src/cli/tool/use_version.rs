//! `tool use`: sets the default version.

use clap::Args;
use semver::Version;
use serde::Serialize;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::cli::complete::versions;
use crate::tool::{Reach, installed, use_version};

/// Set the default version, which is used if neither a run nor a module requests one
#[derive(Args)]
pub(super) struct Use {
    /// The version; or a constraint or latest, which select the newest matching installed version
    #[arg(add = versions())]
    version: String,
}

/// The new default.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewDefault {
    product: &'static str,
    version: String,
    path: String,
    /// The previous default.
    previous: Option<Version>,
}

impl Use {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<CommandOutput, CommandFailure> {
        let request = tools.choose(&self.version, Reach::Installed).await?;
        let previous = use_version(&request, &tools.options).await?;
        CommandOutput::new(
            &NewDefault {
                product: request.product.name(),
                version: request.version.to_string(),
                path: installed(&request, &tools.options).await?.display().to_string(),
                previous,
            },
            format!("{request} is the default"),
        )
    }
}
