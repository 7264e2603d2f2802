//! Decides every setting: a flag before its variables, an earlier variable before a later one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::directories::Missing;
use super::reader::{Reader, absolute, existing, same_place};
use super::setting::{
    ALLOW_EPHEMERAL_STATE, BODY_LIMIT, CA_BUNDLE, CACHE_DIR, CANCEL_INTERVAL, CI,
    DEFAULT_TOOL_VERSION, DRAIN_PERIOD, FORCE_UNLOCK_OWN, GRACE_PERIOD, LOCK_TIMEOUT, LOG,
    LOG_FORMAT, LOG_INTERVAL, PLAN_JSON, PLAN_STATUS, PROVIDER_CACHE, RECOVERY_DIR,
    REGISTRY_TIMEOUT, REPORT, REPORT_DIR, REQUEST_TIMEOUT, SECRETS_DIR, SENSITIVE_VALUES,
    SETTINGS_FILE, SIGNING_KEY, SUMMARY, TMPFS_DIR, TOKEN, TOOL_TIMEOUT, WORK_DIR,
};
use super::{
    Arguments, CleanSettings, Environment, LocalRequest, Logging, RunSource, Settings,
    SettingsError, ToolSettings, ci_job, directories, mirrors, parse, source, telemetry, variable,
};
use butler_source::git::GitEnvironment;

/// How often log lines are sent: as often as the registry's page asks for them.
const LOG_EVERY: Duration = Duration::from_secs(2);

/// How often the runner asks the registry whether the run was cancelled (ADR-001, pre-flight check).
const ASK_EVERY: Duration = Duration::from_secs(30);

/// Longer than any healthy registry needs for an answer, short enough to try again.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// A registry is available again within minutes after a deployment.
const REGISTRY_LIMIT: Duration = Duration::from_mins(5);

/// A large archive over a slow line; installers of neighbouring systems wait as long.
const TOOL_LIMIT: Duration = Duration::from_mins(10);

/// A run that has just looked a version up has started it by then.
const DRAIN: Duration = Duration::from_secs(30);

/// What the deployed registry takes (registry API, 413).
const BODY_LIMIT_BYTES: usize = 50 * 1024 * 1024;

impl Settings {
    /// Decides all settings.
    ///
    /// Reads the token's file, looks at the files and directories that are named, and creates what
    /// the defaults need: a directory for temporary files where there is none, and the stand-in
    /// for a home directory that cannot be written.
    ///
    /// # Errors
    /// When a setting is missing, cannot be, or does not fit to the others.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let mut warnings = Vec::new();
        let source = source::source(&reader, &mut warnings)?;
        Self::around(source, warnings, &reader)
    }

    /// Decides all settings of a run in a directory that is known already. What arguments and
    /// environment say of other runs does not count; `BUTLER_VAR_FILE` does where no file is given.
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
        Self::around(source, Vec::new(), &reader)
    }

    /// Decides all settings but where the run comes from.
    pub(super) fn around(
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
        let CleanSettings { work_dir, tmpfs_dir, recovery_dir } =
            CleanSettings::read(reader, Missing::Make)?;
        let job = ci_job::job(logging.reader, environment, report_dir.as_deref());
        let summary = reader.document(&SUMMARY, job.reports.as_deref())?;
        let report = reader.document(&REPORT, job.reports.as_deref())?;
        if let (Some(summary), Some(report)) = (&summary, &report)
            && same_place(summary, report)
        {
            let problem = "it is the file of --summary".to_owned();
            return Err(SettingsError::Impossible { setting: &REPORT, problem });
        }
        Ok(Self {
            work_dir,
            tmpfs_dir,
            recovery_dir,
            secrets_dir: reader.existing(&SECRETS_DIR, Path::is_dir)?,
            log_interval: reader.parsed(&LOG_INTERVAL, parse::interval)?.unwrap_or(LOG_EVERY),
            cancel_interval: reader.parsed(&CANCEL_INTERVAL, parse::interval)?.unwrap_or(ASK_EVERY),
            request_timeout: reader
                .parsed(&REQUEST_TIMEOUT, parse::interval)?
                .unwrap_or(REQUEST_LIMIT),
            registry_timeout: reader
                .parsed(&REGISTRY_TIMEOUT, parse::duration)?
                .unwrap_or(REGISTRY_LIMIT),
            body_limit: reader.parsed(&BODY_LIMIT, parse::size)?.unwrap_or(BODY_LIMIT_BYTES),
            lock_timeout: reader.parsed(&LOCK_TIMEOUT, parse::duration)?.unwrap_or_default(),
            force_unlock_own: reader.switch(&FORCE_UNLOCK_OWN)?,
            allow_ephemeral_state: reader.switch(&ALLOW_EPHEMERAL_STATE)?,
            after_plan: reader.after_plan()?,
            plan_json: reader.parsed(&PLAN_JSON, parse::plan_json)?.unwrap_or_default(),
            grace_period: reader.parsed(&GRACE_PERIOD, parse::duration)?.unwrap_or(times.grace),
            report_period: times.report,
            plan_status: reader.parsed(&PLAN_STATUS, parse::plan_status)?.unwrap_or_default(),
            sensitive_values: reader
                .parsed(&SENSITIVE_VALUES, parse::sensitive_values)?
                .unwrap_or_default(),
            job,
            report_dir,
            summary,
            report,
            collector: telemetry::collector(environment, tool.ca_bundle.as_ref(), &mut warnings),
            logging,
            git: git_environment(environment, tool.ca_bundle.clone()),
            environment: without_token(environment.variables(), &source),
            settings_file: reader.existing(&SETTINGS_FILE, Path::is_file)?,
            tool,
            source,
            warnings,
        })
    }
}

