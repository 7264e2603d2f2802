//! What the engine's commands find: their environment, the backend, and the handling of state locks.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;

use super::isolation::{use_own_directories, use_own_home};
use super::terraform_settings::configure_terraform;
use crate::engine::{KilledLock, WORKSPACE_VARIABLE, prepare_environment};
use crate::providers;
use crate::run::context::Context;
use crate::run::failure::Failure;
use crate::workspace::{self, Inputs};
use butler_base::event::Phase;
use butler_base::process::Environment;
use butler_protocol::backend;
use butler_protocol::spec::{CLI_CONFIG_VARIABLES, GitSource, RunSpec, Source, ToolRequest};
use butler_source::git;
use butler_source::module::Module;

/// The environment of the commands: inherited, then from the run, then what the runner needs.
pub(in crate::run) fn child_environment(
    context: &Context<'_>,
    spec: &RunSpec,
    used_tokens: &[&'static str],
    inputs: &Inputs,
    isolated: bool,
) -> Result<Environment, Failure> {
    let mut environment = context.settings.child_environment(used_tokens);
    if isolated {
        use_own_directories(context, &mut environment)?;
        // Terraform would write into it.
        environment.remove(providers::VARIABLE);
    } else if spec.work_directory.is_some() {
        // A plan can contain paths below it, and its apply must have the same ones.
        use_own_home(context, &mut environment)?;
    }
    for name in &spec.setup.overruled {
        environment.remove(name);
    }
    if let Some(traceparent) = context.notices.traceparent() {
        environment.set("TRACEPARENT", traceparent);
    }
    for (name, value, _) in &inputs.environment {
        environment.set(name, value.expose_secret());
    }
    prepare_environment(&mut environment, !spec.source.is_in_place());
    if context.options.workspace.is_some() {
        // Set again when the workspace is known to exist.
        environment.remove(WORKSPACE_VARIABLE);
    }
    configure_terraform(context, spec, &mut environment)?;
    let private = context.directory.secrets();
    git::share_certificates(&context.settings.git, private, &mut environment)
        .map_err(|error| Failure::new(Phase::Source, &error))?;
    if let Some(git) = login_source(&spec.source) {
        git::share_credentials(git, &context.settings.git, private, &mut environment)
            .map_err(|error| Failure::new(Phase::Source, &error))?;
    }
    Ok(environment)
}

/// Warns of a configuration of the tool that a variable names and that does not exist: the tool ignores it, with a warning
/// that is easily missed. `directory` is the module's.
pub(in crate::run) fn warn_of_missing_cli_configuration(
    context: &Context<'_>,
    environment: &Environment,
    directory: &Path,
) {
    // The first one that is set counts.
    let given = CLI_CONFIG_VARIABLES.iter().find_map(|name| {
        let path = environment.value(name).filter(|path| !path.is_empty())?;
        Some((name, directory.join(path)))
    });
    if let Some((name, path)) = given.filter(|(_, path)| !path.exists()) {
        let path = path.display();
        context.log.warn(&format!(
            "{name} names `{path}`, which does not exist: the tool works without it"
        ));
    }
}

/// The repository whose login is for the modules that Terraform fetches. The one of an archive is only
/// shown, so it can be any text.
fn login_source(source: &Source) -> Option<&GitSource> {
    let is_usable = |git: &&GitSource| {
        matches!(source, Source::Git(_))
            || git::shown_repository(git.repository.expose_secret()).is_some()
    };
    source.repository().filter(is_usable)
}

/// Writes the run's backend into a clone, never into a directory of the user. Returns the file with the
/// backend's settings.
pub(in crate::run) fn write_backend(
    context: &Context<'_>,
    spec: &RunSpec,
    module: &Module,
    directory: &Path,
    tool: &ToolRequest,
) -> Result<Option<PathBuf>, Failure> {
    let Some(backend) = spec.backend.as_ref().filter(|_| !spec.source.is_in_place()) else {
        return Ok(None);
    };
    if let Some(block) = &module.backend {
        // Also if both have the same type: otherwise nothing would show which one is used.
        let (ours, theirs) = (&backend.kind, &block.kind);
        context
            .log
            .write_lines(&format!("Using the run's backend `{ours}`, not the module's `{theirs}`"));
    }
    let files = workspace::write_backend(backend, tool, directory, context.directory.secrets())
        .map_err(|error| Failure::new(Phase::Variables, &error))?;
    Ok(Some(files.config_file))
}

/// What the runner does about the lock of a killed tool, depending on the backend in effect.
pub(in crate::run) fn killed_lock(
    context: &Context<'_>,
    spec: &RunSpec,
    module: &Module,
    environment: &Environment,
) -> KilledLock {
    let run_backend = spec.backend.as_ref().map(|backend| backend.kind.as_str());
    let module_backend = module.backend.as_ref().map(|block| block.kind.as_str());
    // A file that could not be read may name another backend.
    let fallback = if module.is_incomplete { backend::UNKNOWN.name } else { backend::LOCAL.name };
    let backend = run_backend.or(module_backend).unwrap_or(fallback);
    KilledLock::for_backend(backend, always_locks(environment), context.settings.force_unlock_own)
}

/// Whether no `-lock=…` in the environment can disable locking. Quotes and backslashes are ignored, because
/// the tool removes them.
fn always_locks(environment: &Environment) -> bool {
    !environment.iter().any(|(name, value)| {
        let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\'' | b'\\');
        let value: Vec<u8> = value.as_encoded_bytes().iter().copied().filter(is_plain).collect();
        name.as_encoded_bytes().starts_with(b"TF_CLI_ARGS")
            && memchr::memmem::find(&value, b"-lock=").is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_argument_in_the_environment_can_disable_locking() {
        for (name, value, locks) in [
            ("TF_CLI_ARGS", "-parallelism=3 -lock-timeout=5s", true),
            ("OTHER", "-lock=false", true),
            ("TF_CLI_ARGS", "-parallelism=3 -lock=false", false),
            ("TF_CLI_ARGS_apply", "--lock=false", false),
            ("TF_CLI_ARGS_plan", "\"-lo\"ck=false", false),
        ] {
            let environment = Environment::from_iter([(name.into(), value.into())]);
            assert_eq!(always_locks(&environment), locks, "{name}={value}");
        }
    }
}
