//! Becomes another program: for a command whose whole work is to start it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::Environment;
use crate::platform::replace_process;

/// Starts `program` in the place of this process, with its terminal, its descriptors 0 to 2 and its
/// process id, so that signals and the exit code are the program's. `environment` is all that it
/// inherits. Where the system cannot do that, it runs as a child; returns its exit code then.
///
/// # Errors
/// When it cannot be started.
pub fn become_program(
    program: &Path,
    arguments: &[OsString],
    environment: &Environment,
) -> io::Result<u8> {
    let mut command = std::process::Command::new(program);
    command.args(arguments).env_clear().envs(environment.iter());
    replace_process(command)
}