impl CleanSettings {
    /// Decides where to tidy up, and where to keep what is precious.
    ///
    /// # Errors
    /// When one of these settings cannot be.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        Self::read(&Reader { arguments, environment }, Missing::Make)
    }

    /// The same for a dry run: does not create any directories.
    ///
    /// # Errors
    /// When one of these settings cannot be.
    pub fn resolve_to_look(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        Self::read(&Reader { arguments, environment }, Missing::Name)
    }

    fn read(reader: &Reader<'_>, missing: Missing) -> Result<Self, SettingsError> {
        let work_dir = match reader.path(&WORK_DIR)? {
            Some(path) => path,
            None => absolute(&WORK_DIR, &directories::temporary(reader.environment, missing)?)?,
        };
        Ok(Self {
            work_dir: existing(&WORK_DIR, work_dir, Path::is_dir)?,
            tmpfs_dir: reader.existing(&TMPFS_DIR, Path::is_dir)?,
            recovery_dir: match reader.path(&RECOVERY_DIR)? {
                Some(directory) => directory,
                None => cache_dir(reader, missing)?.join("recovery"),
            },
        })
    }
}

impl ToolSettings {
    /// Decides where tools come from and where they are kept.
    ///
    /// # Errors
    /// When one of these settings cannot be.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let mut warnings = Vec::new();
        let signing_keys = reader
            .paths(&SIGNING_KEY)?
            .into_iter()
            .map(|key| existing(&SIGNING_KEY, key, Path::is_file))
            .collect::<Result<_, _>>()?;
        let written = cache_dir(&reader, Missing::Make)?;
        let prebaked = match reader.path(&CACHE_DIR)? {
            Some(_) => None,
            None => directories::prebaked(environment, &mut warnings),
        };
        Ok(Self {
            provider_cache: provider_cache(&reader, prebaked.as_deref(), &written)?,
            cache_dir: prebaked.unwrap_or(written),
            sites: mirrors::sites(&reader, &mut warnings)?,
            signing_keys,
            ca_bundle: ca_bundle(&reader)?,
            default_version: reader.parsed(&DEFAULT_TOOL_VERSION, parse::request)?,
            timeout: reader.parsed(&TOOL_TIMEOUT, parse::interval)?.unwrap_or(TOOL_LIMIT),
            drain_period: reader.parsed(&DRAIN_PERIOD, parse::duration)?.unwrap_or(DRAIN),
            warnings,
        })
    }
}

