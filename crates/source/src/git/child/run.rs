//! The child process: reads its task, runs it, and writes the result.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::super::failure::FetchError;
use super::super::task::{Job, Task};
use super::progress::Progress;
use super::{clone, mirror};
use butler_base::platform::{bear_limits, end_with, limit_memory};

/// Long enough for a slow link, and shorter than the timeout of a job, so that the error is reported.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Git servers send something every 5 s once they work, but may count objects for a while first.
const SERVER_TIMEOUT: Duration = Duration::from_mins(2);

/// Executes the task in `input` and writes the result to `output` and progress lines to `progress`.
///
/// The exit code is a failure only if the result cannot be written. Changes libgit2's settings
/// for the whole process, so it must have the process to itself.
pub fn run_child(
    mut input: impl Read,
    mut output: impl Write,
    mut progress: impl Write + 'static,
) -> ExitCode {
    let mut json = Vec::new();
    let task: Option<Task> =
        input.read_to_end(&mut json).ok().and_then(|_| serde_json::from_slice(&json).ok());
    let Some(task) = task else {
        let _ = writeln!(progress, "this command is for the runner's own use");
        return ExitCode::FAILURE;
    };
    end_with(task.access.parent);
    bear_limits();
    let progress = Progress::new(progress);
    let ready = configure(&task);
    let json = match &task.job {
        Job::Clone(job) => {
            serde_json::to_vec(&ready.and_then(|()| clone::clone(&task.access, job, &progress)))
        }
        Job::Mirror(job) => {
            serde_json::to_vec(&ready.and_then(|()| mirror::update(&task.access, job, &progress)))
        }
    };
    let written = json
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
    if let Job::Mirror(job) = &task.job {
        limit_memory(job.memory_limit)
            .map_err(|error| FetchError::file("limit the memory", &error))?;
    }
    // For a clone, this process received and hashed all objects that it reads.
    git2::opts::strict_hash_verification(matches!(task.job, Job::Mirror(_)));
    let milliseconds = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: nothing else uses libgit2 in this process, and nothing has used it before.
    unsafe {
        git2::opts::set_server_connect_timeout_in_milliseconds(milliseconds(CONNECT_TIMEOUT))
            .map_err(failed)?;
        git2::opts::set_server_timeout_in_milliseconds(milliseconds(SERVER_TIMEOUT))
            .map_err(failed)?;
        // HOME is the scratch directory; the user's settings (`insteadOf`, `safe.directory`) count.
        if let Some(home) = task.access.home.as_ref().filter(|home| home.is_dir()) {
            git2::opts::set_search_path(git2::ConfigLevel::Global, home.as_path())
                .map_err(failed)?;
        }
    }
    Ok(())
}
