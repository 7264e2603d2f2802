//! The `atlantis.yaml` of a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::output::{Output, set};
use super::repository_url::{in_repository, repository_name, repository_url, valid_name};
use super::scalars;
use super::{ImportError, Imported, checked};
use crate::config::ConfigError;

/// Why a key of the whole file is left out.
const PULL_REQUESTS: &str = "it is about pull requests; a server plans the commits of a branch";

const NO_COUNTERPART: &str = "it has no counterpart";

/// Files of the module's own directory, which each layer depends on anyway.
const OWN_FILES: [&str; 3] = ["*.tf", "*.tf*", "*.tfvars"];

/// Imports the file of the repository at `url`: its path and its text.
///
/// # Errors
/// If it is not valid YAML, or not an `atlantis.yaml` with projects.
pub fn atlantis(path: &Path, text: &str, url: &str) -> Result<Imported, ImportError> {
    let other = |why: &str| ImportError::Other { path: path.to_owned(), why: why.to_owned() };
    let document = scalars::document(text)
        .map_err(|error| ImportError::Yaml(ConfigError::parsing(path, &error).to_string()))?;
    let Value::Object(file) = document else {
        return Err(other("it is not a mapping"));
    };
    let mut file = Fields::new(file);
    if file.list("repos").is_some() {
        return Err(other(
            "it is the configuration of an Atlantis server; give the `atlantis.yaml` of a repository",
        ));
    }
    let Some(projects) = file.list("projects") else {
        return Err(other("it has no `projects`; name the directories in `paths` of a layer set"));
    };
    let mut output = Output::default();
    let repository = repository_name(url);
    output.repositories.insert(repository.clone(), json!({"url": repository_url(url)}));
    file.take("version");
    let workflows = file.fields("workflows");
    file.rest(&mut output.notes, &repository, "", PULL_REQUESTS);
    // Names of projects are those of layers; `depends_on` has the former.
    let mut names = BTreeMap::new();
    let mut added = Vec::new();
    for mut project in projects {
        let title = project.text("name");
        let directory = project.text("dir").unwrap_or_default();
        let directory = in_repository("", &directory).unwrap_or_default();
        let workspace = project.text("workspace").filter(|it| it != "default");
        let name = unused(&names, title.as_deref(), &directory, workspace.as_deref());
        if let Some(title) = title {
            names.insert(title, name.clone());
        } else {
            names.insert(format!("\0{name}"), name.clone());
        }
        added.push((name, directory, workspace, project));
    }
    for (name, directory, workspace, project) in added {
        let mut entry = Map::new();
        entry.insert("repository".to_owned(), repository.clone().into());
        set(&mut entry, "workspace", workspace);
        add(&mut entry, &name, &directory, project, &names, &workflows, &mut output.notes);
        let path = if directory.is_empty() { ".".to_owned() } else { directory };
        entry.insert("path".to_owned(), path.into());
        output.layers.insert(name, entry);
    }
    checked(output)
}

/// A name that no other layer has: that of the project, or its directory and workspace.
fn unused(
    names: &BTreeMap<String, String>,
    title: Option<&str>,
    directory: &str,
    workspace: Option<&str>,
) -> String {
    let described = || {
        let parts = [directory, workspace.unwrap_or_default()];
        let parts = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        if parts.is_empty() { "root".to_owned() } else { parts.join(".").replace('/', ".") }
    };
    let first = valid_name(&title.map_or_else(described, str::to_owned));
    let numbered = (2..).map(|number| format!("{first}-{number}"));
    let mut all = std::iter::once(first.clone()).chain(numbered);
    all.find(|name| names.values().all(|known| known != name)).unwrap_or(first)
}