/// None where the user wants no such cache.
fn provider_cache(
    reader: &Reader<'_>,
    prebaked: Option<&Path>,
    written: &Path,
) -> Result<Option<PathBuf>, SettingsError> {
    if reader.parsed(&PROVIDER_CACHE, |text| Ok(text == "off"))? == Some(true) {
        return Ok(None);
    }
    let prebaked = prebaked.map(|cache| cache.join("providers")).filter(|path| path.is_dir());
    let default = || prebaked.unwrap_or_else(|| written.join("providers"));
    Ok(Some(reader.path(&PROVIDER_CACHE)?.unwrap_or_else(default)))
}

fn cache_dir(reader: &Reader<'_>, missing: Missing) -> Result<PathBuf, SettingsError> {
    match reader.path(&CACHE_DIR)? {
        Some(path) => Ok(path),
        None => directories::default_cache(reader.environment, missing),
    }
}

/// The bundle, if it can be used.
pub(super) fn ca_bundle(reader: &Reader<'_>) -> Result<Option<PathBuf>, SettingsError> {
    let bundle = reader.existing(&CA_BUNDLE, Path::is_file)?;
    if let Some(path) = &bundle {
        butler_base::http::check_bundle(path).map_err(|error| SettingsError::Impossible {
            setting: &CA_BUNDLE,
            problem: butler_base::error::chain(&error),
        })?;
    }
    Ok(bundle)
}

