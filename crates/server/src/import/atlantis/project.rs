//! One project: its checks, as Atlantis makes them, and the layer that it becomes.

use std::collections::{BTreeMap, BTreeSet};

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

use super::super::fields::Fields;
use super::super::output::set;
use super::patterns::{Globs, globs, is_glob};
use super::reasons::{AFTER_PLAN, PULL_REQUESTS};
use super::workflows::Workflows;
use crate::mirror;

/// Requirements that Atlantis knows.
const REQUIREMENTS: [&str; 3] = ["approved", "mergeable", "undiverged"];

/// The keys that tell projects apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    pub(super) name: Option<String>,
    /// The directory in the repository, without `./`; empty for its root. It can be a glob.
    pub(super) directory: String,
    /// `None` for the default workspace.
    pub(super) workspace: Option<String>,
    pub(super) branch: Option<String>,
}

impl Identity {
    /// Whether each directory that matches is a project.
    pub(super) fn is_set(&self) -> bool {
        is_glob(&self.directory)
    }
}

/// Takes the identity of a project from its keys.
///
/// # Errors
/// If Atlantis refuses one of them.
pub(super) fn identity(project: &mut Fields) -> Result<Identity, String> {
    let (name, branch) = (project.given("name"), project.given("branch"));
    let Some(dir) = project.given("dir").filter(|dir| !dir.is_empty()) else {
        return Err("it needs `dir`".to_owned());
    };
    if dir.contains("..") {
        return Err(format!("`dir: {dir}` must not contain `..`"));
    }
    if is_glob(&dir) {
        mirror::globs([dir.as_str()]).map_err(|error| error.to_string())?;
    }
    if let Some(name) = &name {
        if is_glob(name) {
            return Err(format!("`name: {name}` must not be a glob"));
        }
        if name.is_empty()
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~/".contains(c))
        {
            return Err(format!(
                "`name: {name}` must have letters, digits, `-`, `_`, `.`, `~` and `/`"
            ));
        }
        if is_glob(&dir) {
            return Err(format!(
                "`name: {name}` cannot be that of each directory that matches `{dir}`"
            ));
        }
    }
    let workspace = project.given("workspace").filter(|it| !it.is_empty());
    if let Some(workspace) = &workspace
        && !is_workspace(workspace)
    {
        return Err(format!("`workspace: {workspace}` is not the name of a workspace"));
    }
    if let Some(branch) = &branch {
        let inner = branch.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        if inner.is_none_or(|inner| Regex::new(inner).is_err()) {
            return Err(format!(
                "`branch: {branch}` must be a regular expression between `/` and `/`"
            ));
        }
    }
    let directory = mirror::join("", &dir).unwrap_or_default();
    let workspace = workspace.filter(|it| it != "default");
    Ok(Identity { name, directory, workspace, branch })
}

fn is_workspace(text: &str) -> bool {
    let is_allowed = |c: char| !c.is_whitespace() && !c.is_control() && !"/\\$".contains(c);
    text.chars().all(is_allowed)
        && !text.contains("..")
        && text != "."
        && !text.starts_with(['-', '~'])
}

/// The layer of a project. Its notes begin with its name.
pub(super) struct Project<'a> {
    pub(super) name: &'a str,
    pub(super) identity: &'a Identity,
    /// The layers by the names of their projects.
    pub(super) layers: &'a BTreeMap<String, String>,
    pub(super) workflows: &'a Workflows,
    pub(super) notes: &'a mut BTreeSet<String>,
}

