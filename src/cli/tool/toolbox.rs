//! The options that all `tool` commands share, and how they choose a version.

use std::path::Path;

use super::answer::Failure;
use crate::run::{tool_options, version_wish};
use crate::settings::ToolSettings;
use crate::tool::{Reach, ToolError, ToolOptions, VersionWish, choose_for_module, choose_wanted};
use butler_base::http::LazyClient;
use butler_protocol::spec::{Product, RequestedVersion, ToolRequest};

/// The settings and options of a `tool` command.
pub(super) struct Toolbox {
    /// The product that all is about, if the command line says so.
    pub(super) named: Option<Product>,
    pub(super) settings: ToolSettings,
    pub(super) options: ToolOptions,
}

impl Toolbox {
    /// The product where a version names none.
    pub(super) fn product(&self) -> Product {
        self.named.unwrap_or(Product::Terraform)
    }

    /// The products that are meant where no version is named.
    pub(super) fn products(&self) -> Vec<Product> {
        self.named.map_or_else(|| Product::ALL.to_vec(), |product| vec![product])
    }

    /// Reads an exact version: of the product that it names, else of the one that is meant.
    pub(super) fn request(&self, text: &str) -> Result<ToolRequest, Failure> {
        self.wanted(text)?.exact().map_err(|error| Failure::misuse(&error))
    }

    pub(super) fn wanted(&self, text: &str) -> Result<RequestedVersion, Failure> {
        RequestedVersion::of_argument(text, self.named).map_err(|error| Failure::misuse(&error))
    }

    /// The version that `text` asks for: an exact one whether or not there is one, else the newest
    /// that fits as far as `reach` goes.
    pub(super) async fn choose(&self, text: &str, reach: Reach) -> Result<ToolRequest, Failure> {
        Ok(choose_wanted(&self.wanted(text)?, reach, &self.options).await?)
    }

    /// The version that `directory` asks for.
    pub(super) async fn choose_for(
        &self,
        directory: &Path,
        reach: Reach,
    ) -> Result<ToolRequest, Failure> {
        let chosen = choose_for_module(&self.wish_of(directory)?, reach, &self.options).await?;
        Ok(chosen.ok_or_else(|| self.nothing_says(directory))?)
    }

    /// What a run in `directory` knows of its version.
    pub(super) fn wish_of(&self, directory: &Path) -> Result<VersionWish, Failure> {
        Ok(VersionWish { product: self.named, ..version_wish(directory, &self.settings)? })
    }

    pub(super) fn nothing_says(&self, directory: &Path) -> ToolError {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        ToolError::NothingSays { directory, product: self.named }
    }
}

pub(super) fn toolbox(named: Option<Product>, settings: ToolSettings) -> Toolbox {
    let http = LazyClient::new(settings.ca_bundle.clone());
    let options = tool_options(&settings, http, "butler-runner tool".to_owned());
    Toolbox { named, settings, options }
}
