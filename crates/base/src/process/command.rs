//! A child process to start, as pure data, so that tests can inspect it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// The whole environment of a child, which inherits no other variables.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Sets a variable, replacing an earlier value.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Sets a variable unless it is set already.
    pub fn set_default(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.entry(name.into()).or_insert_with(|| value.into());
    }

    /// Lets a Go program collect its garbage less often, unless the user has set `GOGC`.
    ///
    /// Go collects from the first 4 MB on. In a short command without providers that is up to half of
    /// the processor time, and the peak of memory is the same without it. Do not use it for a command
    /// that starts providers: they inherit the variable and need most of the memory.
    pub fn collect_less_garbage(&mut self) {
        self.set_default("GOGC", "400");
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.0.remove(name.as_ref());
    }

    /// The value of a variable.
    #[must_use]
    pub fn value(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (OsString, OsString)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}

/// Names only: values may be secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.keys()).finish()
    }
}

/// Where a child's standard output goes; standard error always goes to the sink, line by line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Output {
    /// To the sink, line by line.
    #[default]
    Lines,
    /// To the sink, and unchanged into a new file (mode 0600).
    LinesAndFile(PathBuf),
    /// Into a new file (mode 0600).
    File(PathBuf),
    /// Into memory, at most this many bytes; more is an error.
    Memory(usize),
}

/// How a child's output reaches this process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Channel {
    /// Through pipes: if this process is killed, the child dies when it writes the next time.
    #[default]
    Pipe,
    /// Through files in memory, so that the child goes on if this process is killed, and does not wait while this
    /// process is stopped. Through pipes if the system has no such files; see [`crate::platform::OutputFile`].
    File,
}

/// The session of a child (setsid(2)).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Session {
    /// The session of this process.
    #[default]
    Shared,
    /// One of its own: the child has no terminal, and cannot send SIGCONT to processes of other users, which
    /// the kernel allows within a session (kill(2)).
    Own,
}

/// What a child reads from standard input.
#[derive(Clone, Default)]
pub enum Input {
    /// Nothing: the child reads the end of the file immediately.
    #[default]
    Nothing,
    /// These bytes, and then the end.
    Bytes(Vec<u8>),
    /// This open file, from its current position. The child and its own children hold the file
    /// open, and with it the file's lock, even after the runner has exited.
    File(Arc<File>),
}

/// Without the bytes, which may be secret.
impl std::fmt::Debug for Input {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Bytes(_) => "Bytes(..)",
            Self::File(_) => "File(..)",
        })
    }
}

/// The program that a child process starts, such as Terraform below Terragrunt.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inner {
    /// The executable, as an absolute path; or a script that starts the executable.
    pub program: PathBuf,
    /// The arguments, in this order; the child may add others between them.
    pub arguments: Vec<OsString>,
}

/// A child process to be run.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The executable, as an absolute path.
    pub program: PathBuf,
    /// The program that the executable wraps. A stop is sent to it if it runs.
    pub inner: Option<Inner>,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Environment,
    /// The working directory; the runner's own if absent.
    pub directory: Option<PathBuf>,
    /// What it reads from standard input.
    pub input: Input,
    /// Where its standard output goes.
    pub output: Output,
    /// How its output reaches this process.
    pub channel: Channel,
    /// Its session.
    pub session: Session,
}
