//! Prevents apply and destroy from storing their state in the clone, which is removed at the end.
//!
//! There are three checks: of the run's backend before the source is fetched, of the module's backend before
//! `init`, and of the backend that Terragrunt has generated after `init`. They read the backend's settings and
//! `TF_WORKSPACE`, but not `-state` in `TF_CLI_ARGS`, which a user sets on purpose. If the location is
//! unclear, the runner only warns. A refresh is permitted, because it does not create resources that only
//! the lost state would list.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use secrecy::ExposeSecret;
use serde::Deserialize;

use crate::engine::{DEFAULT_WORKSPACE, DEFAULT_WORKSPACE_DIRECTORY, Engine};
use crate::report::RunLog;
use crate::run::context::Context;
use crate::run::directory::recovery;
use crate::run::failure::Failure;
use crate::workspace::Inputs;
use butler_base::event::Phase;
use butler_base::trust::open_regular;
use butler_protocol::backend::{BackendKind, LOCAL};
use butler_protocol::spec::{Backend, Operation, RunSpec};
use butler_source::module::{BackendBlock, BlockSetting, Module};

/// The path of a local state without further settings.
const DEFAULT_PATH: &str = "terraform.tfstate";

/// Fails if the backend of the run itself stores the state in the clone.
pub(in crate::run) fn check_run(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &Inputs,
) -> Result<(), Failure> {
    let (Some(directory), Some(backend)) = (spec.source.working_directory(), &spec.backend) else {
        return Ok(());
    };
    let module = context.directory.source().join(directory);
    let location = run_backend_location(backend, named_workspace(context, inputs).as_deref());
    check_location(context, spec, &module, &location.unless_configured_in_environment(context))
}

/// Fails if the backend of the run or of the module in `directory` stores the state in the clone. A backend that
/// Terragrunt generates is checked after `init`.
pub(in crate::run) fn check_module(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &Inputs,
    module: &Module,
    directory: &Path,
    through_terragrunt: bool,
) -> Result<(), Failure> {
    let is_generated = through_terragrunt && spec.backend.is_none() && module.backend.is_none();
    if spec.source.is_in_place() || is_generated {
        return Ok(());
    }
    let workspace = named_workspace(context, inputs);
    let location = match (&spec.backend, &module.backend) {
        // Again, because links in the clone are only known now.
        (Some(backend), _) => run_backend_location(backend, workspace.as_deref()),
        (None, Some(block)) => module_backend_location(block, workspace.as_deref()),
        // A file that could not be parsed may contain the backend block. Terraform explains its errors.
        (None, None) if module.is_incomplete => StateLocation::Unclear,
        (None, None) => StateLocation::local(None, None, workspace.as_deref()),
    };
    check_location(context, spec, directory, &location.unless_configured_in_environment(context))
}

/// Fails if Terraform stores the state in Terragrunt's copy of the module. Must be called after `init`, which
/// shows the backend that Terragrunt has generated.
pub(in crate::run) fn check_initialised(
    engine: &Engine<'_, RunLog>,
    operation: Operation,
    allowed: bool,
) -> Result<(), Failure> {
    let Some(downloads) = engine.downloads() else { return Ok(()) };
    if !operation.changes_infrastructure() {
        return Ok(());
    }
    let mut copies = vec![engine.directory.to_owned()];
    copies.extend(recovery::directories_below(downloads));
    let is_kept = copies.iter().any(|copy| {
        // Without this file, Terraform stores the state in its working directory.
        let Some(initialised) = InitRecord::read(&engine.data_directory(copy)) else {
            return false;
        };
        let Ok(InitRecord { backend: RecordedBackend { kind, config } }) = initialised else {
            return true;
        };
        let path = config.path.as_deref().unwrap_or(DEFAULT_PATH);
        BackendKind::of(&kind).is_remote()
            || !resolve(copy, Path::new(path)).starts_with(resolve(engine.private, Path::new("")))
    });
    if is_kept {
        return Ok(());
    }
    let text = "the state, in Terragrunt's copy of the module, is lost at the end";
    if !allowed {
        return Err(Failure::because(Phase::Init, text).advise(
            "name a backend in the run, or `remote_state` in terragrunt.hcl; --allow-ephemeral-state (BUTLER_ALLOW_EPHEMERAL_STATE) continues anyway",
        ));
    }
    engine.log.warn(text);
    Ok(())
}

