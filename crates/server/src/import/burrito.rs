//! The custom resources of Burrito (`config.terraform.padok.cloud/v1alpha1`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::output::{Output, set};
use super::repository_url::{in_repository, repository_url, valid_name};
use super::{ImportError, Imported, checked, mappings};

/// The group of its resources.
const GROUP: &str = "config.terraform.padok.cloud/";

/// The annotation that `spec.additionalTriggerPaths` has replaced, as it is spelled.
const TRIGGER_PATHS: &str = "config.terraform.padok.cloud/additionnal-trigger-paths";

const NO_COUNTERPART: &str = "it has no counterpart";

const ON_THE_MACHINE: &str = "attempts run on the machine of the server; set it up there";

/// A resource: its name, its namespace, its annotations and its specification.
#[derive(Clone, Debug)]
struct Resource {
    name: String,
    namespace: String,
    trigger_paths: Option<String>,
    spec: Fields,
}

/// Namespace and name of a resource.
type Key = (String, String);

/// Imports the resources in these files: their paths and texts.
///
/// # Errors
/// If a file is not valid YAML, has no resource of Burrito, or a layer names a repository that is in no file.
pub fn burrito(files: &[(PathBuf, String)]) -> Result<Imported, ImportError> {
    let mut output = Output::default();
    let mut repositories = BTreeMap::<Key, Resource>::new();
    let mut layers = BTreeMap::<Key, (PathBuf, Resource)>::new();
    for (path, text) in files {
        let mut is_known = false;
        for document in mappings(path, text)? {
            for mut object in items(document) {
                let kind = object.text("kind").unwrap_or_default();
                let group = object.text("apiVersion").unwrap_or_default();
                if !group.starts_with(GROUP) {
                    continue;
                }
                is_known = true;
                let resource = resource(object);
                let key = (resource.namespace.clone(), resource.name.clone());
                match &*kind {
                    "TerraformRepository" => drop(repositories.insert(key, resource)),
                    "TerraformLayer" => drop(layers.insert(key, (path.clone(), resource))),
                    _ => {
                        let name = &resource.name;
                        output.notes.insert(format!("{name}: the kind `{kind}` is not imported"));
                    }
                }
            }
        }
        if !is_known {
            let why = format!("it has no resource of `{GROUP}`");
            return Err(ImportError::Other { path: path.clone(), why });
        }
    }
    let repository_names = names(&repositories.keys());
    let layer_names = names(&layers.keys());
    for (key, repository) in &repositories {
        add_repository(&mut output, &repository_names[key], repository.clone());
    }
    for (key, (path, layer)) in layers {
        let of = layer.spec.clone().fields("repository");
        let of = reference(of, &layer.namespace);
        let Some(repository) = repositories.get(&of) else {
            let why = format!(
                "the layer `{}` is in the repository `{}` of the namespace `{}`, which is in none of the files; name \
                 its file too",
                layer.name, of.1, of.0
            );
            return Err(ImportError::Other { path, why });
        };
        add_layer(&mut output, &layer_names[&key], &repository_names[&of], layer, repository);
    }
    checked(output)
}

/// The objects of a list, or the object.
fn items(mut document: Fields) -> Vec<Fields> {
    document.list("items").unwrap_or_else(|| vec![document])
}

fn resource(mut object: Fields) -> Resource {
    let mut metadata = object.fields("metadata");
    Resource {
        name: metadata.text("name").unwrap_or_default(),
        namespace: metadata.text("namespace").unwrap_or_else(|| "default".to_owned()),
        trigger_paths: metadata.fields("annotations").text(TRIGGER_PATHS),
        spec: object.fields("spec"),
    }
}

/// The repository that a layer names.
fn reference(mut repository: Fields, namespace: &str) -> Key {
    let namespace = repository.text("namespace").unwrap_or_else(|| namespace.to_owned());
    (namespace, repository.text("name").unwrap_or_default())
}

/// Names of resources: with their namespace, if another one has the same name.
fn names<'k>(keys: &(impl Iterator<Item = &'k Key> + Clone)) -> BTreeMap<Key, String> {
    let name = |key: &Key| {
        let is_unique = keys.clone().filter(|other| other.1 == key.1).count() == 1;
        valid_name(&if is_unique { key.1.clone() } else { format!("{}.{}", key.0, key.1) })
    };
    keys.clone().map(|key| (key.clone(), name(key))).collect()
}

