//! `tool install`: makes a version ready and says where it is.

use clap::Args;
use serde::Serialize;

use super::source::Source;
use super::{Answer, Failure, Toolbox};
use crate::tool::{Origin, check_given, ready};

/// Download and verify a version, unless it is in the cache, and print its path
#[derive(Args)]
pub(super) struct Install {
    /// The exact version: 1.9.0 or opentofu-1.8.3
    version: String,
    #[command(flatten)]
    source: Source,
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
    pub(super) async fn run(self, mut tools: Toolbox) -> Result<Answer, Failure> {
        self.source.apply(&mut tools)?;
        let request = tools.request(&self.version)?;
        let tool = ready(&request, &tools.options, &|step| tracing::info!("{step}")).await?;
        check_given(&tool, &tools.options)?;
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
