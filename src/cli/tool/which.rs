//! `tool which`: says where an installed version is, and asks nobody.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Answer, Failure, Toolbox};
use crate::spec::ToolRequest;
use crate::tool::{Reach, ToolError, default_version, installed};

/// Print the path of an installed version, after checking that it is the one that was verified
#[derive(Args)]
pub(super) struct Which {
    /// The version, or a constraint, of which the newest installed one is meant; without it, the
    /// default that `use` set
    version: Option<String>,
    /// The version that a run in this directory would use
    #[arg(long, value_name = "DIR", conflicts_with = "version")]
    from: Option<PathBuf>,
}

/// What is installed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    product: &'static str,
    version: String,
    path: String,
    /// Whether it is the version that is used when nothing else decides.
    default: bool,
}

impl Which {
    pub(super) async fn run(self, tools: &Toolbox) -> Result<Answer, Failure> {
        let request = match (&self.version, self.from) {
            (Some(version), _) => tools.choose(version, Reach::Installed).await?,
            (None, Some(directory)) => tools.choose_for(&directory, Reach::Installed).await?,
            (None, None) => default(tools)?,
        };
        let path = installed(&request, &tools.options).await?.display().to_string();
        let default = default_version(request.product, &tools.options)?;
        Answer::new(
            &Found {
                product: request.product.name(),
                version: request.version.to_string(),
                path: path.clone(),
                default: default.as_ref() == Some(&request.version),
            },
            path,
        )
    }
}

fn default(tools: &Toolbox) -> Result<ToolRequest, Failure> {
    let product = tools.product;
    let version = default_version(product, &tools.options)?;
    Ok(ToolRequest { product, version: version.ok_or(ToolError::NoDefault { product })? })
}
