//! Compares an installed version with the checksum that the user gave.

use crate::tool::digest::Sha256Sum;
use crate::tool::error::ToolError;
use crate::tool::installed_tool::InstalledTool;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::RECORD;
use crate::tool::store::record::{self, Record};

/// Checks that an installed version came from the archive with the checksum that the user gave, if the
/// user gave one. A version that is not installed again is not checked elsewhere.
///
/// # Errors
/// When it came from another archive.
pub fn check_required_checksum(
    tool: &InstalledTool,
    options: &ToolOptions,
) -> Result<(), ToolError> {
    let Some(given) = options.sites.checksum() else { return Ok(()) };
    let record = tool.path.parent().and_then(|place| record::read::<Record>(&place.join(RECORD)));
    let installed: Option<Sha256Sum> = record.map(|record| record.archive_sha256);
    match installed {
        Some(installed) if installed != given => {
            Err(ToolError::OtherArchive { request: tool.request.clone(), installed, given })
        }
        _ => Ok(()),
    }
}
