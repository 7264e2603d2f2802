//! The configuration of an Atlantis server: the workflows of a repository.

use std::collections::BTreeSet;
use std::path::Path;

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

use super::super::ImportError;
use super::keys::{SERVER_FILE, check};
use super::reading::mapping;
use super::reasons::{AFTER_PLAN, PULL_REQUESTS};

/// The reason of notes about keys of the server.
const OF_SERVER: &str = "it is about the Atlantis server";

/// The part of a server's configuration that is about a repository.
#[derive(Debug, Default)]
pub(super) struct ServerFile {
    /// The workflows by name.
    pub(super) workflows: Map<String, Value>,
    /// The workflow of projects that do not name one.
    pub(super) workflow: Option<String>,
    /// Notes about keys without a counterpart: the key, and why.
    pub(super) notes: BTreeSet<String>,
}

impl ServerFile {
    /// Reads the file for the repository at `url`.
    ///
    /// # Errors
    /// If Atlantis refuses the file.
    pub(super) fn read(path: &Path, text: &str, url: &str) -> Result<Self, ImportError> {
        let other = |why: String| ImportError::Other { path: path.to_owned(), why };
        let file = mapping(path, text)?;
        check(&file, SERVER_FILE, "").map_err(other)?;
        let mut found = Self::default();
        for (key, value) in &file {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("workflows", Value::Object(workflows)) => found.workflows.clone_from(workflows),
                ("repos", Value::Array(repositories)) => {
                    let id = repository_id(url);
                    for repository in repositories.iter().filter_map(Value::as_object) {
                        if matches(repository, &id).map_err(other)? {
                            found.add(repository);
                        }
                    }
                }
                ("policies", _) => found.note(key, AFTER_PLAN),
                _ => found.note(key, OF_SERVER),
            }
        }
        // A server can give its own steps to the workflow of projects that name none.
        if found.workflow.is_none() && found.workflows.contains_key("default") {
            found.workflow = Some("default".to_owned());
        }
        Ok(found)
    }

    fn add(&mut self, repository: &Map<String, Value>) {
        for (key, value) in repository.iter().filter(|(_, value)| !value.is_null()) {
            match (key.as_str(), value) {
                ("id", _) => {}
                ("workflow", Value::String(name)) => self.workflow = Some(name.clone()),
                ("pre_workflow_hooks" | "post_workflow_hooks", _) => self.note(
                    key,
                    "no program runs before or after the work of a repository; write files that such a program makes \
                     into the repository",
                ),
                ("custom_policy_check" | "policy_check", _) => self.note(key, AFTER_PLAN),
                ("allow_custom_workflows" | "allowed_overrides" | "allowed_workflows", _) => {
                    self.note(key, "the author of the server's configuration decides that");
                }
                ("repo_config_file", _) => self.note(key, "give this file to the import"),
                _ => self.note(key, PULL_REQUESTS),
            }
        }
    }

    fn note(&mut self, key: &str, why: &str) {
        self.notes.insert(format!("server configuration: `{key}`: {why}"));
    }
}

/// Whether an entry of `repos` is about the repository with this id.
fn matches(repository: &Map<String, Value>, id: &str) -> Result<bool, String> {
    let Some(wanted) = repository.get("id").and_then(Value::as_str) else {
        return Err("Atlantis refuses an entry of `repos` without `id`".to_owned());
    };
    let inner = wanted.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    match inner {
        None => Ok(wanted == id),
        Some(inner) => Regex::new(inner).map(|regex| regex.is_match(id)).map_err(|_| {
            format!("Atlantis refuses `id: {wanted}`, which is not a regular expression")
        }),
    }
}

/// The id of a repository: its host and path.
fn repository_id(url: &str) -> String {
    let url = super::super::repository_url::repository_url(url);
    let rest = url.split_once("://").map_or(&*url, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or(host);
    let path = path.trim_matches('/');
    format!("{host}/{}", path.strip_suffix(".git").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_have_the_id_that_atlantis_gives_them() {
        for (url, id) in [
            ("https://github.com/acme/infra.git", "github.com/acme/infra"),
            ("git@github.com:acme/infra.git", "github.com/acme/infra"),
            ("ssh://git@gitlab.example.com:2222/a/b/c/", "gitlab.example.com/a/b/c"),
            ("https://user@git.example.com:8443/a/b", "git.example.com/a/b"),
        ] {
            assert_eq!(repository_id(url), id);
        }
    }
}
