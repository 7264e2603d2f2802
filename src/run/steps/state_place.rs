//! Refuses an apply or destroy whose state would be in the clone, because the clone is removed at the end.
//!
//! The run's own backend is checked before the source is fetched, the module's before `init`, and the one that
//! Terragrunt generated after `init`. Only the backend's settings and `TF_WORKSPACE` are considered: a user who
//! sets `-state` in `TF_CLI_ARGS` is responsible for it. A path that cannot be computed leads to a warning. A
//! refresh is allowed, because it does not create resources that only its state would list.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use secrecy::ExposeSecret;
use serde::Deserialize;

use crate::engine::Engine;
use crate::report::RunLog;
use crate::run::context::Context;
use crate::run::directory::recovery;
use crate::run::reporting::outcome::Failure;
use crate::workspace::Inputs;
use butler_base::event::Phase;
use butler_protocol::backend::{BackendKind, LOCAL, StateLocation};
use butler_protocol::spec::{Backend, Operation, RunSpec, Source};
use butler_source::module::{BackendBlock, BlockSetting, Module};

/// The default of the local backend's `path`.
const DEFAULT_PATH: &str = "terraform.tfstate";

/// The default of the local backend's `workspace_dir`.
const DEFAULT_WORKSPACE_DIRECTORY: &str = "terraform.tfstate.d";

/// Refuses a run whose own backend keeps the state in the clone.
pub(in crate::run) fn check_run(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &Inputs,
) -> Result<(), Failure> {
    let (Source::Git(git), Some(backend)) = (&spec.source, &spec.backend) else { return Ok(()) };
    let module = context.directory.source().join(&git.working_directory);
    let state = state_of_run(backend, workspace(context, inputs).as_deref());
    check(context, spec, &module, &state.unless_configured_elsewhere(context))
}

/// Refuses a run whose module keeps its state in the clone, at `directory`.
pub(in crate::run) fn check_module(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &Inputs,
    module: &Module,
    directory: &Path,
) -> Result<(), Failure> {
    let Source::Git(_) = spec.source else { return Ok(()) };
    let workspace = workspace(context, inputs);
    let state = match (&spec.backend, &module.backend) {
        // Checked again, because a link in the clone may lead to another directory.
        (Some(backend), _) => state_of_run(backend, workspace.as_deref()),
        (None, Some(block)) => state_of_module(block, workspace.as_deref()),
        // A file that cannot be parsed may contain the block. Terraform reports the error in it.
        (None, None) if module.is_incomplete => StatePath::Computed,
        (None, None) => StatePath::local(None, None, workspace.as_deref()),
    };
    check(context, spec, directory, &state.unless_configured_elsewhere(context))
}

/// Refuses a module whose state is in Terragrunt's copy of it. Only after `init` it is known which backend
/// Terragrunt has generated.
pub(in crate::run) fn check_initialised(
    engine: &Engine<'_, RunLog>,
    operation: Operation,
    allowed: bool,
) -> Result<(), Failure> {
    let Some(downloads) = engine.downloads() else { return Ok(()) };
    if !matches!(operation, Operation::Apply | Operation::Destroy) {
        return Ok(());
    }
    let mut copies = vec![engine.directory.to_owned()];
    copies.extend(recovery::directories_below(downloads));
    let kept = copies.iter().any(|copy| {
        // Without this file, Terraform keeps its state in its working directory.
        let Some(initialised) = Initialised::read(&engine.data_directory(copy)) else {
            return false;
        };
        let Ok(Initialised { backend: InitialisedBackend { kind, config } }) = initialised else {
            return true;
        };
        let path = config.path.as_deref().unwrap_or(DEFAULT_PATH);
        BackendKind::of(&kind).state == StateLocation::Remote
            || !resolve(copy, Path::new(path)).starts_with(resolve(engine.private, Path::new("")))
    });
    if kept {
        return Ok(());
    }
    let text = "the state, in Terragrunt's copy of the module, is lost at the end";
    if !allowed {
        return Err(Failure {
            advice: Some(
                "name a backend in the run, or `remote_state` in terragrunt.hcl; --allow-ephemeral-state (BUTLER_ALLOW_EPHEMERAL_STATE) continues anyway"
                    .to_owned(),
            ),
            ..Failure::because(Phase::Init, text.to_owned())
        });
    }
    engine.log.warn(text);
    Ok(())
}

/// The type of the backend that Terragrunt initialised; `None` without Terragrunt, and if the copies of other
/// runs, in a directory of the user, have another type.
pub(in crate::run) fn initialised_backend(engine: &Engine<'_, RunLog>) -> Option<String> {
    engine.wrapper.as_ref()?;
    let cache = engine.directory.join(recovery::TERRAGRUNT_CACHE);
    let mut copies = vec![engine.directory.to_owned()];
    copies.extend(recovery::directories_below(engine.downloads().unwrap_or(&cache)));
    let data = copies.iter().map(|copy| engine.data_directory(copy));
    let mut kinds = data.filter(|data| data.is_dir()).map(|data| match Initialised::read(&data) {
        None => Some(LOCAL.name.to_owned()),
        Some(initialised) => initialised.ok().map(|it| it.backend.kind),
    });
    let kind = kinds.next()??;
    kinds.all(|other| other.as_ref() == Some(&kind)).then_some(kind)
}

/// The backend that `init` recorded in the data directory.
#[derive(Deserialize)]
struct Initialised {
    backend: InitialisedBackend,
}

impl Initialised {
    /// Reads the file in a data directory; `None` if it does not exist, because no backend is configured.
    fn read(data: &Path) -> Option<serde_json::Result<Self>> {
        let file = std::fs::File::open(data.join("terraform.tfstate")).ok()?;
        Some(serde_json::from_reader(std::io::BufReader::new(file)))
    }
}

