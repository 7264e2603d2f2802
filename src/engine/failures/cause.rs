//! The causes of a failed command, each with its class and its hint.

use butler_base::error::FailureClass;

/// What a command of the tool failed of.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum FailureCause {
    /// No rule knows the error: the tool, a provider or the module reported it.
    #[default]
    Unknown,
    /// A program that the module runs, or a condition of the module, has failed.
    ModuleCheck,
    /// The module's files have an error that is independent of any server.
    Syntax,
    /// A variable has no value, or one that the module does not accept.
    Variable,
    /// The tool's version is not the one that module or state need.
    ToolVersion,
    /// A package has another checksum or signature than expected.
    Checksum,
    /// No version of a provider or module satisfies all constraints.
    Constraint,
    /// The lock file of the module does not fit its requirements.
    LockFile,
    /// A source of a provider or module does not exist.
    SourceMissing,
    /// The settings of the backend are wrong, or what they name does not exist.
    BackendSettings,
    /// The server of the workspace plans, and the backend `remote` cannot save such a plan.
    RemotePlan,
    /// The encryption of state or plan is wrong, or a program of it is missing.
    Encryption,
    /// The key of the encryption is not the one with which state or plan were encrypted.
    EncryptionKey,
    /// The working directory was initialised for another backend.
    BackendChanged,
    /// The workspace does not exist, exists already, or has a name that is not allowed.
    Workspace,
    /// The key of an SSH host is not known.
    HostKey,
    /// Credentials are missing.
    CredentialsMissing,
    /// Credentials have expired.
    CredentialsExpired,
    /// Credentials are wrong or have too few permissions.
    CredentialsRefused,
    /// A registry, HCP Terraform or a similar service needs a token.
    ServiceToken,
    /// A repository of a module needs a login.
    GitLogin,
    /// The state is locked.
    Locked,
    /// A server limits the rate of requests.
    Throttled,
    /// A server cannot be reached.
    Unreachable,
    /// The certificate of a server is not trusted.
    Certificate,
    /// A server has failed.
    ServerFailed,
    /// A state is not stored completely yet.
    StateNotSettled,
    /// A disk is full.
    DiskFull,
    /// The disk of the directory for temporary files is full.
    TemporaryDiskFull,
    /// The machine has no memory left.
    OutOfMemory,
    /// The machine refuses a file or a process.
    Machine,
    /// The state has changed since the plan was made.
    StaleState,
    /// The saved plan belongs to another state.
    OtherState,
    /// A variable has another value than in the saved plan.
    PlannedVariable,
    /// The saved plan belongs to other files or another version of the tool.
    PlanFile,
    /// The tool has crashed.
    ToolCrash,
    /// A provider has crashed.
    ProviderCrash,
    /// A provider has ended without an error of its own: something has killed it, or it has exited.
    ProviderEnded,
}

impl FailureCause {
    /// The class, which decides whether the same thing can succeed later.
    pub(in crate::engine) const fn class(self) -> FailureClass {
        match self {
            Self::Unknown | Self::ModuleCheck | Self::ToolCrash | Self::ProviderCrash => {
                FailureClass::Module
            }
            Self::Syntax => FailureClass::Syntax,
            Self::Variable
            | Self::ToolVersion
            | Self::Checksum
            | Self::Constraint
            | Self::LockFile
            | Self::SourceMissing
            | Self::BackendSettings
            | Self::RemotePlan
            | Self::Encryption
            | Self::BackendChanged
            | Self::Workspace
            | Self::HostKey => FailureClass::Configuration,
            Self::CredentialsMissing
            | Self::CredentialsExpired
            | Self::CredentialsRefused
            | Self::EncryptionKey
            | Self::ServiceToken
            | Self::GitLogin => FailureClass::Credentials,
            Self::Locked => FailureClass::Lock,
            Self::Throttled
            | Self::Unreachable
            | Self::Certificate
            | Self::ServerFailed
            | Self::StateNotSettled => FailureClass::Network,
            Self::DiskFull
            | Self::TemporaryDiskFull
            | Self::OutOfMemory
            | Self::Machine
            | Self::ProviderEnded => FailureClass::Platform,
            Self::StaleState | Self::OtherState | Self::PlannedVariable | Self::PlanFile => {
                FailureClass::StalePlan
            }
        }
    }