impl Logging {
    /// Decides how the runner logs.
    ///
    /// # Errors
    /// When the format or the filter cannot be.
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

fn git_environment(environment: &Environment, ca_bundle: Option<PathBuf>) -> GitEnvironment {
    let text = |name: &str| environment.value(name).and_then(OsStr::to_str).map(str::trim);
    GitEnvironment {
        tokens: [&variable::GIT_TOKEN, &variable::GITHUB_TOKEN, &variable::CI_JOB_TOKEN]
            .into_iter()
            .filter_map(|it| Some((it.name, SecretString::from(text(it.name)?))))
            .collect(),
        token_host: text(variable::GIT_HOST.name).map(str::to_owned),
        ssh_agent: environment.value(variable::SSH_AUTH_SOCK.name).map(OsStr::to_owned),
        home: environment.value(variable::HOME.name).map(PathBuf::from),
        ca_bundle,
        variables: variable::NETWORK
            .into_iter()
            .filter_map(|name| Some((name.into(), environment.value(name)?.to_owned())))
            .collect(),
        executable: environment.executable().to_owned(),
    }
}

/// The environment without the token, whatever the variable is called: a run could refer to it as
/// if it were a secret of its own.
fn without_token(
    variables: &BTreeMap<OsString, OsString>,
    source: &RunSource,
) -> BTreeMap<OsString, OsString> {
    let token = match source {
        RunSource::Registry { token, .. } => Some(token.expose_secret()),
        RunSource::File { .. } | RunSource::Local { .. } => None,
    };
    // What starts a workflow is in a file, and so is the token where it came with that.
    let leads_to_token = |name: &OsStr, value: &OsStr, token: &str| {
        name == variable::GITHUB_EVENT_PATH.name && holds(Path::new(value), token)
    };
    let is_token = |name: &OsStr, value: &OsStr| {
        name == TOKEN.variables[0]
            || token.is_some_and(|token| {
                value.to_str().map(str::trim) == Some(token) || leads_to_token(name, value, token)
            })
    };
    variables
        .iter()
        .filter(|(name, value)| !is_token(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether a file can be read and `text` is somewhere in it.
fn holds(file: &Path, text: &str) -> bool {
    let content = if file.is_file() { fs_err::read(file).unwrap_or_default() } else { Vec::new() };
    content.windows(text.len()).any(|part| part == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::System;
    use crate::settings::setting::{
        ENDPOINT, LOCAL, MODULE_DIR, OPERATION, RUN_ID, TF_VERSION, TOKEN_FILE, VAR_FILE,
    };
    use crate::settings::{LogFormat, PlanStatus};

    const REGISTRY: [(&str, &str); 3] = [
        ("BUTLER_ENDPOINT", "https://portal.example.com/api/registry/"),
        ("BUTLER_RUN_ID", "run 7"),
        ("BUTLER_TOKEN", "brce_hunter2"),
    ];

    fn environment(variables: &[(&str, &str)]) -> Environment {
        // Somewhere that is neither read nor written, unless a test says otherwise.
        let cache = ("BUTLER_CACHE_DIR", "/proc/nonexistent");
        let all = [&[cache], variables].concat();
        let all = all.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment::new(all, PathBuf::from("/butler-runner"))
    }

    fn resolve(
        arguments: &Arguments,
        variables: &[(&str, &str)],
    ) -> Result<Settings, SettingsError> {
        Settings::resolve(arguments, &environment(variables))
    }

    fn message(arguments: &Arguments, variables: &[(&str, &str)]) -> String {
        butler_base::error::chain(&resolve(arguments, variables).unwrap_err())
    }

    fn endpoint_of(settings: &Settings) -> &str {
        match &settings.source {
            RunSource::Registry { endpoint, .. } => endpoint.as_str(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn registry_run_needs_three_variables_and_has_documented_defaults() {
        let settings = resolve(&Arguments::default(), &REGISTRY).unwrap();
        let RunSource::Registry { endpoint, run_id, token } = &settings.source else {
            panic!("{settings:?}")
        };
        assert_eq!(endpoint.as_str(), "https://portal.example.com/api/registry");
        assert_eq!((run_id.as_str(), token.expose_secret()), ("run 7", "brce_hunter2"));
        assert_eq!(settings.log_interval, Duration::from_secs(2));
        assert_eq!(settings.cancel_interval, Duration::from_secs(30));
        assert_eq!(settings.grace_period, Duration::from_mins(1));
        assert_eq!(settings.plan_status, PlanStatus::Succeeded);
        assert_eq!(settings.work_dir, std::env::temp_dir());
        let text =
            Logging { format: LogFormat::Text, filter: "info".to_owned(), reader: System::None };
        assert_eq!(settings.logging, text);
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    }

    #[test]
    fn flag_wins_over_variable_and_earlier_variable_over_later() {
        let later = [REGISTRY[1], REGISTRY[2], ("BUTLER_URL", "https://later.example.com/a")];
        let settings = resolve(&Arguments::default(), &later).unwrap();
        assert_eq!(endpoint_of(&settings), "https://later.example.com/a");
        let both = [&REGISTRY[..], &later[2..]].concat();
        let settings = resolve(&Arguments::default(), &both).unwrap();
        assert_eq!(endpoint_of(&settings), "https://portal.example.com/api/registry");
        let flag = Arguments::default().with(&ENDPOINT, "https://flag.example.com/a");
        assert_eq!(endpoint_of(&resolve(&flag, &both).unwrap()), "https://flag.example.com/a");
    }

    #[test]
    fn empty_variable_is_no_variable_but_empty_flag_is_a_mistake() {
        let empty = [&REGISTRY[1..], &[("BUTLER_ENDPOINT", ""), ("BUTLER_URL", "http://a/b")]];
        let settings = resolve(&Arguments::default(), &empty.concat()).unwrap();
        assert_eq!(endpoint_of(&settings), "http://a/b");
        let flag = Arguments::default().with(&RUN_ID, "");
        assert_eq!(message(&flag, &REGISTRY), "the run id is empty (--run-id, BUTLER_RUN_ID)");
    }

    #[test]
    fn missing_setting_is_named_by_flag_and_variable() {
        for (left_out, expected) in [
            (0, "no endpoint is given (--endpoint, BUTLER_ENDPOINT, BUTLER_URL)"),
            (1, "no run id is given (--run-id, BUTLER_RUN_ID)"),
            (2, "no token is given (--token, BUTLER_TOKEN)"),
        ] {
            let mut variables = REGISTRY.to_vec();
            variables.remove(left_out);
            assert_eq!(message(&Arguments::default(), &variables), expected);
        }
        let local = Arguments::default().with(&LOCAL, "true");
        assert!(message(&local, &[]).contains("--module-dir, BUTLER_MODULE_DIR"));
        let local = local.with(&MODULE_DIR, "/");
        assert_eq!(message(&local, &[]), "no operation is given (--operation, BUTLER_OPERATION)");
    }

    #[test]
    fn every_setting_that_cannot_be_is_named_by_flag_and_variable() {
        let free =
            [&LOG, &CACHE_DIR, &REPORT_DIR, &SUMMARY, &REPORT, &RECOVERY_DIR, &PROVIDER_CACHE];
        let refusable = crate::settings::SETTINGS.iter().copied().filter(|it| !free.contains(it));
        for setting in refusable {
            // No URL, number, operation or version, no file, and no token.
            let bad = "/proc/nonexistent/a b\n";
            let mut variables: Vec<_> = match setting.section {
                crate::settings::Section::Alone => vec![],
                _ => REGISTRY.into_iter().filter(|it| it.0 != "BUTLER_TOKEN").collect(),
            };
            if *setting != TOKEN_FILE {
                variables.push(REGISTRY[2]);
            }
            let mut arguments = Arguments::default();
            if [&MODULE_DIR, &OPERATION, &TF_VERSION, &VAR_FILE].contains(&setting) {
                variables.extend([("BUTLER_LOCAL", "true"), ("BUTLER_MODULE_DIR", "/")]);
                arguments.add(&OPERATION, "plan");
            }
            let variables: Vec<_> =
                variables.into_iter().filter(|it| !setting.variables.contains(&it.0)).collect();
            let with_variable = [&variables[..], &[(setting.variables[0], bad)]].concat();
            let by_variable = if *setting == OPERATION {
                message(&Arguments::default(), &with_variable)
            } else {
                message(&arguments, &with_variable)
            };
            assert!(by_variable.contains(&format!("({setting})")), "{setting}: {by_variable}");
            assert!(!by_variable.contains('\n'), "{by_variable:?}");
        }
    }

    #[test]
    fn platform_that_kills_sooner_leaves_less_time() {
        let kubernetes = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        for (extra, seconds) in [
            (vec![], [60, 10]),
            (vec![kubernetes], [20, 9]),
            (vec![("GITHUB_ACTIONS", "true")], [5, 4]),
            (vec![("GITHUB_ACTIONS", "false")], [60, 10]),
            (vec![kubernetes, ("GITHUB_ACTIONS", "true")], [5, 4]),
            (vec![("GITLAB_CI", "true")], [5, 4]),
            (vec![kubernetes, ("GITLAB_CI", "true")], [5, 4]),
            (vec![("JENKINS_URL", "https://jenkins.example.com/")], [5, 4]),
            (vec![kubernetes, ("BUTLER_GRACE_PERIOD", "90")], [90, 9]),
        ] {
            let variables = [&REGISTRY[..], &extra].concat();
            let settings = resolve(&Arguments::default(), &variables).unwrap();
            let times = [settings.grace_period, settings.report_period];
            assert_eq!(times, seconds.map(Duration::from_secs), "{extra:?}");
        }
    }

    #[test]
    fn terraform_inherits_neither_the_token_nor_what_is_the_runners_own() {
        let variables = [
            &REGISTRY[..],
            &[
                ("INPUT_CALLBACK_TOKEN", "brce_hunter2\n"),
                ("BUTLER_GIT_TOKEN", "a"),
                ("GITHUB_TOKEN", "b"),
                ("CI_JOB_TOKEN", "c"),
                ("AWS_REGION", "eu-central-1"),
                ("EMPTY", ""),
                ("JENKINS_SERVER_COOKIE", "durable-1"),
                ("JENKINS_NODE_COOKIE", "2"),
            ],
        ];
        let settings = resolve(&Arguments::default(), &variables.concat()).unwrap();
        let names = |used: &[&str]| -> Vec<String> {
            let child = settings.child_environment(used);
            child.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&["GITHUB_TOKEN"]), ["AWS_REGION", "CI_JOB_TOKEN", "EMPTY"]);
        assert_eq!(names(&[]), ["AWS_REGION", "CI_JOB_TOKEN", "EMPTY", "GITHUB_TOKEN"]);
        let holds_token =
            |(_, value): (&OsString, &OsString)| value.to_string_lossy().contains("hunter2");
        assert!(!settings.environment.iter().any(holds_token));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn terraform_inherits_no_login_of_a_mirror() {
        let extra = [
            ("TFENV_REMOTE", "https://user:hunter2@one.example/x"),
            ("TFENV_REMOTE_USER", "hunter2"),
            ("TFENV_REMOTE_PASSWORD", "hunter2"),
            ("TOFUENV_REMOTE_USER", "hunter2"),
            ("TOFUENV_REMOTE_PASSWORD", "hunter2"),
            ("TOFUENV_URL_TEMPLATE", "https://u:hunter2@a.example/{{ .Version }}/{{ .Artifact }}"),
            ("TOFUENV_REMOTE", "https://two.example/x"),
            ("TG_REMOTE_PASSWORD", "hunter2"),
            ("ATLANTIS_TF_DOWNLOAD_URL", "https://hunter2@three.example"),
        ];
        let variables = [&REGISTRY[..], &extra].concat();
        let settings = resolve(&Arguments::default(), &variables).unwrap();
        let child: Vec<_> =
            settings.child_environment(&[]).iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(child, ["TOFUENV_REMOTE"]);
    }

    #[test]
    fn token_that_the_run_does_not_use_is_taken_out_too() {
        let flag = Arguments::default().with(&TOKEN, "brce_other");
        let local = Arguments::default()
            .with(&LOCAL, "true")
            .with(&MODULE_DIR, "/")
            .with(&OPERATION, "plan");
        for arguments in [flag, local] {
            let settings = resolve(&arguments, &REGISTRY).unwrap();
            assert!(!settings.environment.contains_key(OsStr::new("BUTLER_TOKEN")));
        }
    }

    #[test]
    fn git_tokens_come_in_their_order_and_empty_ones_do_not_count() {
        let extra = [("CI_JOB_TOKEN", "c"), ("GITHUB_TOKEN", ""), ("BUTLER_GIT_TOKEN", "a\n")];
        let extra = [&REGISTRY[..], &extra, &[("BUTLER_GIT_HOST", "git.example.com")]].concat();
        let git = resolve(&Arguments::default(), &extra).unwrap().git;
        let tokens: Vec<_> =
            git.tokens.iter().map(|(name, token)| (*name, token.expose_secret())).collect();
        assert_eq!(tokens, [("BUTLER_GIT_TOKEN", "a"), ("CI_JOB_TOKEN", "c")]);
        assert_eq!(git.token_host.as_deref(), Some("git.example.com"));
        assert_eq!(git.executable, Path::new("/butler-runner"));
    }

    #[test]
    fn bundle_without_a_certificate_is_a_mistake() {
        let bundle = tempfile::NamedTempFile::new().unwrap();
        let arguments = Arguments::default().with(&CA_BUNDLE, bundle.path());
        let message = message(&arguments, &REGISTRY);
        assert!(message.contains("does not contain a PEM certificate"), "{message}");
        assert!(message.ends_with("(--ca-bundle, BUTLER_CA_BUNDLE)"), "{message}");
    }

    #[test]
    fn verbosity_flags_win_over_the_filter_variable() {
        for (verbosity, filter) in [
            (0, "butler_runner::tool=trace"),
            (1, "debug"),
            (2, "trace"),
            (-1, "warn"),
            (-3, "error"),
        ] {
            let mut arguments = Arguments::default();
            arguments.set_verbosity(verbosity);
            let environment = environment(&[("BUTLER_LOG", "butler_runner::tool=trace")]);
            assert_eq!(Logging::resolve(&arguments, &environment).unwrap().filter, filter);
        }
    }
}
