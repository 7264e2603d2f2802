//! The environment that child processes inherit.

use std::ffi::OsStr;

use super::mirrors;
use super::resolved::Settings;
use super::variable::OWN_PREFIX;
use butler_base::process;

/// By these variables Jenkins knows the processes of a build, and ends each that has them when the build
/// is aborted: those of its core (`Job.getCharacteristicEnvVars`, `EnvVars.createCookie`), of `sh`
/// steps and of `node` blocks. What the runner starts must not have them, or it is found by them. It is
/// still found as a descendant of the step's shell.
const JENKINS_COOKIES: [&str; 4] =
    ["HUDSON_COOKIE", "HUDSON_SERVER_COOKIE", "JENKINS_NODE_COOKIE", "JENKINS_SERVER_COOKIE"];

impl Settings {
    /// The environment that Terraform inherits: what the runner was started in, without
    /// `BUTLER_*`, without the variables in `used_tokens`, without the logins of mirrors that other
    /// tools' variables hold, without the cookies of Jenkins, and, as [`Settings::environment`] is,
    /// without any variable that holds the callback token under another name or leads to it.
    #[must_use]
    pub fn child_environment(&self, used_tokens: &[&str]) -> process::Environment {
        let inherited = |name: &OsStr| {
            !name.as_encoded_bytes().starts_with(OWN_PREFIX)
                && !used_tokens.iter().any(|used| name == *used)
                && !JENKINS_COOKIES.iter().any(|cookie| name == *cookie)
        };
        self.environment
            .iter()
            .filter(|(name, value)| inherited(name) && !mirrors::is_login(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}
