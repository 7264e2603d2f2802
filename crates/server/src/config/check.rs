//! What the entries of a configuration must say together.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use butler_base::platform::fs::{AccessFlags, access};
use butler_base::similar::closest;
use butler_source::git::address_problem;
use serde_saphyr::Spanned;

use super::document::LayerEntry;
use super::entries::{Config, Placed};
use super::error::ConfigError;
use super::notifications;
use super::sources::{CredentialsEntry, IncludeEntry};
use super::trust::Trust;
use super::windows;
use crate::mirror::join;
use crate::model::{LayerName, Strategy};

/// What [`is_one_kind`] requires.
pub(super) const KINDS: &str = "credentials are one of `token-file`, `token-env`, `username` with `password-file`, \
                                `ssh-key-file` with `known-hosts`, and in custom resources `secret`";

/// What is wrong with the defaults.
pub(super) fn defaults(defaults: &Placed<LayerEntry>) -> Vec<ConfigError> {
    let entry = &defaults.entry;
    let mut errors = Vec::new();
    let mut only_layers = |value: Option<&Spanned<String>>, name: &str| {
        if let Some(value) = value {
            let message = format!("`{name}` belongs to a layer; it cannot be a default");
            errors.push(defaults.error_in(value, message));
        }
    };
    only_layers(entry.path.as_ref(), "path");
    only_layers(entry.paths.first(), "paths");
    only_layers(entry.formerly.as_ref(), "formerly");
    only_layers(entry.after.first(), "after");
    errors
}

/// What is wrong with the rest.
pub(super) fn config(config: &Config, trust: &Trust) -> Vec<ConfigError> {
    let mut errors = includes(config, trust);
    for (name, repository) in &config.repositories {
        if trust.repository_of_files() == Some(name) {
            let message = format!(
                "the server has a repository `{name}` already, from which it reads this configuration; use \
                 another name"
            );
            errors.push(repository.error(message));
        }
        if let Err(error) = name.parse::<LayerName>() {
            errors
                .push(repository.error(error.to_string().replace("layer name", "repository name")));
        }
        let url = &repository.entry.url;
        // The same check as that of a poll.
        if let Some(problem) = address_problem(&url.value) {
            let message = format!(
                "{problem}; it is an address with `https://`, `http://`, `ssh://` or `file://`, or \
                 `user@host:path`"
            );
            errors.push(repository.error_in(url, message));
        }
        if let Some(credentials) = &repository.entry.credentials
            && !is_one_kind(&credentials.value)
        {
            errors.push(repository.error_in(credentials, KINDS));
        }
    }
    for (name, layer) in &config.layers {
        check_layer(config, trust, name, layer, &mut errors);
    }
    for (name, layer) in &config.layers {
        if let Some(cycle) = cycle(config, name) {
            let message = format!("`after` leads back to the layer itself: {}", cycle.join(" → "));
            errors.push(layer.error(message));
        }
    }
    errors.extend(config.windows.iter().flat_map(|window| windows::window(config, window)));
    errors.extend(notifications::together(config));
    errors
}

/// The programs of `after-plan` that do not exist on this machine, or that its user cannot start.
#[must_use]
pub fn missing_programs(config: &Config) -> Vec<ConfigError> {
    let mut errors: Vec<ConfigError> = Vec::new();
    for layer in config.layers.values() {
        let Some(command) = &layer.entry.after_plan else { continue };
        let program = command.value.split_whitespace().next().unwrap_or_default();
        let path = Path::new(program);
        if path.is_file() && access(path, AccessFlags::X_OK).is_ok() {
            continue;
        }
        let message = format!("the program `{program}` of `after-plan` cannot be started here");
        let error = layer.error_in(command, message);
        // Layers can have it from the defaults.
        if errors.iter().all(|other| other.to_string() != error.to_string()) {
            errors.push(error);
        }
    }
    errors
}

/// What is wrong with includes.
fn includes(config: &Config, trust: &Trust) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let mut known = BTreeSet::new();
    // The error says that files of other people cannot have any.
    let all = config.include.iter().filter(|_| trust.repository_of_files().is_none());
    for include in all {
        let IncludeEntry { repository, reference, path, max_layers } = &include.entry;
        if !config.repositories.contains_key(&repository.value) {
            let names = config.repositories.keys().map(String::as_str);
            let message = unknown("repository", &repository.value, names);
            errors.push(include.error_in(repository, message));
        }
        if !is_inside(&path.value) {
            let message = format!("`{}` is not a path inside the repository", path.value);
            errors.push(include.error_in(path, message));
        }
        if !known.insert((&repository.value, reference, join("", &path.value))) {
            errors.push(include.error("the same include is given twice"));
        }
        if *max_layers == Some(0) {
            errors.push(include.error("`max-layers` must be at least 1"));
        }
    }
    errors
}

