//! Answers the completion script of a shell, which starts this program at each press of Tab.

use std::ffi::OsString;

use super::command_line::public;
use super::complete::{completer, failed};
use super::output::print;
use crate::settings::{Environment, variable};

/// Answers what could stand where the cursor is, if a shell asks for that. Returns the exit code.
pub(super) fn answer(words: &[OsString], environment: &Environment) -> Option<u8> {
    let shell = environment.value(variable::COMPLETE.name)?.to_str().and_then(completer)?;
    let typed = words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let directory = std::env::current_dir().ok();
    // One name for each command: of two the engine would offer the alias.
    let command = public();
    let mut command = command.mut_subcommand("execute", |it| it.visible_alias(None));
    let mut answer = Vec::new();
    Some(match shell.write_complete(&mut command, typed, directory.as_deref(), &mut answer) {
        Ok(()) => print(&answer),
        Err(error) => failed(&format!("cannot complete: {error}")),
    })
}
