//! The hints of errors: what the user of a run, or of a mirror, can change.

use super::failure::{FetchError, SourceError};
use butler_base::error::{Advice, FailureClass, chain};

impl Advice for SourceError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Fetch { source, .. } | Self::Unusable(source) => source.advice(),
            Self::Process { source, .. } => source.advice(),
            Self::File { .. } | Self::Share(_) => {
                Some("check that --work-dir is writable and has room".to_owned())
            }
            Self::Mirror { source, memory_limit, .. } => source.advice_for_mirror(*memory_limit),
            Self::Crashed { memory_limit: Some(limit), .. } => {
                Some(format!("if it had too little memory, {}", raise_memory(*limit)))
            }
            Self::Crashed { memory_limit: None, .. } => Some(
                "if it was killed, look at the memory limit of the container or machine, and at the room on the disk of --work-dir"
                    .to_owned(),
            ),
            Self::Stopped { .. } => None,
        }
    }

    fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Fetch { source, .. } | Self::Mirror { source, .. } | Self::Unusable(source) => {
                source.class()
            }
            Self::Process { .. } | Self::Crashed { .. } | Self::File { .. } | Self::Share(_) => {
                Some(FailureClass::Platform)
            }
            Self::Stopped { .. } => None,
        }
    }
}

/// How the process of a mirror gets more memory.
fn raise_memory(limit: u64) -> String {
    let mebibytes = limit / (1024 * 1024);
    format!("raise --mirror-memory (BUTLER_MIRROR_MEMORY), which is {mebibytes} MiB")
}

impl FetchError {
    /// The error of a mirror with its causes and with advice, in one line.
    pub(super) fn in_a_sentence(&self, memory_limit: u64) -> String {
        let text = chain(self);
        let advice = self.advice_for_mirror(memory_limit);
        advice.map_or_else(|| text.clone(), |advice| format!("{text}; {advice}"))
    }

    /// The advice for the mirror of a repository, whose configuration has other names than that of a
    /// run.
    fn advice_for_mirror(&self, memory_limit: u64) -> Option<String> {
        let advice = match self {
            Self::OutOfMemory { .. } => return Some(raise_memory(memory_limit)),
            Self::Submodule { source, .. } => {
                let advice = source.advice_for_mirror(memory_limit);
                return Some(with_advice(advice, "`submodules: needed` stops only what reads it"));
            }
            Self::CredentialsMissing { scheme, .. } if scheme == "ssh" => {
                "set `ssh-key-file` in the credentials of the repository"
            }
            Self::CredentialsMissing { .. } => "set the credentials of the repository",
            Self::HostKeyUnknown { .. } => {
                "compare the fingerprint with what the server's operator publishes, then add the key to the file `known-hosts` of the repository's credentials"
            }
            Self::ReferenceNotFound { .. } => {
                "check that the commit was pushed; it must be reachable from a branch or a tag"
            }
            _ => return self.advice(),
        };
        Some(advice.to_owned())
    }
}

/// Both advices, one after the other.
fn with_advice(first: Option<String>, second: &str) -> String {
    first.map_or_else(|| second.to_owned(), |first| format!("{first}; {second}"))
}