fn check_layer(
    config: &Config,
    trust: &Trust,
    name: &str,
    layer: &Placed<LayerEntry>,
    errors: &mut Vec<ConfigError>,
) {
    let entry = &layer.entry;
    // A layer set without a name names its layers by their paths alone.
    if !(name.is_empty() && entry.path.is_none())
        && let Err(error) = name.parse::<LayerName>()
    {
        errors.push(layer.error(error.to_string()));
    }
    match &entry.repository {
        None => errors.push(layer.error(format!("the layer `{name}` has no `repository`"))),
        Some(repository) if !config.repositories.contains_key(&repository.value) => {
            let own = trust.repository_of_files();
            let known = config.repositories.keys().map(String::as_str);
            let message = match own {
                Some(own) if own == repository.value => None,
                Some(own) => Some(format!(
                    "the layer cannot use the repository `{}`: included layers can use only `{own}`, from \
                     which their configuration comes, and repositories that this configuration defines, \
                     because the credentials of others are not its own",
                    repository.value
                )),
                None => Some(unknown("repository", &repository.value, known)),
            };
            errors.extend(message.map(|message| layer.error_in(repository, message)));
        }
        Some(_) => {}
    }
    match (&entry.path, entry.paths.as_slice()) {
        (None, []) => errors.push(layer.error(format!("the layer `{name}` has no `path`"))),
        (Some(path), [_, ..]) => {
            errors.push(layer.error_in(path, "a layer has either `path` or `paths`"));
        }
        (path, paths) => {
            for path in path.iter().chain(paths).filter(|path| !is_inside(&path.value)) {
                let message = format!("`{}` is not a path inside the repository", path.value);
                errors.push(layer.error_in(path, message));
            }
        }
    }
    for after in &entry.after {
        match config.layers.get(&after.value) {
            None => {
                let known = config.layers.keys().map(String::as_str);
                errors.push(layer.error_in(after, unknown("layer", &after.value, known)));
            }
            Some(upstream) if upstream.entry.strategy == Some(Strategy::PlanOnly) => {
                let message = format!(
                    "the layer `{}` is never applied (`strategy: plan-only`), so nothing can come \
                     after it",
                    after.value
                );
                errors.push(layer.error_in(after, message));
            }
            Some(_) => {}
        }
    }
    if let Some(formerly) = &entry.formerly {
        let problem = formerly_problem(config, layer, &formerly.value);
        errors.extend(problem.map(|problem| layer.error_in(formerly, problem)));
    }
}

/// Why a layer cannot take over the history of this one.
fn formerly_problem(config: &Config, layer: &Placed<LayerEntry>, formerly: &str) -> Option<String> {
    if let Err(error) = formerly.parse::<LayerName>() {
        return Some(error.to_string());
    }
    if layer.entry.path.is_none() {
        return Some("`formerly` belongs to a layer with `path`".to_owned());
    }
    if config.layers.contains_key(formerly) {
        return Some(format!("the layer `{formerly}` still exists"));
    }
    let claims = config.layers.values().filter_map(|other| other.entry.formerly.as_ref());
    let is_claimed_twice = claims.filter(|other| other.value == formerly).count() > 1;
    is_claimed_twice.then(|| format!("two layers have `formerly: {formerly}`; only one can"))
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match closest(name, known) {
        Some(near) => format!("there is no {kind} `{name}`; did you mean `{near}`?"),
        None => format!("there is no {kind} `{name}`"),
    }
}

/// Whether exactly one kind of credentials is given, and completely.
pub(super) fn is_one_kind(credentials: &CredentialsEntry) -> bool {
    let CredentialsEntry {
        token_file,
        token_env,
        username,
        password_file,
        ssh_key_file,
        known_hosts,
        secret,
    } = credentials;
    let is_complete = username.is_some() == password_file.is_some()
        && ssh_key_file.is_some() == known_hosts.is_some();
    let kinds = [
        token_file.is_some(),
        token_env.is_some(),
        username.is_some(),
        ssh_key_file.is_some(),
        secret.is_some(),
    ];
    is_complete && kinds.into_iter().filter(|is_given| *is_given).count() == 1
}

/// Whether `path` is relative and does not leave the directory that it begins in.
fn is_inside(path: &str) -> bool {
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    !path.is_empty() && !path.contains('\\') && Path::new(path).components().all(is_normal)
}

