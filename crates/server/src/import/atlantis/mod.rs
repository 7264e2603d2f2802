//! The `atlantis.yaml` of a repository: each project becomes a layer.
//!
//! A file that Atlantis refuses is refused, with the key that is wrong. Each other key becomes a setting or a note.

mod keys;
mod patterns;
mod project;
mod reading;
mod reasons;
mod server;
mod steps;
#[cfg(test)]
mod tests;
mod workflow;
mod workflows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, json};

use self::keys::{REPOSITORY_FILE, check};
use self::project::{Identity, Project, identity};
use self::reading::mapping;
use self::reasons::{AFTER_PLAN, PULL_REQUESTS};
use self::server::ServerFile;
use self::workflows::Workflows;
use super::fields::Fields;
use super::output::Output;
use super::repository_url::{repository_name, repository_url, valid_name};
use super::{ImportError, Imported, checked};

/// Imports the file of the repository at `url`: its path and its text. `server` is the configuration of the Atlantis
/// server, if it is known.
///
/// # Errors
/// If it is not valid YAML, or Atlantis refuses it.
pub fn atlantis(
    path: &Path,
    text: &str,
    url: &str,
    server: Option<(&Path, &str)>,
) -> Result<Imported, ImportError> {
    let other = |why: String| ImportError::Other { path: path.to_owned(), why };
    let file = mapping(path, text)?;
    if file.contains_key("repos") {
        return Err(other(
            "it is the configuration of an Atlantis server; give the `atlantis.yaml` of a repository, and this file \
             as `--server-config`"
                .to_owned(),
        ));
    }
    check(&file, REPOSITORY_FILE, "").map_err(other)?;
    let server_file = match server {
        Some((path, text)) => ServerFile::read(path, text, url)?,
        None => ServerFile::default(),
    };
    let mut file = Fields::new(file);
    check_version(&mut file).map_err(other)?;
    let mut output = Output::default();
    let repository = repository_name(url);
    output.repositories.insert(repository.clone(), json!({"url": repository_url(url)}));
    output.notes.extend(server_file.notes.iter().cloned());
    let projects = file.list("projects").unwrap_or_default();
    let workflows = Workflows::new(&mut file, server_file, server.is_some());
    workflows.check().map_err(other)?;
    let in_project =
        |index: usize, why: String| other(format!("Atlantis refuses `projects[{index}]`: {why}"));
    let mut named = Vec::new();
    for (index, mut project) in projects.into_iter().enumerate() {
        let identity = identity(&mut project).map_err(|why| in_project(index, why))?;
        named.push((identity, project));
    }
    check_names(&named).map_err(other)?;
    let given: Vec<&Fields> = named.iter().map(|(_, project)| project).collect();
    workflows.add_unused(&given, &mut output.notes, &repository);
    if discovers(&mut file, &mut output.notes, &repository, named.is_empty()) {
        let directory = "**".to_owned();
        named.push((Identity { directory, ..Identity::default() }, Fields::default()));
    }
    rest(file, &mut output.notes, &repository);
    add_projects(named, &mut output, &repository, &workflows)
        .map_err(|(index, why)| in_project(index, why))?;
    checked(output)
}

fn check_version(file: &mut Fields) -> Result<(), String> {
    match file.given("version").as_deref() {
        Some("2" | "3") => Ok(()),
        Some(other) => Err(format!("Atlantis refuses `version: {other}`; it reads `2` and `3`")),
        None => Err("Atlantis refuses a file without `version: 3`".to_owned()),
    }
}

/// Checks that names are unique, and that projects with the same directory and workspace have names. Projects with
/// different branches are not compared.
fn check_names(projects: &[(Identity, Fields)]) -> Result<(), String> {
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (project, _) in projects {
        let Identity { name, directory, workspace, branch } = project;
        if let Some(name) = name
            && !names.insert((name, branch))
        {
            return Err(format!("Atlantis refuses two projects with the name `{name}`"));
        }
        if !places.insert((directory, workspace, branch)) && name.is_none() {
            return Err(format!(
                "Atlantis refuses two projects with `dir: {}` and the same workspace that do not both have a name",
                if directory.is_empty() { "." } else { directory }
            ));
        }
    }
    Ok(())
}

