//! `demo`: runs plan, apply and destroy against its own registry on this machine.

use std::sync::Arc;

use clap::Args;

use super::flags::{Flags, Selection, merge_arguments};
use super::logging;
use super::output::{complain, refuse, terminal};
use super::runtime::block_on;
use super::screen::{self, Output};
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, Logging, Section, Setting};
use butler_base::secret::Redactor;

#[derive(Args)]
pub(super) struct Demo {
    #[command(flatten)]
    flags: Flags<DemoFlags>,
}

struct DemoFlags;

impl Selection for DemoFlags {
    fn has(setting: &Setting) -> bool {
        setting.section == Section::Tool
    }
}

impl Demo {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let redactor = Arc::new(Redactor::new());
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let logging = match Logging::resolve(&arguments, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let screen = screen::open(&logging, environment, Output::Lines);
        let _log = logging::start(&logging, environment, &redactor, &screen);
        let terminal = || terminal(&screen, logging.reader);
        match block_on(crate::demo::demo(arguments, environment, &redactor, terminal)) {
            Some(Ok(exit)) => exit.code(),
            Some(Err(error)) => {
                complain(&format!("{error:#}"), None);
                Exit::Failed.code()
            }
            None => Exit::Failed.code(),
        }
    }
}
