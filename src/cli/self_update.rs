//! `self update`: replaces this executable by a release.

use std::sync::Arc;

use clap::{Args, Subcommand};
use semver::Version;
use url::Url;

use super::flags::{Flags, Selection, merge_arguments};
use super::logging;
use super::output::{complain, print, refuse};
use super::runtime::block_on;
use super::screen::{self, Output};
use crate::exit::Exit;
use crate::run::tool_options;
use crate::screen::Live;
use crate::settings::setting::{CA_BUNDLE, TOOL_TIMEOUT};
use crate::settings::{
    Arguments, Environment, Logging, Setting, SettingsError, ToolSettings, variable,
};
use crate::update::{Update, UpdateResult};
use butler_base::error::{Advice, chain};
use butler_base::http::LazyClient;
use butler_base::secret::Redactor;
use butler_start::generate::RELEASES;

#[derive(Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(super) struct SelfCommand {
    #[command(subcommand)]
    command: SelfSubcommand,
}

#[derive(Subcommand)]
enum SelfSubcommand {
    Update(UpdateCommand),
}

/// Replace this executable with the newest or the named release
///
/// The archive must match the checksum in the release's SHA256SUMS, which is downloaded over TLS, and
/// the new executable must start and print the expected version. An executable that a package manager
/// installed is not replaced.
#[derive(Args)]
struct UpdateCommand {
    /// The release, such as 0.2.1; by default the newest release
    #[arg(value_parser = version)]
    version: Option<Version>,
    /// Verify with `gh attestation verify` that the project's workflow built the release
    #[arg(long)]
    attestation: bool,
    /// Print the planned actions without executing them
    #[arg(long)]
    dry_run: bool,
    /// The base URL of releases, for a mirror with the same layout as the project's releases
    #[arg(long, value_name = "URL", default_value = RELEASES, value_parser = releases)]
    releases: Url,
    #[command(flatten)]
    flags: Flags<UpdateFlags>,
}

/// The settings for downloads.
struct UpdateFlags;

impl Selection for UpdateFlags {
    fn has(setting: &Setting) -> bool {
        [&CA_BUNDLE, &TOOL_TIMEOUT].contains(&setting)
    }
}

impl SelfCommand {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let SelfSubcommand::Update(update) = self.command;
        update.run(log, environment)
    }
}

impl UpdateCommand {
    fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let resolved = || -> Result<_, SettingsError> {
            let logging = Logging::resolve(&arguments, environment)?;
            Ok((logging, ToolSettings::resolve(&arguments, environment)?))
        };
        let (logging, settings) = match resolved() {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error),
        };
        let screen = screen::open(&logging, environment, Output::Result);
        let _log = logging::start(&logging, environment, &Arc::new(Redactor::new()), &screen);
        // The release is downloaded and verified with the code for tools.
        let http = LazyClient::new(settings.ca_bundle.clone());
        let mut options = tool_options(&settings, http, "butler-runner self update".to_owned());
        let current = Version::parse(env!("CARGO_PKG_VERSION")).expect("Cargo checks the version");
        let forbidden = environment.value(variable::NO_SELF_UPDATE.name);
        let dry_run = self.dry_run;
        let update = Update {
            releases: self.releases,
            version: self.version,
            attestation: self.attestation,
            dry_run,
            executable: environment.executable().to_owned(),
            forbidden: forbidden.map(|reason| reason.to_string_lossy().into_owned()),
            environment: environment.of_children(),
        };
        // The live line ends with the block, before the result is printed.
        let done = block_on(async {
            let live = Live::start(&screen);
            if let Some(live) = &live {
                options.meter = Some(super::tool::meter(&screen));
                live.leave_with_signals();
            }
            update.run(&current, &options, &|step| tracing::info!("{step}")).await
        });
        let text = match done {
            None => return Exit::Failed.code(),
            Some(Err(error)) => {
                complain(&chain(&error), error.advice().as_deref());
                return Exit::Failed.code();
            }
            Some(Ok((UpdateResult::UpToDate, version))) if version == current => {
                format!("butler-runner {current} is already installed\n")
            }
            Some(Ok((UpdateResult::UpToDate, version))) => {
                format!("butler-runner {current} is newer than the newest release, {version}\n")
            }
            Some(Ok((UpdateResult::Replaced, version))) => {
                let executable = environment.executable().display();
                let would = if dry_run { "would replace" } else { "replaced" };
                format!("{would} butler-runner {current} by {version}: {executable}\n")
            }
        };
        print(text.as_bytes())
    }
}

fn version(text: &str) -> Result<Version, String> {
    let number = text.strip_prefix('v').unwrap_or(text);
    Version::parse(number).map_err(|_| "must be a version such as 0.2.1".to_owned())
}

fn releases(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if url.scheme() == "https" => Ok(url),
        _ => {
            Err("must be an https URL: without TLS, a checksum from the same site does not protect the download"
                .to_owned())
        }
    }
}
