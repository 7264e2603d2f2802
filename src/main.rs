//! The executable: everything is in the library.

use std::process::ExitCode;

use butler_runner::workspace::source;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next();
    if command.as_deref() == Some(source::FETCH_COMMAND.as_ref()) {
        return source::run_child(std::io::stdin(), std::io::stdout(), std::io::stderr());
    }
    if command.as_deref() == Some(source::CREDENTIAL_COMMAND.as_ref()) {
        return source::answer_git(arguments, std::io::stdin(), std::io::stdout());
    }
    ExitCode::SUCCESS
}
