//! The part of the environment that the fetch of a source uses.

use std::ffi::OsStr;
use std::path::PathBuf;

use secrecy::SecretString;

use super::{Environment, Variable, variable};
use butler_source::git::{EnvironmentToken, GitEnvironment, Submodules};

/// The variables with tokens, each with the variable that names the host of the CI system that has set it.
const TOKENS: [(Variable, Option<Variable>); 3] = [
    (variable::GIT_TOKEN, None),
    (variable::GITHUB_TOKEN, Some(variable::GITHUB_SERVER_URL)),
    (variable::CI_JOB_TOKEN, Some(variable::CI_SERVER_HOST)),
];

/// The tokens that are set. `BUTLER_GIT_TOKEN` overrides all others, and a token of a CI system whose host is known
/// comes before one that any repository would get.
fn tokens(text: impl Fn(&str) -> Option<String>) -> Vec<EnvironmentToken> {
    let only = text(variable::GIT_HOST.name);
    let mut tokens: Vec<_> = TOKENS
        .iter()
        .filter_map(|(variable, host)| {
            let token = SecretString::from(text(variable.name)?);
            let host = only.clone().or_else(|| text(host.as_ref()?.name));
            Some(EnvironmentToken { variable: variable.name, token, host })
        })
        .collect();
    tokens.sort_by_key(|it| it.variable != variable::GIT_TOKEN.name && it.host.is_none());
    tokens
}

/// Tokens, the SSH agent, proxies and certificates.
pub(super) fn git_environment(
    environment: &Environment,
    ca_bundle: Option<PathBuf>,
) -> GitEnvironment {
    let text = |name: &str| {
        let text = environment.value(name).and_then(OsStr::to_str)?.trim();
        Some(text.to_owned()).filter(|text| !text.is_empty())
    };
    GitEnvironment {
        tokens: tokens(text),
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
