//! What is wrong with the single values of an entry, before defaults are filled in. So an error in a
//! default is reported once, where it stands.

use std::path::Path;
use std::time::Duration;

use butler_base::error::Advice;
use butler_cluster::Toleration;
use butler_protocol::backend::BackendKind;
use butler_protocol::name_rules::{VariableTreatment, rule_for};
use butler_protocol::spec::RequestedVersion;
use serde_saphyr::Spanned;

use super::check::{KINDS, is_one_kind};
use super::document::{JobEntry, LayerEntry, RepositoryEntry};
use super::entries::Placed;
use super::error::ConfigError;
use super::secrets::{self, relative};
use crate::mirror::{globs, never_matches};

/// The shortest time between two polls.
const SHORTEST_POLL: Duration = Duration::from_secs(1);

/// The shortest time between two checks for drift.
const SHORTEST_DRIFT: Duration = Duration::from_mins(1);

/// The highest limit of attempts.
const MOST_RETRIES: u32 = 100;

/// The smallest and the largest limit of a log, in bytes.
const LOG_LIMITS: std::ops::RangeInclusive<u64> = 64 * 1024..=1024 * 1024 * 1024;

/// The variables that the server sets, and what a layer does instead.
const SET_BY_SERVER: [(&str, &str); 3] = [
    ("HOME", "the server gives each attempt a directory of its own"),
    ("TMPDIR", "the server gives each attempt a directory of its own"),
    ("TF_WORKSPACE", "use `workspace`"),
];

/// What is wrong with the values of a repository.
pub(super) fn repository(repository: &Placed<RepositoryEntry>) -> Vec<ConfigError> {
    let mut errors: Vec<_> = relative(secrets::of_repository(repository)).collect();
    if repository.entry.poll.is_some_and(|poll| poll.0 < SHORTEST_POLL) {
        errors.push(repository.error("`poll` must be at least 1s"));
    }
    if repository.entry.webhook.as_ref().is_some_and(|webhook| webhook.source().is_none()) {
        errors.push(
            repository.error("`webhook` must have `secret-file`, or in a custom resource `secret`"),
        );
    }
    if repository.entry.concurrency == Some(0) {
        errors.push(repository.error("`concurrency` must be at least 1"));
    }
    errors
}

/// What is wrong with the values of a layer, or of the defaults.
pub(super) fn layer(layer: &Placed<LayerEntry>) -> Vec<ConfigError> {
    let entry = &layer.entry;
    let mut errors: Vec<_> = relative(secrets::of_layer(layer)).collect();
    for glob in entry.paths.iter().chain(&entry.triggers) {
        if let Err(error) = globs([glob.value.as_str()]) {
            errors.push(layer.error_in(glob, error.to_string()));
        }
    }
    for glob in &entry.triggers {
        if let Some(message) = never_matches(&glob.value) {
            errors.push(layer.error_in(glob, message));
        }
    }
    if let Some(tool) = &entry.tool
        && let Err(error) = RequestedVersion::of_argument(&tool.value, None)
    {
        let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        errors.push(layer.error_in(tool, format!("{error}{advice}")));
    }
    if let Some(backend) = &entry.backend {
        let kind = backend.kind.value.trim();
        let is_empty = kind.is_empty().then_some("`backend.type` must not be empty");
        if let Some(problem) = is_empty.or_else(|| BackendKind::of(kind).why_not_configurable()) {
            errors.push(layer.error_in(&backend.kind, problem));
        }
    }
    let every = entry.drift.as_ref().and_then(|drift| drift.every);
    if every.is_some_and(|every| every.0 < SHORTEST_DRIFT) {
        errors.push(layer.error("`drift.every` must be at least 1m"));
    }
    if entry.retries.is_some_and(|retries| retries.max > MOST_RETRIES) {
        errors.push(layer.error(format!("`retries.max` must be at most {MOST_RETRIES}")));
    }
    if entry.max_layers == Some(0) {
        errors.push(layer.error("`max-layers` must be at least 1"));
    }
    if let Some(limit) = &entry.max_log
        && !LOG_LIMITS.contains(&limit.value.0)
    {
        errors.push(layer.error_in(limit, "`max-log` must be between 64KiB and 1GiB"));
    }
    if let Some(spanned) = &entry.module_credentials {
        if !spanned.value.has_host() {
            let message = "`module-credentials.host` must be a host, such as `git.example.com` or \
                           `git.example.com:8443`";
            errors.push(layer.error_in(spanned, message));
        }
        if !is_one_kind(&spanned.value.credentials()) {
            errors.push(layer.error_in(spanned, KINDS));
        }
    }
    for path in entry.isolation.iter().flat_map(|it| it.read.iter().chain(&it.write)) {
        if let Some(problem) = isolation_problem(&path.value) {
            errors.push(layer.error_in(path, problem));
        }
    }
    if let Some(job) = &entry.job {
        errors.extend(job_errors(layer, job));
    }
    for name in entry.variables.keys().chain(entry.secrets.keys()) {
        if !is_identifier(name) {
            errors.push(layer.error(format!(
                "`{name}` is not the name of a variable: a name has letters, digits, `_` and `-`, and \
                 begins with a letter or `_`"
            )));
        }
    }
    for (name, reason) in entry.env.keys().filter_map(|name| Some((name, refusal(name)?))) {
        errors.push(layer.error(format!("`env` cannot set `{name}`: {reason}")));
    }
    if let Some(command) = &entry.after_plan
        && let Some(problem) = after_plan_problem(&command.value)
    {
        errors.push(layer.error_in(command, problem));
    }
    for name in &entry.pass_env {
        if let Some(reason) = refusal(&name.value) {
            let message = format!("`pass-env` cannot pass `{}`: {reason}", name.value);
            errors.push(layer.error_in(name, message));
        }
    }
    errors
}

