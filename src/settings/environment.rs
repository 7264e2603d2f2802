//! The environment of the process. It is read once, before anything changes it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::variable;
use butler_base::platform;

/// The variables with which git tells a hook, an alias or a filter which repository it works on: those of
/// `git rev-parse --local-env-vars` apart from `GIT_CONFIG_*`, which a user may set, and the quarantine of
/// `receive-pack`. A git below a hook would use that repository and its index instead of its own.
const LOCAL_TO_A_REPOSITORY: [&str; 15] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Variables and paths of the process, as they were at its start, without those of a repository around it.
#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    temporary: PathBuf,
    executable: PathBuf,
}

impl Environment {
    /// Reads the environment of this process. Must be called first in the process, because `git2` sets variables.
    /// The variables that tie git to one repository (`GIT_DIR` and the like) are left out, so that no child of this
    /// process inherits them.
    #[must_use]
    pub fn capture() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let variables = without_repository(platform::variables(std::env::vars_os()));
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
        Self { variables: without_repository(variables), temporary, executable }
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

/// The variables that do not depend on the repository of a git hook.
fn without_repository(mut variables: BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    variables.retain(|name, _| !LOCAL_TO_A_REPOSITORY.iter().any(|local| name == local));
    variables
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
    fn variables_of_the_repository_of_a_git_hook_are_left_out() {
        #[expect(clippy::disallowed_methods, reason = "git itself has the list")]
        let listed = std::process::Command::new("git")
            .args(["rev-parse", "--local-env-vars"])
            .output()
            .unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let local: Vec<_> = listed.lines().filter(|it| !it.starts_with("GIT_CONFIG_")).collect();
        assert!(local.contains(&"GIT_DIR") && local.contains(&"GIT_CONFIG"), "{listed}");
        let kept = [
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_CONFIG_PARAMETERS",
            "GIT_CONFIG_GLOBAL",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_ASKPASS",
            "GIT_TERMINAL_PROMPT",
            "HOME",
        ];
        let given = local.iter().chain(&["GIT_QUARANTINE_PATH"]).chain(&kept);
        let variables = given.map(|name| ((*name).into(), "x".into())).collect();
        let environment = Environment::new(variables, PathBuf::new());
        let names: Vec<_> = environment.variables().keys().collect();
        let mut expected = kept.to_vec();
        expected.sort_unstable();
        assert_eq!(names, expected);
        assert_eq!(environment.of_children().iter().count(), kept.len());
    }

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