    /// The hint for users; `product` is the executable to run. None if the error itself says what to do.
    pub(in crate::engine) fn advice(self, product: &str) -> Option<String> {
        let advice = match self {
            Self::Unknown | Self::ModuleCheck | Self::Syntax => return None,
            Self::Variable => "set the variable in the variables of the run, or in the module",
            Self::ToolVersion => {
                "choose a version that module and state accept, in the run, in `.terraform-version` or in `required_version`"
            }
            Self::Checksum => {
                return Some(format!(
                    "do not use the package if it may have been changed on its way; otherwise record its checksums with \
                     `{product} providers lock` for all platforms, and commit `.terraform.lock.hcl`"
                ));
            }
            Self::Constraint => {
                return Some(format!(
                    "correct the version constraints, or run `{product} init -upgrade` and commit `.terraform.lock.hcl`"
                ));
            }
            Self::LockFile => {
                return Some(format!(
                    "run `{product} init` in the module and commit `.terraform.lock.hcl`"
                ));
            }
            Self::SourceMissing => {
                "check the address in `source`; some servers say this too if the login has too few permissions"
            }
            Self::RemotePlan => {
                "use a `cloud` block instead of `backend \"remote\"` (Terraform from 1.6), or set the execution mode of \
                 the workspace to local"
            }
            Self::BackendSettings => {
                "check the settings of the backend, and that what they name exists"
            }
            Self::Encryption => {
                "check the `encryption` block of the module and TF_ENCRYPTION, and that the programs that they name are on the machine"
            }
            Self::EncryptionKey => {
                "give the run the key or passphrase with which state or plan were encrypted"
            }
            Self::BackendChanged => {
                "run `butler-runner tool exec -- init -migrate-state` in the module to move the state, or \
                 `butler-runner tool exec -- init -reconfigure` to use the new backend as it is"
            }
            Self::Workspace => {
                return Some(format!(
                    "check the name, or create it with `{product} workspace new`"
                ));
            }
            Self::HostKey => {
                "compare the fingerprint with what the operator of the server publishes, then add the key to ~/.ssh/known_hosts"
            }
            Self::CredentialsMissing => {
                "give the run the credentials that the backend or provider reads"
            }
            Self::CredentialsExpired => {
                "renew the credentials, or give the run credentials that live longer than the run"
            }
            Self::CredentialsRefused => "check the credentials and their permissions",
            Self::ServiceToken => {
                "set a token for this host: TF_TOKEN_ and the host's name, with `_` for each dot; if it has a port, `credentials` of the settings file"
            }
            Self::GitLogin => {
                "give git a login for the repository of the module: a credential helper, or an SSH key"
            }
            Self::Locked => "wait for the holder with --lock-timeout (BUTLER_LOCK_TIMEOUT)",
            Self::Throttled => "the server limits requests: retry later, or lower --parallelism",
            Self::Unreachable => "check the address, the network and HTTPS_PROXY/NO_PROXY",
            Self::Certificate => {
                "make the tool trust the certificate authority: name it with --ca-bundle, or with SSL_CERT_FILE instead of the system's certificates"
            }
            Self::ServerFailed => {
                "retry later; if it stays, look at the server's own log or status page"
            }
            Self::StateNotSettled => {
                "retry later: the store had not completed an earlier write; if it stays, compare the stored digest with the state"
            }
            Self::DiskFull => "free disk space, or give the job a larger volume",
            Self::TemporaryDiskFull => {
                "the directory for temporary files is full: free space there, or set TMPDIR to a directory with room"
            }
            Self::OutOfMemory => "give the job more memory",
            Self::Machine => "check the limits, permissions and file systems of the machine",
            Self::StaleState => {
                "something else has changed the state since the plan was made: make a new plan"
            }
            Self::OtherState => "the plan was made for another state: make a new plan",
            Self::PlannedVariable => {
                "make a new plan with the new value, or apply the plan with the value that it was made with"
            }
            Self::PlanFile => "make a new plan with the present files and version",
            Self::ToolCrash => {
                "this is a bug of the tool: use another version, and report the stack trace that is in the log"
            }
            Self::ProviderEnded => {
                "the provider has ended without an error of its own: something may have killed it, so check the memory and the limits of the machine"
            }
            Self::ProviderCrash => {
                "this is a bug of the provider: use another version, and report the stack trace that is in the log"
            }
        };
        Some(advice.to_owned())
    }
}
