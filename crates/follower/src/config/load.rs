//! Reads the registry file: checks the values and fills in the defaults.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::Schema;

use super::document::{AdapterEntry, ControllerEntry, Document, FollowerEntry};
use super::error::ConfigError;
use super::load_stage::{Chain, external_stage};
use super::name::is_name;
use super::registry::{
    Adapter, Budget, BudgetOrigin, Controller, DEFAULT_BUDGET, Follower, Registry, Source,
};
use super::span::Span;
use super::stage::{ExternalRun, Stage};

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
    /// ```
    /// let registry = butler_follower::config::Registry::parse(r#"
    /// controller:
    ///   namespace: ci
    ///   retry: {first: 30s, longest: 30m}
    /// followers:
    ///   - id: web
    ///     source: {repository: "https://git.example.com/shop/web.git", branch: main}
    ///     budget: 120s
    ///     adapter:
    ///       kubernetes:
    ///         stages:
    ///           - name: image
    ///             preset: job
    ///             create:
    ///               apiVersion: batch/v1
    ///               kind: Job
    ///               metadata: {name: "${name}"}
    ///           - name: ready
    ///             preset: deployment
    ///             observe: {api-version: apps/v1, kind: Deployment, namespace: web, name: web}
    ///             source-commit: ["$.metadata.labels['example.com/commit']"]
    ///             timeout: 10m
    ///   - id: network
    ///     source: {repository: infrastructure, branch: main}
    ///     adapter: {terraform: {layer: network}}
    /// "#);
    /// assert_eq!(registry.map(|registry| registry.followers.len()).ok(), Some(2));
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<ConfigError>> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| vec![ConfigError::parsing(&error)])?;
        let budget = document.controller.budget;
        let mut errors = Vec::new();
        let controller = controller(&document.controller, &mut errors);
        let mut followers = Vec::new();
        let mut ids = BTreeSet::new();
        for entry in document.followers {
            let id = entry.id.clone();
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
    if !is_name(&entry.id) {
        refuse(
            "`id` must have 1 to 63 lowercase letters, digits and `-`, and must begin with a letter",
        );
    }
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
            let run = ExternalRun::GithubActions { repository, workflow };
            (Adapter::GithubActions, run, entry.timeout)
        }
        AdapterEntry::GitlabCi(entry) => {
            (Adapter::GitlabCi, ExternalRun::GitlabCi { project: entry.project }, entry.timeout)
        }
        AdapterEntry::Jenkins(entry) => {
            (Adapter::Jenkins, ExternalRun::Jenkins { job: entry.job }, entry.timeout)
        }
    };
    Ok((adapter, vec![external_stage(id, run, timeout)?]))
}
