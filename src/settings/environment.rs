//! The environment of the process. It is read once, before anything changes it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::variable;
use butler_base::platform;

/// Variables and paths of the process, as they were at its start.
#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    temporary: PathBuf,
    executable: PathBuf,
}

impl Environment {
    /// Reads the environment of this process. Must be called first in the process, because `git2` sets variables.
    #[must_use]
    pub fn capture() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let variables = platform::variables(std::env::vars_os());
        let executable = executable(&variables);
        Self { variables, temporary: default_temporary(), executable }
    }

    /// An environment with these variables.
    #[must_use]
    pub fn new(variables: BTreeMap<OsString, OsString>, executable: PathBuf) -> Self {
        let temporary = variables
            .get(OsStr::new(variable::TMPDIR.name))
            .filter(|path| !path.is_empty())
            .map_or_else(default_temporary, PathBuf::from);
        Self { variables, temporary, executable }
    }

    /// The same environment with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The value of a variable. An empty variable counts as unset, because CI systems set variables without a value to
    /// the empty string.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|it| !it.is_empty())
    }

    /// All variables, empty ones included.
    #[must_use]
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// The environment of children outside of a run: without the settings of the runner.
    #[must_use]
    pub fn of_children(&self) -> butler_base::process::Environment {
        let is_own = |name: &OsStr| name.as_encoded_bytes().starts_with(variable::OWN_PREFIX);
        let inherited = self.variables.iter().filter(|(name, _)| !is_own(name));
        inherited.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The directory for temporary files.
    #[must_use]
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// This executable.
    #[must_use]
    pub fn executable(&self) -> &Path {
        &self.executable
    }
}

/// The system's directory for temporary files. Rust uses an empty `TMPDIR` as a path; for other programs, as for
/// Terraform, it is unset.
fn default_temporary() -> PathBuf {
    Some(std::env::temp_dir())
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// The path of this executable. Without `/proc` it has to come from the first argument, which is a path, or a name
/// that the shell found in `PATH`.
fn executable(variables: &BTreeMap<OsString, OsString>) -> PathBuf {
    if let Ok(path) = std::env::current_exe() {
        return path;
    }
    let called = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let on_path = |name: &Path| {
        let path = variables.get(OsStr::new(variable::PATH.name))?;
        std::env::split_paths(path).map(|directory| directory.join(name)).find(|it| it.is_file())
    };
    match called.parent() {
        Some(parent) if parent.as_os_str().is_empty() => on_path(&called).unwrap_or(called),
        _ => std::path::absolute(&called).unwrap_or(called),
    }
}

/// Names only: values may be secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.variables.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_tmpdir_is_unset() {
        let environment = |tmpdir: &str| {
            Environment::new([("TMPDIR".into(), tmpdir.into())].into(), PathBuf::new())
        };
        assert_eq!(environment("").temporary(), default_temporary());
        assert!(environment("").temporary().is_absolute());
        assert_eq!(environment("/elsewhere").temporary(), Path::new("/elsewhere"));
    }
}
