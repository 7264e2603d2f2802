//! `tool install`: makes a version ready and says where it is.

use clap::Args;
use serde::Serialize;

use super::{Answer, Failure, Toolbox};
use crate::tool::{Origin, ready};

/// Download and verify a version, unless it is in the cache, and print its path
#[derive(Args)]
pub(super) struct Install {
    /// The exact version: 1.9.0, opentofu-1.8.3 or terragrunt-1.0.0
    version: String,
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
        let tool = ready(&request, &tools.options, &|step| tracing::info!("{step}")).await?;
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
