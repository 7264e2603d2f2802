//! `man`: the command line for readers, made from the parser itself.

use std::path::{Path, PathBuf};

use clap::{Args, Command};

use super::{complain, print};
use crate::run::Exit;

/// Print the manual page, or write those of all commands into a directory
#[derive(Args)]
pub(super) struct Manual {
    /// Where the pages go, such as ~/.local/share/man/man1; without it the first one is printed
    directory: Option<PathBuf>,
}

impl Manual {
    pub(super) fn run(self) -> u8 {
        let Some(directory) = self.directory else {
            let mut page = Vec::new();
            // Built, as those that are written are: it names its commands' pages.
            let mut command = public();
            command.build();
            return match clap_mangen::Man::new(command).render(&mut page) {
                Ok(()) => print(&page),
                Err(error) => failed(&format!("cannot make the page: {error}")),
            };
        };
        match write_pages(&directory) {
            Ok(()) => Exit::Success.code(),
            Err(error) => {
                failed(&format!("cannot write pages into `{}`: {error}", directory.display()))
            }
        }
    }
}

fn write_pages(directory: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(directory)?;
    clap_mangen::generate_to(public(), directory)
}

/// The parser without what the runner only starts of itself.
pub(super) fn public() -> Command {
    let whole = super::parser();
    let shown: Vec<_> =
        whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let mut command = Command::new("butler-runner")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .after_help(super::EXIT_CODES)
        .disable_help_subcommand(true)
        .subcommand_required(true);
    for argument in whole.get_arguments() {
        command = command.arg(argument.clone());
    }
    command.subcommands(shown)
}

fn failed(message: &str) -> u8 {
    complain(message, None);
    Exit::Failed.code()
}
