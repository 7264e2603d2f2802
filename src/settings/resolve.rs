//! Reads and checks every setting of a run. A flag wins over its variables, an earlier variable over a later one.

use std::path::Path;
use std::time::Duration;

use super::child_environment::without_token;
use super::directories::Missing;
use super::git_environment::git_environment;
use super::reader::{Reader, is_same_file};
use super::setting::{
    ALLOW_EPHEMERAL_STATE, BODY_LIMIT, CANCEL_INTERVAL, CI, FORCE_UNLOCK_OWN, GRACE_PERIOD,
    ISOLATION, ISOLATION_READ, ISOLATION_USERS, ISOLATION_WRITE, LOCK_TIMEOUT, LOG, LOG_FORMAT,
    LOG_INTERVAL, PLAN_JSON, PLAN_STATUS, REGISTRY_TIMEOUT, REPORT, REPORT_DIR,
    REPORT_OUTPUTS_AFTER_DESTROY, REQUEST_TIMEOUT, SECRETS_DIR, SENSITIVE_VALUES, SETTINGS_FILE,
    SUBMODULES, SUMMARY,
};
use super::variable;
use super::{
    Arguments, CleanSettings, Environment, Isolation, LocalRequest, Logging, RunSource, Settings,
    SettingsError, ToolSettings, ci_job, parse, source, telemetry,
};
use butler_source::git::GitEnvironment;

/// As often as the registry's page requests log lines.
const LOG_INTERVAL_DEFAULT: Duration = Duration::from_secs(2);

/// The interval of the registry's own pre-flight check (ADR-001).
const CANCEL_INTERVAL_DEFAULT: Duration = Duration::from_secs(30);

/// Longer than any healthy registry needs for a response, and short enough for a retry.
pub(super) const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A registry is available again within minutes after a deployment.
const REGISTRY_TIMEOUT_DEFAULT: Duration = Duration::from_mins(5);

/// The limit of the deployed registry, in bytes (registry API, 413).
const BODY_LIMIT_DEFAULT: usize = 50 * 1024 * 1024;

