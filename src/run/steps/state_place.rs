//! Keeps apply and destroy from storing their state in the clone, where it is lost at the end.
//!
//! What the run itself says is looked at before anything is fetched, what the module says before
//! `init`, and what Terragrunt has made of it after that. Only the backend's own settings and
//! `TF_WORKSPACE` count: a `-state` in `TF_CLI_ARGS` is the affair of whoever sets it. What cannot be
//! known for sure is only warned of. A refresh is let through: it brings nothing into being that
//! only its state would know.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use secrecy::ExposeSecret;
use serde::Deserialize;

use crate::engine::Engine;
use crate::report::RunLog;
use crate::run::context::Context;
use crate::run::directory::recovery;
use crate::run::failure::Failure;
use crate::workspace::Inputs;
use butler_base::event::Phase;
use butler_protocol::spec::{Backend, Operation, RunSpec, Source};
use butler_source::module::{BackendBlock, BlockSetting, Module};

/// Where Terraform keeps a local state without further settings.
const DEFAULT_PATH: &str = "terraform.tfstate";

/// The same for other workspaces than the default one.
const DEFAULT_WORKSPACE_DIRECTORY: &str = "terraform.tfstate.d";

/// Refuses a run that says itself that its state is to lie in the clone.
pub(in crate::run) fn check_run(
    context: &Context<'_>,
    spec: &RunSpec,
    inputs: &Inputs,
) -> Result<(), Failure> {
    let (Source::Git(git), Some(backend)) = (&spec.source, &spec.backend) else { return Ok(()) };
    let module = context.directory.source().join(&git.working_directory);
    let place = local_path(backend, workspace(context, inputs).as_deref());
    check(context, spec, &module, &place.unless_configured_elsewhere(context))
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
    let place = match (&spec.backend, &module.backend) {
        // Again, because a link in the clone may lead anywhere.
        (Some(backend), _) => local_path(backend, workspace.as_deref()),
        (None, Some(block)) => block_path(block, workspace.as_deref()),
        // Terraform explains better what is wrong with a file; and it may hold the block.
        (None, None) if module.is_incomplete => Place::Computed,
        (None, None) => Place::local(None, None, workspace.as_deref()),
    };
    check(context, spec, directory, &place.unless_configured_elsewhere(context))
}

