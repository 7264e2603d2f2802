//! Queries the version of the Terraform on PATH while the run is still being fetched.
//!
//! On a machine without an earlier run the version is not known, and `terraform version` can take as long
//! as a whole `init`. So the query starts first, and a phase that needs the version waits for it.

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::settings::{RunSource, Settings};
use crate::tool::{self, ToolOptions};
use butler_base::http::LazyClient;
use butler_protocol::spec::Product;

use super::tool_options::tool_options;

/// A running query; it is aborted when this is dropped.
pub(in crate::run) struct EarlyVersionQuery(Mutex<Option<JoinHandle<()>>>);

impl EarlyVersionQuery {
    /// Starts a query of the tool that a run with these settings most likely uses from PATH.
    pub(in crate::run) fn start(settings: &Settings) -> Self {
        let named = match &settings.source {
            RunSource::Local { tool: Some(wanted), .. } => Some(wanted.product),
            _ => settings.tool.default_version.as_ref().map(|request| request.product),
        };
        let products = named.map_or(Product::ENGINES.to_vec(), |product| vec![product]);
        let http = LazyClient::new(settings.tool.ca_bundle.clone());
        let options = ToolOptions {
            search_path: settings.environment.get(std::ffi::OsStr::new("PATH")).cloned(),
            ..tool_options(&settings.tool, http, settings.owner())
        };
        let task = tokio::spawn(async move { tool::learn(&products, &options).await });
        Self(Mutex::new(Some(task)))
    }

    /// Waits until [`tool::ready`] and [`tool::choose`] can use the result.
    pub(in crate::run) async fn wait(&self) {
        let mut query = self.0.lock().await;
        if let Some(task) = query.as_mut() {
            // They repeat a query that failed.
            let _ = task.await;
        }
        *query = None;
    }
}

impl Drop for EarlyVersionQuery {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut().take() {
            task.abort();
        }
    }
}
