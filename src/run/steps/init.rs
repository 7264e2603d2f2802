//! `init`, with the packages of providers that earlier runs have kept.

use std::io::ErrorKind;
use std::path::Path;

use semver::Version;

use super::command_input::Files;
use crate::engine::Engine;
use crate::providers::{self, Directories, View};
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_base::platform::fs::{AccessFlags, access};
use butler_protocol::spec::Product;

/// The first Terraform that writes lock files, without which the cache is of no use.
const LOCKING: Version = Version::new(0, 14, 0);

/// What an `init` works with.
enum Packages {
    /// A plugin cache that is its own.
    View(View),
    /// What the user has set up, with the lock that goes with it.
    Theirs { _lock: Option<std::fs::File> },
    /// Nothing.
    Nothing,
}

/// Runs `init`.
pub(in crate::run) async fn init(
    engine: &Engine<'_, RunLog>,
    files: &Files<'_>,
    without_backend: bool,
) -> Result<(), Failure> {
    let packages = unless_stopped(engine, packages(engine, files)).await??;
    let view = if let Packages::View(view) = &packages { Some(view.path()) } else { None };
    let backend = files.backend.as_deref().filter(|_| !without_backend);
    let result = engine
        .init(backend, without_backend, view.as_deref())
        .await
        .map_err(|error| Failure::of_engine(Phase::Init, &error));
    if let Packages::View(view) = packages {
        // Where the run has to stop, nobody waits for what is only good for the next one.
        for warning in unless_stopped(engine, view.close(result.is_ok())).await.unwrap_or_default()
        {
            engine.log.warn(&warning);
        }
    }
    result
}

/// Makes the packages ready that earlier runs have kept, or finds out why not.
async fn packages(engine: &Engine<'_, RunLog>, files: &Files<'_>) -> Result<Packages, Failure> {
    let providers = &files.providers;
    let progress = |line: &str| engine.log.announce(line);
    if let Some(theirs) =
        providers::plugin_cache(&engine.environment, engine.directory, engine.tool.product)
    {
        let lock =
            providers::lock_plugin_cache(&theirs, engine.tool, providers.patience, &progress);
        return match lock.await {
            Ok(lock) => Ok(Packages::Theirs { _lock: lock }),
            Err(error) if error.kind() == ErrorKind::TimedOut => Err(busy(&theirs)),
            Err(error) => {
                // Where nothing can be written, nothing can be spoilt; where there is no directory,
                // Terraform says so.
                if access(&theirs, AccessFlags::W_OK).is_ok() {
                    let shown = theirs.display();
                    engine.log.warn(&format!(
                            "the plugin cache `{shown}` cannot be locked ({error}): inits at the same time can spoil it"
                        ),
                    );
                }
                Ok(Packages::Theirs { _lock: None })
            }
        };
    }
    // Terragrunt runs `init` in a copy of the module. Nobody could tell what in the view is linked
    // from there, and with the view its packages would be gone.
    let is_usable = engine.wrapper.is_none()
        && (engine.tool.product != Product::Terraform || engine.tool.version >= LOCKING);
    let Some(cache) = providers.cache.clone().filter(|_| is_usable) else {
        return Ok(Packages::Nothing);
    };
    let directories = Directories {
        cache,
        module: engine.directory.to_owned(),
        data: engine.data_directory(engine.directory),
        is_users_own: files.in_place,
    };
    match View::open(directories, providers.patience, &progress).await {
        Ok(view) => {
            view.warnings.iter().for_each(|warning| engine.log.warn(warning));
            Ok(Packages::View(view))
        }
        Err(error) => {
            engine.log.warn(&format!("no provider cache: {}", chain(&error)));
            Ok(Packages::Nothing)
        }
    }
}

fn busy(plugin_cache: &Path) -> Failure {
    let shown = plugin_cache.display();
    let reason =
        format!("another run's init has been using the plugin cache `{shown}` for too long");
    Failure::because(Phase::Init, reason)
        .advise("end that run, or give this one a plugin cache of its own")
}

async fn unless_stopped<T>(
    engine: &Engine<'_, RunLog>,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        // First of all, so that what is done at once is done in any case.
        biased;
        done = work => Ok(done),
        reason = engine.stop.requested() => Err(Failure::stopped(Phase::Init, &reason)),
    }
}
