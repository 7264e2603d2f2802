//! Identities of states, of real repositories.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::{Config, parse};
use crate::layers::{Caches, Catalog, Heads, Reading, read, references};
use crate::test_repository::TestRepository;

fn config(layers: &[&str]) -> Config {
    let layers = layers.join("\n  ");
    let text = format!("repositories: {{infra: {{url: 'file:///infra'}}}}\nlayers:\n  {layers}\n");
    parse(&[(PathBuf::from("butler.yaml"), text)]).unwrap()
}

fn reading(config: &Config, files: &TestRepository) -> Reading {
    let commit = files.commit();
    let commits = references(config, "infra").into_iter().map(|it| (it, Some(commit.clone())));
    let commits = Heads { commits: commits.collect(), ..Heads::default() };
    read(config, "infra", &files.repository, &commits, &mut Caches::default()).unwrap()
}

fn catalog(config: &Config, reading: Reading) -> Catalog {
    Catalog::new(config, &BTreeMap::from([("infra".to_owned(), reading)]))
}

/// The state keys of all layers, and whether each is in conflict with others.
fn keys(catalog: &Catalog) -> Vec<(String, bool)> {
    let layers = catalog.layers.values().map(|source| &source.configured);
    layers.map(|it| (it.state_key.clone(), it.layer.conflict.is_some())).collect()
}

fn keys_of(layers: &[&str], files: &[(&str, &str)]) -> Vec<(String, bool)> {
    let repository = TestRepository::new();
    for (path, backend) in files {
        repository.write(&format!("{path}/main.tf"), &format!("terraform {{\n{backend}\n}}\n"));
    }
    let config = config(layers);
    let reading = reading(&config, &repository);
    keys(&catalog(&config, reading))
}

fn unique(keys: &[&str]) -> Vec<(String, bool)> {
    keys.iter().map(|key| ((*key).to_owned(), false)).collect()
}

const A: &str = "a: {repository: infra, path: envs/a}";
const B: &str = "b: {repository: infra, path: envs/b}";

const S3: &str =
    "backend \"s3\" {\n  bucket = \"states\"\n  key = \"k\"\n  secret_key = \"word\"\n}";
const OTHER_S3: &str = "backend \"s3\" {\n  bucket = \"states\"\n  key = \"other\"\n}";
const LOCAL: &str = "backend \"local\" {\n  path = \"terraform.tfstate\"\n}";

#[test]
fn layers_whose_modules_name_one_state_name_each_other_until_one_changes() {
    let files = TestRepository::new();
    let write = |path: &str, backend: &str| {
        files.write(&format!("{path}/main.tf"), &format!("terraform {{\n{backend}\n}}\n"));
    };
    write("envs/a", S3);
    write("envs/b", S3);
    let config = config(&[A, B]);
    let first = reading(&config, &files);
    let both = catalog(&config, first.clone());
    let conflict =
        |name: &str| both.layers[&name.parse().unwrap()].configured.layer.conflict.clone().unwrap();
    assert!(conflict("a").contains("`b`"), "{}", conflict("a"));
    assert!(conflict("b").contains("`a`"), "{}", conflict("b"));
    // The reading is kept in a file.
    let kept = serde_json::to_string(&first).unwrap();
    assert!(kept.contains("s3|aws|states|k") && !kept.contains("word"), "{kept}");

    write("envs/b", OTHER_S3);
    let second = reading(&config, &files);
    assert_ne!(first, second);
    let both = catalog(&config, second);
    assert_eq!(keys(&both), unique(&["s3|aws|states|k", "s3|aws|states|other"]));
}

#[test]
fn relative_path_of_a_local_state_begins_in_the_directory_of_the_module() {
    let files = [("envs/a", LOCAL), ("envs/b", LOCAL)];
    let expected = [
        "repository|infra|local|/envs/a/terraform.tfstate",
        "repository|infra|local|/envs/b/terraform.tfstate",
    ];
    assert_eq!(keys_of(&[A, B], &files), unique(&expected));
    let of_one = |workspace: &str| {
        let second = format!("b: {{repository: infra, path: ./envs/a{workspace}}}");
        keys_of(&[A, &second], &files)
    };
    assert_eq!(of_one(""), [(expected[0].to_owned(), true), (expected[0].to_owned(), true)]);
    assert_eq!(of_one(", workspace: default"), of_one(""));
    let blue = "repository|infra|local|/envs/a/terraform.tfstate.d/blue/terraform.tfstate";
    assert_eq!(of_one(", workspace: blue"), unique(&[expected[0], blue]));
    let at = |path: &str| {
        let backend = format!("backend \"local\" {{\n  path = \"{path}\"\n}}");
        keys_of(&[A], &[("envs/a", &backend)])
    };
    assert_eq!(at("../x"), unique(&["repository|infra|local|/envs/x"]));
    assert_eq!(at("/x/y"), unique(&["local|/x/y"]));
    assert_eq!(at("../../../x"), unique(&["layer|a"]));
    assert_eq!(at("${path.root}/x"), unique(&["layer|a"]));
}

#[test]
fn workspace_is_part_of_the_identity() {
    let cloud = "cloud {\n  organization = \"o\"\n  workspaces {\n    tags = [\"t\"]\n  }\n}";
    let layers = [
        "a: {repository: infra, path: envs/a}",
        "b: {repository: infra, path: envs/a, workspace: blue}",
        "c: {repository: infra, path: envs/b, workspace: blue}",
    ];
    let expected =
        ["s3|aws|states|k", "s3|aws|states|env:/blue/k", "remote|app.terraform.io|o|blue"];
    let found = keys_of(&layers, &[("envs/a", S3), ("envs/b", cloud)]);
    assert_eq!(found[2], (expected[2].to_owned(), false));
    assert_eq!(found[0], (expected[0].to_owned(), false));
    assert!(found[1].0.contains("blue"), "{found:?}");
    assert!(!found[1].1, "{found:?}");
}

#[test]
fn state_is_that_of_the_layer_unless_all_that_names_it_is_known() {
    let incomplete = "backend \"s3\" {\n  bucket = \"states\"\n}";
    let files = [("envs/a", S3), ("envs/b", incomplete)];
    let env = "a: {repository: infra, path: envs/a, env: {AWS_ENDPOINT_URL_S3: 'http://minio'}}";
    assert_eq!(keys_of(&[env, B], &files), unique(&["layer|a", "layer|b"]));
    // The backend of the configuration replaces the block: no setting of it remains.
    let replaced = "a: {repository: infra, path: envs/a, backend: {type: s3, config: {bucket: c}}}";
    assert_eq!(keys_of(&[replaced], &files), unique(&["layer|a"]));
    let replaced =
        "a: {repository: infra, path: envs/a, backend: {type: s3, config: {bucket: c, key: k}}}";
    assert_eq!(keys_of(&[replaced], &files), unique(&["s3|aws|c|k"]));
}

#[test]
fn key_of_another_path_or_workspace_is_not_used_before_the_module_is_read_again() {
    let files = TestRepository::new();
    files.write("envs/a/main.tf", &format!("terraform {{\n{S3}\n}}\n"));
    let read = reading(&config(&[A]), &files);
    for changed in ["path: envs/c", "path: envs/a, workspace: blue"] {
        let config = config(&[&format!("a: {{repository: infra, {changed}}}")]);
        assert_eq!(keys(&catalog(&config, read.clone())), unique(&["layer|a"]), "{changed}");
    }
}