/// What the cluster would refuse.
fn job_errors(layer: &Placed<LayerEntry>, job: &JobEntry) -> Vec<ConfigError> {
    let checked = |key: &'static str, value: &Spanned<String>, problem: Option<String>| {
        problem.map(|problem| {
            layer.error_in(value, format!("`{}` of `job.{key}` {problem}", value.value))
        })
    };
    let mut errors = Vec::new();
    for (key, quantity) in [("cpu", &job.cpu), ("memory", &job.memory)] {
        let problem = |value: &Spanned<String>| butler_cluster::quantity(&value.value).err();
        errors.extend(quantity.as_ref().and_then(|value| checked(key, value, problem(value))));
    }
    let names = [("service-account", &job.service_account), ("cache-claim", &job.cache_claim)];
    let names = names.into_iter().filter_map(|(key, name)| Some((key, name.as_ref()?)));
    for (key, name) in names.chain(job.env_from.iter().map(|name| ("env-from", name))) {
        errors.extend(checked(key, name, butler_cluster::object_name(&name.value).err()));
    }
    for taint in &job.tolerations {
        let problem = taint.value.parse::<Toleration>().err();
        errors.extend(checked("tolerations", taint, problem.map(|it| format!("is refused: {it}"))));
    }
    errors
}

/// Why a command cannot check plans. Whether its program exists is found out at each attempt.
fn after_plan_problem(command: &str) -> Option<String> {
    if command.contains(['"', '\'', '`']) {
        return Some(
            "`after-plan` has quotes, and no shell reads them: put such arguments into a script"
                .to_owned(),
        );
    }
    let program = command.split_whitespace().next().unwrap_or_default();
    Path::new(program)
        .is_relative()
        .then(|| format!("the program `{program}` of `after-plan` must be an absolute path"))
}

/// Why a path cannot be given to an attempt. The list of paths is passed on in one variable.
fn isolation_problem(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_relative() {
        return Some(format!("`{shown}` must be an absolute path"));
    }
    std::env::join_paths([path])
        .is_err()
        .then(|| format!("`{shown}` has a separator of paths in it"))
}

/// Whether `name` is an identifier of Terraform.
fn is_identifier(name: &str) -> bool {
    let begins = |one: char| one.is_alphabetic() || one == '_';
    name.starts_with(begins)
        && name.chars().all(|one| begins(one) || one.is_numeric() || one == '-')
}

/// Why a layer cannot set the environment variable `name`.
pub(crate) fn refusal(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Some("a name is not empty, and has neither `=` nor NUL");
    }
    if let Some((_, reason)) = SET_BY_SERVER.iter().find(|(set, _)| *set == name) {
        return Some(reason);
    }
    let rule = rule_for(name);
    let is_refused =
        matches!(rule.treatment, VariableTreatment::Refused | VariableTreatment::Ignored);
    is_refused.then_some(rule.reason)
}
