//! Reads the registry file: checks the values and fills in the defaults.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::document::{AdapterEntry, ControllerEntry, Document, FollowerEntry};
use super::error::ConfigError;
use super::load_stage::{Chain, external_stage};
use super::name::{LONGEST_NAME, is_name};
use super::registry::{
    Adapter, Budget, BudgetOrigin, Controller, DEFAULT_BUDGET, Follower, Registry, Source,
};
use super::span::Span;
use super::stage::{CiJob, CiPlace, ExternalRun, SecretReference, Stage, TokenSource};
use super::written::restore;

/// The shortest time between two looks.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

impl Registry {
    /// The JSON Schema of a registry file, made from the types that it is parsed into.
    #[must_use]
    pub fn schema() -> Schema {
        schemars::schema_for!(Document)
    }

    /// Reads the text of a registry file.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<ConfigError>> {
        let document = read(text).map_err(|error| vec![ConfigError::parsing(&error)])?;
        let budget = document.controller.budget;
        let mut errors = Vec::new();
        let controller = controller(&document.controller, &mut errors);
        let mut followers = Vec::new();
        let mut ids = BTreeSet::new();
        for entry in document.followers {
            let id = entry.id.clone();
            if !is_name(&id) {
                let message = "`id` must have 1 to 63 lowercase letters, digits and `-`, and must begin with a letter";
                let (follower, message) = (id.clone(), message.to_owned());
                errors.push(ConfigError::Follower { follower, message });
            }
            match follower(entry, &controller, budget) {
                Ok(follower) => followers.push(follower),
                Err(found) => errors.extend(found),
            }
            if !ids.insert(id.clone()) {
                let message = "the id is given twice; each follower needs its own".to_owned();
                errors.push(ConfigError::Follower { follower: id, message });
            }
        }
        if errors.is_empty() { Ok(Self { controller, followers }) } else { Err(errors) }
    }
}

impl Follower {
    /// The JSON Schema (draft 7, without references) of an entry of `followers`.
    #[must_use]
    pub fn schema() -> Schema {
        let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
        settings.into_generator().into_root_schema_for::<FollowerEntry>()
    }

    /// Reads one follower that a custom resource defines: an entry of `followers` with the id `NAMESPACE.NAME`.
    /// Objects of its stages that name no namespace are in that of `controller`.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn of_resource(entry: &Value, controller: &Controller) -> Result<Self, Vec<ConfigError>> {
        // JSON is YAML.
        let entry: FollowerEntry = serde_saphyr::from_str(&entry.to_string())
            .map_err(|error| vec![ConfigError::parsing(&error)])?;
        if entry.id.len() > LONGEST_NAME {
            let message = format!(
                "namespace and name together must have at most {} characters, because they are a label of objects",
                LONGEST_NAME - 1
            );
            return Err(vec![ConfigError::Follower { follower: entry.id, message }]);
        }
        follower(entry, controller, None)
    }
}

fn read(text: &str) -> Result<Document, serde_saphyr::Error> {
    let mut document: Document = serde_saphyr::from_str(text)?;
    if let Some(written) = butler_base::yaml::values(text)?.first() {
        restore(&mut document, written);
    }
    Ok(document)
}

fn controller(entry: &ControllerEntry, errors: &mut Vec<ConfigError>) -> Controller {
    let default = Controller::default();
    let span = |span: Option<Span>, default| span.map_or(default, |span| span.0);
    let first_retry = span(entry.retry.first, default.first_retry);
    let controller = Controller {
        namespace: entry.namespace.clone().unwrap_or(default.namespace),
        poll: span(entry.poll, default.poll),
        watch: span(entry.watch, default.watch),
        first_retry,
        longest_retry: span(entry.retry.longest, default.longest_retry.max(first_retry)),
    };
    let mut refuse = |message: &str| {
        errors.push(ConfigError::Controller { message: message.to_owned() });
    };
    if !is_name(&controller.namespace) {
        refuse("`namespace` must have 1 to 63 lowercase letters, digits and `-`");
    }
    if controller.poll.min(controller.watch) < SHORTEST_LOOK {
        refuse("`poll` and `watch` must be at least 1s");
    }
    if controller.first_retry < SHORTEST_LOOK {
        refuse("`retry.first` must be at least 1s");
    }
    if controller.longest_retry < controller.first_retry {
        refuse("`retry.longest` must not be shorter than `retry.first`");
    }
    controller
}

