//! `man`: manual pages, generated from the parser.

use std::path::{Path, PathBuf};

use clap::{Args, Command};

use super::output::{complain, print};
use crate::exit::Exit;

/// Print the manual page, or write the pages of all commands to a directory
#[derive(Args)]
pub(super) struct Manual {
    /// The output directory, such as ~/.local/share/man/man1; without it, the main page is printed
    directory: Option<PathBuf>,
}

impl Manual {
    /// `command` is the parser without hidden commands.
    pub(super) fn run(self, mut command: Command) -> u8 {
        let Some(directory) = self.directory else {
            let mut page = Vec::new();
            // The page refers to the pages of the commands only after `build`, as in `generate_to`.
            command.build();
            return match clap_mangen::Man::new(command).render(&mut page) {
                Ok(()) => print(&page),
                Err(error) => failed(&format!("cannot generate the page: {error}")),
            };
        };
        match write_pages(command, &directory) {
            Ok(()) => Exit::Success.code(),
            Err(error) => {
                failed(&format!("cannot write pages into `{}`: {error}", directory.display()))
            }
        }
    }
}

fn write_pages(command: Command, directory: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}

fn failed(message: &str) -> u8 {
    complain(message, None);
    Exit::Failed.code()
}
