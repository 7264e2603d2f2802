//! The context of a phase: settings, directory, log, and stop.

use super::directory::run_directory::RunDirectory;
use super::reporting::notices::Notices;
use super::reporting::reports::RegistryReports;
use super::steps::version_query::EarlyVersionQuery;
use crate::report::RunLog;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::Stop;
use butler_base::process::Grace;
use butler_protocol::spec::LocalOptions;

/// The parts of a run that all phases share.
pub(super) struct Context<'run> {
    pub(super) settings: &'run Settings,
    pub(super) directory: &'run RunDirectory,
    pub(super) log: &'run RunLog,
    pub(super) stop: &'run Stop,
    pub(super) notices: &'run Notices,
    /// The registry of the run; absent without one.
    pub(super) registry: Option<&'run RegistryReports>,
    /// The query for the version of the tool on PATH.
    pub(super) version: &'run EarlyVersionQuery,
    pub(super) grace: Grace,
    /// The options of commands such as `butler-runner plan`.
    pub(super) options: &'run LocalOptions,
}

/// The registry's id of the run; absent without a registry.
pub(super) fn run_id(settings: &Settings) -> Option<String> {
    match &settings.source {
        RunSource::Registry { run_id, .. } => Some(run_id.to_string()),
        RunSource::File { .. } | RunSource::Local { .. } => None,
    }
}
