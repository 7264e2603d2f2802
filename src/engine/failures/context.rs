//! The cause of an error of the tool itself that no rule knows, from what the tool was doing.

use super::cause::FailureCause::{
    self, BackendSettings, Locked, SourceMissing, Unknown, Unreachable, Workspace,
};
use super::locking::implies_held_lock;
use super::phrases::says_any;

/// Words of errors about the name of a workspace.
const WORKSPACES: [&str; 15] = [
    "cannot delete default state",
    "currently selected workspace",
    "default workspace not supported",
    "failed to find workspace",
    "failed to select workspace",
    "invalid workspace name",
    "invalid workspace selection",
    "is your active workspace",
    "no existing workspaces",
    "the workspace name",
    "workspace \"*\" already exists",
    "workspace \"*\" does not exist",
    "workspace \"*\" doesn't exist",
    "workspace \"*\" is not empty",
    "workspace is currently overridden",
];

/// Words of errors about the state, whose unknown ones are about the settings of the backend.
const OF_STATES: [&str; 26] = [
    "acquiring the state lock",
    "decoding state file",
    "error configuring the backend",
    "error copying state",
    "error initializing new backend",
    "error inspecting states",
    "error loading backend",
    "error loading state",
    "error loading the remote state",
    "error loading workspace",
    "error locking",
    "error looking up workspace",
    "error reading state",
    "error refreshing state",
    "error retrieving workspace",
    "error saving state",
    "failed to get configured named states",
    "failed to get existing workspaces",
    "failed to get state",
    "failed to load state",
    "failed to open state file",
    "failed to read state",
    "failed to save state",
    "failed to unlock state",
    "failed to upload state",
    "failed to write state",
];

/// Words of errors about providers and modules that the tool downloads.
const OF_SOURCES: [&str; 9] = [
    "could not download module",
    "could not retrieve providers for locking",
    "error accessing remote module registry",
    "error downloading modules",
    "failed to download module",
    "failed to install provider",
    "failed to query available provider packages",
    "failed to resolve provider packages",
    "failed to retrieve available versions",
];

/// Words of a time that was too short. The tool's own requests end in time if the server can be reached; those
/// of a provider can also wait for a resource.
const TIMES: [&str; 3] = ["deadline exceeded", "timed out", "timeout"];

/// Words of a source that does not exist.
const ABSENT: [&str; 3] = ["does not exist", "no such file or directory", "not found"];

/// The cause of an error with this text, the same text without spaces, and the HTTP status of a server.
/// `subject` is the block that the error is in.
pub(super) fn cause_in_context(
    text: &str,
    dense: &str,
    status: Option<u16>,
    subject: &str,
) -> FailureCause {
    let is_of_state = subject == "terraform" || says_any(dense, &OF_STATES);
    let is_of_source = says_any(dense, &OF_SOURCES);
    if implies_held_lock(text, status) {
        Locked
    } else if says_any(dense, &WORKSPACES) {
        Workspace
    } else if (is_of_state || is_of_source) && says_any(dense, &TIMES) {
        Unreachable
    } else if is_of_state {
        BackendSettings
    } else if is_of_source && (says_any(dense, &ABSENT) || status == Some(404)) {
        SourceMissing
    } else {
        Unknown
    }
}