/// The type of the backend that Terragrunt has generated, as `init` has recorded it. None without Terragrunt,
/// or if copies of other runs in the user's directory have different backends.
pub(in crate::run) fn initialised_backend(engine: &Engine<'_, RunLog>) -> Option<String> {
    engine.wrapper.as_ref()?;
    let cache = engine.directory.join(recovery::TERRAGRUNT_CACHE);
    let mut copies = vec![engine.directory.to_owned()];
    copies.extend(recovery::directories_below(engine.downloads().unwrap_or(&cache)));
    let data = copies.iter().map(|copy| engine.data_directory(copy));
    let mut kinds = data.filter(|data| data.is_dir()).map(|data| match InitRecord::read(&data) {
        None => Some(LOCAL.name.to_owned()),
        Some(initialised) => initialised.ok().map(|it| it.backend.kind),
    });
    let kind = kinds.next()??;
    kinds.all(|other| other.as_ref() == Some(&kind)).then_some(kind)
}

/// The file of the state, if the backend that `init` has recorded is the local one. None with Terragrunt, which works
/// in copies of the module.
pub(in crate::run) fn local_state(engine: &Engine<'_, RunLog>) -> Option<PathBuf> {
    if engine.wrapper.is_some() {
        return None;
    }
    let RecordedConfig { path, workspace_dir } =
        match InitRecord::read(&engine.data_directory(engine.directory)) {
            None => RecordedConfig::default(),
            Some(Ok(InitRecord { backend })) if backend.kind == LOCAL.name => backend.config,
            Some(_) => return None,
        };
    let workspace = engine.current_workspace();
    Some(local_path(engine.directory, path.as_deref(), workspace_dir.as_deref(), Some(&workspace)))
}

/// The file in which a local backend with these settings stores the state of the module in `directory`.
pub(in crate::run) fn local_path(
    directory: &Path,
    path: Option<&str>,
    workspaces: Option<&str>,
    workspace: Option<&str>,
) -> PathBuf {
    let named = workspace.filter(|name| *name != DEFAULT_WORKSPACE).map(OsStr::new);
    directory.join(local_file(path, workspaces, named))
}

/// The backend as `init` records it in the data directory.
#[derive(Deserialize)]
struct InitRecord {
    backend: RecordedBackend,
}

impl InitRecord {
    /// None if the file does not exist, because the module does not name a backend.
    fn read(data: &Path) -> Option<serde_json::Result<Self>> {
        let file = open_regular(&data.join("terraform.tfstate")).ok()?;
        Some(serde_json::from_reader(std::io::BufReader::new(file)))
    }
}

#[derive(Deserialize)]
struct RecordedBackend {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    config: RecordedConfig,
}

#[derive(Default, Deserialize)]
struct RecordedConfig {
    path: Option<String>,
    workspace_dir: Option<String>,
}

/// Where a backend stores the state.
enum StateLocation {
    /// Not on this machine.
    Remote,
    /// At this path, relative to the module's directory.
    At(PathBuf),
    /// At a path that only Terraform can compute.
    Unclear,
}

impl StateLocation {
    fn local(path: Option<&str>, workspaces: Option<&str>, workspace: Option<&OsStr>) -> Self {
        Self::At(local_file(path, workspaces, workspace))
    }

    /// Unclear if the job's environment has settings of the backend in the arguments of `init`.
    fn unless_configured_in_environment(self, context: &Context<'_>) -> Self {
        let configured = ["TF_CLI_ARGS", "TF_CLI_ARGS_init"].into_iter().any(|name| {
            let arguments = context.settings.environment.get(OsStr::new(name));
            arguments.is_some_and(|given| given.to_string_lossy().contains("-backend-config"))
        });
        match self {
            Self::At(_) if configured => Self::Unclear,
            location => location,
        }
    }
}

/// The file of a local state, relative to the module; `workspace` is none for the default one.
fn local_file(path: Option<&str>, workspaces: Option<&str>, workspace: Option<&OsStr>) -> PathBuf {
    let given = |text: Option<&str>, default: &str| {
        PathBuf::from(text.filter(|text| !text.is_empty()).unwrap_or(default))
    };
    match workspace {
        None => given(path, DEFAULT_PATH),
        Some(workspace) => {
            given(workspaces, DEFAULT_WORKSPACE_DIRECTORY).join(workspace).join(DEFAULT_PATH)
        }
    }
}

/// The location that the run's backend names.
fn run_backend_location(backend: &Backend, workspace: Option<&OsStr>) -> StateLocation {
    if BackendKind::of(&backend.kind).is_remote() {
        return StateLocation::Remote;
    }
    let setting = |name: &str| {
        let (_, value) = backend.config.iter().find(|(given, _)| given == name)?;
        serde_json::from_str::<Option<String>>(value.expose_secret()).ok()?
    };
    StateLocation::local(setting("path").as_deref(), setting("workspace_dir").as_deref(), workspace)
}

