//! Which isolation is in force for a run, and which paths its tools can use in it.
//!
//! A path is never allowed because the module names it, since the module is what is isolated. The directory of
//! the run is readable. Only the parts of it that the tools write are writable: the runner reads and reports the
//! other files, such as the text of the plan, and a module could replace them by links to files outside.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;

use super::tools::Tools;
use crate::engine;
use crate::run::context::Context;
use crate::run::directory::run_directory::TEMPORARY;
use crate::run::failure::Failure;
use crate::settings::IsolationLevel;
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_base::platform::{AllowedPaths, Landlock, landlock};
use butler_base::process::Environment;
use butler_protocol::backend::LOCAL;
use butler_protocol::spec::{CLI_CONFIG_VARIABLES, GitCredentials, RunSpec, Source};

/// Variables of the user whose files the tools need: certificates, and Terraform's configuration.
const NAMED_FILES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"];

/// Variables that lead into the home directory of the user.
const HOME_VARIABLES: [&str; 5] =
    ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];

/// The longest TMPDIR with room for the socket of a provider (`/plugin-dir1234567890/plugin1234567890`) in an
/// address, which has 107 bytes.
const MAX_TEMPORARY: usize = 69;

/// Whether the run is isolated, and how.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Decision {
    NotIsolated,
    /// The user wants an isolation only if there is one.
    NotAvailable,
    Isolated(Landlock),
}

/// Decides whether the run is isolated, and logs it.
///
/// # Errors
/// If the user requires an isolation that the kernel does not have.
pub(in crate::run) fn is_isolated(context: &Context<'_>) -> Result<bool, Failure> {
    match decide(context.settings.isolation.level, landlock)? {
        Decision::NotIsolated => Ok(false),
        Decision::NotAvailable => {
            context.log.warn("this kernel does not have Landlock, so the run is not isolated: the module can use all files of this user");
            Ok(false)
        }
        Decision::Isolated(landlock) => {
            let missing = match landlock {
                Landlock::FilesButTruncation => {
                    "; this kernel (Linux before 6.2) cannot keep it from truncating other files and from sending signals"
                }
                Landlock::Files => "; this kernel cannot keep it from sending signals",
                Landlock::FilesAndSignals => "",
            };
            context.log.announce(&format!(
                "Isolation: Landlock; the module can use files of this run and of the system{missing}"
            ));
            Ok(true)
        }
    }
}

fn decide(
    level: IsolationLevel,
    landlock: impl FnOnce() -> Option<Landlock>,
) -> Result<Decision, Failure> {
    if level == IsolationLevel::None {
        return Ok(Decision::NotIsolated);
    }
    match landlock() {
        Some(landlock) => Ok(Decision::Isolated(landlock)),
        None if level == IsolationLevel::Auto => Ok(Decision::NotAvailable),
        None => Err(Failure::because(
            Phase::Config,
            "cannot isolate the run: this kernel does not have Landlock, or has disabled it",
        )
        .advise("use Linux 5.13 or later with `landlock` in its list of security modules (the boot parameter `lsm=`), or choose --isolation none")),
    }
}

/// Gives the tools a HOME and a TMPDIR in the directory of the run, because they cannot use those of the user.
///
/// # Errors
/// If a directory cannot be created.
pub(in crate::run) fn use_own_directories(
    context: &Context<'_>,
    environment: &mut Environment,
) -> Result<(), Failure> {
    let create = |name: &str| {
        let created = context.directory.private().subdirectory(name);
        created.map_err(|error| Failure::because(Phase::Variables, chain(&error)))
    };
    environment.set("TMPDIR", temporary_directory(context, create(TEMPORARY)?));
    environment.set("HOME", create("home")?);
    for name in HOME_VARIABLES {
        environment.remove(name);
    }
    Ok(())
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

/// The isolation of the tools of a run in `module`, the directory of the module. `environment` is the
/// environment of the tools.
///
/// # Errors
/// If a directory that must exist for it cannot be created.
pub(in crate::run) fn isolation(
    context: &Context<'_>,
    spec: &RunSpec,
    tools: &Tools,
    module: &Path,
) -> Result<engine::Isolation, Failure> {
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
    let var_files = context.options.planning.files().filter(|file| !file.starts_with(module));
    allowed.read.extend(var_files.cloned());
    allowed.read.extend(settings.tool.ca_bundle.clone());
    let named = NAMED_FILES.iter().chain(&CLI_CONFIG_VARIABLES);
    // Not from the environment of the run, which could name any file.
    allowed.read.extend(
        named.filter_map(|name| settings.environment.get(OsStr::new(name))).map(PathBuf::from),
    );

    let created = |path: PathBuf| {
        std::fs::create_dir_all(&path).map(|()| path.clone()).map_err(|error| {
            let text = format!("cannot create the directory `{}`: {error}", path.display());
            Failure::because(Phase::Variables, text)
        })
    };
    let written = ["data", "home", TEMPORARY].map(|name| private.join(name));
    allowed.write.extend(written.into_iter().chain([context.directory.tool_files()]));
    allowed.write.extend(context.directory.temporary());
    allowed.write.extend(spec.setup.log_path.clone());
    allowed
        .write
        .extend(state_directories(spec).into_iter().map(created).collect::<Result<Vec<_>, _>>()?);
    if spec.source.is_in_place() {
        allowed.write.push(module.to_owned());
    } else {
        allowed.write.push(context.directory.source());
        if tools.terragrunt.is_some() {
            allowed.write.push(created(context.directory.downloads())?);
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
    Ok(engine::Isolation { runner, allowed: independent(allowed) })
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

/// The directories in which the backend of the run stores states in files. A relative path is in the clone.
fn state_directories(spec: &RunSpec) -> Vec<PathBuf> {
    let Some(backend) = spec.backend.as_ref().filter(|it| it.kind == LOCAL.name) else {
        return Vec::new();
    };
    let settings = backend.config.iter().filter_map(|(name, json)| {
        let path: PathBuf = serde_json::from_str(json.expose_secret()).ok()?;
        match name.as_str() {
            "path" => path.parent().map(Path::to_owned),
            "workspace_dir" => Some(path),
            _ => None,
        }
    });
    settings.filter(|path| path.is_absolute()).collect()
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

    #[test]
    fn run_is_isolated_only_as_far_as_the_kernel_can() {
        let levels =
            [Landlock::FilesButTruncation, Landlock::Files, Landlock::FilesAndSignals].map(Some);
        let kernels = [&[None][..], &levels].concat();
        for kernel in kernels {
            let decided = |level| decide(level, || kernel).ok();
            assert_eq!(decided(IsolationLevel::None), Some(Decision::NotIsolated));
            let isolated = kernel.map(Decision::Isolated);
            assert_eq!(decided(IsolationLevel::Landlock), isolated);
            let auto = isolated.unwrap_or(Decision::NotAvailable);
            assert_eq!(decided(IsolationLevel::Auto), Some(auto));
        }
        let failure = decide(IsolationLevel::Landlock, || None).unwrap_err();
        assert!(failure.reason.contains("does not have Landlock"), "{}", failure.reason);
        assert!(failure.advice.unwrap().contains("Linux 5.13"));
    }
}