fn add_repository(output: &mut Output, name: &str, mut repository: Resource) {
    let mut address = repository.spec.fields("repository");
    let url = address.text("url").unwrap_or_default();
    if let Some(secret) = address.text("secretName") {
        output.notes.insert(format!(
            "{name}: `repository.secretName`: write what the secret `{secret}` contains into files, and name them in \
             `credentials`"
        ));
    }
    address.rest(&mut output.notes, name, "repository.", NO_COUNTERPART);
    // Its layers have them.
    for key in [
        "terraform",
        "opentofu",
        "terragrunt",
        "iacTool",
        "remediationStrategy",
        "overrideRunnerSpec",
        "runHistoryPolicy",
    ] {
        repository.spec.take(key);
    }
    repository.spec.rest(&mut output.notes, name, "", NO_COUNTERPART);
    output.repositories.insert(name.to_owned(), json!({"url": repository_url(&url)}));
}

fn add_layer(
    output: &mut Output,
    name: &str,
    repository_name: &str,
    layer: Resource,
    repository: &Resource,
) {
    let (mut spec, mut of_repository) = (layer.spec, repository.spec.clone());
    let mut entry = Map::new();
    entry.insert("repository".to_owned(), repository_name.into());
    set(&mut entry, "ref", spec.text("branch"));
    let path = in_repository("", &spec.text("path").unwrap_or_default()).unwrap_or_default();
    let triggers = triggers(&mut spec, layer.trigger_paths, &path, name, &mut output.notes);
    set(&mut entry, "path", Some(if path.is_empty() { ".".to_owned() } else { path }));
    set(&mut entry, "triggers", triggers);
    set(&mut entry, "tool", tool(&mut spec, &mut of_repository, name, &mut output.notes));

    let strategy = strategy(&mut spec, name, &mut output.notes);
    let inherited = self::strategy(&mut of_repository, name, &mut output.notes);
    // Its plans wait until a person applies them.
    let is_automatic = strategy.0.or(inherited.0).unwrap_or(false);
    entry.insert("strategy".to_owned(), if is_automatic { "auto" } else { "approve" }.into());
    let retries = strategy.1.or(inherited.1).map(|retries| json!({"max": (retries + 1).min(100)}));
    set(&mut entry, "retries", retries);

    let runs = spec.fields("runHistoryPolicy").number("runs");
    let runs = runs.or_else(|| of_repository.fields("runHistoryPolicy").number("runs"));
    set(&mut entry, "history", runs.map(|runs| json!({"runs": runs})));

    let (own, inherited) =
        (spec.fields("overrideRunnerSpec"), of_repository.fields("overrideRunnerSpec"));
    let (own, inherited) =
        [own, inherited].map(|it| environment(it, name, &mut output.notes)).into();
    // As there, those of the layer replace all of the repository's.
    let env = if own.is_empty() { inherited } else { own };
    set(&mut entry, "env", (!env.is_empty()).then_some(env));

    spec.take("repository");
    spec.rest(&mut output.notes, name, "", NO_COUNTERPART);
    output.layers.insert(name.to_owned(), entry);
}

/// The globs of further files.
fn triggers(
    spec: &mut Fields,
    annotation: Option<String>,
    path: &str,
    name: &str,
    notes: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    let mut paths = spec.texts("additionalTriggerPaths").unwrap_or_default();
    let annotated = annotation.unwrap_or_default();
    paths.extend(annotated.split(',').map(|path| path.trim().to_owned()));
    let mut globs = Vec::new();
    for trigger in paths.iter().filter(|path| !path.is_empty()) {
        match in_repository(path, trigger) {
            Some(glob) if glob.is_empty() => globs.push("**".to_owned()),
            // Without a glob, it is a directory or a file.
            Some(glob) if !glob.contains(['*', '?', '[']) => {
                globs.extend([format!("{glob}/**"), glob]);
            }
            Some(glob) => globs.push(glob),
            None => {
                notes.insert(format!("{name}: `{trigger}` leads out of the repository"));
            }
        }
    }
    (!globs.is_empty()).then_some(globs)
}

