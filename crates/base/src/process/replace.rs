//! Replaces this process by another program: for a command that only starts that program.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::Environment;
use crate::platform::replace_process;

/// Replaces this process by `program`, which keeps its terminal, its descriptors 0 to 2 and its
/// process id, so that signals and the exit code are the program's. The program inherits only
/// `environment`. If the system cannot replace a process, the program runs as a child, and its exit
/// code is returned.
///
/// # Errors
/// If it cannot be started.
pub fn become_program(
    program: &Path,
    arguments: &[OsString],
    environment: &Environment,
) -> io::Result<u8> {
    #[expect(clippy::disallowed_methods, reason = "one of four places that start processes")]
    let mut command = std::process::Command::new(program);
    command.args(arguments).env_clear().envs(environment.iter());
    replace_process(command)
}
