//! The layers of configurations, in real repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::*;
use crate::config::{Config, Included, IncludedFrom, MAX_LAYERS, of_repository, parse};
use crate::model::{Commit, LayerName, Sighting};
use crate::test_repository::TestRepository;

fn config(layers: &str) -> Config {
    let text = format!("repositories: {{infra: {{url: 'file:///infra'}}}}\nlayers:\n{layers}");
    parse(&[(PathBuf::from("butler.yaml"), text)]).unwrap()
}

/// Four directories with a module, and one without.
fn repository() -> TestRepository {
    let files = TestRepository::new();
    for path in ["envs/dev", "envs/prod", "envs/prod/web", "modules/a"] {
        files.write(&format!("{path}/main.tf"), "");
    }
    files.write("envs/docs/README.md", "");
    files
}

fn read_at(config: &Config, repository: &str, files: &TestRepository, commit: &Commit) -> Reading {
    let references = references(config, repository).into_iter();
    let commits: BTreeMap<_, _> = references
        .map(|name| if name == "gone" { (name, None) } else { (name, Some(commit.clone())) })
        .collect();
    read(config, repository, &files.repository, &commits.into(), &mut Caches::default()).unwrap()
}

/// The layers of `config` after `files` were read.
fn catalog(config: &Config, repository: &str, files: &TestRepository) -> Catalog {
    let reading = read_at(config, repository, files, &files.commit());
    Catalog::new(config, &BTreeMap::from([(repository.to_owned(), reading)]))
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.layers.keys().map(ToString::to_string).collect()
}

#[test]
fn globs_mean_the_directories_with_a_module() {
    let files = repository();
    for (glob, expected) in [
        ("envs/*", vec!["set.envs.dev", "set.envs.prod"]),
        ("envs/**", vec!["set.envs.dev", "set.envs.prod", "set.envs.prod.web"]),
        ("docs/*", vec![]),
    ] {
        let config = config(&format!("  set: {{repository: infra, paths: ['{glob}']}}"));
        assert_eq!(names(&catalog(&config, "infra", &files)), expected, "{glob}");
    }
}