/// Refuses to go on with a module whose state Terraform, as it was initialised by Terragrunt, keeps in
/// a copy of it: only now it is known what Terragrunt has made of the module.
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
    let kept = copies.iter().any(|copy| {
        // Without this file, Terraform keeps its state where it runs.
        let Some(initialised) = Initialised::read(&engine.data_directory(copy)) else {
            return false;
        };
        let Ok(Initialised { backend: InitialisedBackend { kind, config } }) = initialised else {
            return true;
        };
        let path = config.path.as_deref().unwrap_or(DEFAULT_PATH);
        kind != "local"
            || !resolve(copy, Path::new(path)).starts_with(resolve(engine.private, Path::new("")))
    });
    if kept {
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

/// The type of the backend that counts, as Terraform was initialised by Terragrunt; none where nothing
/// wraps it, or where copies of other runs, in a directory of the user's own, say something else.
pub(in crate::run) fn initialised_backend(engine: &Engine<'_, RunLog>) -> Option<String> {
    engine.wrapper.as_ref()?;
    let cache = engine.directory.join(recovery::TERRAGRUNT_CACHE);
    let mut copies = vec![engine.directory.to_owned()];
    copies.extend(recovery::directories_below(engine.downloads().unwrap_or(&cache)));
    let data = copies.iter().map(|copy| engine.data_directory(copy));
    let mut kinds = data.filter(|data| data.is_dir()).map(|data| match Initialised::read(&data) {
        None => Some("local".to_owned()),
        Some(initialised) => initialised.ok().map(|it| it.backend.kind),
    });
    let kind = kinds.next()??;
    kinds.all(|other| other.as_ref() == Some(&kind)).then_some(kind)
}

/// What `init` remembers of the backend.
#[derive(Deserialize)]
struct Initialised {
    backend: InitialisedBackend,
}

impl Initialised {
    /// Reads it from a data directory; none where there is none, because no backend is named.
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
enum Place {
    /// Not on this machine.
    Elsewhere,
    /// At this path, seen from the module's directory.
    At(PathBuf),
    /// At a path that only Terraform can compute.
    Computed,
}

impl Place {
    fn local(path: Option<&str>, workspaces: Option<&str>, workspace: Option<&OsStr>) -> Self {
        let given = |text: Option<&str>, default: &str| {
            PathBuf::from(text.filter(|text| !text.is_empty()).unwrap_or(default))
        };
        Self::At(match workspace {
            None => given(path, DEFAULT_PATH),
            Some(workspace) => {
                given(workspaces, DEFAULT_WORKSPACE_DIRECTORY).join(workspace).join(DEFAULT_PATH)
            }
        })
    }
}

impl Place {
    /// The job's environment may have settings of the backend in the arguments of `init`.
    fn unless_configured_elsewhere(self, context: &Context<'_>) -> Self {
        let configured = ["TF_CLI_ARGS", "TF_CLI_ARGS_init"].into_iter().any(|name| {
            let arguments = context.settings.environment.get(OsStr::new(name));
            arguments.is_some_and(|given| given.to_string_lossy().contains("-backend-config"))
        });
        match self {
            Self::At(_) if configured => Self::Computed,
            place => place,
        }
    }
}

fn local_path(backend: &Backend, workspace: Option<&OsStr>) -> Place {
    if backend.kind != "local" {
        return Place::Elsewhere;
    }
    let setting = |name: &str| {
        let (_, value) = backend.config.iter().find(|(given, _)| given == name)?;
        serde_json::from_str::<Option<String>>(value.expose_secret()).ok()?
    };
    Place::local(setting("path").as_deref(), setting("workspace_dir").as_deref(), workspace)
}

fn block_path(block: &BackendBlock, workspace: Option<&OsStr>) -> Place {
    if block.kind != "local" {
        return Place::Elsewhere;
    }
    let counts = if workspace.is_some() { &block.workspace_dir } else { &block.path };
    let text = match counts {
        BlockSetting::Computed => return Place::Computed,
        BlockSetting::Unset => None,
        BlockSetting::Text(text) => Some(text.as_str()),
    };
    Place::local(text, text, workspace)
}

/// The workspace that the environment asks for, unless it is the default one.
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
    place: &Place,
) -> Result<(), Failure> {
    if !spec.operation.changes_infrastructure() {
        return Ok(());
    }
    let text = match place {
        Place::Elsewhere => return Ok(()),
        Place::Computed => {
            "whether the local state lies outside of the clone is not known: what is in the clone is lost at the end"
                .to_owned()
        }
        Place::At(path) => {
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

/// Where `path` leads from `base`, as the operating system would go, links included; what does not
/// exist yet is taken as it is written.
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
    fn paths_are_followed_as_the_operating_system_does() {
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
    fn place_of_a_local_state_depends_on_the_workspace() {
        let at = |place| match place {
            Place::At(path) => path.display().to_string(),
            Place::Elsewhere => "elsewhere".to_owned(),
            Place::Computed => "computed".to_owned(),
        };
        let blue = Some(OsStr::new("blue"));
        assert_eq!(at(Place::local(None, None, None)), "terraform.tfstate");
        assert_eq!(at(Place::local(Some("/s/a"), None, None)), "/s/a");
        assert_eq!(
            at(Place::local(Some("/s/a"), None, blue)),
            "terraform.tfstate.d/blue/terraform.tfstate"
        );
        assert_eq!(at(Place::local(None, Some("/w"), blue)), "/w/blue/terraform.tfstate");
        let block =
            |kind: &str, path| BackendBlock { kind: kind.to_owned(), path, ..Default::default() };
        assert_eq!(at(block_path(&block("s3", BlockSetting::Unset), None)), "elsewhere");
        assert_eq!(at(block_path(&block("local", BlockSetting::Computed), None)), "computed");
        let text = BlockSetting::Text("x".to_owned());
        assert_eq!(at(block_path(&block("local", text), None)), "x");
    }
}