fn follower(
    entry: FollowerEntry,
    controller: &Controller,
    default_budget: Option<Span>,
) -> Result<Follower, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut refuse = |message: &str| {
        let message = message.to_owned();
        errors.push(ConfigError::Follower { follower: entry.id.clone(), message });
    };
    if entry.source.repository.trim().is_empty() {
        refuse("`source.repository` must not be empty");
    }
    if has_login(&entry.source.repository) {
        refuse(
            "`source.repository` must not have a login: give the name of the repository in the configuration of the \
             server, or its address without user and password",
        );
    }
    if entry.source.branch.trim().is_empty() {
        refuse("`source.branch` must not be empty");
    }
    let (adapter, stages) = match adapter(entry.adapter, &entry.id, controller) {
        Ok(adapter) => adapter,
        Err(found) => {
            errors.extend(found);
            return Err(errors);
        }
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Follower {
        source: Source { repository: entry.source.repository, branch: entry.source.branch },
        adapter,
        budget: budget(entry.budget, default_budget),
        is_paused: entry.paused,
        config_refs: entry.config_refs,
        stages,
        id: entry.id,
    })
}

/// Where the token of a CI system is.
fn token(
    file: Option<PathBuf>,
    variable: Option<String>,
    secret: Option<SecretReference>,
) -> Result<TokenSource, String> {
    match (file, variable, secret) {
        (Some(path), None, None) if path.is_absolute() => Ok(TokenSource::File(path)),
        (Some(_), None, None) => Err("`token-file` must be an absolute path".to_owned()),
        (None, Some(name), None) => Ok(TokenSource::Variable(name)),
        // The server sets it for custom resources.
        (None, None, Some(secret)) if secret.namespace.is_empty() => {
            Err("only custom resources can have `token-secret`".to_owned())
        }
        (None, None, Some(secret)) => Ok(TokenSource::Secret(secret)),
        _ => Err("the adapter must have either `token-file` or `token-env`, or in a custom resource `token-secret`".to_owned()),
    }
}

/// Whether an address has a user or a password. That of SSH is not secret.
fn has_login(address: &str) -> bool {
    let Some((scheme, rest)) = address.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or_default();
    let login = host.rsplit_once('@').map(|(login, _)| login);
    login.is_some_and(|login| scheme != "ssh" || login.contains(':'))
}

fn budget(own: Option<Span>, of_controller: Option<Span>) -> Budget {
    match (own, of_controller) {
        (Some(span), _) => Budget { limit: span.0, origin: BudgetOrigin::Follower },
        (None, Some(span)) => Budget { limit: span.0, origin: BudgetOrigin::Controller },
        (None, None) => Budget { limit: DEFAULT_BUDGET, origin: BudgetOrigin::Default },
    }
}

fn adapter(
    entry: AdapterEntry,
    id: &str,
    controller: &Controller,
) -> Result<(Adapter, Vec<Stage>), Vec<ConfigError>> {
    let refused =
        |message: String| vec![ConfigError::Follower { follower: id.to_owned(), message }];
    let (adapter, run, timeout) = match entry {
        AdapterEntry::Kubernetes(entry) => {
            let stages = Chain { follower: id, controller }.parse(entry.stages)?;
            return Ok((Adapter::Kubernetes, stages));
        }
        AdapterEntry::Terraform(entry) => {
            (Adapter::Terraform, ExternalRun::Terraform { layer: entry.layer }, entry.timeout)
        }
        AdapterEntry::GithubActions(entry) => {
            let (repository, workflow) = (entry.repository, entry.workflow);
            let job = CiJob {
                place: CiPlace::GithubActions { repository, workflow },
                url: entry.url,
                user: None,
                token: token(entry.token_file, entry.token_env, entry.token_secret)
                    .map_err(refused)?,
                api_token: None,
                inputs: entry.inputs,
            };
            (Adapter::GithubActions, ExternalRun::Ci(Box::new(job)), entry.timeout)
        }
        AdapterEntry::GitlabCi(entry) => {
            let api_token =
                token(entry.api_token_file, entry.api_token_env, entry.api_token_secret);
            let missing = "the adapter must have either `api-token-file`, an absolute path, or `api-token-env`: a trigger \
                           token cannot read pipelines";
            let job = CiJob {
                place: CiPlace::GitlabCi { project: entry.project },
                url: entry.url,
                user: None,
                token: token(entry.token_file, entry.token_env, entry.token_secret)
                    .map_err(refused)?,
                api_token: Some(api_token.map_err(|_| refused(missing.to_owned()))?),
                inputs: entry.inputs,
            };
            (Adapter::GitlabCi, ExternalRun::Ci(Box::new(job)), entry.timeout)
        }
        AdapterEntry::Jenkins(entry) => {
            let job = CiJob {
                place: CiPlace::Jenkins { job: entry.job },
                url: Some(entry.url),
                user: entry.user,
                token: token(entry.token_file, entry.token_env, entry.token_secret)
                    .map_err(refused)?,
                api_token: None,
                inputs: entry.inputs,
            };
            (Adapter::Jenkins, ExternalRun::Ci(Box::new(job)), entry.timeout)
        }
    };
    Ok((adapter, vec![external_stage(id, run, timeout)?]))
}
