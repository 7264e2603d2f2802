//! The environment that child processes inherit.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use secrecy::ExposeSecret;

use super::mirrors;
use super::resolved::{RunSource, Settings};
use super::setting::TOKEN;
use super::variable::{self, OWN_PREFIX};
use butler_base::process;

/// Jenkins kills every process with one of these variables when a build is aborted. They are set by its core
/// (`Job.getCharacteristicEnvVars`, `EnvVars.createCookie`), `sh` steps and `node` blocks. Children of the runner
/// must not have them: only the runner may stop Terraform. Jenkins still finds the runner as a descendant of the
/// step's shell.
const JENKINS_COOKIES: [&str; 4] =
    ["HUDSON_COOKIE", "HUDSON_SERVER_COOKIE", "JENKINS_NODE_COOKIE", "JENKINS_SERVER_COOKIE"];

impl Settings {
    /// The environment that Terraform inherits: the runner's own, without `BUTLER_*`, the variables in
    /// `used_tokens`, logins for mirrors in variables of other tools, and the cookies of Jenkins. Like
    /// [`Settings::environment`], it does not contain the callback token under any name.
    #[must_use]
    pub fn child_environment(&self, used_tokens: &[&str]) -> process::Environment {
        let inherited = |name: &OsStr| {
            !name.as_encoded_bytes().starts_with(OWN_PREFIX)
                && !used_tokens.iter().any(|used| name == *used)
                && !JENKINS_COOKIES.iter().any(|cookie| name == *cookie)
        };
        self.environment
            .iter()
            .filter(|(name, value)| inherited(name) && !mirrors::is_mirror_login(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// The environment without any variable that contains the token. Otherwise a run could use the token as the value
/// of a secret reference.
pub(super) fn without_token(
    variables: &BTreeMap<OsString, OsString>,
    source: &RunSource,
) -> BTreeMap<OsString, OsString> {
    let token = match source {
        RunSource::Registry { token, .. } => Some(token.expose_secret()),
        RunSource::File { .. } | RunSource::Local { .. } => None,
    };
    // The event that started a workflow is in a file, which contains the token if the event does.
    let leads_to_token = |name: &OsStr, value: &OsStr, token: &str| {
        name == variable::GITHUB_EVENT_PATH.name && file_contains(Path::new(value), token)
    };
    let is_token = |name: &OsStr, value: &OsStr| {
        name == TOKEN.variables[0]
            || token.is_some_and(|token| {
                value.to_str().map(str::trim) == Some(token) || leads_to_token(name, value, token)
            })
    };
    variables
        .iter()
        .filter(|(name, value)| !is_token(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether the file can be read and contains `text`.
fn file_contains(file: &Path, text: &str) -> bool {
    let content = if file.is_file() { fs_err::read(file).unwrap_or_default() } else { Vec::new() };
    content.windows(text.len()).any(|part| part == text.as_bytes())
}
