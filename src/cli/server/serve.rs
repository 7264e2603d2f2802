//! `serve`: the server.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;

use butler_base::cancel::Stop;
use butler_base::secret::Redactor;
use butler_follower::config::Registry;
use butler_server::api::Hosts;
use butler_server::attempts::Secrets;
use butler_server::config::{self, Config, ConfigError};
use butler_server::model::{Action, Phase};
use butler_server::serve::{
    self as server, ConfigFiles, DryRun, LayerView, Options, Pass, TlsFiles, Views, read_registry,
};
use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};

use crate::cli::columns::columns;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::logging;
use crate::cli::output::{complain, print, refuse};
use crate::cli::runtime::block_on;
use crate::cli::screen::{self, Output};
use crate::exit::Exit;
use crate::run::signals;
use crate::settings::{Arguments, Environment, ServerConfig, ServerSettings};

use super::ServeFlags;

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 stopped by a signal, or the pass of --once succeeded; 1 the server cannot \
work, or a run of --once failed; 2 usage";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct Serve {
    #[command(flatten)]
    flags: Flags<ServeFlags>,
}

impl Serve {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let settings = match ServerSettings::resolve(&arguments, environment) {
            Ok(settings) => settings,
            Err(error) => return refuse(&error),
        };
        let (config, config_files) = match load(&settings) {
            Ok(loaded) => loaded,
            Err(errors) => {
                for error in errors {
                    complain(&error.to_string(), None);
                }
                return Exit::Usage.code();
            }
        };
        // Before it is read.
        let followers_file = settings.followers.as_deref().map(ConfigFiles::at);
        let followers = match settings.followers.as_deref().map(read_registry).transpose() {
            Ok(read) => read.map(|(registry, _)| registry).unwrap_or_default(),
            Err(errors) => {
                for error in errors {
                    complain(&error, None);
                }
                return Exit::Usage.code();
            }
        };
        let redactor = Arc::new(Redactor::new());
        let screen = screen::open(&settings.logging, environment, Output::Lines);
        let _log = logging::start(&settings.logging, environment, &redactor, &screen);
        let (is_one_pass, is_dry_run) = (settings.once, settings.dry_run);
        let isolation = settings.isolation_name();
        tracing::info!(isolation, data = %settings.data.display(), "the server starts");
        let options = options(settings, config, environment);
        let options = Options { config_files, followers, followers_file, ..options };
        block_on(run(options, is_one_pass, is_dry_run)).unwrap_or_else(|| Exit::Failed.code())
    }
}

/// The configuration, and its files if it has any.
fn load(settings: &ServerSettings) -> Result<(Config, Option<ConfigFiles>), Vec<ConfigError>> {
    Ok(match &settings.config {
        ServerConfig::Resources => (Config::default(), None),
        ServerConfig::Path(path) => {
            let files = ConfigFiles::at(path);
            (config::load(path, Some(&settings.data))?, Some(files))
        }
        ServerConfig::Repository { url, glob, reference } => {
            (config::of_repository(url, glob, reference.as_deref())?, None)
        }
    })
}

fn options(settings: ServerSettings, config: Config, environment: &Environment) -> Options {
    let variables = environment.clone();
    let variable = move |name: &str| variables.value(name)?.to_str().map(Into::into);
    let isolation = settings.isolation_name().to_owned();
    Options {
        config,
        limits: settings.limits,
        config_files: None,
        followers: Registry::default(),
        followers_file: None,
        resources: settings.resources,
        cluster: settings.cluster,
        data: settings.data,
        listen: settings.address.listen,
        hosts: Hosts {
            names: settings.address.hosts,
            public_url: settings.address.public_url,
            trusted_proxies: settings.address.trusted_proxies,
            is_tls: settings.address.tls.is_some(),
            ..Hosts::new(settings.address.listen.ip())
        },
        tls: settings.address.tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        stop_attempts: settings.stop_attempts,
        access_file: settings.access_file,
        follower_token_file: settings.follower_token_file,
        store: settings.store,
        artifacts: settings.artifacts,
        key_file: settings.key_file,
        with_sign_in_code: std::io::stdout().is_terminal(),
        metrics_open: settings.metrics_open,
        isolation,
        access: settings.access,
        concurrency: settings.concurrency,
        starts_per_minute: settings.starts_per_minute,
        mirror_memory: settings.mirror_memory,
        executable: settings.executable,
        jobs: settings.jobs,
        environment: settings.attempts,
        git: settings.git,
        ca_bundle: settings.ca_bundle,
        secrets: Secrets::new(Arc::new(variable)),
    }
}