impl Settings {
    /// Reads and checks all settings of a run.
    ///
    /// Reads the token's file, and checks that named files and directories exist. Creates two default directories
    /// if they are needed: the one for temporary files, and the cache directory if the home directory is not
    /// writable.
    ///
    /// # Errors
    /// If a setting is missing or not usable, or if two settings exclude each other.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let mut warnings = Vec::new();
        let source = source::source(&reader, &mut warnings)?;
        Self::resolve_for_source(source, warnings, &reader)
    }

    /// Reads and checks all settings of a run in a directory that the command already knows. Arguments and variables
    /// for other kinds of runs are ignored. `BUTLER_VAR_FILE` is used if no variable file is given.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_local(
        request: LocalRequest,
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let source = source::local(request, &reader)?;
        Self::resolve_for_source(source, Vec::new(), &reader)
    }

    /// Reads and checks all other settings of a run that comes from `source`.
    pub(super) fn resolve_for_source(
        source: RunSource,
        mut warnings: Vec<String>,
        reader: &Reader<'_>,
    ) -> Result<Self, SettingsError> {
        let Reader { arguments, environment } = *reader;
        let tool = ToolSettings::resolve(arguments, environment)?;
        warnings.extend(tool.warnings.iter().cloned());
        let logging = Logging::resolve(arguments, environment)?;
        let report_dir = reader.path(&REPORT_DIR)?;
        let times = ci_job::stop_times(environment);
        let CleanSettings { work_dir, temporary, tmpfs_dir, recovery_dir } =
            CleanSettings::read(reader, Missing::Create)?;
        let job = ci_job::job(logging.reader, environment, report_dir.as_deref());
        let summary = reader.output_file(&SUMMARY, job.reports.as_deref())?;
        let report = reader.output_file(&REPORT, job.reports.as_deref())?;
        if let (Some(summary), Some(report)) = (&summary, &report)
            && is_same_file(summary, report)
        {
            let problem = "it is the file of --summary".to_owned();
            return Err(SettingsError::Unusable { setting: &REPORT, problem });
        }
        Ok(Self {
            work_dir,
            temporary,
            tmpfs_dir,
            recovery_dir,
            secrets_dir: reader.existing(&SECRETS_DIR, Path::is_dir)?,
            log_interval: reader
                .parsed(&LOG_INTERVAL, parse::interval)?
                .unwrap_or(LOG_INTERVAL_DEFAULT),
            cancel_interval: reader
                .parsed(&CANCEL_INTERVAL, parse::interval)?
                .unwrap_or(CANCEL_INTERVAL_DEFAULT),
            request_timeout: reader
                .parsed(&REQUEST_TIMEOUT, parse::interval)?
                .unwrap_or(REQUEST_TIMEOUT_DEFAULT),
            registry_timeout: reader
                .parsed(&REGISTRY_TIMEOUT, parse::duration)?
                .unwrap_or(REGISTRY_TIMEOUT_DEFAULT),
            body_limit: reader.parsed(&BODY_LIMIT, parse::size)?.unwrap_or(BODY_LIMIT_DEFAULT),
            lock_timeout: reader.parsed(&LOCK_TIMEOUT, parse::duration)?.unwrap_or_default(),
            force_unlock_own: reader.switch(&FORCE_UNLOCK_OWN)?,
            allow_ephemeral_state: reader.switch(&ALLOW_EPHEMERAL_STATE)?,
            after_plan: reader.after_plan()?,
            plan_json: reader.parsed(&PLAN_JSON, parse::plan_json)?.unwrap_or_default(),
            grace_period: reader.parsed(&GRACE_PERIOD, parse::duration)?.unwrap_or(times.grace),
            report_period: times.report,
            report_outputs_after_destroy: reader.switch(&REPORT_OUTPUTS_AFTER_DESTROY)?,
            plan_status: reader.parsed(&PLAN_STATUS, parse::plan_status)?.unwrap_or_default(),
            isolation: Isolation {
                level: reader.parsed(&ISOLATION, parse::isolation_level)?.unwrap_or_default(),
                users: reader.parsed(&ISOLATION_USERS, parse::user_range)?.unwrap_or_default(),
                states: None,
                read: reader.existing_paths(&ISOLATION_READ, Path::exists)?,
                write: reader.existing_paths(&ISOLATION_WRITE, Path::exists)?,
            },
            sensitive_values: reader
                .parsed(&SENSITIVE_VALUES, parse::sensitive_values)?
                .unwrap_or_default(),
            job,
            report_dir,
            keeps_outputs: environment.value(variable::NO_OUTPUTS_FILE.name).is_none(),
            summary,
            report,
            collector: telemetry::collector(environment, tool.ca_bundle.as_ref(), &mut warnings),
            logging,
            git: GitEnvironment {
                submodules: reader.parsed(&SUBMODULES, parse::submodules)?.unwrap_or_default(),
                ..git_environment(environment, tool.ca_bundle.clone())
            },
            environment: without_token(environment.variables(), &source),
            settings_file: reader.existing(&SETTINGS_FILE, Path::is_file)?,
            tool,
            source,
            warnings,
        })
    }
}

impl Logging {
    /// Reads and checks how the runner logs.
    ///
    /// # Errors
    /// If the format or the filter is not valid.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let filter = match arguments.verbosity() {
            0 => reader.parsed(&LOG, parse::log_filter)?.unwrap_or_else(|| "info".to_owned()),
            1 => "debug".to_owned(),
            -1 => "warn".to_owned(),
            more => if more > 0 { "trace" } else { "error" }.to_owned(),
        };
        let format = reader.parsed(&LOG_FORMAT, parse::log_format)?.unwrap_or_default();
        let system = reader.parsed(&CI, parse::ci_system)?;
        Ok(Self {
            format,
            filter,
            reader: system.unwrap_or_else(|| ci_job::detect_system(environment)),
        })
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
