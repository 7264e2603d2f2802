//! `tool install`: makes a version ready and says where it is.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Answer, Failure, Toolbox};
use crate::tool::{Origin, Reach, adopt_default, ready};

/// Download and verify a version, unless it is in the cache, and print its path
#[derive(Args)]
pub(super) struct Install {
    /// The version: 1.9.8, opentofu-1.8.3, '~> 1.9', '>= 1.6, < 2' or latest; without it, what the
    /// version files or `required_version` of the current directory ask for
    version: Option<String>,
    /// What the version files or `required_version` of this directory ask for
    #[arg(long, value_name = "DIR", conflicts_with = "version")]
    from: Option<PathBuf>,
    /// The newest released version that fits, even where an older one is installed
    #[arg(long)]
    latest: bool,
}

/// What was made ready.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    product: &'static str,
    version: String,
    path: String,
    downloaded: bool,
    /// Whether it is the version that is used when nothing else decides.
    default: bool,
}

impl Install {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<Answer, Failure> {
        let reach = if self.latest { Reach::Released } else { Reach::InstalledFirst };
        let request = match (&self.version, self.from) {
            (Some(version), _) => tools.choose(version, reach).await?,
            (None, Some(directory)) => tools.choose_for(&directory, reach).await?,
            (None, None) => tools.choose_for(".".as_ref(), reach).await?,
        };
        let tool = ready(&request, &tools.options, &|step| tracing::info!("{step}")).await?;
        let path = tool.path.display().to_string();
        Answer::new(
            &Installed {
                product: request.product.name(),
                version: request.version.to_string(),
                path: path.clone(),
                downloaded: tool.origin == Origin::Downloaded,
                default: adopt_default(&request, &tools.options)?,
            },
            path,
        )
    }
}
