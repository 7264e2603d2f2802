//! The layers that a configuration and its includes mean.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use butler_cluster::{CustomObject, KnownResources, ResourceKey, ResourceKind};
use butler_follower::config::Source;
use serde_json::json;

use super::ailing::Part;
use super::desired::Desired;
use super::followed::repository_of;
use super::remembered;
use crate::config::{Config, IncludedFrom, RemoteLimits, merge, parse};
use crate::data::DataDirectory;
use crate::layers::{Reading, origin};
use crate::model::{Commit, LayerName, Sighting};

#[test]
fn name_of_two_repositories_is_recorded_for_the_first_one_only() {
    let text = "repositories: {one: {url: 'file:///one'}, two: {url: 'file:///two'}}
layers:
  a: {repository: one, paths: ['b/*']}
  a.b: {repository: two, paths: ['*']}
";
    let config = parse(&[("butler.yaml".into(), text.to_owned())]).unwrap();
    let desired = Desired::new(config.clone(), RemoteLimits::default());
    let reading = |set: &str, paths: &[&str], names: &[&str]| {
        let seen = Sighting::PathMissing { commit: Commit::new("1") };
        let sightings = names.iter().map(|name| (name.parse().unwrap(), seen.clone()));
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Reading {
            directories: BTreeMap::from([(set.to_owned(), paths)]),
            sightings: sightings.collect(),
            ..Reading::default()
        }
    };
    let names = |repository: &str, reading: &Reading| {
        let own = desired.own_sightings(repository, &config, reading);
        own.into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    let one = reading("a", &["b/x"], &["a.b.x"]);
    let two = reading("a.b", &["x", "y"], &["a.b.x", "a.b.y"]);
    desired.read("two", two.clone());
    assert_eq!(names("one", &one), ["a.b.x"]);
    desired.read("one", one);
    assert_eq!(names("two", &two), ["a.b.y"]);
}

#[test]
fn reading_of_another_repository_or_of_other_globs_is_not_recalled() {
    let root = tempfile::tempdir().unwrap();
    let data = DataDirectory::create(root.path()).unwrap();
    std::fs::create_dir(data.mirror("one")).unwrap();
    let config = |url: &str, globs: &str| {
        let text = format!(
            "repositories: {{one: {{url: '{url}'}}}}\nlayers: {{a: {{repository: one, paths: ['{globs}']}}}}\n"
        );
        parse(&[("butler.yaml".into(), text)]).unwrap()
    };
    let read = config("file:///one", "b/*");
    let reading = Reading {
        origin: origin(&read, "one"),
        directories: BTreeMap::from([("a".to_owned(), vec!["b/x".to_owned()])]),
        ..Reading::default()
    };
    remembered::remember_reading(&data.mirror("one"), &reading, true).unwrap();
    for (config, layers) in
        [(read, 1), (config("file:///one", "c/*"), 0), (config("file:///two", "b/*"), 0)]
    {
        let desired = Desired::new(config, RemoteLimits::default());
        desired.recall(&data);
        let catalog = desired.catalogs().borrow().clone();
        assert_eq!((catalog.layers.len(), catalog.is_incomplete), (layers, layers == 0));
    }
}

/// The server's own files in tests of includes.
const OWN: &str = "repositories: {infra: {url: 'file:///infra'}, other: {url: 'file:///other'}}
include: [{repository: infra, path: a}, {repository: other, path: b}]
";

fn own(more: &str) -> Config {
    parse(&[("butler.yaml".into(), format!("{OWN}{more}"))]).unwrap()
}

/// Takes the files of an include. Returns whether the configuration has changed.
fn take(desired: &Desired, repository: &str, commit: &str, text: &str) -> bool {
    let source = desired.includes_of(repository).remove(0);
    let files = vec![(source.file(&source.path), text.to_owned())];
    desired.include(&source, Some(&Commit::new(commit)), Ok(files))
}

fn layer_names(desired: &Desired) -> Vec<String> {
    let catalog = desired.catalogs().borrow().clone();
    catalog.layers.keys().map(ToString::to_string).collect()
}

fn layer(name: &str, repository: &str) -> String {
    format!("layers: {{{name}: {{repository: {repository}, path: a}}}}\n")
}

#[test]
fn invalid_content_of_an_include_leaves_the_last_valid_one_in_force() {
    let desired = Desired::new(own(&layer("dns", "infra")), RemoteLimits::default());
    assert!(desired.catalogs().borrow().is_incomplete);
    assert!(take(&desired, "infra", "1", &layer("one", "infra")));
    assert!(take(&desired, "other", "1", &layer("two", "other")));
    assert!(!desired.catalogs().borrow().is_incomplete);
    let all = ["dns", "one", "two"];
    assert_eq!(layer_names(&desired), all);
    let sources = desired.includes_of("infra");
    let valid = || desired.valid_includes(&sources)[0].1.to_string();
    let source = &sources[0];
    for (content, expected) in [
        (
            "layers: {x: {path: a}}".to_owned(),
            "infra@HEAD:a:1:13: the layer `x` has no `repository`",
        ),
        (layer("x", "other"), "infra@HEAD:a:1:26: the layer cannot use the repository `other`"),
        (
            layer("dns", "infra"),
            "infra@HEAD:a:1:15: the layer `dns` is also given in butler.yaml:3",
        ),
        (
            layer("two", "infra"),
            "infra@HEAD:a:1:15: the layer `two` is also given in other@HEAD:b:1",
        ),
    ] {
        assert!(!take(&desired, "infra", "2", &content), "{content}");
        let problems = desired.problems();
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
        assert_eq!(layer_names(&desired), all, "{content}");
        assert_eq!(valid(), "1");
        assert!(!desired.is_current_include(source, Some(&Commit::new("1"))));
    }
    assert!(take(&desired, "infra", "3", &layer("three", "infra")));
    assert_eq!(layer_names(&desired), ["dns", "three", "two"]);
    assert_eq!((desired.problems(), valid()), (Vec::<String>::new(), "3".to_owned()));
    assert!(desired.is_current_include(source, Some(&Commit::new("3"))));
}

#[test]
fn own_configuration_that_does_not_go_with_an_include_leaves_everything_in_force() {
    let desired = Desired::new(own(&layer("dns", "infra")), RemoteLimits::default());
    take(&desired, "infra", "1", &layer("one", "infra"));
    let errors = desired.configure(own(&layer("one", "infra"))).unwrap_err();
    let expected = "infra@HEAD:a:1:15: the layer `one` is also given in butler.yaml:3";
    assert_eq!((errors.len(), errors[0].to_string()), (1, expected.to_owned()));
    assert_eq!(layer_names(&desired), ["dns", "one"]);

    desired.configure(own("defaults: {workspace: blue}\n")).unwrap();
    assert_eq!(layer_names(&desired), ["one"]);
    let workspace = desired.config().layers["one"].entry.workspace.clone();
    assert_eq!(workspace.as_deref(), Some("blue"));
}

#[test]
fn include_that_leaves_the_configuration_takes_its_layers_with_it() {
    let desired = Desired::new(own(""), RemoteLimits::default());
    take(&desired, "infra", "1", &layer("one", "infra"));
    take(&desired, "other", "1", &layer("two", "other"));
    assert!(!take(&desired, "other", "2", "layers: 1"));
    let source = desired.includes_of("other").remove(0);
    let text = OWN.replace(", {repository: other, path: b}", "");
    desired.configure(parse(&[("butler.yaml".into(), text)]).unwrap()).unwrap();
    assert_eq!(layer_names(&desired), ["one"]);
    assert_eq!(desired.problems(), Vec::<String>::new());
    // A poll that had begun before.
    assert!(!desired.include(&source, Some(&Commit::new("3")), Ok(Vec::new())));
    // Of another repository with the name, nothing is known.
    desired
        .configure(parse(&[("butler.yaml".into(), OWN.replace("/infra'", "/new'"))]).unwrap())
        .unwrap();
    assert_eq!(layer_names(&desired), Vec::<String>::new());
}

#[test]
fn included_layer_does_not_take_the_name_of_a_member_of_an_own_layer_set() {
    let text = OWN.to_owned() + "layers: {b.c: {repository: other, paths: ['*']}}\n";
    let desired =
        Desired::new(parse(&[("butler.yaml".into(), text)]).unwrap(), RemoteLimits::default());
    take(&desired, "infra", "1", "layers: {b: {repository: infra, paths: ['**']}}");
    let reading = |set: &str, path: &str| Reading {
        directories: BTreeMap::from([(set.to_owned(), vec![path.to_owned()])]),
        ..Reading::default()
    };
    desired.read("infra", reading("b", "c/d"));
    desired.read("other", reading("b.c", "d"));
    let catalog = desired.catalogs().borrow().clone();
    assert_eq!(catalog.layers[&"b.c.d".parse().unwrap()].configured.repository, "other");
    assert_eq!(catalog.problems.len(), 1, "{:?}", catalog.problems);
}

#[test]
fn resource_that_has_changed_is_read_after_the_next_poll_of_its_repository() {
    let limits =
        RemoteLimits { git_hosts: vec!["git.example.com".to_owned()], ..RemoteLimits::default() };
    let desired = Desired::new(Config::default(), limits);
    let key = |kind, name: &str| ResourceKey {
        namespace: "team-a".to_owned(),
        kind,
        name: name.to_owned(),
    };
    let layer = key(ResourceKind::Layer, "web");
    let take = |generation: i64, path: &str| {
        let object = |key: ResourceKey, generation: i64, spec: serde_json::Value| {
            let spec = spec.as_object().unwrap().clone();
            let uid = key.to_string();
            let resource_version = generation.to_string();
            Arc::new(CustomObject { key, uid, generation, resource_version, spec, status: None })
        };
        let repository = json!({"url": "https://git.example.com/a.git"});
        let objects = vec![
            object(key(ResourceKind::Repository, "infra"), 1, repository),
            object(layer.clone(), generation, json!({"repository": "infra", "path": path})),
        ];
        desired.take_resources(objects.into());
    };
    let poll = |error: Option<&str>| {
        desired.poll_begins("team-a.infra");
        desired.polled("team-a.infra", error.map(str::to_owned));
    };
    take(1, "a");
    assert!(!desired.is_read(&layer));
    // A poll that has begun before can have read the earlier path.
    desired.poll_begins("team-a.infra");
    take(2, "b");
    desired.polled("team-a.infra", None);
    assert!(!desired.is_read(&layer));
    poll(Some("the host is down"));
    assert!(!desired.is_read(&layer));
    poll(None);
    assert!(desired.is_read(&layer));
    // A change that leaves the layer as it is needs no reading.
    take(2, "b");
    assert!(desired.is_read(&layer));
}

#[test]
fn address_means_the_repository_of_the_server_and_not_one_of_other_people() {
    let repository = |name: &str| {
        let text = format!("repositories: {{{name}: {{url: 'https://git.example.com/a.git'}}}}");
        parse(&[("butler.yaml".into(), text)]).unwrap()
    };
    // The name of the other one is the first in the order of names.
    let (own, other) = (repository("shop"), repository("a-team.shop"));
    let of = IncludedFrom::Namespace("a-team".to_owned());
    let config = merge(&own, [(of, &other)]).unwrap();
    let source = Source {
        repository: "https://git.example.com/a.git".to_owned(),
        branch: "main".to_owned(),
    };
    assert_eq!(repository_of(&config, &source), Some("shop"));
}

#[test]
fn resource_has_no_name_conflict_with_configuration_that_is_not_the_newest() {
    let limits =
        RemoteLimits { git_hosts: vec!["git.example.com".to_owned()], ..RemoteLimits::default() };
    let desired = Desired::new(own(""), limits);
    let key = ResourceKey {
        namespace: "team".to_owned(),
        kind: ResourceKind::Repository,
        name: "infra".to_owned(),
    };
    let url = json!("https://git.example.com/infra.git");
    let object = CustomObject {
        key: key.clone(),
        uid: "1".to_owned(),
        generation: 1,
        resource_version: "1".to_owned(),
        spec: [("url".to_owned(), url)].into_iter().collect(),
        status: None,
    };
    desired.take_resources(vec![Arc::new(object)].into());
    let conflicts = || desired.taken_resources()[&key].refusal.is_some();
    let same = "repositories: {team.infra: {url: 'https://git.example.com/other.git'}}";
    assert!(!conflicts());
    // In the server's own file, and then in another version of it.
    let file = parse(&[("butler.yaml".into(), same.to_owned())]).unwrap();
    assert!(desired.configure(file).is_err() && conflicts());
    desired.forget_refused();
    assert!(!conflicts());
    // In an include, then in another version of it, and in one that leaves the configuration.
    assert!(!take(&desired, "infra", "1", same) && conflicts());
    assert!(!take(&desired, "infra", "2", "layers: {"));
    assert!(!conflicts());
    assert!(!take(&desired, "infra", "3", same) && conflicts());
    let text = OWN.replace("{repository: infra, path: a}, ", "");
    desired.configure(parse(&[("butler.yaml".into(), text)]).unwrap()).unwrap();
    assert!(!conflicts());
}

#[test]
fn layers_of_a_namespace_that_is_not_listed_are_unknown_and_not_removed() {
    let desired = Desired::new(Config::default(), RemoteLimits::default());
    let name = |name: &str| name.parse::<LayerName>().unwrap();
    let may_be_missing = |layer: &str| desired.catalogs().borrow().may_be_missing(&name(layer));
    assert!(!may_be_missing("team-b.web"));
    let problem = "cannot list layers in the namespace `team-b`".to_owned();
    let unlisted: BTreeSet<String> = ["team-b".to_owned()].into();
    desired.take_resources(KnownResources {
        unlisted: unlisted.clone(),
        problems: vec![problem.clone()],
        ..KnownResources::default()
    });
    for (layer, expected) in [("team-b.web", true), ("team-a.web", false), ("team-b", false)] {
        assert_eq!(may_be_missing(layer), expected, "{layer}");
        let catalog = desired.catalogs().borrow().clone();
        assert_eq!(catalog.unlisted_namespace(&name(layer)).is_some(), expected, "{layer}");
    }
    assert!(desired.config().is_unlisted("team-b.infra"), "its mirror is kept");
    assert!(desired.problems().contains(&problem));
    assert_eq!(desired.ailing.first(), Some(Part::Resources));
    // Another configuration changes nothing about that.
    desired.configure(Config::default()).unwrap();
    assert!(may_be_missing("team-b.web"));
    assert_eq!(desired.config().unlisted, unlisted);
    desired.take_resources(KnownResources::default());
    assert!(!may_be_missing("team-b.web"));
    assert_eq!(desired.ailing.first(), None);
}
