//! Gets a run from the registry, a file, or the command line, and starts it.

use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;

use super::terraform_settings;
use super::version_query::EarlyVersionQuery;
use crate::exit::Exit;
use crate::registry::{Address, Client, Limits, Patience, RegistryError, RunStatus};
use crate::run::failure::{Cause, Failure};
use crate::run::findings::Findings;
use crate::run::lifecycle::Run;
use crate::run::masking::secrets::register_settings;
use crate::run::panic::catch_panic;
use crate::run::reporting::notices::Notices;
use crate::run::reporting::report_files::prepare_directory;
use crate::run::reporting::reports::{RegistryReports, Reports};
use crate::run::result::build_result;
use crate::run::terminal::Terminal;
use crate::run::watch;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::{Advice, chain};
use butler_base::event::Phase;
use butler_base::http;
use butler_base::secret::Redactor;
use butler_protocol::backend::StateReport;
use butler_protocol::configuration::{ConfigError, parse_config};
use butler_protocol::spec::{
    LocalOptions, Operation, PlanFile, PlanPurpose, RequestedVersion, RunSpec, SensitiveValues,
    Source, TerraformSetup,
};

/// The advice if a run already has a result.
const NEW_RUN_ADVICE: &str = "start a new run instead";

/// A run, and its settings for Terraform as JSON text.
type ParsedRun = (RunSpec, Option<SecretString>);

/// Gets the run and executes it.
pub(in crate::run) async fn start(
    settings: &Settings,
    stop: &Stop,
    reports: Reports,
    terminal: Terminal,
) -> Exit {
    if let Some(directory) = &settings.report_dir
        && let Err(error) = prepare_directory(directory)
    {
        tracing::error!(error = %chain(&error), "{}", error.advice().unwrap_or_default());
        return Exit::Usage;
    }
    let file = match terraform_settings::read(settings) {
        Ok(file) => file,
        Err(error) => {
            tracing::error!("{}", with_advice(&error));
            return Exit::Usage;
        }
    };
    register_settings(&reports.redactor, settings);
    let (redactor, notices) = (reports.redactor.clone(), reports.notices.clone());
    let config_span = reports.notices.timeline.begin(Phase::Config);
    let version = EarlyVersionQuery::start(settings);
    // Lets the query start before the first request: it takes longer than both requests and a clone from
    // a near server.
    tokio::task::yield_now().await;
    let run = match &settings.source {
        RunSource::Registry { endpoint, run_id, token } => {
            let address = Address::new(endpoint.clone(), run_id.clone());
            let limits =
                Limits { attempt: settings.request_timeout, long: settings.registry_timeout };
            let mut clients = match http::clients(
                settings.tool.ca_bundle.as_deref(),
                http::Redirects::Refuse,
            ) {
                Ok(clients) => clients,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "check --ca-bundle (BUTLER_CA_BUNDLE)");
                    return Exit::Usage;
                }
            };
            clients.observed = reports.notices.observed();
            let client = Arc::new(Client::new(clients, address, token.clone(), limits));
            from_registry(settings, stop, client, reports, terminal).await
        }
        RunSource::File { config } => {
            let spec = match read_config(config) {
                Ok(spec) => spec,
                Err(error) => {
                    let file = config.display();
                    tracing::error!(
                        "`{file}`: {error:#}; `butler-runner schema run` prints its shape (--config, BUTLER_CONFIG)"
                    );
                    return Exit::Usage;
                }
            };
            Ok(plain_run(settings, stop, reports, terminal, spec))
        }
        RunSource::Local { module_dir, operation, tool, options } => {
            let spec = local_spec(module_dir, *operation, tool.clone());
            let spec = Ok((spec, None));
            let mut run = plain_run(settings, stop, reports, terminal, spec);
            run.options.clone_from(options);
            Ok(run)
        }
    };
    match run {
        Ok(mut run) => {
            run.apply_terraform_settings(file);
            Box::pin(run.execute(config_span, version)).await
        }
        Err(failure) => {
            drop(config_span);
            publish_failure(settings, &failure, &redactor, &notices, stop).await
        }
    }
}

/// Writes the documents of a run that ended before its configuration was known. The registry gets no
/// report.
async fn publish_failure(
    settings: &Settings,
    failure: &Failure,
    redactor: &Redactor,
    notices: &Notices,
    stop: &Stop,
) -> Exit {
    let (findings, timings) = (Findings::default(), notices.timeline.timings());
    let (mut result, exit) =
        build_result(settings, None, findings, Some(failure), redactor, timings);
    result.warnings.clone_from(&settings.warnings);
    result.mask(redactor);
    notices.publish(result, true, stop).await;
    exit
}

