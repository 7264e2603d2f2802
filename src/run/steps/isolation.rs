//! Which paths the tools of an isolated run can use.
//!
//! A path is never allowed because the module names it, since the module is what is isolated. The directory of
//! the run is readable. Only the parts of it that the tools write are writable: the runner reads and reports the
//! other files, such as the text of the plan, and a module could replace them by links to files outside.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::handover::{Handover, state_directories};
use super::isolation_level::Level;
use super::tools::Tools;
use crate::engine;
use crate::run::context::Context;
use crate::run::directory::run_directory::TEMPORARY;
use crate::run::failure::Failure;
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_base::platform::AllowedPaths;
use butler_base::process::Environment;
use butler_protocol::spec::{CLI_CONFIG_VARIABLES, GitCredentials, RunSpec, Source};

/// Variables of the user whose files the tools need: certificates, and Terraform's configuration.
const NAMED_FILES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"];

/// Variables that lead into the home directory of the user.
const HOME_VARIABLES: [&str; 5] =
    ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];

/// The longest TMPDIR with room for the socket of a provider (`/plugin-dir1234567890/plugin1234567890`) in an
/// address, which has 107 bytes.
const MAX_TEMPORARY: usize = 69;

/// Gives the tools a HOME and a TMPDIR in the directory of the run, because they cannot use those of the user.
///
/// # Errors
/// If a directory cannot be created.
pub(in crate::run) fn use_own_directories(
    context: &Context<'_>,
    environment: &mut Environment,
) -> Result<(), Failure> {
    let inside = subdirectory(context, TEMPORARY)?;
    environment.set("TMPDIR", temporary_directory(context, inside));
    use_own_home(context, environment)
}

/// Gives the tools a new HOME in the directory of the run.
///
/// # Errors
/// If it cannot be created.
pub(in crate::run) fn use_own_home(
    context: &Context<'_>,
    environment: &mut Environment,
) -> Result<(), Failure> {
    environment.set("HOME", subdirectory(context, "home")?);
    for name in HOME_VARIABLES {
        environment.remove(name);
    }
    Ok(())
}

fn subdirectory(context: &Context<'_>, name: &str) -> Result<PathBuf, Failure> {
    let created = context.directory.private().subdirectory(name);
    created.map_err(|error| Failure::because(Phase::Variables, chain(&error)))
}

/// TMPDIR of the tools: `inside`, or a directory in the TMPDIR of the runner if `inside` is too long for sockets.
fn temporary_directory(context: &Context<'_>, inside: PathBuf) -> PathBuf {
    let is_short = |path: &Path| path.as_os_str().len() <= MAX_TEMPORARY;
    if is_short(&inside) {
        return inside;
    }
    let settings = context.settings;
    let outside = context.directory.create_temporary(&settings.temporary, &settings.owner());
    let shown = match &outside {
        Ok(outside) if is_short(outside) => return outside.clone(),
        Ok(outside) => outside.display().to_string(),
        Err(error) => chain(error),
    };
    let inside_shown = inside.display();
    context.log.warn(&format!("the path `{inside_shown}` is too long for the sockets of providers, which may not start, and the directory for temporary files cannot be used instead ({shown}): set --work-dir or TMPDIR to a shorter path"));
    inside
}

/// The isolation of the tools of a run in `module`, the directory of the module, and the files that must be handed
/// over to their user before `init`.
///
/// # Errors
/// If a directory that must exist for it cannot be created.
pub(in crate::run) fn isolation(
    context: &Context<'_>,
    spec: &RunSpec,
    tools: &Tools,
    module: &Path,
    level: Level,
) -> Result<(engine::Isolation, Option<Handover>), Failure> {
    let runner = context.settings.git.executable.clone();
    let (restriction, handover) = match level {
        Level::Landlock => {
            (engine::Restriction::Paths(allowed_paths(context, spec, tools, module)?), None)
        }
        Level::User(id) => {
            let states = created_states(spec)?;
            let settings = &context.settings.isolation;
            let terragrunt = tools.terragrunt.as_ref();
            if terragrunt.is_some() {
                create(&context.directory.downloads())?;
            }
            let executables = terragrunt.into_iter().chain([&tools.tool]);
            let executables: Vec<_> = executables.map(|tool| &*tool.path).collect();
            let handover = Handover::new(context, id, &executables, &states);
            let written = handover.given().iter().cloned().chain(states);
            let written = written.chain(settings.write.clone()).chain(spec.setup.log_path.clone());
            let write = written.filter(|path| path.exists()).collect();
            (engine::Restriction::User { id, write }, Some(handover))
        }
    };
    Ok((engine::Isolation { runner, restriction }, handover))
}