impl Project<'_> {
    /// Adds the settings and notes of the project.
    ///
    /// # Errors
    /// If Atlantis refuses one of its keys.
    pub(super) fn add(
        mut self,
        entry: &mut Map<String, Value>,
        mut project: Fields,
    ) -> Result<(), String> {
        self.reference(entry);
        self.tool(entry, &mut project)?;
        self.autoplan(entry, &mut project);
        self.order(entry, &mut project);
        // Atlantis applies when a person asks for it.
        entry.insert("strategy".to_owned(), "approve".into());
        for key in ["apply_requirements", "plan_requirements", "import_requirements"] {
            let Some(requirements) = project.texts(key) else { continue };
            if let Some(unknown) =
                requirements.iter().find(|it| !REQUIREMENTS.contains(&it.as_str()))
            {
                return Err(format!(
                    "`{key}` must not have `{unknown}`; it can have {}",
                    REQUIREMENTS.join(", ")
                ));
            }
            self.note(key, &format!("{PULL_REQUESTS}, and an operator approves each plan"));
        }
        for key in ["custom_policy_check", "policy_check"] {
            if project.take(key).is_some() {
                self.note(key, AFTER_PLAN);
            }
        }
        for key in ["repo_locking", "repo_locks"] {
            if project.take(key).is_some() {
                self.note(key, "attempts of one state never run at the same time");
            }
        }
        self.workflow(entry, &mut project)?;
        project.rest(self.notes, self.name, "", PULL_REQUESTS);
        Ok(())
    }

    fn note(&mut self, key: &str, why: &str) {
        self.notes.insert(format!("{}: `{key}`: {why}", self.name));
    }

    /// The branch, if the expression can match only one.
    fn reference(&mut self, entry: &mut Map<String, Value>) {
        let Some(branch) = &self.identity.branch else { return };
        let inner = branch.get(1..branch.len() - 1).unwrap_or_default();
        let exact = inner.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
        let bounded = inner.strip_prefix('^').unwrap_or(inner);
        let bounded = bounded.strip_suffix('$').unwrap_or(bounded);
        let Some(name) = literal(bounded) else {
            let why = "it can match several branches; write the one that is applied as `ref`";
            self.note(&format!("branch: {branch}"), why);
            return;
        };
        if exact.is_none() {
            let why = format!("other branches match it too; the layer follows `{name}` only");
            self.note(&format!("branch: {branch}"), &why);
        }
        entry.insert("ref".to_owned(), name.into());
    }

    fn tool(&mut self, entry: &mut Map<String, Value>, project: &mut Fields) -> Result<(), String> {
        let distribution = project.given("terraform_distribution");
        let is_tofu = match distribution.as_deref() {
            None | Some("terraform") => false,
            Some("opentofu") => true,
            Some(other) => {
                return Err(format!(
                    "`terraform_distribution: {other}` must be `terraform` or `opentofu`"
                ));
            }
        };
        let version = project.given("terraform_version");
        if let Some(version) = &version {
            let bare = version.strip_prefix('v').unwrap_or(version);
            if !is_version(bare) {
                return Err(format!("`terraform_version: {version}` is not a version"));
            }
            let is_short = bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
                && bare.split('.').count() < 3;
            if is_short {
                self.note(
                    &format!("terraform_version: {version}"),
                    "Atlantis adds zeros; here it is the newest version that begins so",
                );
            }
            let tool = if is_tofu { format!("opentofu-{bare}") } else { bare.to_owned() };
            entry.insert("tool".to_owned(), tool.into());
        } else if is_tofu {
            self.note("terraform_distribution", "write `tool: opentofu-VERSION`");
        }
        Ok(())
    }

    fn autoplan(&mut self, entry: &mut Map<String, Value>, project: &mut Fields) {
        let mut autoplan = project.fields("autoplan");
        let patterns = autoplan.texts("when_modified");
        if autoplan.boolean("enabled") == Some(false) {
            self.note("autoplan.enabled", PLANNED_MANUALLY);
        }
        let Some(patterns) = patterns else { return };
        if patterns.iter().all(|pattern| pattern.trim().starts_with('!')) {
            self.note("autoplan.when_modified", PLANNED_MANUALLY);
        }
        let mut triggers = BTreeSet::new();
        for pattern in &patterns {
            let why = match globs(&self.identity.directory, pattern) {
                Globs::Some(globs)
                    if globs.iter().any(|it| mirror::globs([it.as_str()]).is_err()) =>
                {
                    "it is not a valid pattern"
                }
                Globs::Some(globs) => {
                    triggers.extend(globs);
                    continue;
                }
                Globs::Exclusion => "files cannot be excluded",
                Globs::Outside => "it leads out of the repository, so it matches nothing",
            };
            self.note("autoplan.when_modified", &format!("`{pattern}`: {why}"));
        }
        set(entry, "triggers", (!triggers.is_empty()).then(|| Vec::from_iter(triggers)));
    }

    fn order(&mut self, entry: &mut Map<String, Value>, project: &mut Fields) {
        let mut after = BTreeSet::new();
        for name in project.texts("depends_on").unwrap_or_default() {
            match self.layers.get(&name) {
                Some(layer) => drop(after.insert(layer.clone())),
                None => self.note("depends_on", &format!("there is no project `{name}`")),
            }
        }
        set(entry, "after", (!after.is_empty()).then(|| Vec::from_iter(after)));
        if project.take("execution_order_group").is_some() {
            self.note("execution_order_group", "write the layers that come first as `after`");
        }
    }

    fn workflow(
        &mut self,
        entry: &mut Map<String, Value>,
        project: &mut Fields,
    ) -> Result<(), String> {
        let named = project.given("workflow");
        let Some(name) = named.as_ref().or(self.workflows.default.as_ref()) else { return Ok(()) };
        let Some(workflow) = self.workflows.read(name)? else {
            // Atlantis always has it: `init` and `plan`, and `apply`.
            if name != "default" {
                let why = if self.workflows.has_server {
                    "neither file has it"
                } else {
                    "the file does not have it; `--server-config FILE` reads it from the configuration of the Atlantis \
                     server"
                };
                self.note(&format!("workflow: {name}"), why);
            }
            return Ok(());
        };
        for note in &workflow.notes {
            self.notes.insert(format!("{}: `workflow: {name}`: {note}", self.name));
        }
        set(entry, "env", (!workflow.env.is_empty()).then_some(workflow.env));
        Ok(())
    }
}

/// The note about a project that Atlantis plans only when a person asks for it.
const PLANNED_MANUALLY: &str = "Atlantis plans the project only when a person asks; here commits that change what the layer \
    depends on are planned, until `layer pause` stops that";

/// The text that a regular expression matches, if there is only one.
fn literal(expression: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = expression.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next().filter(char::is_ascii_punctuation)?),
            c if c.is_alphanumeric() || "-_/@#".contains(c) => text.push(c),
            _ => return None,
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Whether the text is a version: numbers, and then the suffix of a release candidate or a build.
fn is_version(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    numbers.split('.').all(|part| !part.is_empty())
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || "-~.+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_branch_matches_a_literal_expression() {
        for (expression, expected) in [
            ("main", Some("main")),
            ("release\\/1\\.0", Some("release/1.0")),
            ("release-1.0", None),
            ("main|dev", None),
            ("\\d", None),
            ("", None),
        ] {
            assert_eq!(literal(expression).as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn versions_are_those_that_atlantis_can_parse() {
        for text in ["1.9.8", "1.10", "1", "0.12.0-beta1", "1.2.3+meta", "1.2.3beta"] {
            assert!(is_version(text), "{text}");
        }
        for text in ["", "latest", "~> 1.9", ">= 1", " 1.9", "1..2", "1.9 "] {
            assert!(!is_version(text), "{text}");
        }
    }
}
