//! The summary file and the output file of a GitHub Actions step.

use std::fmt::Write as _;
use std::io::{Error, Result, Write};
use std::path::Path;

use butler_base::platform::fs::{OFlag, OpenOptionsExt};
use butler_result::{Incomplete, RunResult};

/// The largest summary of a step, in bytes. GitHub does not show a larger one at all.
const MAX_SUMMARY: u64 = 1024 * 1024;

/// The end of a summary that was cut.
const CUT: &str = "\n\n(The rest is left out: it is too large for a job summary.)\n";

/// The outputs of the step: name and value. Unknown values are empty.
#[must_use]
pub fn step_outputs(result: &RunResult) -> Vec<(&'static str, String)> {
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let (counts, tests) = (result.counts, result.tests);
    let incomplete = result.incomplete.as_ref();
    vec![
        ("status", result.status.to_string()),
        ("exit-code", result.exit_code.to_string()),
        ("run-id", text(result.run_id.as_ref())),
        ("operation", text(result.operation.as_ref())),
        ("summary", text(result.summary.as_ref())),
        ("plan-changes", text(result.plan_changes)),
        ("add", text(counts.map(|counts| counts.add))),
        ("change", text(counts.map(|counts| counts.change))),
        ("destroy", text(counts.map(|counts| counts.destroy))),
        ("replace", text(counts.map(|counts| counts.replace))),
        ("import", text(counts.map(|counts| counts.import))),
        ("actions", text(counts.map(|counts| counts.actions))),
        ("failed", text(counts.map(|_| incomplete.map_or(0, Incomplete::failed)))),
        ("not-in-state", text(counts.map(|_| incomplete.map_or(0, |it| it.not_in_state)))),
        ("not-started", text(counts.map(|_| incomplete.map_or(0, |it| it.not_started)))),
        ("tests-passed", text(tests.map(|tests| tests.passed))),
        ("tests-failed", text(tests.map(|tests| tests.failed))),
        ("tests-skipped", text(tests.map(|tests| tests.skipped))),
    ]
}

/// Appends `outputs` to the file at `path`, between random delimiters.
///
/// # Errors
/// If the file cannot be written.
pub fn write_outputs(path: &Path, outputs: &[(&'static str, String)]) -> Result<()> {
    let mut random = [0; 16];
    openssl::rand::rand_bytes(&mut random).map_err(Error::other)?;
    let delimiter = format!("end-{:032x}", u128::from_le_bytes(random));
    let mut text = String::new();
    for (name, value) in outputs {
        let _ = write!(text, "{name}<<{delimiter}\n{value}\n{delimiter}\n");
    }
    append(path, &text)
}

/// Appends `markdown` to the summary of the step, up to the largest size.
///
/// # Errors
/// If the file cannot be written.
pub fn append_summary(path: &Path, markdown: &str) -> Result<()> {
    let taken = std::fs::metadata(path).map_or(0, |file| file.len());
    let room = MAX_SUMMARY.saturating_sub(taken);
    if markdown.len() as u64 <= room {
        return append(path, markdown);
    }
    let room = usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(CUT.len());
    if room == 0 {
        return Err(Error::other("it is full"));
    }
    let markdown = &markdown[..markdown.floor_char_boundary(room)];
    // Whole lines, so that tables and addresses are not cut in the middle.
    let whole = markdown.rfind('\n').map_or("", |end| &markdown[..end]);
    append(path, &format!("{whole}{CUT}"))
}

/// Opens without blocking, because a process of the module can replace the file with a pipe that is not read.
fn append(path: &Path, text: &str) -> Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is not a regular file"));
    }
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_cannot_contain_the_delimiter() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output");
        std::fs::write(&path, "earlier=1\n").unwrap();
        let value = "a\nend-0\nstatus=planned\n";
        write_outputs(&path, &[("summary", value.to_owned()), ("add", "1".to_owned())]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let delimiter = text.lines().nth(1).unwrap().strip_prefix("summary<<").unwrap();
        assert_eq!(delimiter.len(), "end-".len() + 32);
        let expected = format!(
            "earlier=1\nsummary<<{delimiter}\n{value}\n{delimiter}\nadd<<{delimiter}\n1\n{delimiter}\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn pipe_instead_of_the_file_is_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        write_outputs(&path, &[("add", "1".to_owned())]).unwrap_err();
        // The same with a reader.
        let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        write_outputs(&path, &[("add", "1".to_owned())]).unwrap_err();
    }

    #[test]
    fn large_summary_is_cut_at_the_end_of_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("summary");
        std::fs::write(&path, "x".repeat(1000)).unwrap();
        append_summary(&path, &"öäü line\n".repeat(200_000)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() <= 1024 * 1024 && text.len() > 1024 * 1024 - 200, "{}", text.len());
        assert!(text.ends_with(&format!("\nöäü line{CUT}")));
        append_summary(&path, &"more\n".repeat(100)).unwrap_err();
    }
}
