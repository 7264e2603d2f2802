//! What every phase of a run gets: settings, directory, log, and the signal to stop.

use super::directory::run_directory::RunDirectory;
use super::reporting::notices::Notices;
use super::steps::version_query::EarlyVersionQuery;
use crate::report::RunLog;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::Stop;
use butler_base::process::Grace;
use butler_protocol::spec::LocalOptions;

/// The surroundings of a run, shared by its phases.
pub(super) struct Context<'run> {
    pub(super) settings: &'run Settings,
    pub(super) directory: &'run RunDirectory,
    pub(super) log: &'run RunLog,
    pub(super) stop: &'run Stop,
    pub(super) notices: &'run Notices,
    /// Which version is on PATH.
    pub(super) version: &'run EarlyVersionQuery,
    pub(super) grace: Grace,
    /// Options of the typed commands.
    pub(super) options: &'run LocalOptions,
}

/// The registry's id of the run.
pub(super) fn run_id(settings: &Settings) -> Option<String> {
    match &settings.source {
        RunSource::Registry { run_id, .. } => Some(run_id.to_string()),
        RunSource::File { .. } | RunSource::Local { .. } => None,
    }
}