/// The tool and its version: those of the layer, else those of the repository.
fn tool(
    spec: &mut Fields,
    of_repository: &mut Fields,
    name: &str,
    notes: &mut BTreeSet<String>,
) -> Option<String> {
    let mut chosen = BTreeMap::new();
    for product in ["terraform", "opentofu", "terragrunt"] {
        let (mut own, mut inherited) = (spec.fields(product), of_repository.fields(product));
        // Before it had a key of its own.
        if product == "terraform" {
            for (from, to) in [(&mut own, &mut *spec), (&mut inherited, &mut *of_repository)] {
                let nested = from.take("terragrunt");
                if let Some(nested @ Value::Object(_)) = nested {
                    to.put("terragrunt", nested);
                }
            }
        }
        let is_enabled = own.boolean("enabled");
        let is_enabled = is_enabled.or(inherited.boolean("enabled"));
        let version = own.text("version");
        let inherited = inherited.text("version");
        own.rest(notes, name, &format!("{product}."), NO_COUNTERPART);
        chosen.insert(product, (is_enabled, version.or(inherited)));
    }
    let is = |product: &str| chosen[product].0 == Some(true);
    let version = |product: &str| chosen[product].1.clone();
    if is("terragrunt") {
        notes.insert(format!("{name}: layers of Terragrunt are always `plan-only`"));
        if version("terragrunt").is_none() {
            notes.insert(format!(
                "{name}: `terragrunt.version`: it is missing; write `tool: terragrunt-VERSION`"
            ));
        }
        return version("terragrunt").map(|version| format!("terragrunt-{version}"));
    }
    if is("opentofu") || (version("opentofu").is_some() && !is("terraform")) {
        return version("opentofu").map(|version| format!("opentofu-{version}"));
    }
    version("terraform")
}

/// Whether plans are applied without an approval, and how often failures are retried.
fn strategy(
    spec: &mut Fields,
    name: &str,
    notes: &mut BTreeSet<String>,
) -> (Option<bool>, Option<u64>) {
    // Before it was a mapping.
    if let Some(text) = spec.text("remediationStrategy") {
        return (Some(text == "autoApply"), None);
    }
    let mut strategy = spec.fields("remediationStrategy");
    let mut on_error = strategy.fields("onError");
    let (is_automatic, retries) = (strategy.boolean("autoApply"), on_error.number("maxRetries"));
    if strategy.boolean("applyWithoutPlanArtifact") == Some(true) {
        notes.insert(format!(
            "{name}: `remediationStrategy.applyWithoutPlanArtifact`: {NO_COUNTERPART}: exactly the saved plan is applied"
        ));
    }
    on_error.rest(notes, name, "remediationStrategy.onError.", NO_COUNTERPART);
    strategy.rest(notes, name, "remediationStrategy.", NO_COUNTERPART);
    (is_automatic, retries)
}

/// The variables of the runner. What else its Pod has becomes notes.
fn environment(mut runner: Fields, name: &str, notes: &mut BTreeSet<String>) -> Map<String, Value> {
    let mut env = Map::new();
    for mut variable in runner.list("env").unwrap_or_default() {
        let key = variable.text("name").unwrap_or_default();
        match variable.text("value") {
            Some(value) => drop(env.insert(key, value.into())),
            None => {
                notes.insert(format!(
                    "{name}: `overrideRunnerSpec.env`: `{key}` comes from the cluster; write the value into a file, and \
                     `env: {{{key}: {{file: PATH}}}}`"
                ));
            }
        }
    }
    if runner.take("envFrom").is_some() {
        notes.insert(format!(
            "{name}: `overrideRunnerSpec.envFrom`: name each variable in `env`, with a file of its value"
        ));
    }
    for key in ["extraInitArgs", "extraPlanArgs", "extraApplyArgs"] {
        if runner.take(key).is_some() {
            notes.insert(format!(
                "{name}: `overrideRunnerSpec.{key}`: use `variables`, `secrets` and `backend`"
            ));
        }
    }
    runner.rest(notes, name, "overrideRunnerSpec.", ON_THE_MACHINE);
    env
}