/// Fetches the run from the registry.
///
/// # Errors
/// If the run is over or has a result, if the registry cannot be reached, or if the run is stopped.
async fn from_registry<'settings>(
    settings: &'settings Settings,
    stop: &Stop,
    client: Arc<Client>,
    mut reports: Reports,
    terminal: Terminal,
) -> Result<Run<'settings>, Failure> {
    let status = tokio::select! {
        status = client.status(Patience::Long) => status,
        // The status of the run is not known yet, so nothing may be reported to the registry.
        reason = stop.requested() => return Err(Failure::stopped(Phase::Config, &reason)),
    };
    match status {
        Ok(RunStatus::Open(status)) => tracing::info!(status, "the run is open"),
        Ok(RunStatus::Over(status)) => {
            tracing::warn!("the registry has ended the run ({status}); nothing to do");
            return Err(Failure::stopped(Phase::Config, &StopReason::RunOver { status }));
        }
        Ok(RunStatus::Reported(status)) => {
            let reason = format!("the run has a result already ({status})");
            if !reports.notices.shows_failure() {
                tracing::error!("{reason}; {NEW_RUN_ADVICE}");
            }
            let failure = Failure::because(Phase::Config, reason).caused_by(Cause::Registry);
            return Err(failure.advise(NEW_RUN_ADVICE));
        }
        Err(RegistryError::RunOver) => return Err(run_is_over()),
        Err(error) => {
            if !reports.notices.shows_failure() {
                tracing::error!("{}", with_advice(&error));
            }
            return Err(Failure::new(Phase::Config, &error).caused_by(Cause::Registry));
        }
    }
    let watch = watch::cancellation(client.clone(), stop, settings.cancel_interval);
    let registry = Arc::new(RegistryReports::new(client.clone(), stop.clone()));
    reports.registry = Some(registry.clone());
    let config = catch_panic(async {
        tokio::select! {
            config = client.config() => Ok(config),
            reason = stop.requested() => Err(Failure::stopped(Phase::Config, &reason)),
        }
    });
    let (spec, warnings) = match config.await {
        Ok(Ok(config)) => {
            registry.configure(config.callbacks, config.stop_status);
            (Ok((config.spec, config.terraform_settings)), config.warnings)
        }
        Ok(Err(RegistryError::RunOver)) => return Err(run_is_over()),
        Ok(Err(error)) => {
            let is_config = matches!(error, RegistryError::Config(_));
            let cause = if is_config { Cause::Run } else { Cause::Registry };
            (Err(Failure::new(Phase::Config, &error).caused_by(cause)), Vec::new())
        }
        Err(failure) => (Err(failure), Vec::new()),
    };
    let mut run = plain_run(settings, stop, reports, terminal, spec);
    run.warnings = warnings;
    run.watch = Some(watch);
    Ok(run)
}

/// A run without the parts that only some sources have.
fn plain_run<'settings>(
    settings: &'settings Settings,
    stop: &Stop,
    reports: Reports,
    terminal: Terminal,
    spec: Result<ParsedRun, Failure>,
) -> Run<'settings> {
    let (spec, own_settings) = match spec {
        Ok((spec, own_settings)) => (Ok(spec), own_settings),
        Err(failure) => (Err(failure), None),
    };
    let mut options = Box::<LocalOptions>::default();
    if let Ok(spec) = &spec {
        options.plan_file = spec.plan_file.clone();
        options.purpose = spec.plan_purpose;
        options.force_unlock.clone_from(&spec.force_unlock);
        options.state_report.clone_from(&spec.state_report);
    }
    Run {
        settings,
        stop: stop.clone(),
        reports,
        terminal,
        spec,
        own_settings,
        warnings: Vec::new(),
        options,
        watch: None,
    }
}

/// The failure if the registry has ended the run, which it then answers to each request.
fn run_is_over() -> Failure {
    let reason = StopReason::RunOver { status: "409".to_owned() };
    let failure = Failure::stopped(Phase::Config, &reason);
    tracing::warn!("{}", failure.reason);
    failure
}

/// Reads a configuration from a file. A file that cannot be read or parsed is an error of the command
/// line. A file with an impossible run is a run that fails, as if a registry had sent it.
fn read_config(path: &Path) -> anyhow::Result<Result<ParsedRun, Failure>> {
    let json = fs_err::read(path)?;
    match parse_config(&json) {
        Ok(parsed) => Ok(Ok((parsed.spec, parsed.terraform_settings))),
        Err(error @ ConfigError::Syntax { .. }) => Err(error.into()),
        Err(error) => Ok(Err(Failure::new(Phase::Config, &error))),
    }
}

/// The run of a command line.
fn local_spec(module_dir: &Path, operation: Operation, tool: Option<RequestedVersion>) -> RunSpec {
    RunSpec {
        operation,
        tool,
        source: Source::Directory(module_dir.to_owned()),
        variables: Vec::new(),
        sensitive_values: SensitiveValues::default(),
        upstream_outputs: Vec::new(),
        environment: Vec::new(),
        backend: None,
        setup: TerraformSetup::default(),
        work_directory: None,
        plan_file: PlanFile::default(),
        plan_purpose: PlanPurpose::default(),
        force_unlock: None,
        state_report: StateReport::Omit,
    }
}

/// An error with its advice, in one line.
fn with_advice(error: &(impl Advice + 'static)) -> String {
    match error.advice() {
        Some(advice) => format!("{}; {advice}", chain(error)),
        None => chain(error),
    }
}
