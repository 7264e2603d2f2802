//! Gets the files of the module: a clone, an archive of the registry, or the user's own directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Seek;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::registry::RegistryError;
use crate::run::context::Context;
use crate::run::directory::run_directory::keep_data_in_module;
use crate::run::failure::{Cause, Failure};
use crate::workspace::{ArchiveError, unpack};
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_protocol::backend::BackendKind;
use butler_protocol::spec::{ArchiveSource, RunSpec, Source};
use butler_source::git::{self, CloneRequest};
use butler_source::module::Module;

/// The beginning of the names of variables with options of Terraform.
const TF_CLI_ARGS: &str = "TF_CLI_ARGS";

/// The beginning of the names of variables with input variables.
const TF_VAR: &str = "TF_VAR_";

/// The name of the archive in messages.
const FILES: &str = "the archive of the module's files";

/// The module of a run after its source was fetched.
pub(in crate::run) struct ModuleLocation {
    pub(in crate::run) directory: PathBuf,
    /// Names of environment variables with tokens that the fetch has used.
    pub(in crate::run) used_tokens: Vec<&'static str>,
}

/// Fetches the module, or returns the user's own directory. Stores the fetched commit in `commit`.
pub(in crate::run) async fn fetch_source(
    context: &Context<'_>,
    spec: &RunSpec,
    commit: &mut Option<String>,
) -> Result<ModuleLocation, Failure> {
    let _span = context.notices.timeline.begin(Phase::Source);
    let location = match &spec.source {
        Source::Directory(directory) => {
            return Ok(ModuleLocation { directory: directory.clone(), used_tokens: Vec::new() });
        }
        Source::Git(git) => {
            let destination = context.directory.source();
            let values = values(spec, &context.settings.environment);
            let request = CloneRequest { source: git, values: &values, destination: &destination };
            let checkout = git::fetch(&request, &context.settings.git, context.log, context.stop)
                .await
                .map_err(|error| stopped_or(context, Failure::new(Phase::Source, &error)))?;
            *commit = Some(checkout.commit);
            ModuleLocation { directory: checkout.directory, used_tokens: checkout.used_tokens }
        }
        Source::Archive(archive) => {
            let fetched = fetch_archive(context, archive).await;
            let directory = fetched.map_err(|failure| stopped_or(context, failure))?;
            *commit = Some(archive.commit.clone());
            ModuleLocation { directory, used_tokens: Vec::new() }
        }
    };
    context
        .directory
        .prepare_module(&location.directory)
        .map_err(|error| Failure::because(Phase::Source, chain(&error)))?;
    Ok(location)
}

/// Prepares the data directory if the tool may send the module in `directory` to a server, which then plans and
/// applies. Returns whether this is possible. It is also possible if the block of the backend is not known, because
/// Terragrunt can generate it, or a file that could not be read can contain it.
///
/// # Errors
/// If the data directory cannot be created.
pub(in crate::run) fn prepare_for_server(
    spec: &RunSpec,
    module: &Module,
    directory: &Path,
    through_terragrunt: bool,
) -> Result<bool, Failure> {
    let own = spec.backend.as_ref().map(|backend| &backend.kind);
    let kind = own.or(module.backend.as_ref().map(|block| &block.kind));
    let is_sent = kind.map_or(through_terragrunt || module.is_incomplete, |kind| {
        BackendKind::of(kind).sends_module
    });
    if is_sent && !spec.source.is_in_place() {
        keep_data_in_module(directory)
            .map_err(|error| Failure::because(Phase::Variables, chain(&error)))?;
    }
    Ok(is_sent)
}

/// The texts that the module gets, and options of Terraform: they can be paths of files in the repository.
fn values(spec: &RunSpec, environment: &BTreeMap<OsString, OsString>) -> Vec<SecretString> {
    let mut values = Vec::new();
    let variables = spec.variables.iter().filter_map(|(_, variable)| variable.value.as_ref());
    let outputs = spec.upstream_outputs.iter().map(|(_, value)| value);
    for json in variables.chain(outputs) {
        if let Ok(value) = serde_json::from_str(json.expose_secret()) {
            add_texts(&value, &mut values);
        }
    }
    let given = spec.environment.iter().map(|(name, it)| (name.as_str(), it.value.expose_secret()));
    let text = |(name, value): (&'_ OsString, &'_ OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    let own = environment.iter().filter_map(text).collect::<Vec<_>>();
    let own = own.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in given.chain(own) {
        if name.starts_with(TF_CLI_ARGS) {
            let words = value.split_whitespace().flat_map(|word| word.split(['=', '"', '\'']));
            values.extend(words.map(SecretString::from));
        } else if name.starts_with(TF_VAR) || spec.environment.iter().any(|(it, _)| it == name) {
            values.push(value.into());
        }
    }
    values
}

/// Adds the texts in a value. Values of a configuration are not nested deep.
fn add_texts(value: &Value, texts: &mut Vec<SecretString>) {
    match value {
        Value::String(text) => texts.push(text.as_str().into()),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(members) => members.values().for_each(|value| add_texts(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Downloads and unpacks an archive. Returns the module's directory in it.
async fn fetch_archive(context: &Context<'_>, archive: &ArchiveSource) -> Result<PathBuf, Failure> {
    let Some(registry) = context.registry else {
        let text = "the source of the run is an archive of a registry, and the run has no registry";
        return Err(Failure::because(Phase::Source, text)
            .advise("name a git repository as the source, or set --endpoint (BUTLER_ENDPOINT)"));
    };
    let begun = format!("Fetching the files of {} from the registry", archive.commit);
    context.log.write_lines(&begun);
    let mut file = tempfile::tempfile_in(context.directory.private().path()).map_err(|source| {
        registry_failure(&RegistryError::File { act: "store", what: FILES, source })
    })?;
    tokio::select! {
        downloaded = registry.archive(FILES, &archive.url, &file) => {
            downloaded.map_err(|error| registry_failure(&error))?;
        }
        reason = context.stop.requested() => return Err(Failure::stopped(Phase::Source, &reason)),
    }
    let root = context.directory.source();
    let unpacked = blocking(move |abandoned| {
        file.rewind().map_err(ArchiveError::Read)?;
        unpack(file, &root, abandoned).map(|()| root)
    });
    let root = unpacked.await.map_err(|error| Failure::new(Phase::Source, &error))?;
    let working_directory = archive.working_directory.clone();
    let found = blocking(move |_| git::module_directory(&root, &working_directory)).await;
    let (_, directory) = found.map_err(|error| Failure::new(Phase::Source, &error))?;
    Ok(directory)
}

/// The registry is the cause, unless the runner refuses the archive or cannot store it.
pub(in crate::run) fn registry_failure(error: &RegistryError) -> Failure {
    let cause = match error {
        RegistryError::Address(_)
        | RegistryError::FileTooLarge { .. }
        | RegistryError::File { .. } => Cause::Run,
        _ => Cause::Registry,
    };
    Failure::new(Phase::Source, error).caused_by(cause)
}

/// The stop if there is one, because it is the root cause of `failure` then.
fn stopped_or(context: &Context<'_>, failure: Failure) -> Failure {
    let reason = context.stop.reason();
    reason.map_or(failure, |reason| Failure::stopped(Phase::Source, &reason))
}
