//! Standard output and standard error of this process: results, errors, and the terminal of a run.

use std::io::Write;

use crate::ci::System;
use crate::exit::Exit;
use crate::run::Terminal;
use crate::screen::Screen;
use crate::settings::SettingsError;
use butler_base::error::{Advice, chain};
use butler_base::event::Stream;
use butler_base::platform::is_the_platforms;

/// The streams for the output of children: standard output and standard error, or only standard output in a job of
/// `system`.
pub(super) fn terminal(screen: &Screen, system: System) -> Terminal {
    let commands = is_the_platforms(std::io::stdout(), std::io::stderr())
        .then(|| Box::new(std::io::stderr()) as Box<_>);
    // A CI system reads the two pipes in no fixed order, which would mix up lines of log groups.
    let other = if system == System::None { Stream::Stderr } else { Stream::Stdout };
    Terminal {
        stdout: screen.lines(Stream::Stdout),
        stderr: screen.lines(other),
        commands,
        notices: Box::new(screen.writer(other)),
        screen: Some(screen.clone()),
    }
}

/// Prints the error of a setting. Returns the exit code.
pub(super) fn refuse(error: &SettingsError) -> u8 {
    complain(&chain(error), error.advice().as_deref());
    Exit::Usage.code()
}

/// Prints an error in one line, and the hint in another one.
pub(super) fn complain(message: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    // If standard error is closed, the message is lost.
    let _ = write!(std::io::stderr(), "error: {message}\n{hint}");
}

/// Prints what a user should read beside the result, which is on standard output.
pub(super) fn remark(message: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Prints an error as the tools do, so that it is the reason why the run failed.
pub(super) fn complain_as_tool(message: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "Error: {message}");
}

/// Prints a result; returns the exit code. A closed pipe is not an error.
pub(super) fn print(bytes: &[u8]) -> u8 {
    let mut out = std::io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to standard output: {error}"), None);
            Exit::Failed.code()
        }
        _ => Exit::Success.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_separate_pipe_can_be_read_by_the_platform() {
        let (_one, stdout) = std::io::pipe().unwrap();
        let (_other, stderr) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert!(is_the_platforms(&stdout, &stderr));
        assert!(is_the_platforms(&file, &stderr));
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(is_the_platforms(&stdout, socket));
        assert!(!is_the_platforms(&stdout, stdout.try_clone().unwrap()));
        assert!(!is_the_platforms(&stdout, &file));
        assert!(!is_the_platforms(&stdout, std::fs::File::open("/dev/null").unwrap()));
    }
}
