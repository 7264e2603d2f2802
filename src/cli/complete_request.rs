//! Completes a command line for the script of a shell, which starts this program at each press of Tab.

use std::ffi::OsString;

use super::command_line::public;
use super::complete::{completer, failed};
use super::output::print;
use crate::settings::{Environment, variable};

/// Prints completions for the position of the cursor if a shell's script requests them. Returns the exit code;
/// `None` if no completion is requested.
pub(super) fn complete_if_requested(words: &[OsString], environment: &Environment) -> Option<u8> {
    let shell = environment.value(variable::COMPLETE.name)?.to_str().and_then(completer)?;
    let typed = words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let directory = std::env::current_dir().ok();
    // Without aliases, because the engine would offer the alias instead of the name.
    let command = public();
    let mut command = command.mut_subcommand("execute", |it| it.visible_alias(None));
    let mut completions = Vec::new();
    Some(match shell.write_complete(&mut command, typed, directory.as_deref(), &mut completions) {
        Ok(()) => print(&completions),
        Err(error) => failed(&format!("cannot complete: {error}")),
    })
}