impl Advice for FetchError {
    fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::UnusableUrl { .. } => {
                "give a https, http, ssh or file URL, or user@host:path, without a query; the branch or tag goes into gitRef, the directory into workingDirectory"
            }
            Self::UnusableReference { .. } => "set gitRef to a branch, a tag or a commit id",
            Self::AppTokenMissing => {
                "let the CI system put the installation's token into GITHUB_TOKEN or BUTLER_GIT_TOKEN"
            }
            Self::Connect { .. } => "check the host name, the network and HTTPS_PROXY/NO_PROXY",
            Self::ServerFailed { .. } => {
                "retry later; if it stays, look at the status page of the host"
            }
            Self::Refused { .. } => {
                "check what the host allows: the permissions of the key or token, and rules of the organization such as SSO or a list of addresses"
            }
            Self::Certificate { .. } => "give the certificate of a private CA with --ca-bundle",
            Self::Timeout { .. } => "check the server, and the proxies and firewalls on the way",
            Self::CredentialsMissing { scheme, .. } if scheme == "ssh" => {
                "give an ssh key in source.credentials, an agent in SSH_AUTH_SOCK or a key in ~/.ssh"
            }
            Self::CredentialsMissing { .. } => {
                "give a token in source.credentials, or BUTLER_GIT_TOKEN with BUTLER_GIT_HOST naming this host"
            }
            Self::CredentialsRefused { .. } => {
                "check that the credentials are valid, not expired and may read this repository"
            }
            Self::UnusableKey { .. } => {
                "give a private key in PEM or OpenSSH format, with its passphrase if it has one"
            }
            Self::RepositoryNotFound { .. } => {
                "check the address; many servers say this too when the login may not see the repository"
            }
            Self::NotSmart { .. } => {
                "check the address; a server with the files of a repository needs git-http-backend"
            }
            Self::Incomplete { .. } => {
                "retry; if it fails again, check the network, the proxies, and the free space on the disk"
            }
            Self::Redirected { .. } => "give the address that the server redirects to",
            Self::ReferenceNotFound { .. } => {
                "check gitRef; a commit must be reachable from a branch or a tag"
            }
            Self::AmbiguousCommit { .. } => "give the full commit id",
            Self::NotACommit { .. } => "give a branch, a commit or a tag of a commit",
            Self::HostKeyUnknown { .. } => {
                "compare the fingerprint with what the server's operator publishes, then add the key to known_hosts in source.credentials or to ~/.ssh/known_hosts"
            }
            Self::HostKeyMismatch { .. } => {
                "this may be an attack: replace the known key only when the server's operator confirms the new fingerprint"
            }
            Self::HostKeyRevoked { .. } => {
                "ask the server's operator for its new key, and add that one"
            }
            Self::Submodule { source, .. } => {
                let without = "a module that works without it can run with --submodules none (BUTLER_SUBMODULES)";
                return Some(with_advice(source.advice(), without));
            }
            Self::ForbiddenSubmodule { .. } => "correct .gitmodules in the repository",
            Self::WorkingDirectory { .. } => {
                "set workingDirectory to a directory of the repository, relative to its root"
            }
            Self::LfsPointers { .. } => {
                "Git LFS is not supported: keep these files in git itself, or fetch them in the module from where they are released"
            }
            Self::Git { reason, .. } if reason.contains("not owned by current user") => {
                "add the repository to safe.directory in the git configuration"
            }
            Self::Encoding { .. } => {
                "keep the file in UTF-8: remove `working-tree-encoding` from its line in .gitattributes"
            }
            Self::ObjectFormat { .. } => {
                "push the branches to a repository with SHA-1 object ids (git init --object-format=sha1), and name that one"
            }
            Self::OutOfMemory { .. } => "look at the memory limit of the container or machine",
            Self::Git { .. } => return None,
        };
        Some(advice.to_owned())
    }

    fn class(&self) -> Option<FailureClass> {
        Some(match self {
            // Of what libgit2 reports without a kind, most is a connection that breaks.
            Self::Connect { .. }
            | Self::Incomplete { .. }
            | Self::ServerFailed { .. }
            | Self::Timeout { .. }
            | Self::Git { .. } => FailureClass::Network,
            Self::AppTokenMissing
            | Self::Refused { .. }
            | Self::CredentialsMissing { .. }
            | Self::CredentialsRefused { .. }
            | Self::UnusableKey { .. } => FailureClass::Credentials,
            Self::OutOfMemory { .. } => FailureClass::Platform,
            Self::Encoding { .. } => FailureClass::Module,
            Self::Submodule { source, .. } => return source.class(),
            _ => FailureClass::Configuration,
        })
    }
}
