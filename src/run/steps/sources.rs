//! Where a run comes from: the registry, a file, or the command line.

use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;
use zeroize::Zeroizing;

use super::early_question::EarlyQuestion;
use super::terraform_settings;
use crate::exit::Exit;
use crate::registry::{Address, Client, Limits, Patience, RegistryError, RunStatus};
use crate::run::context::run_id;
use crate::run::lifecycle::Run;
use crate::run::masking::secrets::register_settings;
use crate::run::panic::catch_panic;
use crate::run::reporting::notices::Notices;
use crate::run::reporting::outcome::{Failure, Outcome};
use crate::run::reporting::report_files::prepare_directory;
use crate::run::reporting::reports::{RegistryReports, Reports};
use crate::run::terminal::Terminal;
use crate::run::watch;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::{Advice, chain};
use butler_base::event::Phase;
use butler_base::http;
use butler_base::secret::Redactor;
use butler_protocol::configuration::{ConfigError, parse_config};
use butler_protocol::spec::{
    Operation, RequestedVersion, RunSpec, SensitiveValues, Source, TerraformSetup,
};

/// What to do where a run has a result.
const NEW_RUN: &str = "start a new run instead";

/// A run, and what it lays down for Terraform itself, as JSON text.
type Described = (RunSpec, Option<SecretString>);

/// Gets the run and carries it out.
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
            tracing::error!("{}", lines(&error));
            return Exit::Usage;
        }
    };
    register_settings(&reports.redactor, settings);
    let (redactor, notices) = (reports.redactor.clone(), reports.notices.clone());
    let asking = reports.notices.timeline.begin(Phase::Config);
    let version = EarlyQuestion::ask(settings);
    // Lets the question start before the first request: it takes longer than both requests and the
    // clone from a near server.
    tokio::task::yield_now().await;
    let run = match &settings.source {
        RunSource::Registry { endpoint, run_id, token } => {
            let address = Address::new(endpoint.clone(), run_id.clone());
            let limits =
                Limits { attempt: settings.request_timeout, long: settings.registry_timeout };
            let mut own = match http::clients(
                settings.tool.ca_bundle.as_deref(),
                http::Redirects::Refuse,
            ) {
                Ok(own) => own,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "check --ca-bundle (BUTLER_CA_BUNDLE)");
                    return Exit::Usage;
                }
            };
            own.observed = reports.notices.observed();
            let client = Arc::new(Client::new(own, address, token.clone(), limits));
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
            Ok(run(settings, stop, reports, terminal, spec))
        }
        RunSource::Local { module_dir, operation, tool, options } => {
            let spec = local(module_dir, *operation, tool.clone());
            let spec = Ok((spec, None));
            let mut run = run(settings, stop, reports, terminal, spec);
            run.options.clone_from(options);
            Ok(run)
        }
    };
    match run {
        Ok(mut run) => {
            run.apply_terraform_settings(file);
            run.execute(asking, version).await
        }
        Err(failure) => {
            drop(asking);
            publish(settings, failure, &redactor, &notices, stop).await
        }
    }
}

/// Tells everybody but the registry how a run ended that was never had.
async fn publish(
    settings: &Settings,
    failure: Failure,
    redactor: &Redactor,
    notices: &Notices,
    stop: &Stop,
) -> Exit {
    let outcome = Outcome::from(failure);
    let mut result = outcome.result(settings.plan_status, notices.timeline.timings());
    result.run_id = run_id(settings);
    result.warnings.clone_from(&settings.warnings);
    result.mask(redactor);
    notices.publish(result, true, stop).await;
    outcome.exit()
}

/// The run that the registry has, if it is one to carry out.
async fn from_registry<'settings>(
    settings: &'settings Settings,
    stop: &Stop,
    client: Arc<Client>,
    mut reports: Reports,
    terminal: Terminal,
) -> Result<Run<'settings>, Failure> {
    let refused = |failure: Failure| Failure { registry: true, ..failure };
    let status = tokio::select! {
        status = client.status(Patience::Long) => status,
        // Whose run it is and how it stands is not known yet, so nothing may be reported.
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
            if !reports.notices.tell_failure() {
                tracing::error!("{reason}; {NEW_RUN}");
            }
            let failure = Failure::because(Phase::Config, reason);
            return Err(refused(Failure { advice: Some(NEW_RUN.to_owned()), ..failure }));
        }
        Err(RegistryError::RunOver) => return Err(over()),
        Err(error) => {
            if !reports.notices.tell_failure() {
                tracing::error!("{}", lines(&error));
            }
            return Err(refused(Failure::new(Phase::Config, &error)));
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
            registry.use_callbacks(config.callbacks);
            (Ok((config.spec, config.terraform_settings)), config.warnings)
        }
        Ok(Err(RegistryError::RunOver)) => return Err(over()),
        Ok(Err(error)) => {
            let registry = !matches!(error, RegistryError::Config(_));
            (Err(Failure { registry, ..Failure::new(Phase::Config, &error) }), Vec::new())
        }
        Err(failure) => (Err(failure), Vec::new()),
    };
    let mut run = run(settings, stop, reports, terminal, spec);
    run.warnings = warnings;
    run.watch = Some(watch);
    Ok(run)
}

/// A run without anything that only some origins have.
fn run<'settings>(
    settings: &'settings Settings,
    stop: &Stop,
    reports: Reports,
    terminal: Terminal,
    spec: Result<Described, Failure>,
) -> Run<'settings> {
    let (spec, own_settings) = match spec {
        Ok((spec, own_settings)) => (Ok(spec), own_settings),
        Err(failure) => (Err(failure), None),
    };
    Run {
        settings,
        stop: stop.clone(),
        reports,
        terminal,
        spec,
        own_settings,
        warnings: Vec::new(),
        options: Box::default(),
        watch: None,
    }
}

/// The registry answers to each request that it has ended the run.
fn over() -> Failure {
    let reason = StopReason::RunOver { status: "409".to_owned() };
    let failure = Failure::stopped(Phase::Config, &reason);
    tracing::warn!("{}", failure.reason);
    failure
}

/// Reads a configuration from a file. One that cannot be read is the caller's mistake; one that
/// describes no run is a run that fails, as it is when a registry sends it.
fn read_config(path: &Path) -> anyhow::Result<Result<Described, Failure>> {
    let json = Zeroizing::new(fs_err::read(path)?);
    match parse_config(&json) {
        Ok(parsed) => Ok(Ok((parsed.spec, parsed.terraform_settings))),
        Err(error @ ConfigError::Syntax { .. }) => Err(error.into()),
        Err(error) => Ok(Err(Failure::new(Phase::Config, &error))),
    }
}

fn local(module_dir: &Path, operation: Operation, tool: Option<RequestedVersion>) -> RunSpec {
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
    }
}

fn lines(error: &(impl Advice + 'static)) -> String {
    match error.advice() {
        Some(advice) => format!("{}; {advice}", chain(error)),
        None => chain(error),
    }
}
