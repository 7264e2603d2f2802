//! Asks the Terraform on PATH for its version while the run is still being fetched.
//!
//! A machine that no run was on before does not know the version, and Terraform takes as long to
//! answer as for a whole `init`. So it is started first of all, and its answer is waited for when
//! it is needed.

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::settings::{RunSource, Settings};
use crate::tool::{self, ToolOptions};
use butler_base::http::LazyClient;
use butler_protocol::spec::Product;

use super::tool_options::tool_options;

/// A question that was asked; whoever drops it no longer wants to know.
pub(in crate::run) struct EarlyQuestion(Mutex<Option<JoinHandle<()>>>);

impl EarlyQuestion {
    /// Asks for the version of what a run with these settings most likely takes from PATH.
    pub(in crate::run) fn ask(settings: &Settings) -> Self {
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
        let asking = tokio::spawn(async move { tool::learn(&products, &options).await });
        Self(Mutex::new(Some(asking)))
    }

    /// Waits until the answer is known to [`tool::ready`] and [`tool::choose`].
    pub(in crate::run) async fn answered(&self) {
        let mut asking = self.0.lock().await;
        if let Some(task) = asking.as_mut() {
            // One that failed is asked again by who needs to know.
            let _ = task.await;
        }
        *asking = None;
    }
}

impl Drop for EarlyQuestion {
    fn drop(&mut self) {
        if let Some(asking) = self.0.get_mut().take() {
            asking.abort();
        }
    }
}
