//! An executable of a tool that can be started, and its origin.

use std::path::PathBuf;
use std::sync::Arc;

use butler_protocol::spec::ToolRequest;

use crate::tool::store::usage::InUse;

/// The origin of an installed tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// On PATH, in exactly the wanted version.
    Path,
    /// On PATH, as a script or the shim of a version manager: it printed the wanted version, but
    /// may start another one in the directory of the run.
    Shim,
    /// In the cache, verified before and unchanged since.
    Cache,
    /// Downloaded and verified just now.
    Downloaded,
}

/// A tool that can be started.
#[derive(Clone, Debug)]
pub struct InstalledTool {
    /// The product and version.
    pub request: ToolRequest,
    /// The executable, as an absolute path.
    pub path: PathBuf,
    /// Its origin.
    pub origin: Origin,
    /// Keeps the version in the cache as long as this lives; `None` if it is not in the cache.
    pub in_use: Option<Arc<InUse>>,
}
