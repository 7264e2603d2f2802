//! Variable files that can be read only once: pipes, such as those of `--var-file <(command)`.
//!
//! Terraform reads a variable file for each command, and the runner reads it to mask its values. So the content of a
//! pipe is copied into a private file, which takes its place.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::run::context::Context;
use crate::run::failure::Failure;
use butler_base::blocking::blocking;
use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_base::platform::NULL_DEVICE;
use butler_protocol::spec::{Assignment, LocalOptions};

/// The largest content of a pipe, in bytes. Larger variable files cannot be searched for secrets.
const MOST: u64 = 16 * 1024 * 1024;

/// The options of the run, with copies of the variable files that are not regular files.
///
/// # Errors
/// If one of them cannot be read or is too large, or the run is stopped.
pub(in crate::run) async fn without_pipes(context: &Context<'_>) -> Result<LocalOptions, Failure> {
    let mut options = context.options.clone();
    let files = options.planning.assignments.iter_mut().filter_map(|assignment| match assignment {
        Assignment::File(path) if is_pipe(path) => Some(path),
        _ => None,
    });
    for (number, path) in files.enumerate() {
        let failed = |why: &dyn std::fmt::Display| {
            let text = format!("cannot read the variables in `{}`: {why}", path.display());
            Failure::because(Phase::Variables, text).classed(FailureClass::Configuration)
        };
        let source = path.clone();
        let given = tokio::select! {
            read = blocking(move |_| read(&source)) => read.map_err(|error| failed(&error))?,
            reason = context.stop.requested() => {
                return Err(Failure::stopped(Phase::Variables, &reason));
            }
        };
        let Some(given) = given else {
            return Err(failed(&format_args!("it has more than {MOST} bytes")));
        };
        // The ending decides about the syntax.
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let ending = if is_json { ".json" } else { "" };
        let name = format!("given-{number}.tfvars{ending}");
        let copied = context.directory.secrets().write(&name, &given);
        *path = copied.map_err(|error| {
            let text = butler_base::error::chain(&error);
            Failure::because(Phase::Variables, text).classed(FailureClass::Platform)
        })?;
    }
    Ok(options)
}

/// Whether the file can be read only once.
fn is_pipe(path: &Path) -> bool {
    path != Path::new(NULL_DEVICE)
        && path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The content, unless it is too large.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= MOST).then_some(content))
}
