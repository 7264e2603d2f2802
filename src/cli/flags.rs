//! Creates clap's flags from the table of settings, so that flags and table cannot differ.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::setting::{
    CONFIG, ENDPOINT, LOCAL, LOCK_TIMEOUT, MODULE_DIR, OPERATION, REPORT, RUN_ID, TOKEN_FILE,
    VAR_FILE,
};
use crate::settings::{Arguments, Kind, SETTINGS, Setting};

/// The settings in `-h`; `--help` has all of them.
const IN_SHORT_HELP: [&Setting; 10] = [
    &ENDPOINT,
    &RUN_ID,
    &TOKEN_FILE,
    &LOCAL,
    &MODULE_DIR,
    &OPERATION,
    &VAR_FILE,
    &CONFIG,
    &REPORT,
    &LOCK_TIMEOUT,
];

/// The settings that are flags of a subcommand.
pub(super) trait Selection {
    /// Whether `setting` is a flag of the subcommand.
    fn has(setting: &Setting) -> bool;
    /// Whether subcommands inherit these flags.
    const GLOBAL: bool = false;

    /// The settings that [`Selection::has`] chooses from.
    fn table() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().copied()
    }
}

/// The flags of a selection of settings.
pub(super) struct Flags<S> {
    arguments: Arguments,
    selection: PhantomData<S>,
}

impl<S> Flags<S> {
    pub(super) fn into_arguments(self) -> Arguments {
        self.arguments
    }
}

impl<S: Selection> Flags<S> {
    fn settings() -> impl Iterator<Item = &'static Setting> {
        S::table().filter(|setting| S::has(setting))
    }

    fn read(matches: &ArgMatches) -> Arguments {
        let mut arguments = Arguments::default();
        for setting in Self::settings() {
            if setting.kind == Kind::Switch {
                if matches.get_flag(setting.id()) {
                    arguments.add(setting, "true");
                }
            } else {
                for value in matches.get_many::<OsString>(setting.id()).into_iter().flatten() {
                    arguments.add(setting, value.clone());
                }
            }
            for Letter { flag, step, .. } in letters(setting) {
                let count = i16::from(matches.get_count(flag));
                arguments.set_verbosity(arguments.verbosity() + step * count);
            }
        }
        arguments
    }
}

impl<S: Selection> clap::FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { arguments: Self::read(matches), selection: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.arguments = Self::read(matches);
        Ok(())
    }
}

impl<S: Selection> clap::Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        Self::settings().fold(command, |command, setting| {
            let command = command.arg(flag(setting).global(S::GLOBAL));
            letters(setting).fold(command, |command, Letter { flag, short, step }| {
                let help = match step {
                    1 => "Log more: -v debug, -vv trace",
                    _ => "Log less: -q warn, -qq error",
                };
                command.arg(
                    Arg::new(flag)
                        .short(short)
                        .action(ArgAction::Count)
                        .conflicts_with(setting.id())
                        .help(help)
                        .help_heading(setting.section.heading())
                        .hide_short_help(step < 0)
                        .global(S::GLOBAL),
                )
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let mut names = setting.flags.iter().filter_map(|flag| flag.strip_prefix("--"));
    let flag = Arg::new(setting.id())
        .long(names.next().unwrap_or_default())
        .visible_aliases(names)
        .help(setting.help)
        .long_help(format!(
            "{} [{}] [default: {}]",
            setting.help,
            setting.variables.join(", "),
            setting.default
        ))
        .hide_short_help(!IN_SHORT_HELP.contains(&setting))
        .help_heading(setting.section.heading());
    let flag = super::complete::values(flag, setting);
    match setting.kind {
        Kind::Switch => flag.action(ArgAction::SetTrue),
        Kind::Value(name) => {
            flag.action(ArgAction::Set).value_name(name).value_parser(clap::value_parser!(OsString))
        }
        Kind::Paths(name) | Kind::Values(name) => flag
            .action(ArgAction::Append)
            .value_name(name)
            .value_parser(clap::value_parser!(OsString)),
    }
}

/// A flag of one letter that changes the level of the log.
struct Letter {
    flag: &'static str,
    short: char,
    step: i16,
}

fn letters(setting: &'static Setting) -> impl Iterator<Item = Letter> {
    setting.flags.iter().filter_map(|flag| match flag.as_bytes() {
        [b'-', b'v'] => Some(Letter { flag, short: 'v', step: 1 }),
        [b'-', b'q'] => Some(Letter { flag, short: 'q', step: -1 }),
        _ => None,
    })
}

/// Merges the flags of a subcommand with the flags for the log, which all subcommands have.
pub(super) fn merge_arguments(log: Arguments, mut flags: Arguments) -> Arguments {
    flags.merge(log);
    flags
}
