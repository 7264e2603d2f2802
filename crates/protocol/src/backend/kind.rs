//! The properties of a state backend.

use super::known_settings::KnownSettings;

/// A type of state backend and its properties.
#[derive(Debug)]
pub struct BackendKind {
    /// Terraform's name of the type.
    pub name: &'static str,
    /// Where the state is.
    pub state: StateLocation,
    /// When a state lock ends if the tool is killed.
    pub lock: LockLifetime,
    /// Whether the tool may send the files of the module to the server, which then plans and applies.
    pub sends_module: bool,
    /// Settings that are nested blocks. Terraform refuses an attribute of that name.
    pub blocks: &'static [&'static str],
    /// How settings have to be translated for the version of the tool.
    pub translation: SettingsTranslation,
    /// Settings, and members of settings, that are not secrets. In alphabetical order.
    pub public_settings: &'static [&'static str],
    /// The parts of the [`StateKey`](super::StateKey), beginning with a label of the store.
    pub(super) identity: Identity,
}

/// What names the state of a workspace; `None` as the workspace is the default one, and `None` as the result
/// means that a setting is missing, not known yet, or not allowed.
pub(super) type Identity = fn(&KnownSettings, Option<&str>) -> Option<Vec<String>>;

/// Where a backend keeps the state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StateLocation {
    /// In a file on the machine that runs the tool.
    LocalFile,
    /// On a server.
    Remote,
}

/// When the lock of a tool ends that is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockLifetime {
    /// With the process: it is a lock of the kernel or of a connection.
    Process,
    /// When a user or the runner removes it.
    UntilRemoved,
}

/// How the settings of a backend depend on the version of the tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SettingsTranslation {
    /// All versions have the same names.
    Unchanged,
    /// Versions from 1.6 group endpoints and roles, and stores that are not AWS need further settings.
    S3,
}