/// The paths that the tools can use with Landlock.
fn allowed_paths(
    context: &Context<'_>,
    spec: &RunSpec,
    tools: &Tools,
    module: &Path,
) -> Result<AllowedPaths, Failure> {
    let settings = context.settings;
    let runner = settings.git.executable.clone();
    let mut allowed = AllowedPaths {
        read: settings.isolation.read.clone(),
        write: settings.isolation.write.clone(),
    };
    // The tools, and git's credential helper, which is the runner.
    allowed.read.extend([tools.tool.path.clone(), runner.clone()]);
    allowed.read.extend(tools.terragrunt.as_ref().map(|tool| tool.path.clone()));

    let private = context.directory.private().path();
    allowed.read.extend([private.to_owned(), context.directory.secrets().path().to_owned()]);
    // Files in the module's directory are writable; as links, they would lead where the module wants.
    let planning = &context.options.planning;
    let given = planning.files().chain(planning.address_files());
    allowed.read.extend(given.filter(|file| !file.starts_with(module)).cloned());
    allowed.read.extend(settings.tool.ca_bundle.clone());
    let named = NAMED_FILES.iter().chain(&CLI_CONFIG_VARIABLES);
    // Not from the environment of the run, which could name any file.
    allowed.read.extend(
        named.filter_map(|name| settings.environment.get(OsStr::new(name))).map(PathBuf::from),
    );

    let written = ["data", "home", TEMPORARY].map(|name| private.join(name));
    allowed.write.extend(written.into_iter().chain([context.directory.tool_files()]));
    allowed.write.extend(context.directory.temporary());
    allowed.write.extend(spec.setup.log_path.clone());
    allowed.write.extend(created_states(spec)?);
    if spec.source.is_in_place() {
        allowed.write.push(module.to_owned());
    } else {
        allowed.write.push(context.directory.source());
        if tools.terragrunt.is_some() {
            let downloads = context.directory.downloads();
            create(&downloads)?;
            allowed.write.push(downloads);
        }
    }
    if let Source::Git(git) = &spec.source
        && let GitCredentials::SshKey { .. } = git.credentials
    {
        // OpenSSH takes the home directory from the system's list of users, and reads these files there.
        let home = settings.git.home.iter();
        let files =
            home.flat_map(|home| [".ssh/config", ".ssh/known_hosts"].map(|it| home.join(it)));
        allowed.read.extend(files);
    }
    Ok(independent(allowed))
}

/// The directories of [`state_directories`], which are created if they are missing.
fn created_states(spec: &RunSpec) -> Result<Vec<PathBuf>, Failure> {
    let directories = state_directories(spec);
    directories.iter().try_for_each(|path| create(path))?;
    Ok(directories)
}

fn create(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| {
        let text = format!("cannot create the directory `{}`: {error}", path.display());
        Failure::because(Phase::Variables, text)
    })
}

/// The real paths, without those below a writable one. The rules are made again for each command: an earlier
/// command could have replaced such a path by a link to a file outside.
fn independent(allowed: AllowedPaths) -> AllowedPaths {
    let resolved = |paths: Vec<PathBuf>| -> BTreeSet<PathBuf> {
        let absolute = paths.into_iter().filter(|path| path.is_absolute());
        absolute.filter_map(|path| path.canonicalize().ok()).collect()
    };
    let (read, write) = (resolved(allowed.read), resolved(allowed.write));
    let is_below = |path: &Path| path.ancestors().skip(1).any(|parent| write.contains(parent));
    let outermost =
        |paths: &BTreeSet<PathBuf>| paths.iter().filter(|path| !is_below(path)).cloned().collect();
    AllowedPaths { read: outermost(&read), write: outermost(&write) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_an_earlier_command_could_replace_is_not_a_rule_of_its_own() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("states/workspaces")).unwrap();
        std::fs::create_dir(base.join("states-of-others")).unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| base.join(name)).collect::<Vec<_>>();
        let allowed = AllowedPaths {
            read: [paths(&["states/workspaces", "states-of-others"]), vec!["usr".into()]].concat(),
            write: paths(&["states/workspaces", "states", "states/../states", "missing"]),
        };
        let expected =
            AllowedPaths { read: paths(&["states-of-others"]), write: paths(&["states"]) };
        assert_eq!(independent(allowed), expected);
    }
}