/// Whether a layer set is made of the directories that Atlantis finds without projects. Adds notes about `autodiscover`.
fn discovers(
    file: &mut Fields,
    notes: &mut BTreeSet<String>,
    repository: &str,
    has_no_projects: bool,
) -> bool {
    let mut given = file.fields("autodiscover");
    let mode = given.given("mode").unwrap_or_else(|| "auto".to_owned());
    let mut note = |key: &str, why: &str| {
        notes.insert(format!("{repository}: `{key}`: {why}"));
    };
    for pattern in given.texts("ignore_paths").unwrap_or_default() {
        let why = "directories cannot be excluded; name the others in `paths` of the layer set";
        note("autodiscover.ignore_paths", &format!("`{pattern}`: {why}"));
    }
    match (&*mode, has_no_projects) {
        ("disabled", true) => {
            note("autodiscover.mode", "Atlantis plans nothing, because there are no `projects`");
        }
        (_, true) => note(
            "projects",
            "there are none, so Atlantis finds them: each directory with a module becomes a layer; Atlantis leaves out \
             directories below `modules`, so if there are such directories, name the others in `paths` of the layer set",
        ),
        ("enabled", false) => note(
            "autodiscover.mode",
            "Atlantis finds further directories; name them in `paths` of a layer set",
        ),
        _ if mode != "auto" => {
            note("autodiscover.mode", "directories without a project are not planned either way");
        }
        _ => {}
    }
    has_no_projects && mode != "disabled"
}

/// Notes about the keys of the whole file that are left.
fn rest(mut file: Fields, notes: &mut BTreeSet<String>, repository: &str) {
    for (key, why) in [
        (
            "abort_on_execution_order_fail",
            "a layer waits until all layers in its `after` are applied",
        ),
        ("parallel_apply", "`concurrency` of a repository, and of the server, limits attempts"),
        ("parallel_plan", "`concurrency` of a repository, and of the server, limits attempts"),
        ("policies", AFTER_PLAN),
        ("repo_locks", "attempts of one state never run at the same time"),
    ] {
        if file.take(key).is_some() {
            notes.insert(format!("{repository}: `{key}`: {why}"));
        }
    }
    file.rest(notes, repository, "", PULL_REQUESTS);
}

fn add_projects(
    projects: Vec<(Identity, Fields)>,
    output: &mut Output,
    repository: &str,
    workflows: &Workflows,
) -> Result<(), (usize, String)> {
    // `depends_on` has names of projects, so all layers need their names first.
    let (mut names, mut used) = (BTreeMap::new(), BTreeSet::new());
    let mut layers = Vec::new();
    for (identity, project) in projects {
        let name = unused_name(&used, &identity, repository);
        used.insert(name.clone());
        if let Some(title) = &identity.name {
            names.insert(title.clone(), name.clone());
        }
        layers.push((name, identity, project));
    }
    for (index, (name, identity, project)) in layers.into_iter().enumerate() {
        let mut entry = Map::new();
        entry.insert("repository".to_owned(), repository.into());
        let path = if identity.directory.is_empty() { "." } else { &identity.directory };
        if identity.is_set() {
            entry.insert("paths".to_owned(), json!([path]));
        } else {
            entry.insert("path".to_owned(), path.into());
        }
        super::output::set(&mut entry, "workspace", identity.workspace.clone());
        let notes = &mut output.notes;
        let layers = &names;
        let layer = Project { name: &name, identity: &identity, layers, workflows, notes };
        layer.add(&mut entry, project).map_err(|why| (index, why))?;
        output.layers.insert(name, entry);
    }
    Ok(())
}

/// A name that no other layer has: that of the project, or its directory and workspace.
fn unused_name(used: &BTreeSet<String>, project: &Identity, repository: &str) -> String {
    let described = || {
        let fixed =
            project.directory.split('/').take_while(|part| !part.contains(['*', '?', '[', '{']));
        let directory = fixed.collect::<Vec<_>>().join(".");
        let root = if project.is_set() { repository } else { "root" };
        let parts = [directory.as_str(), project.workspace.as_deref().unwrap_or_default()];
        let parts = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        if parts.is_empty() { root.to_owned() } else { parts.join(".") }
    };
    let first = valid_name(&project.name.clone().unwrap_or_else(described));
    let numbered = (2..).map(|number| format!("{first}-{number}"));
    let mut all = std::iter::once(first.clone()).chain(numbered);
    all.find(|name| !used.contains(name)).unwrap_or(first)
}