async fn run(options: Options, is_one_pass: bool, is_dry_run: bool) -> u8 {
    let stop = Stop::new();
    let _signals = match signals(&stop) {
        Ok(signals) => signals,
        Err(error) => {
            complain(&format!("cannot handle signals: {error}"), None);
            return Exit::Failed.code();
        }
    };
    let end = if is_dry_run {
        Box::pin(server::dry_run(options, &stop)).await.map(|dry_run| report_dry_run(&dry_run))
    } else if is_one_pass {
        Box::pin(server::once(options, &stop)).await.map(|pass| report(&pass))
    } else {
        let ready = |url: &str, code: Option<&SecretString>| {
            print(format!("listening on {url}\n").as_bytes());
            if let Some(code) = code {
                let code = code.expose_secret();
                print(format!("open {url}sign-in?code={code}\n").as_bytes());
            }
        };
        Box::pin(server::serve(options, &stop, ready)).await.map(|()| Exit::Success.code())
    };
    end.unwrap_or_else(|error| {
        complain(&butler_base::error::chain(&error), None);
        Exit::Failed.code()
    })
}

/// Prints what one pass did, and what waits.
fn report(pass: &Pass) -> u8 {
    let printed = print_pass(&pass.unread, &pass.include_errors, &pass.views, row);
    if pass.failed.is_empty() { printed } else { Exit::Failed.code() }
}

/// Prints what one pass would start, and what waits.
fn report_dry_run(dry_run: &DryRun) -> u8 {
    print_pass(&dry_run.unread, &dry_run.include_errors, &dry_run.views, |view| {
        let started = view.last_run.as_ref().filter(|run| dry_run.would_start.contains(&run.id));
        let Some(run) = started else { return row(view) };
        let reason = match run.action {
            Action::Drift => format!("would check {} for drift", run.commit),
            action => format!("would {} {}", action.as_str(), run.commit),
        };
        let phase = format!("{:?}", Phase::PendingTrigger);
        vec![view.name.to_string(), phase, String::new(), String::new(), reason]
    })
}

/// Prints why repositories and included configuration cannot be used, and the row of each layer. Returns the
/// exit code.
fn print_pass(
    unread: &BTreeMap<String, String>,
    include_errors: &[String],
    views: &Views,
    row: impl Fn(&LayerView) -> Vec<String>,
) -> u8 {
    for (repository, error) in unread {
        complain(&format!("cannot read the repository `{repository}`: {error}"), None);
    }
    for error in include_errors {
        complain(&format!("included configuration is not used: {error}"), None);
    }
    let rows: Vec<Vec<String>> = std::iter::once(
        ["NAME", "PHASE", "LAST RUN", "CHANGES", "REASON"].map(str::to_owned).to_vec(),
    )
    .chain(views.all().iter().map(|view| row(view)))
    .collect();
    let printed = print(format!("{}\n", columns(&rows)).as_bytes());
    let is_complete = unread.is_empty() && include_errors.is_empty();
    if is_complete { printed } else { Exit::Failed.code() }
}

fn row(view: &LayerView) -> Vec<String> {
    let last = view.last_run.as_ref();
    let counts = last.and_then(|run| run.counts);
    vec![
        view.name.to_string(),
        format!("{:?}", view.phase),
        last.map(|run| format!("{} {:?}", run.action.as_str(), run.phase)).unwrap_or_default(),
        counts.as_ref().map(ToString::to_string).unwrap_or_default(),
        view.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    ]
}
