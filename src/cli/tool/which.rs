//! `tool which`: prints the path of an installed version, without network access.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::command_output::{CommandFailure, CommandOutput};
use super::toolbox::Toolbox;
use crate::cli::complete::versions;
use crate::settings::{Environment, variable};
use crate::tool::{
    Origin, Reach, RunLocation, ToolError, ToolOptions, choose, default_version, installed,
    startable,
};
use butler_protocol::spec::ToolRequest;

/// Verify an installed version and print its path
#[derive(Args)]
pub(super) struct Which {
    /// The version; or a constraint, which selects the newest matching installed version; by default the
    /// version that `use` set
    #[arg(add = versions())]
    version: Option<String>,
    /// Print the version that a run in this directory would use, if it is installed; PATH and
    /// `BUTLER_DEFAULT_TOOL_VERSION` are considered as in a run
    #[arg(long, value_name = "DIR", conflicts_with = "version")]
    from: Option<PathBuf>,
}

/// An installed version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    product: &'static str,
    version: String,
    path: String,
    /// Whether it is the default version.
    default: bool,
    /// `cache` or `path`.
    origin: &'static str,
}

impl Which {
    pub(super) async fn run(
        self,
        tools: &Toolbox,
        environment: &Environment,
    ) -> Result<CommandOutput, CommandFailure> {
        let request = match (&self.version, self.from) {
            (Some(version), _) => tools.choose(version, Reach::Installed).await?,
            (None, Some(directory)) => return find_for_run(tools, &directory, environment).await,
            (None, None) => default_request(tools)?,
        };
        let path = installed(&request, &tools.options).await?;
        output(tools, &request, &path, Origin::Cache)
    }
}

/// The executable that a run in `directory` would start.
async fn find_for_run(
    tools: &Toolbox,
    directory: &Path,
    environment: &Environment,
) -> Result<CommandOutput, CommandFailure> {
    let search_path = environment.value(variable::PATH.name).map(ToOwned::to_owned);
    let options = ToolOptions { search_path, ..tools.options.clone() };
    let sources = tools.version_sources(directory)?;
    let request = match choose(&sources, Reach::Installed, &options).await {
        Err(ToolError::NoVersion) => return Err(tools.no_version_requested(directory).into()),
        other => other?,
    };
    let environment = &environment.of_children();
    let tool = startable(&request, RunLocation { directory, environment }, &options).await?;
    output(tools, &request, &tool.path, tool.origin)
}

fn output(
    tools: &Toolbox,
    request: &ToolRequest,
    path: &Path,
    origin: Origin,
) -> Result<CommandOutput, CommandFailure> {
    let default = default_version(request.product, &tools.options)?;
    let path = path.display().to_string();
    let found = Found {
        product: request.product.name(),
        version: request.version.to_string(),
        path: path.clone(),
        default: default.as_ref() == Some(&request.version),
        origin: if origin == Origin::Cache { "cache" } else { "path" },
    };
    CommandOutput::new(&found, path)
}

fn default_request(tools: &Toolbox) -> Result<ToolRequest, CommandFailure> {
    let product = tools.product();
    let version = default_version(product, &tools.options)?;
    Ok(ToolRequest { product, version: version.ok_or(ToolError::NoDefault { product })? })
}