/// The location that the module's backend block names.
fn module_backend_location(block: &BackendBlock, workspace: Option<&OsStr>) -> StateLocation {
    if BackendKind::of(&block.kind).is_remote() {
        return StateLocation::Remote;
    }
    let setting = if workspace.is_some() { &block.workspace_dir } else { &block.path };
    let text = match setting {
        BlockSetting::Computed => return StateLocation::Unclear,
        BlockSetting::Unset => None,
        BlockSetting::Text(text) => Some(text.as_str()),
    };
    StateLocation::local(text, text, workspace)
}

/// The workspace that the environment names, unless it is the default one.
fn named_workspace(context: &Context<'_>, inputs: &Inputs) -> Option<OsString> {
    const NAME: &str = "TF_WORKSPACE";
    let given = inputs.environment.iter().rev().find(|(name, ..)| name == NAME);
    given
        .map(|(_, value, _)| OsString::from(value.expose_secret()))
        .or_else(|| context.settings.environment.get(OsStr::new(NAME)).cloned())
        .filter(|workspace| !workspace.is_empty() && workspace != DEFAULT_WORKSPACE)
}

/// Fails or warns if `location`, seen from `module`, is in the run's directory.
fn check_location(
    context: &Context<'_>,
    spec: &RunSpec,
    module: &Path,
    location: &StateLocation,
) -> Result<(), Failure> {
    if !spec.operation.changes_infrastructure() {
        return Ok(());
    }
    let text = match location {
        StateLocation::Remote => return Ok(()),
        StateLocation::Unclear => {
            "unclear whether the local state is outside of the clone; a state in the clone is lost at the end"
                .to_owned()
        }
        StateLocation::At(path) => {
            let run = context.directory.private().path();
            if !resolve(module, path).starts_with(resolve(run, Path::new(""))) {
                return Ok(());
            }
            let text = format!("the state, `{}` in the clone, is lost at the end", path.display());
            if !context.settings.allow_ephemeral_state {
                return Err(Failure::because(Phase::Variables, text).advise(
                    "name a backend in the run or in the module, or an absolute path outside; --allow-ephemeral-state (BUTLER_ALLOW_EPHEMERAL_STATE) continues anyway",
                ));
            }
            text
        }
    };
    context.log.warn(&text);
    Ok(())
}

/// Resolves `path` from `base` as the operating system does, links included. Components that do not exist
/// are kept as they are.
fn resolve(base: &Path, path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            component => {
                resolved.push(component);
                if let Ok(real) = resolved.canonicalize() {
                    resolved = real;
                }
            }
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_as_in_the_operating_system() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let module = base.join("run/source/module");
        std::fs::create_dir_all(&module).unwrap();
        std::fs::create_dir_all(base.join("kept/deep")).unwrap();
        std::os::unix::fs::symlink(base.join("kept/deep"), module.join("link")).unwrap();
        for (path, expected) in [
            ("terraform.tfstate", "run/source/module/terraform.tfstate"),
            ("./a/../../b", "run/source/b"),
            ("../../../c", "c"),
            ("link/d", "kept/deep/d"),
            ("link/../e", "kept/e"),
        ] {
            assert_eq!(resolve(&module, Path::new(path)), base.join(expected), "{path}");
        }
        assert_eq!(resolve(&module, Path::new("/x/y")), Path::new("/x/y"));
    }

    #[test]
    fn location_of_a_local_state_depends_on_the_workspace() {
        let at = |location| match location {
            StateLocation::At(path) => path.display().to_string(),
            StateLocation::Remote => "remote".to_owned(),
            StateLocation::Unclear => "unclear".to_owned(),
        };
        let blue = Some(OsStr::new("blue"));
        assert_eq!(at(StateLocation::local(None, None, None)), "terraform.tfstate");
        assert_eq!(at(StateLocation::local(Some("/s/a"), None, None)), "/s/a");
        assert_eq!(
            at(StateLocation::local(Some("/s/a"), None, blue)),
            "terraform.tfstate.d/blue/terraform.tfstate"
        );
        assert_eq!(at(StateLocation::local(None, Some("/w"), blue)), "/w/blue/terraform.tfstate");
        let block =
            |kind: &str, path| BackendBlock { kind: kind.to_owned(), path, ..Default::default() };
        assert_eq!(at(module_backend_location(&block("s3", BlockSetting::Unset), None)), "remote");
        assert_eq!(
            at(module_backend_location(&block("local", BlockSetting::Computed), None)),
            "unclear"
        );
        let text = BlockSetting::Text("x".to_owned());
        assert_eq!(at(module_backend_location(&block("local", text), None)), "x");
    }
}
