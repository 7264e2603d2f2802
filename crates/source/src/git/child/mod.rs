//! The child's side of a fetch: everything that libgit2 does, in a process that can be killed.
//!
//! It reads one task, writes one answer, and says on standard error what it is doing. It must
//! not outlive its parent, and it leaves nothing outside the clone and its scratch directory.

mod authenticate;
mod check_out;
mod clone;
mod explain;
mod host_keys;
mod inspect;
mod local;
mod reference;
mod submodules;
mod transfer;

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use zeroize::Zeroizing;

use super::failure::FetchError;
use super::task::{Answer, Task};
use butler_base::platform::{bear_limits, end_with, has_keychain};

/// Long enough for a slow link, short enough to be told about before a job's own timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Git servers send something every 5 s once they work, but may count objects for a while first.
const SERVER_TIMEOUT: Duration = Duration::from_mins(2);

/// Where the child says what it is doing.
struct Progress(std::cell::RefCell<Box<dyn Write>>);

impl Progress {
    fn say(&self, text: &str) {
        // A parent that does not listen any more is about to end this process.
        let _ = writeln!(self.0.borrow_mut(), "{text}");
    }
}

/// Carries out the task in `input` and writes the answer to `output`; lines about what goes on go
/// to `progress`.
///
/// The exit code is a failure only where no answer could be written. Changes libgit2's settings
/// for the whole process, so it must have the process to itself.
pub fn run_child(
    mut input: impl Read,
    mut output: impl Write,
    mut progress: impl Write + 'static,
) -> ExitCode {
    let mut json = Zeroizing::new(Vec::with_capacity(64 * 1024));
    let task: Option<Task> =
        input.read_to_end(&mut json).ok().and_then(|_| serde_json::from_slice(&json).ok());
    let Some(task) = task else {
        let _ = writeln!(progress, "this command is for the runner's own use");
        return ExitCode::FAILURE;
    };
    end_with(task.parent);
    bear_limits();
    let progress = Progress(std::cell::RefCell::new(Box::new(progress)));
    let answer = match configure(&task).and_then(|()| clone::clone(&task, &progress)) {
        Ok(fetched) => Answer::Fetched(fetched),
        Err(error) => Answer::Failed(error),
    };
    let written = serde_json::to_vec(&answer)
        .map_err(std::io::Error::other)
        .and_then(|json| output.write_all(&json))
        .and_then(|()| output.flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(
    unsafe_code,
    reason = "libgit2's settings are global; this is the only thread that uses it"
)]
fn configure(task: &Task) -> Result<(), FetchError> {
    let failed = |error| FetchError::git("set up libgit2", &error);
    // All that is read here was received, and so hashed, by this process a moment ago.
    git2::opts::strict_hash_verification(false);
    let milliseconds = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: nothing else uses libgit2 in this process, and nothing has used it before.
    unsafe {
        git2::opts::set_server_connect_timeout_in_milliseconds(milliseconds(CONNECT_TIMEOUT))
            .map_err(failed)?;
        git2::opts::set_server_timeout_in_milliseconds(milliseconds(SERVER_TIMEOUT))
            .map_err(failed)?;
        // HOME is the scratch directory; the user's settings (`insteadOf`, `safe.directory`) count.
        if let Some(home) = task.home.as_ref().filter(|home| home.is_dir()) {
            git2::opts::set_search_path(git2::ConfigLevel::Global, home.as_path())
                .map_err(failed)?;
        }
    }
    Ok(())
}

/// Has libgit2 trust the system's certificates and the additional ones: for servers that show some.
/// Where those of the system are in a keychain, libgit2 uses the system's TLS, which takes no others.
#[expect(
    unsafe_code,
    reason = "libgit2's settings are global; this is the only thread that uses it"
)]
fn trust(task: &Task) -> Result<(), FetchError> {
    if has_keychain() {
        return Ok(());
    }
    // SAFETY: nothing else uses libgit2 in this process.
    unsafe {
        if let Some(file) = &task.certificates {
            // What cannot be read makes nobody trusted, which is said of the server then.
            let _ = git2::opts::set_ssl_cert_file(file.as_path());
        }
        if let Some(bundle) = &task.ca_bundle {
            git2::opts::set_ssl_cert_file(bundle.as_path()).map_err(|error| FetchError::Git {
                act: format!("read the CA bundle `{}`", bundle.display()),
                reason: error.message().to_owned(),
            })?;
        }
    }
    Ok(())
}
