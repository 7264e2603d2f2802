//! Starts processes that outlive this one.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Child;

use super::Environment;

/// Starts `program`, which goes on if this process ends: it reads nothing, writes to `output`, and
/// inherits only `environment`. It should begin with [`crate::platform::new_session`], so that no
/// signal of this terminal reaches it.
///
/// # Errors
/// If it cannot be started.
pub fn start_detached(
    program: &Path,
    arguments: &[&str],
    environment: &Environment,
    directory: &Path,
    output: &File,
) -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "one of four places that start processes")]
    let mut command = tokio::process::Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment.iter())
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .kill_on_drop(false);
    command.spawn()
}
