//! Registers the secrets in the state before a command prints anything: the errors and logs of providers, and copies of
//! a value without a mark, would show them.
//!
//! The state is read from the cheapest source: the plan that is applied, or the file of a local backend. Only a
//! state elsewhere needs a command of its own, and only a state without the marks of schemas needs the providers.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::command_input::CommandInput;
use super::grace::within;
use super::state_location::{local_path, local_state};
use crate::engine::{Engine, EngineError, planned_state, read_most};
use crate::report::RunLog;
use crate::run::masking::collected::{CollectedSecrets, SecretEvidence};
use crate::run::masking::secret_names::is_secret_name;
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::secret::Redactor;
use butler_base::trust::open_regular;
use butler_plan::{RemoteState, StateSurvey, survey_shown_state, survey_state};
use butler_protocol::backend::LOCAL;
use butler_protocol::spec::Product;
use butler_source::module::LocalStateBlock;

/// How long the state may be read.
const READING: Duration = Duration::from_mins(1);

/// Registers the secrets in the state, and those in the outputs of other states that the module reads. A state that
/// cannot be read is not an error: the command that follows reports the reason.
pub(super) async fn register_state_secrets(engine: &Engine<'_, RunLog>, input: &CommandInput<'_>) {
    let redactor = engine.log.redactor();
    register_local_states(engine, &input.local_states).await;
    let mut survey = match known_state(engine, input).await {
        Some(state) => register(engine.directory, state, redactor).await,
        None => None,
    };
    if survey.is_none() {
        let Some(state) = read(engine, engine.pull_state()).await else { return };
        survey = register(engine.directory, state, redactor).await;
    }
    let is_tofu = engine.tool.product == Product::OpenTofu;
    let mut incomplete = survey.as_ref().is_some_and(|survey| survey.incomplete);
    if survey.is_none_or(|survey| survey.lacks_marks(is_tofu))
        && let Some(state) = read(engine, engine.show_known_state()).await
    {
        let redactor = Arc::clone(redactor);
        let registering = blocking(move |_| {
            let (secrets, incomplete) = survey_shown_state(|| Ok(&state[..]), &redactor)?;
            redactor.register(&secrets);
            Ok::<_, std::io::Error>(incomplete)
        });
        match registering.await {
            Ok(found) => incomplete |= found,
            Err(error) => tracing::warn!(%error, "cannot find the secrets in the state"),
        }
    }
    if incomplete {
        engine.log.warn(
            "the state marks so much as sensitive that not all of it is masked where the module prints it",
        );
    }
}

/// The state in its stored form, if it can be read without a command. Empty if there is none.
async fn known_state(engine: &Engine<'_, RunLog>, input: &CommandInput<'_>) -> Option<Vec<u8>> {
    if let Some(plan) = input.restored.clone() {
        return blocking(move |_| planned_state(&plan)).await;
    }
    let path = local_state(engine)?;
    blocking(move |_| match open_regular(&path).and_then(read_most) {
        Ok(state) => Some(state),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    })
    .await
}

/// The result of a command that reads the state; none if it fails.
async fn read(
    engine: &Engine<'_, RunLog>,
    reading: impl Future<Output = Result<Vec<u8>, EngineError>>,
) -> Option<Vec<u8>> {
    match within(engine, READING, reading).await? {
        Ok(state) => Some(state),
        Err(error) => {
            tracing::debug!(error = %chain(&error), "cannot read the state for its secrets");
            None
        }
    }
}

/// Registers the secrets in `state`, the stored form of the state of the module in `directory`. None if it is encrypted
/// or in an unknown format.
async fn register(
    directory: &Path,
    state: Vec<u8>,
    redactor: &Arc<Redactor>,
) -> Option<StateSurvey> {
    let (directory, redactor) = (directory.to_owned(), Arc::clone(redactor));
    blocking(move |_| {
        let survey = survey_state(&state, &redactor).ok()?;
        redactor.register(&survey.secrets);
        for remote in &survey.remote_states {
            register_named_outputs(remote, &redactor);
            if remote.backend == LOCAL.name {
                let setting = |name: &str| remote.settings.get(name).map(String::as_str);
                let (path, workspaces) = (setting("path"), setting("workspace_dir"));
                let workspace = remote.workspace.as_deref();
                register_file(&local_path(&directory, path, workspaces, workspace), &redactor);
            }
        }
        Some(survey)
    })
    .await
}

/// Registers the outputs with names of secrets: the state from which they were read may be out of reach.
fn register_named_outputs(remote: &RemoteState, redactor: &Redactor) {
    let mut collected = CollectedSecrets::default();
    for (name, json) in remote.outputs.iter().filter(|(name, _)| is_secret_name(name)) {
        collected.add_json(SecretEvidence::NameOnly, name, json.expose_secret());
    }
    collected.register(redactor);
}

/// Registers the secrets in the states that the module's files name.
async fn register_local_states(engine: &Engine<'_, RunLog>, states: &[LocalStateBlock]) {
    if states.is_empty() {
        return;
    }
    let path = |state: &LocalStateBlock| {
        let [path, workspaces, workspace] =
            [&state.path, &state.workspace_dir, &state.workspace].map(|text| text.as_deref());
        local_path(engine.directory, path, workspaces, workspace)
    };
    let paths: Vec<PathBuf> = states.iter().map(path).collect();
    let redactor = Arc::clone(engine.log.redactor());
    blocking(move |_| paths.iter().for_each(|path| register_file(path, &redactor))).await;
}

/// Registers the secrets in the state in this file, if it can be read.
fn register_file(path: &Path, redactor: &Redactor) {
    if let Ok(state) = open_regular(path).and_then(read_most)
        && let Ok(survey) = survey_state(&state, redactor)
    {
        redactor.register(&survey.secrets);
    }
}
