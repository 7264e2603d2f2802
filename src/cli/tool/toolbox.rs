//! The options that all `tool` commands share, and how they choose a version.

use std::path::Path;

use super::command_output::CommandFailure;
use crate::run::{tool_options, version_wish};
use crate::settings::ToolSettings;
use crate::tool::{
    Reach, ToolError, ToolOptions, VersionSources, choose_for_module, choose_wanted,
};
use butler_base::http::LazyClient;
use butler_protocol::spec::{Product, RequestedVersion, ToolRequest};

/// The settings and options of a `tool` command.
pub(super) struct Toolbox {
    /// `--product`.
    pub(super) named: Option<Product>,
    pub(super) settings: ToolSettings,
    pub(super) options: ToolOptions,
}

impl Toolbox {
    /// The product of a version without a product name.
    pub(super) fn product(&self) -> Product {
        self.named.unwrap_or(Product::Terraform)
    }

    /// The products of a command without a version.
    pub(super) fn products(&self) -> Vec<Product> {
        self.named.map_or_else(|| Product::ALL.to_vec(), |product| vec![product])
    }

    /// Parses an exact version, with or without a product name.
    pub(super) fn request(&self, text: &str) -> Result<ToolRequest, CommandFailure> {
        self.wanted(text)?.exact().map_err(|error| CommandFailure::misuse(&error))
    }

    pub(super) fn wanted(&self, text: &str) -> Result<RequestedVersion, CommandFailure> {
        RequestedVersion::of_argument(text, self.named)
            .map_err(|error| CommandFailure::misuse(&error))
    }

    /// The version that `text` requests: an exact version as it is, even if it does not exist, or the
    /// newest matching version within `reach`.
    pub(super) async fn choose(
        &self,
        text: &str,
        reach: Reach,
    ) -> Result<ToolRequest, CommandFailure> {
        Ok(choose_wanted(&self.wanted(text)?, reach, &self.options).await?)
    }

    /// The version that the files of `directory` request.
    pub(super) async fn choose_for(
        &self,
        directory: &Path,
        reach: Reach,
    ) -> Result<ToolRequest, CommandFailure> {
        let chosen =
            choose_for_module(&self.version_sources(directory)?, reach, &self.options).await?;
        Ok(chosen.ok_or_else(|| self.no_version_requested(directory))?)
    }

    /// The sources from which a run in `directory` would choose its version.
    pub(super) fn version_sources(
        &self,
        directory: &Path,
    ) -> Result<VersionSources, CommandFailure> {
        Ok(VersionSources { product: self.named, ..version_wish(directory, &self.settings)? })
    }

    pub(super) fn no_version_requested(&self, directory: &Path) -> ToolError {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        ToolError::NoVersionRequested { directory, product: self.named }
    }
}

pub(super) fn toolbox(named: Option<Product>, settings: ToolSettings) -> Toolbox {
    let http = LazyClient::new(settings.ca_bundle.clone());
    let options = tool_options(&settings, http, "butler-runner tool".to_owned());
    Toolbox { named, settings, options }
}
