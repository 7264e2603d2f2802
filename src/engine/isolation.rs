//! Starts the tool in an isolation, which also holds for everything that the tool starts.
//!
//! A process can only restrict itself, so the runner starts its own executable, which restricts itself and then
//! becomes the tool. The process id stays the same, and so do signals, the process group and the output. The
//! runner itself is not restricted.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use butler_base::platform::{AllowedPaths, restrict_process};
use butler_base::process::{Environment, become_program};

/// The internal command of this executable that restricts itself.
pub const ISOLATED_COMMAND: &str = "internal-isolated";

const READ: &str = "--read";
const WRITE: &str = "--write";

/// The isolation of the tool.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// The runner's own executable.
    pub runner: PathBuf,
    /// The paths that the tool can use, in addition to those of the system.
    pub allowed: AllowedPaths,
}

/// A tool that was not started.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// The kernel did not restrict the process.
    #[error("cannot isolate the process with Landlock")]
    Restrict(#[source] std::io::Error),
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
    /// The command that runs `program` with `arguments` in the isolation.
    pub(super) fn wrap(
        &self,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> (PathBuf, Vec<OsString>) {
        let AllowedPaths { read, write } = &self.allowed;
        let option = |name: &'static str, path: &Path| [name.into(), path.as_os_str().to_owned()];
        let read = read.iter().flat_map(|path| option(READ, path));
        let write = write.iter().flat_map(|path| option(WRITE, path));
        let words = [OsString::from(ISOLATED_COMMAND)].into_iter().chain(read).chain(write);
        let tool = [OsString::from("--"), program.into_os_string()].into_iter().chain(arguments);
        (self.runner.clone(), words.chain(tool).collect())
    }
}

/// Restricts this process to `allowed`, and replaces it by `program`. Does not return if that succeeds.
///
/// # Errors
/// If one of the two fails. `program` has not been started then.
pub fn become_isolated(
    allowed: &AllowedPaths,
    program: &Path,
    arguments: &[OsString],
    environment: &Environment,
) -> Result<Infallible, IsolationError> {
    restrict_process(allowed).map_err(IsolationError::Restrict)?;
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
        let isolation = Isolation { runner: "/runner".into(), allowed };
        let arguments = ["plan", "-var", "--read"].map(OsString::from).to_vec();
        let (program, arguments) = isolation.wrap("/terraform".into(), arguments);
        assert_eq!(program, Path::new("/runner"));
        let expected =
            "internal-isolated|--read|/r|--read|--|--write|/w|--|/terraform|plan|-var|--read";
        assert_eq!(arguments.join("|".as_ref()), expected);
    }
}