#[test]
fn quick_start_names_layers_by_their_paths() {
    let files = repository();
    let config = of_repository("file:///infra", "envs/*", Some("main")).unwrap();
    assert_eq!(references(&config, "default").into_iter().collect::<Vec<_>>(), ["main"]);
    assert_eq!(names(&catalog(&config, "default", &files)), ["envs.dev", "envs.prod"]);
    files.write("main.tf", "");
    let config = of_repository("file:///infra", ".", None).unwrap();
    assert_eq!(names(&catalog(&config, "default", &files)), ["root"]);
    let errors = of_repository("git.example.com", "envs/{", None).unwrap_err();
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn set_with_too_many_layers_has_none_and_says_so() {
    let files = repository();
    for (most, expected) in [(2, 2), (1, 0)] {
        let keys = format!("repository: infra, paths: ['envs/*'], max-layers: {most}");
        let catalog = catalog(&config(&format!("  set: {{{keys}}}")), "infra", &files);
        assert_eq!(catalog.layers.len(), expected);
        let problem = "the layer set `set` matches 2 directories, and at most 1 are allowed; it has no \
                       layers until you change that: use globs that match fewer, or raise `max-layers`";
        let problems = if expected == 0 { vec![problem] } else { vec![] };
        assert_eq!(catalog.problems, problems);
    }
    for number in 0..=1_000 {
        files.write(&format!("many/{number}/main.tf"), "");
    }
    let catalog =
        catalog(&config("  set: {repository: infra, paths: ['many/*']}"), "infra", &files);
    assert!(catalog.problems[0].contains("matches 1001 directories, and at most 1000 are allowed"));
}

#[test]
fn missing_refs_and_paths_are_seen() {
    let files = repository();
    let config = config(
        "  a: {repository: infra, path: envs/dev}
  b: {repository: infra, path: envs/staging}
  c: {repository: infra, path: envs/dev, ref: gone}
",
    );
    let commit = files.commit();
    let reading = read_at(&config, "infra", &files, &commit);
    let sighting = |name: &str| &reading.sightings[&name.parse::<LayerName>().unwrap()];
    assert!(matches!(sighting("a"), Sighting::Found(found) if found.commit == commit));
    assert_eq!(*sighting("b"), Sighting::PathMissing { commit });
    assert_eq!(*sighting("c"), Sighting::RefMissing);
}

#[test]
fn only_an_error_in_the_commit_is_recorded() {
    use git2::ObjectType;

    let files = repository();
    let config = config(
        "  a: {repository: infra, path: envs/dev}\n  b: {repository: infra, path: modules/a}\n",
    );
    let commit = files.commit();
    let commits = BTreeMap::from([("HEAD".to_owned(), Some(commit.clone()))]).into();
    let object = |path: &str| {
        let root = files.repository.head().unwrap().peel_to_tree().unwrap();
        let id = root.get_path(path.as_ref()).unwrap().id().to_string();
        files.repository.path().join("objects").join(&id[..2]).join(&id[2..])
    };
    let directory = object("envs/dev");
    let content = std::fs::read(&directory).unwrap();
    std::fs::remove_file(&directory).unwrap();
    // It has no objects in memory.
    let mirror = git2::Repository::open(files.path()).unwrap();
    let error = read(&config, "infra", &mirror, &commits, &mut Caches::default());
    assert!(error.unwrap_err().to_string().starts_with("cannot read `envs/dev"));
    std::fs::write(&directory, content).unwrap();

    // A directory that is none.
    let odb = files.repository.odb().unwrap();
    let malformed = odb.write(ObjectType::Tree, b"not a tree").unwrap();
    let mut update = git2::build::TreeUpdateBuilder::new();
    update.upsert("envs/dev", malformed, git2::FileMode::Tree);
    let root = files.repository.head().unwrap().peel_to_tree().unwrap();
    let commit = files.commit_tree(update.create_updated(&files.repository, &root).unwrap());
    let reading = read_at(&config, "infra", &files, &commit);
    let sighting = |name: &str| &reading.sightings[&name.parse::<LayerName>().unwrap()];
    assert!(matches!(sighting("a"), Sighting::Invalid { .. }), "{:?}", sighting("a"));
    assert!(matches!(sighting("b"), Sighting::Found(_)), "{:?}", sighting("b"));
}

#[test]
fn layer_has_a_backend_if_its_module_or_its_configuration_names_one() {
    let files = repository();
    files.write("envs/prod/backend.tf", "terraform {\n  backend \"s3\" {}\n}\n");
    let config = config(
        "  a: {repository: infra, path: envs/dev}
  b: {repository: infra, path: envs/prod}
  c: {repository: infra, path: modules/a, backend: {type: local}}
",
    );
    let catalog = catalog(&config, "infra", &files);
    let has_backend = catalog.layers.values().map(|source| source.configured.layer.has_backend);
    assert_eq!(has_backend.collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn layers_with_one_state_name_each_other() {
    let layers = "  a: {repository: infra, path: envs/dev, backend: &s {type: s3, config: {bucket: b, key: k, region: r}}}
  b: {repository: infra, path: envs/prod, backend: *s}
  c: {repository: infra, path: envs/dev, backend: *s, workspace: other}
";
    let catalog = Catalog::new(&config(layers), &BTreeMap::new());
    let conflict = |name: &str| {
        catalog.layers[&name.parse::<LayerName>().unwrap()].configured.layer.conflict.clone()
    };
    assert!(conflict("a").unwrap().contains("`b`"));
    assert!(conflict("b").unwrap().contains("`a`"));
    assert_eq!(conflict("c"), None);
}

#[test]
fn former_name_is_certain_when_all_layer_sets_are_known_and_is_not_one_of_theirs() {
    let files = repository();
    let layers = "  set: {repository: infra, paths: ['envs/*']}
  web: {repository: infra, path: envs/prod/web, formerly: FORMER}
";
    let of = |catalog: &Catalog| {
        let formerly = catalog.layers[&"web".parse().unwrap()].configured.layer.formerly.clone();
        formerly.map(|it| (it.name.to_string(), it.is_certain))
    };
    let gone = config(&layers.replace("FORMER", "www"));
    assert_eq!(of(&Catalog::new(&gone, &BTreeMap::new())), Some(("www".to_owned(), false)));
    let read = catalog(&gone, "infra", &files);
    assert_eq!(of(&read), Some(("www".to_owned(), true)));
    let successors: Vec<_> = read.successors(&"www".parse().unwrap()).collect();
    assert_eq!(successors, ["web".parse().unwrap()]);
    for (former, is_certain) in [("team-b.www", false), ("team-a.www", true), ("www", true)] {
        let mut gone = config(&layers.replace("FORMER", former));
        gone.unlisted.insert("team-b".to_owned());
        let expected = Some((former.to_owned(), is_certain));
        assert_eq!(of(&catalog(&gone, "infra", &files)), expected);
    }
    let member = catalog(&config(&layers.replace("FORMER", "set.envs.dev")), "infra", &files);
    assert_eq!(of(&member), None);
    assert!(member.problems[0].contains("`set.envs.dev`, which is still a layer"));
}

#[test]
fn equal_names_of_two_sets_are_a_problem() {
    let files = repository();
    let config = config(
        "  a: {repository: infra, paths: ['envs/prod/web']}
  a.envs: {repository: infra, paths: ['prod/web', 'envs/dev']}
  a.envs.prod.web: {repository: infra, path: modules/a}
",
    );
    let catalog = catalog(&config, "infra", &files);
    assert_eq!(names(&catalog), ["a.envs.envs.dev", "a.envs.prod.web"]);
    assert_eq!(catalog.problems.len(), 1);
    assert!(catalog.problems[0].contains("`envs/prod/web`"), "{}", catalog.problems[0]);
    assert!(catalog.problems[0].contains("`modules/a`"), "{}", catalog.problems[0]);
}

#[test]
fn after_can_name_a_layer_set() {
    let files = repository();
    let config = config(
        "  base: {repository: infra, paths: ['envs/*']}
  web: {repository: infra, path: envs/prod/web, after: [base]}
",
    );
    let catalog = catalog(&config, "infra", &files);
    let after = &catalog.layers[&"web".parse::<LayerName>().unwrap()].configured.layer.after;
    let after: Vec<&str> = after.iter().map(LayerName::as_str).collect();
    assert_eq!(after, ["base.envs.dev", "base.envs.prod"]);
    let dependents: Vec<_> = catalog.dependents(&"base.envs.dev".parse().unwrap()).collect();
    assert_eq!(dependents, ["web".parse().unwrap()]);
}

/// The layers of the catalog that windows are about.
fn with_windows(catalog: &Catalog) -> Vec<&str> {
    let layers = catalog.layers.iter().filter(|(_, source)| !source.configured.windows.is_empty());
    layers.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn windows_are_about_layers_and_layer_sets_by_name() {
    let files = repository();
    for (pattern, expected) in [
        ("web", &["web"][..]),
        ("'*'", &["base.envs.dev", "base.envs.prod", "web"]),
        ("base", &["base.envs.dev", "base.envs.prod"]),
        ("'*.prod'", &["base.envs.prod"]),
    ] {
        let layers = format!(
            "  base: {{repository: infra, paths: ['envs/*']}}
  web: {{repository: infra, path: envs/prod/web}}
windows: [{{deny: [apply], layers: [{pattern}], schedule: '* * * * *', for: 1h}}]
"
        );
        assert_eq!(
            with_windows(&catalog(&config(&layers), "infra", &files)),
            expected,
            "{pattern}"
        );
    }
}

#[test]
fn windows_of_an_include_are_not_about_the_servers_own_layers() {
    let own = config(
        "  web: {repository: infra, path: envs/prod/web}
include: [{repository: infra, path: butler.yaml}]
",
    );
    let window = "windows: [{deny: [apply], layers: ['*'], schedule: '* * * * *', for: 1h}]\n";
    let included = config(&format!("  dev: {{repository: infra, path: envs/dev}}\n{window}"));
    let mut all = own.clone();
    all.included.push(Included {
        max_layers: MAX_LAYERS,
        source: (&own.include_sources()[0]).into(),
        repositories: BTreeSet::new(),
        layers: included.layers.keys().cloned().collect(),
        windows: included.windows.clone(),
    });
    all.layers.extend(included.layers);
    assert_eq!(with_windows(&Catalog::new(&all, &BTreeMap::new())), ["dev"]);
    // The server's own ones are about all.
    all.windows = included.windows;
    assert_eq!(with_windows(&Catalog::new(&all, &BTreeMap::new())), ["dev", "web"]);
}

#[test]
fn layer_of_a_custom_resource_takes_neither_name_nor_state_from_others() {
    let backend = "backend: {type: s3, config: {bucket: tf, key: web}}";
    let own = config(&format!(
        "  web: {{repository: infra, path: envs/prod/web, {backend}}}\n  team-a: {{repository: infra, paths: ['envs/*']}}\n"
    ));
    let resource = config(&format!(
        "  team-a.thief: {{repository: infra, path: a, {backend}}}\n  team-a.envs.dev: {{repository: infra, path: b}}\n"
    ));
    let mut all = own;
    all.included.push(Included {
        max_layers: MAX_LAYERS,
        source: IncludedFrom::Namespace("team-a".to_owned()),
        repositories: BTreeSet::new(),
        layers: resource.layers.keys().cloned().collect(),
        windows: Vec::new(),
    });
    all.layers.extend(resource.layers);
    let catalog = catalog(&all, "infra", &repository());
    let conflict = |name: &str| {
        let name: LayerName = name.parse().unwrap();
        catalog.layers[&name].configured.layer.conflict.is_some()
    };
    assert!(!conflict("web") && conflict("team-a.thief"));
    let member: LayerName = "team-a.envs.dev".parse().unwrap();
    assert_eq!(catalog.layers[&member].path, "envs/dev", "of the layer set");
    assert!(!catalog.members.contains_key("team-a.envs.dev"));
    assert!(catalog.members["team-a"].contains(&member));
}
