//! The part of the environment that the fetch of a source uses.

use std::ffi::OsStr;
use std::path::PathBuf;

use secrecy::SecretString;

use super::{Environment, variable};
use butler_source::git::{GitEnvironment, Submodules};

/// Tokens, the SSH agent, proxies and certificates. Earlier tokens win over later ones.
pub(super) fn git_environment(
    environment: &Environment,
    ca_bundle: Option<PathBuf>,
) -> GitEnvironment {
    let text = |name: &str| environment.value(name).and_then(OsStr::to_str).map(str::trim);
    GitEnvironment {
        tokens: [&variable::GIT_TOKEN, &variable::GITHUB_TOKEN, &variable::CI_JOB_TOKEN]
            .into_iter()
            .filter_map(|it| Some((it.name, SecretString::from(text(it.name)?))))
            .collect(),
        token_host: text(variable::GIT_HOST.name).map(str::to_owned),
        ssh_agent: environment.value(variable::SSH_AUTH_SOCK.name).map(OsStr::to_owned),
        home: environment.value(variable::HOME.name).map(PathBuf::from),
        ca_bundle,
        variables: variable::NETWORK
            .into_iter()
            .filter_map(|name| Some((name.into(), environment.value(name)?.to_owned())))
            .collect(),
        submodules: Submodules::default(),
        executable: environment.executable().to_owned(),
    }
}
