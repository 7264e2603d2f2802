//! Runs `init` with the provider packages that earlier runs have cached.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use semver::Version;

use super::command_input::CommandInput;
use super::handover::Handover;
use super::state_location::local_state;
use crate::engine::{Engine, FoundWorkspace, InitRequest};
use crate::providers::{self, Directories, View};
use crate::report::RunLog;
use crate::run::directory::errored_state::StateForm;
use crate::run::failure::Failure;
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_base::platform::fs::{AccessFlags, access};
use butler_protocol::spec::Product;

/// The first Terraform that writes lock input. Without a lock file, the provider cache has no effect.
const FIRST_WITH_LOCK_FILE: Version = Version::new(0, 14, 0);

/// The provider packages for an `init`.
enum ProviderPackages {
    /// A plugin cache of this `init`, with links into the provider cache.
    View(View),
    /// The plugin cache that the user has set up, with its lock if it could be locked, and whether the lock is kept until
    /// the run ends.
    UserCache { lock: Option<File>, is_kept: bool },
    /// Terraform downloads all packages.
    NotCached,
}

/// Runs `init`. Returns the lock of a plugin cache that the run must keep until it ends.
pub(in crate::run) async fn init(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    without_backend: bool,
) -> Result<Option<File>, Failure> {
    let packages = unless_stopped(engine, prepare_packages(engine, input)).await??;
    let view = if let ProviderPackages::View(view) = &packages { Some(view.path()) } else { None };
    let backend = input.backend.as_deref().filter(|_| !without_backend);
    hand_over(engine, input, Handover::apply).await?;
    let hides_state = without_backend && has_encrypted_state(engine);
    let plugin_cache = view.as_deref();
    let request = InitRequest { backend, without_backend, plugin_cache, hides_state };
    let result =
        engine.init(&request).await.map_err(|error| Failure::of_engine(Phase::Init, &error));
    if let Ok(FoundWorkspace::New) = result {
        let name = engine.current_workspace();
        engine.log.announce(&format!(
            "The workspace `{name}` does not exist in the backend yet: it is created"
        ));
    }
    let mut kept = None;
    match packages {
        ProviderPackages::UserCache { lock, is_kept: true } => kept = lock,
        ProviderPackages::UserCache { .. } | ProviderPackages::NotCached => {}
        ProviderPackages::View(view) => close(engine, input, view, result.is_ok()).await?,
    }
    result.map(|_| kept)
}

/// Moves the packages of `init` to where the tool looks for them, and the new ones into the provider cache.
async fn close(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    view: View,
    has_succeeded: bool,
) -> Result<(), Failure> {
    hand_over(engine, input, Handover::take_data).await?;
    // Only later runs need the cached packages, so a stop does not wait for them.
    for warning in unless_stopped(engine, view.close(has_succeeded)).await.unwrap_or_default() {
        engine.log.warn(&warning);
    }
    hand_over(engine, input, Handover::give_data).await
}

/// Whether an `init` without a backend reads an encrypted state.
fn has_encrypted_state(engine: &Engine<'_, RunLog>) -> bool {
    let form = local_state(engine).and_then(|state| StateForm::of_file(&state));
    form == Some(StateForm::Encrypted)
}

/// Changes the owners of files, if the tools have a user of their own.
async fn hand_over(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    change: fn(&Handover) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(handover) = input.handover.clone() else { return Ok(()) };
    unless_stopped(engine, blocking(move |_| change(&handover))).await?
}

/// Prepares the packages that earlier runs have cached.
///
/// # Errors
/// If another run's `init` uses the user's plugin cache for too long.
async fn prepare_packages(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
) -> Result<ProviderPackages, Failure> {
    let providers = &input.providers;
    let progress = |line: &str| engine.log.announce(line);
    // An isolated Terraform cannot write into a plugin cache that other runs use.
    let user_cache = match engine.isolation {
        Some(_) => None,
        None => providers::plugin_cache(&engine.environment, engine.directory, engine.tool.product),
    };
    // Other runs may execute the packages that `init` replaces in this cache.
    let replaces_packages = user_cache.is_some()
        && providers::replaces_packages(&engine.environment, engine.directory, engine.tool);
    // The runner does not take back a data directory in the clone from the tools' user, who could replace it by a link.
    let is_taken_back =
        input.handover.is_none() || engine.data_directory(engine.directory).is_symlink();
    // Terragrunt runs `init` in a copy of the module. Its links into the view would break when the view is
    // removed, and the runner does not find them.
    let is_usable = is_taken_back
        && engine.wrapper.is_none()
        && (engine.tool.product != Product::Terraform
            || engine.tool.version >= FIRST_WITH_LOCK_FILE);
    let own_cache = providers.cache.clone().filter(|_| is_usable);
    if let Some(user_cache) = user_cache
        && !(replaces_packages && own_cache.is_some())
    {
        let is_kept = replaces_packages;
        let lock =
            providers::lock_plugin_cache(&user_cache, engine.tool, providers.patience, &progress);
        return match lock.await {
            Ok(lock) => Ok(ProviderPackages::UserCache { lock, is_kept }),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(plugin_cache_is_busy(&user_cache))
            }
            Err(error) => {
                // A read-only cache cannot be damaged, and Terraform reports a missing directory.
                if access(&user_cache, AccessFlags::W_OK).is_ok() {
                    let shown = user_cache.display();
                    engine.log.warn(&format!(
                            "the plugin cache `{shown}` cannot be locked ({error}): inits at the same time can spoil it"
                        ),
                    );
                }
                Ok(ProviderPackages::UserCache { lock: None, is_kept })
            }
        };
    }
    let Some(cache) = own_cache else {
        return Ok(ProviderPackages::NotCached);
    };
    let directories = Directories {
        cache,
        module: engine.directory.to_owned(),
        data: engine.data_directory(engine.directory),
        copies: input.in_place || engine.isolation.is_some(),
    };
    match View::open(directories, providers.patience, &progress).await {
        Ok(view) => {
            view.warnings.iter().for_each(|warning| engine.log.warn(warning));
            Ok(ProviderPackages::View(view))
        }
        Err(error) => {
            engine.log.warn(&format!("no provider cache: {}", chain(&error)));
            Ok(ProviderPackages::NotCached)
        }
    }
}

fn plugin_cache_is_busy(plugin_cache: &Path) -> Failure {
    let shown = plugin_cache.display();
    let reason =
        format!("another run's init has been using the plugin cache `{shown}` for too long");
    Failure::because(Phase::Init, reason)
        .advise("end that run, or give this one a plugin cache of its own")
}

/// Waits for `work`, or for the stop of the run.
async fn unless_stopped<T>(
    engine: &Engine<'_, RunLog>,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        // `work` has priority: if it completes without waiting, it is done even after a stop.
        biased;
        done = work => Ok(done),
        reason = engine.stop.requested() => Err(Failure::stopped(Phase::Init, &reason)),
    }
}