/// The layers on the way from `start` through `after` back to it, if there is one.
fn cycle(config: &Config, start: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut paths = vec![vec![start.to_owned()]];
    while let Some(path) = paths.pop() {
        let Some(layer) = path.last().and_then(|last| config.layers.get(last)) else { continue };
        for after in &layer.entry.after {
            let mut path = path.clone();
            path.push(after.value.clone());
            if after.value == start {
                return Some(path);
            }
            if seen.insert(after.value.clone()) {
                paths.push(path);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::load::parse;

    const VALID: &str = "
repositories:
  infra:
    url: https://git.example.com/infra.git
    credentials: {token-file: /run/secrets/git}
    poll: 1m
defaults:
  tool: 1.11.4
  strategy: approve
  drift: {every: 4h}
  variables: {region: eu-west-1, size: 2}
layers:
  dns: {repository: infra, path: envs/prod/dns}
  network:
    repository: infra
    ref: main
    path: envs/prod/network
    after: [dns]
    variables: {size: 3}
    secrets: {db_password: {file: /run/secrets/db}}
    env: {AWS_PROFILE: prod, AWS_SECRET_ACCESS_KEY: {env: AWS}}
    timeout: {plan: 10m}
  apps: {repository: infra, paths: ['envs/*/apps/*']}
windows:
  - {deny: [apply], layers: ['*-prod'], schedule: '0 18 * * FRI', for: 62h, timezone: Europe/Berlin}
";

    fn errors(text: &str) -> Vec<String> {
        let file = PathBuf::from("butler.yaml");
        let errors = parse(&[(file, text.to_owned())]).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_are_filled_in() {
        let config = parse(&[(PathBuf::from("butler.yaml"), VALID.to_owned())]).unwrap();
        let network = &config.layers["network"].entry;
        assert_eq!(network.tool.as_ref().unwrap().value, "1.11.4");
        assert_eq!(network.variables["size"], 3);
        assert_eq!(network.variables["region"], "eu-west-1");
        assert_eq!(network.drift.as_ref().unwrap().every.unwrap().0.as_secs(), 4 * 3600);
        assert_eq!(config.windows[0].entry.duration.0.as_secs(), 62 * 3600);
    }

    #[test]
    fn errors_have_a_place_and_a_suggestion() {
        for (old, new, expected) in [
            (
                "    poll: 1m",
                "    polll: 1m",
                "butler.yaml:6:5: unknown key `polll`; did you mean `poll`?",
            ),
            ("poll: 1m", "poll: soon", "butler.yaml:6:11: `soon` is not a span of time"),
            (
                "approve",
                "aprove",
                "butler.yaml:9:13: unknown value `aprove`; did you mean `approve`?",
            ),
            (
                "{repository: infra, path: envs/prod/dns}",
                "{repository: infa, path: envs/prod/dns}",
                "butler.yaml:13:21: there is no repository `infa`; did you mean `infra`?",
            ),
            (
                "after: [dns]",
                "after: [dms]",
                "butler.yaml:18:13: there is no layer `dms`; did you mean `dns`?",
            ),
            (
                "path: envs/prod/dns}",
                "path: ../dns}",
                "butler.yaml:13:34: `../dns` is not a path inside the repository",
            ),
            (
                "path: envs/prod/dns}",
                "path: envs/prod/dns, after: [network]}",
                "`after` leads back to the layer itself: dns → network → dns",
            ),
            (
                "path: envs/prod/dns}",
                "path: envs/prod/dns, strategy: plan-only}",
                "the layer `dns` is never applied",
            ),
            (
                "{token-file: /run/secrets/git}",
                "{username: a}",
                "butler.yaml:5:18: credentials are one of `token-file`",
            ),
            (
                "https://git.example.com",
                "git.example.com",
                "butler.yaml:4:10: the repository address `git.example.com",
            ),
            ("deny: [apply]", "deny: [aply]", "`aply` is not an action"),
            (
                "path: envs/prod/dns}",
                "path: envs/prod/dns, formerly: network}",
                "the layer `network` still exists",
            ),
            (
                "paths: ['envs/*/apps/*']}",
                "paths: ['envs/*/apps/*'], formerly: a}",
                "`formerly` belongs to a layer with `path`",
            ),
            (
                "  dns: {",
                "  a: {repository: infra, path: a, formerly: x}\n  b: {repository: infra, path: b, \
                 formerly: x}\n  dns: {",
                "two layers have `formerly: x`",
            ),
            (
                "  dns: {",
                "  network: {repository: infra, path: a}\n  dns: {",
                "the key `network` is given twice",
            ),
        ] {
            assert!(VALID.contains(old), "{old}");
            let errors = errors(&VALID.replacen(old, new, 1));
            assert!(errors.iter().any(|error| error.contains(expected)), "{new}: {errors:#?}");
        }
    }

    #[test]
    fn entries_of_several_files_are_not_repeated() {
        let text = |path: &str| (PathBuf::from(path), "layers: {a: {path: b}}".to_owned());
        let errors = parse(&[text("1.yaml"), text("2.yaml")]).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors[1], "2.yaml:1:13: the layer `a` is also given in 1.yaml:1");
    }

    #[test]
    fn errors_quote_no_other_line_of_the_file() {
        let errors = errors("repositories:\n  infra: {url: 'https://user:hunter22@x'}\n  b: {\n");
        assert!(!errors.concat().contains("hunter22"), "{errors:?}");
    }
}
