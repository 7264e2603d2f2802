//! Commands whose flags are made only when they are the ones that were asked for: to make those of
//! all commands takes longer than everything else that a start does.

use clap::error::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// A command that stays without its flags until it is looked at. What the list of commands says of
/// it has to stand where it is listed.
pub(super) struct Deferred<T>(pub(super) T);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<()> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<()> {
        self.0.update_from_arg_matches_mut(matches)
    }
}