#[derive(Deserialize)]
struct InitialisedBackend {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    config: InitialisedConfig,
}

#[derive(Default, Deserialize)]
struct InitialisedConfig {
    path: Option<String>,
}

/// Where a backend keeps the state.
enum StatePath {
    /// Not on this machine.
    Remote,
    /// At this path, relative to the module's directory.
    Local(PathBuf),
    /// At a path that only Terraform can compute.
    Computed,
}

impl StatePath {
    fn local(path: Option<&str>, workspaces: Option<&str>, workspace: Option<&OsStr>) -> Self {
        let given = |text: Option<&str>, default: &str| {
            PathBuf::from(text.filter(|text| !text.is_empty()).unwrap_or(default))
        };
        Self::Local(match workspace {
            None => given(path, DEFAULT_PATH),
            Some(workspace) => {
                given(workspaces, DEFAULT_WORKSPACE_DIRECTORY).join(workspace).join(DEFAULT_PATH)
            }
        })
    }

    /// A path is not known for sure if the environment adds settings of the backend to the arguments of `init`.
    fn unless_configured_elsewhere(self, context: &Context<'_>) -> Self {
        let configured = ["TF_CLI_ARGS", "TF_CLI_ARGS_init"].into_iter().any(|name| {
            let arguments = context.settings.environment.get(OsStr::new(name));
            arguments.is_some_and(|given| given.to_string_lossy().contains("-backend-config"))
        });
        match self {
            Self::Local(_) if configured => Self::Computed,
            state => state,
        }
    }
}

fn state_of_run(backend: &Backend, workspace: Option<&OsStr>) -> StatePath {
    if BackendKind::of(&backend.kind).state == StateLocation::Remote {
        return StatePath::Remote;
    }
    let setting = |name: &str| {
        let (_, value) = backend.config.iter().find(|(given, _)| given == name)?;
        serde_json::from_str::<Option<String>>(value.expose_secret()).ok()?
    };
    StatePath::local(setting("path").as_deref(), setting("workspace_dir").as_deref(), workspace)
}

fn state_of_module(block: &BackendBlock, workspace: Option<&OsStr>) -> StatePath {
    if BackendKind::of(&block.kind).state == StateLocation::Remote {
        return StatePath::Remote;
    }
    let setting = if workspace.is_some() { &block.workspace_dir } else { &block.path };
    let text = match setting {
        BlockSetting::Computed => return StatePath::Computed,
        BlockSetting::Unset => None,
        BlockSetting::Text(text) => Some(text.as_str()),
    };
    StatePath::local(text, text, workspace)
}

/// The workspace that the environment selects, unless it is the default one.
fn workspace(context: &Context<'_>, inputs: &Inputs) -> Option<OsString> {
    const NAME: &str = "TF_WORKSPACE";
    let given = inputs.environment.iter().rev().find(|(name, ..)| name == NAME);
    given
        .map(|(_, value, _)| OsString::from(value.expose_secret()))
        .or_else(|| context.settings.environment.get(OsStr::new(NAME)).cloned())
        .filter(|workspace| !workspace.is_empty() && workspace != "default")
}

fn check(
    context: &Context<'_>,
    spec: &RunSpec,
    module: &Path,
    state: &StatePath,
) -> Result<(), Failure> {
    if !matches!(spec.operation, Operation::Apply | Operation::Destroy) {
        return Ok(());
    }
    let text = match state {
        StatePath::Remote => return Ok(()),
        StatePath::Computed => {
            "whether the local state lies outside of the clone is not known: what is in the clone is lost at the end"
                .to_owned()
        }
        StatePath::Local(path) => {
            let run = context.directory.private().path();
            if !resolve(module, path).starts_with(resolve(run, Path::new(""))) {
                return Ok(());
            }
            let text = format!("the state, `{}` in the clone, is lost at the end", path.display());
            if !context.settings.allow_ephemeral_state {
                return Err(Failure {
                    advice: Some(
                        "name a backend in the run or in the module, or an absolute path outside; --allow-ephemeral-state (BUTLER_ALLOW_EPHEMERAL_STATE) continues anyway"
                            .to_owned(),
                    ),
                    ..Failure::because(Phase::Variables, text)
                });
            }
            text
        }
    };
    context.log.warn(&text);
    Ok(())
}

/// The path that `path` leads to from `base`, with links resolved. Components that do not exist yet stay as they
/// are written.
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
    fn links_in_paths_are_resolved() {
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
    fn path_of_a_local_state_depends_on_the_workspace() {
        let at = |state| match state {
            StatePath::Local(path) => path.display().to_string(),
            StatePath::Remote => "elsewhere".to_owned(),
            StatePath::Computed => "computed".to_owned(),
        };
        let blue = Some(OsStr::new("blue"));
        assert_eq!(at(StatePath::local(None, None, None)), "terraform.tfstate");
        assert_eq!(at(StatePath::local(Some("/s/a"), None, None)), "/s/a");
        assert_eq!(
            at(StatePath::local(Some("/s/a"), None, blue)),
            "terraform.tfstate.d/blue/terraform.tfstate"
        );
        assert_eq!(at(StatePath::local(None, Some("/w"), blue)), "/w/blue/terraform.tfstate");
        let block =
            |kind: &str, path| BackendBlock { kind: kind.to_owned(), path, ..Default::default() };
        assert_eq!(at(state_of_module(&block("s3", BlockSetting::Unset), None)), "elsewhere");
        assert_eq!(at(state_of_module(&block("local", BlockSetting::Computed), None)), "computed");
        let text = BlockSetting::Text("x".to_owned());
        assert_eq!(at(state_of_module(&block("local", text), None)), "x");
    }
}