/// Adds what a project says.
fn add(
    entry: &mut Map<String, Value>,
    name: &str,
    directory: &str,
    mut project: Fields,
    names: &BTreeMap<String, String>,
    workflows: &Fields,
    notes: &mut BTreeSet<String>,
) {
    if let Some(branch) = project.text("branch") {
        let literal = branch.trim_matches('/').trim_start_matches('^').trim_end_matches('$');
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
        if !literal.is_empty() && literal.chars().all(is_name) {
            entry.insert("ref".to_owned(), literal.into());
        } else {
            notes.insert(format!("{name}: `branch`: write the branch that is applied as `ref`"));
        }
    }
    let version = project.text("terraform_version");
    let is_tofu = project.text("terraform_distribution").is_some_and(|it| it == "opentofu");
    let tool = version.map(|version| {
        let version = version.strip_prefix('v').unwrap_or(&version).to_owned();
        if is_tofu { format!("opentofu-{version}") } else { version }
    });
    if is_tofu && tool.is_none() {
        notes.insert(format!("{name}: `terraform_distribution`: write `tool: opentofu-VERSION`"));
    }
    set(entry, "tool", tool);

    let mut autoplan = project.fields("autoplan");
    let patterns = autoplan.texts("when_modified").unwrap_or_default();
    set(entry, "triggers", triggers(&patterns, directory, name, notes));
    if autoplan.boolean("enabled") == Some(false) {
        notes.insert(format!(
            "{name}: `autoplan.enabled`: each commit is planned; `layer pause` stops that"
        ));
    }
    autoplan.rest(notes, name, "autoplan.", NO_COUNTERPART);

    let after = project.texts("depends_on").unwrap_or_default();
    let after: Vec<String> = after.iter().filter_map(|it| names.get(it).cloned()).collect();
    set(entry, "after", (!after.is_empty()).then_some(after));
    if project.take("execution_order_group").is_some() {
        notes.insert(format!(
            "{name}: `execution_order_group`: write the layers that come first as `after`"
        ));
    }
    // Atlantis applies when a person asks for it.
    entry.insert("strategy".to_owned(), "approve".into());
    for key in ["apply_requirements", "plan_requirements", "import_requirements"] {
        if project.take(key).is_some() {
            notes.insert(format!(
                "{name}: `{key}`: {PULL_REQUESTS}, and an operator approves each plan"
            ));
        }
    }
    if project.boolean("custom_policy_check") == Some(true) {
        notes.insert(format!("{name}: `custom_policy_check`: name the program in `after-plan`"));
    }
    if let Some(workflow) = project.text("workflow") {
        add_workflow(entry, name, &workflow, workflows.clone().fields(&workflow), notes);
    }
    project.rest(notes, name, "", PULL_REQUESTS);
}

/// The globs of further files.
fn triggers(
    patterns: &[String],
    directory: &str,
    name: &str,
    notes: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    let mut globs = Vec::new();
    for pattern in patterns {
        if pattern.starts_with('!') {
            notes.insert(format!(
                "{name}: `autoplan.when_modified`: `{pattern}`: files cannot be excluded"
            ));
            continue;
        }
        match in_repository(directory, pattern) {
            _ if OWN_FILES.contains(&pattern.trim_start_matches("./")) => {}
            Some(glob) if glob.is_empty() => globs.push("**".to_owned()),
            Some(glob) => {
                // A pattern that matches a directory matches everything below it.
                let below = (!names_files(&glob)).then(|| format!("{glob}/**"));
                globs.push(glob);
                globs.extend(below);
            }
            None => {
                notes.insert(format!("{name}: `{pattern}` leads out of the repository"));
            }
        }
    }
    (!globs.is_empty()).then_some(globs)
}

/// Whether a glob cannot match a directory that has something below it: it does so already, or it ends in an
/// ending.
fn names_files(glob: &str) -> bool {
    let last = glob.rsplit('/').next().unwrap_or_default();
    last == "**" || last.starts_with("*.") || last.starts_with("**.")
}

/// The variables of a workflow; its other steps become notes.
fn add_workflow(
    entry: &mut Map<String, Value>,
    name: &str,
    workflow: &str,
    mut stages: Fields,
    notes: &mut BTreeSet<String>,
) {
    let mut env = Map::new();
    for stage in ["plan", "apply", "policy_check", "import", "state_rm"] {
        // Those without words of their own, such as `init`, are done anyway.
        for (kind, mut step) in stages.fields(stage).named("steps") {
            let note = match &*kind {
                "env" => {
                    let key = step.text("name").unwrap_or_default();
                    match step.text("value") {
                        Some(value) => {
                            env.insert(key, value.into());
                            continue;
                        }
                        None => format!(
                            "the variable `{key}` is the output of a command; write it in `env`"
                        ),
                    }
                }
                "init" | "plan" | "apply" => {
                    let words = step.texts("extra_args").unwrap_or_default().join(" ");
                    format!("`{kind} {words}`: use `variables`, `secrets` and `backend`")
                }
                kind => {
                    format!("the step `{kind}` is not imported; `after-plan` can run a program")
                }
            };
            notes.insert(format!("{name}: `workflow: {workflow}`: {stage}: {note}"));
        }
    }
    set(entry, "env", (!env.is_empty()).then_some(env));
}
