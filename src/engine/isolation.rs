//! Starts the tool in an isolation, which also holds for everything that the tool starts: with Landlock, or as a user
//! of its own.
//!
//! A process can only restrict itself, so the runner starts its own executable, which restricts itself and then
//! becomes the tool. The process id stays the same, and so do signals, the process group and the output. The
//! runner itself is not restricted.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use butler_base::platform::fs::{AccessFlags, access};
use butler_base::platform::{AllowedPaths, become_user, restrict_process};
use butler_base::process::{Environment, Session, become_program};

/// The internal command of this executable that restricts itself.
pub const ISOLATED_COMMAND: &str = "internal-isolated";

/// The internal command that kills all processes of a user.
pub const END_USER_COMMAND: &str = "internal-end-user";

const READ: &str = "--read";
const WRITE: &str = "--write";
const USER: &str = "--user";

/// The isolation of the tool.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// The runner's own executable.
    pub runner: PathBuf,
    /// What the tool is restricted to.
    pub restriction: Restriction,
}

/// What a tool is restricted to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Restriction {
    /// With Landlock to these paths and those of the system.
    Paths(AllowedPaths),
    /// To the files that a user can use.
    User {
        /// The number of the user, and of its group.
        id: u32,
        /// The paths that the tool needs to write.
        write: Vec<PathBuf>,
    },
}

/// A tool that was not started.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// The kernel did not restrict the process.
    #[error("cannot isolate the process with Landlock")]
    Restrict(#[source] std::io::Error),
    /// The user was not changed.
    #[error("cannot isolate the process as the user {0}")]
    ChangeUser(u32, #[source] std::io::Error),
    /// The user cannot write where the tool has to.
    #[error("the user {user} of this run cannot write `{}`, so let users of runs write there, or choose another directory", path.display())]
    NotWritable {
        /// The number of the user.
        user: u32,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The tool cannot be executed.
    #[error("cannot start `{}` in its isolation", program.display())]
    Start {
        /// The executable.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

impl Isolation {
    /// The session of the tool. The kernel lets a process of another user continue the runner within one session.
    pub(super) const fn session(&self) -> Session {
        match self.restriction {
            Restriction::Paths(_) => Session::Shared,
            Restriction::User { .. } => Session::Own,
        }
    }

    /// The command that runs `program` with `arguments` in the isolation.
    pub(super) fn wrap(
        &self,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> (PathBuf, Vec<OsString>) {
        let (user, read, write) = match &self.restriction {
            Restriction::Paths(AllowedPaths { read, write }) => (None, &read[..], write),
            Restriction::User { id, write } => (Some(id), &[][..], write),
        };
        let option = |name: &'static str, value: OsString| [name.into(), value];
        let path = |name| move |path: &PathBuf| option(name, path.as_os_str().to_owned());
        let user = user.into_iter().flat_map(|id| option(USER, id.to_string().into()));
        let (read, write) = (read.iter().flat_map(path(READ)), write.iter().flat_map(path(WRITE)));
        let words = [OsString::from(ISOLATED_COMMAND)].into_iter().chain(user);
        let words = words.chain(read).chain(write);
        let tool = [OsString::from("--"), program.into_os_string()].into_iter().chain(arguments);
        (self.runner.clone(), words.chain(tool).collect())
    }
}

/// Restricts this process, and replaces it by `program`. Does not return if that succeeds.
///
/// # Errors
/// If one of the two fails. `program` has not been started then.
pub fn become_isolated(
    restriction: &Restriction,
    program: &Path,
    arguments: &[OsString],
    environment: &Environment,
) -> Result<Infallible, IsolationError> {
    match restriction {
        Restriction::Paths(allowed) => {
            restrict_process(allowed).map_err(IsolationError::Restrict)?;
        }
        Restriction::User { id: user, write } => {
            become_user(*user).map_err(|source| IsolationError::ChangeUser(*user, source))?;
            for path in write {
                let writable = if path.is_dir() {
                    AccessFlags::W_OK | AccessFlags::X_OK
                } else {
                    AccessFlags::W_OK
                };
                access(path, writable).map_err(|source| IsolationError::NotWritable {
                    user: *user,
                    path: path.clone(),
                    source,
                })?;
            }
        }
    }
    let failed = |source| IsolationError::Start { program: program.to_owned(), source };
    match become_program(program, arguments, environment) {
        Err(source) => Err(failed(source)),
        // Only on systems that cannot replace a process, which do not have Landlock either.
        Ok(_) => Err(failed(std::io::ErrorKind::Unsupported.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_precede_the_tool_and_its_arguments_are_unchanged() {
        let allowed =
            AllowedPaths { read: vec!["/r".into(), "--".into()], write: vec!["/w".into()] };
        let isolation = |restriction| Isolation { runner: "/runner".into(), restriction };
        let arguments = ["plan", "-var", "--read"].map(OsString::from).to_vec();
        let (program, arguments) =
            isolation(Restriction::Paths(allowed)).wrap("/terraform".into(), arguments);
        assert_eq!(program, Path::new("/runner"));
        let expected =
            "internal-isolated|--read|/r|--read|--|--write|/w|--|/terraform|plan|-var|--read";
        assert_eq!(arguments.join("|".as_ref()), expected);
        let user = Restriction::User { id: 61_184, write: vec!["/w".into()] };
        let (_, arguments) = isolation(user).wrap("/terraform".into(), vec!["plan".into()]);
        let expected = "internal-isolated|--user|61184|--write|/w|--|/terraform|plan";
        assert_eq!(arguments.join("|".as_ref()), expected);
    }
}
