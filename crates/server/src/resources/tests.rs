mod unchanged;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use butler_cluster::{
    Condition, ConditionStatus, CustomObject, ResourceKey, ResourceKind, ResourceStatus,
};
use serde_json::{Value, json};

use super::*;
use crate::config::{Config, RemoteLimits, parse};

fn limits(secrets: Option<&Path>) -> RemoteLimits {
    RemoteLimits {
        secrets: secrets.map(Path::to_owned),
        data: None,
        git_hosts: vec!["git.example.com".to_owned()],
    }
}

fn key(kind: ResourceKind, namespace: &str, name: &str) -> ResourceKey {
    ResourceKey { namespace: namespace.to_owned(), kind, name: name.to_owned() }
}

fn object(kind: ResourceKind, name: &str, generation: i64, spec: &Value) -> Arc<CustomObject> {
    let (namespace, name) = name.split_once('/').unwrap();
    Arc::new(CustomObject {
        key: key(kind, namespace, name),
        uid: format!("{kind}-{name}"),
        generation,
        resource_version: "1".to_owned(),
        spec: spec.as_object().unwrap().clone(),
        status: None,
    })
}

fn repository(name: &str) -> Arc<CustomObject> {
    let spec = json!({"url": "https://git.example.com/a.git"});
    object(ResourceKind::Repository, name, 1, &spec)
}

fn layer(name: &str, generation: i64, more: &Value) -> Arc<CustomObject> {
    let mut spec = json!({"repository": "infra", "path": "a"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object(ResourceKind::Layer, name, generation, &spec)
}

fn follower_of(name: &str, adapter: &Value) -> Arc<CustomObject> {
    let source = json!({"repository": "infra", "branch": "main"});
    object(ResourceKind::Follower, name, 1, &json!({"source": source, "adapter": adapter}))
}

fn own(text: &str) -> Config {
    parse(&[(PathBuf::from("butler.yaml"), text.to_owned())]).unwrap()
}

fn resolved(objects: Vec<Arc<CustomObject>>) -> Resources {
    let mut resources = Resources::default();
    resources.replace(objects);
    resources.resolve(&Config::default(), &limits(None));
    resources
}

fn problems(resources: &Resources) -> Vec<String> {
    resources.problems().collect()
}

fn refusal_of(resources: &Resources, key: &ResourceKey) -> Refusal {
    resources.taken()[key].refusal.clone().unwrap()
}

#[test]
fn resources_of_a_namespace_define_what_they_name_in_it() {
    let more = json!({
        "maxLog": "1MiB", "variables": {"max-log": 1, "maxLog": 2}, "after": ["base"], "drift": {"every": "1h"},
    });
    let resources = resolved(vec![
        repository("team-a/infra"),
        repository("team-b/infra"),
        layer("team-a/base", 1, &json!({})),
        layer("team-a/web", 1, &more),
        follower_of("team-a/app", &json!({"terraform": {"layer": "web"}})),
    ]);
    assert_eq!(problems(&resources), Vec::<String>::new());
    let config = &resources.configs()["team-a"];
    assert_eq!(config.layers.keys().collect::<Vec<_>>(), ["team-a.base", "team-a.web"]);
    let entry = &config.layers["team-a.web"].entry;
    assert_eq!(entry.repository.as_ref().unwrap().value, "team-a.infra");
    assert_eq!(entry.after[0].value, "team-a.base");
    assert_eq!(entry.max_log.as_ref().unwrap().value.0, 1024 * 1024);
    assert_eq!(json!(entry.variables), json!({"max-log": 1, "maxLog": 2}), "names of people stay");
    assert_eq!(resources.configs()["team-b"].repositories.len(), 1);
    let [follower] = resources.followers() else { panic!("one follower") };
    assert_eq!((&*follower.id, &*follower.source.repository), ("team-a.app", "team-a.infra"));
}

#[test]
fn resource_reaches_only_its_own_namespace_and_what_other_people_may_use() {
    let base = tempfile::tempdir().unwrap();
    for file in ["team-a/db", "team-b/db"] {
        let file = base.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "hunter22").unwrap();
    }
    let secret = |namespace: &str| json!({"file": base.path().join(namespace).join("db")});
    let stage = |version: &str, kind: &str, namespace: &str| {
        let observed =
            json!({"apiVersion": version, "kind": kind, "name": "a", "namespace": namespace});
        json!({"kubernetes": {"stages": [{"name": "a", "preset": "job", "observe": observed}]}})
    };
    let creates = |version: &str, kind: &str| {
        let template = json!({"apiVersion": version, "kind": kind});
        json!({"kubernetes": {"stages": [{"name": "a", "preset": "job", "create": template}]}})
    };
    let file = |kind: ResourceKind, spec: &Value| object(kind, "team-a/x", 1, spec);
    let of_layer = |more: Value| layer("team-a/x", 1, &more);
    let jenkins = |url: &str, file: &Path| {
        let settings = json!({"job": "a", "url": url, "tokenFile": file});
        follower_of("team-a/x", &json!({"jenkins": settings}))
    };
    let token = base.path().join("team-a/db");
    for (object, expected) in [
        (of_layer(json!({"secrets": {"db": secret("team-a")}})), ""),
        (of_layer(json!({"secrets": {"db": {"secret": {"name": "db", "key": "a"}}}})), ""),
        (
            of_layer(json!({"secrets": {"db": secret("team-b")}})),
            "`secrets.db` must be an existing file below",
        ),
        (
            of_layer(json!({"env": {"A": {"env": "HOME"}}})),
            "`env.A` cannot be a variable of the server",
        ),
        (of_layer(json!({"repository": "elsewhere"})), "there is no repository `team-a.elsewhere`"),
        (of_layer(json!({"after": ["elsewhere"]})), "there is no layer `team-a.elsewhere`"),
        (of_layer(json!({"job": {"memory": "1Gi"}})), "can have `job`"),
        (of_layer(json!({"afterPlan": "/bin/true"})), "can have `afterPlan`"),
        (of_layer(json!({"unknown": 1})), "unknown key `unknown`"),
        (
            file(ResourceKind::Repository, &json!({"url": "https://example.org/a"})),
            "the host `example.org` is not allowed",
        ),
        (file(ResourceKind::Repository, &json!({"url": "file:///a"})), "must name a host"),
        (follower_of("team-a/x", &json!({"terraform": {"layer": "other"}})), "no `Layer` `other`"),
        (follower_of("team-a/x", &stage("v1", "ConfigMap", "team-a")), ""),
        (
            follower_of("team-a/x", &stage("v1", "ConfigMap", "kube-system")),
            "must be in the namespace of the follower, `team-a`",
        ),
        // A record would keep its values.
        (follower_of("team-a/x", &stage("v1", "Secret", "team-a")), "cannot use `Secret` of `v1`"),
        (follower_of("team-a/x", &creates("batch/v1", "Job")), ""),
        (follower_of("team-a/x", &creates("apps/v1", "Deployment")), "cannot use `Deployment`"),
        (
            follower_of("team-a/x", &creates("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")),
            "it can use `Job`, `PipelineRun`, `TaskRun`",
        ),
        (jenkins("https://git.example.com", &token), ""),
        (jenkins("https://169.254.169.254", &token), "is a link-local address"),
        (
            jenkins("https://git.example.com", &base.path().join("team-b/db")),
            "`tokenFile` must be an existing file below",
        ),
    ] {
        let mut resources = Resources::default();
        resources.replace(vec![
            repository("team-a/infra"),
            repository("team-b/elsewhere"),
            layer("team-b/elsewhere", 1, &json!({"repository": "elsewhere"})),
            Arc::clone(&object),
        ]);
        resources.resolve(&Config::default(), &limits(Some(base.path())));
        let found = problems(&resources);
        let is_expected = match expected {
            "" => found.is_empty(),
            _ => {
                found.len() == 1
                    && found[0].contains(expected)
                    && found[0].contains(&object.key.to_string())
            }
        };
        assert!(is_expected, "{expected}: {found:#?}");
        assert!(!found.concat().contains("hunter22"));
    }
}

#[test]
fn secret_of_the_cluster_is_always_one_of_the_own_namespace() {
    let other = json!({"name": "a", "key": "b", "namespace": "team-b"});
    let (named, valued) = (json!({"name": "a", "namespace": "team-b"}), json!({"secret": other}));
    let spec = json!({
        "url": "https://git.example.com/a.git", "credentials": {"secret": named},
        "webhook": {"provider": "github", "secret": other},
    });
    let of_layer = json!({
        "secrets": {"a": valued}, "env": {"A": valued},
        "backend": {"type": "s3", "config": {"key": "a", "secret_key": valued}},
        "moduleCredentials": {"host": "git.example.com", "secret": named},
    });
    let jenkins = json!({"job": "a", "url": "https://git.example.com", "tokenSecret": other});
    let resources = resolved(vec![
        object(ResourceKind::Repository, "team-a/infra", 1, &spec),
        layer("team-a/web", 1, &of_layer),
        follower_of("team-a/app", &json!({"jenkins": jenkins})),
    ]);
    assert_eq!(problems(&resources), Vec::<String>::new());
    let config = &resources.configs()["team-a"];
    let repository = &config.repositories["team-a.infra"].entry;
    let entry = &config.layers["team-a.web"].entry;
    let shown = format!("{repository:?} {entry:?} {:?}", resources.followers());
    assert_eq!(shown.matches("namespace: \"team-a\"").count(), 6, "{shown}");
    assert_eq!(
        shown.matches("\"namespace\": String(\"team-a\")").count(),
        1,
        "of the backend: {shown}"
    );
    assert!(!shown.contains("team-b"), "{shown}");
    // Other configuration cannot name any.
    let text = "
repositories: {infra: {url: 'https://git.example.com/a', credentials: {secret: {name: a, namespace: team-b}}}}
layers: {web: {repository: infra, path: a, env: {A: {secret: {name: a, key: b, namespace: team-b}}}}}
";
    let errors = parse(&[(PathBuf::from("butler.yaml"), text.to_owned())]).unwrap_err();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(
        errors.len() == 2
            && errors.iter().all(|it| it.contains("only custom resources can name one")),
        "{errors:?}"
    );
}

#[test]
fn invalid_generation_leaves_the_last_valid_one_and_all_others_in_force() {
    let mut resources = resolved(vec![
        repository("team-a/infra"),
        layer("team-a/base", 1, &json!({"path": "first"})),
        layer("team-a/web", 1, &json!({"after": ["base"]})),
    ]);
    let limits = limits(None);
    let path = |resources: &Resources, name: &str| {
        let layer = resources.configs()["team-a"].layers.get(name)?;
        Some(layer.entry.path.as_ref()?.value.clone())
    };
    // An unknown key, beside a valid change of a layer that comes after it.
    let second = vec![
        repository("team-a/infra"),
        layer("team-a/base", 2, &json!({"path": "second", "unknown": 1})),
        layer("team-a/web", 2, &json!({"after": ["base"], "path": "b"})),
    ];
    assert!(resources.replace(second.clone()));
    resources.resolve(&Config::default(), &limits);
    assert_eq!(path(&resources, "team-a.base").as_deref(), Some("first"));
    assert_eq!(path(&resources, "team-a.web").as_deref(), Some("b"));
    let [problem] = &problems(&resources)[..] else { panic!("one problem") };
    assert!(problem.starts_with("Layer team-a/base: unknown key `unknown`"), "{problem}");
    // The same again, for another reason.
    resources.resolve(&Config::default(), &limits);
    assert_eq!(path(&resources, "team-a.base").as_deref(), Some("first"));
    // Both are deleted but one, which cannot do without.
    assert!(resources.replace(vec![second[2].clone()]));
    resources.resolve(&Config::default(), &limits);
    assert_eq!(path(&resources, "team-a.web"), None);
    assert!(problems(&resources).concat().contains("there is no repository `team-a.infra`"));
    // A change of the status is not one of what is wanted.
    let mut written = (*second[2]).clone();
    written.resource_version = "2".to_owned();
    assert!(!resources.replace(vec![Arc::new(written)]));
}

#[test]
fn change_that_makes_a_cycle_is_refused_and_what_was_there_before_stays() {
    let mut resources = resolved(vec![
        repository("team-a/infra"),
        layer("team-a/base", 1, &json!({})),
        layer("team-a/web", 1, &json!({"after": ["base"]})),
    ]);
    let cyclic = layer("team-a/base", 2, &json!({"after": ["web"]}));
    resources.replace(vec![
        repository("team-a/infra"),
        cyclic,
        layer("team-a/web", 1, &json!({"after": ["base"]})),
    ]);
    resources.resolve(&Config::default(), &limits(None));
    assert_eq!(resources.configs()["team-a"].layers.len(), 2);
    let [problem] = &problems(&resources)[..] else { panic!("one problem") };
    assert!(problem.starts_with("Layer team-a/base: `after` leads back"), "{problem}");
}

#[test]
fn name_in_the_configuration_and_of_a_resource_is_an_error_on_both() {
    let text = "
repositories: {infra: {url: 'https://git.example.com/a'}}
layers: {team-a.web: {repository: infra, path: own}}
";
    let (config, limits) = (own(text), limits(None));
    // The configuration was first.
    let mut resources = Resources::default();
    resources.replace(vec![repository("team-a/infra"), layer("team-a/web", 1, &json!({}))]);
    resources.resolve(&config, &limits);
    assert!(!resources.configs()["team-a"].layers.contains_key("team-a.web"));
    let refusal = refusal_of(&resources, &key(ResourceKind::Layer, "team-a", "web"));
    assert_eq!(refusal.reason, "NameConflict");
    assert!(refusal.message.contains("`team-a.web` is also given in butler.yaml:3"), "{refusal:?}");
    assert_eq!(resources.clashes(&config).len(), 0, "it is not in force");
    // The resource was first.
    let mut resources =
        resolved(vec![repository("team-a/infra"), layer("team-a/web", 1, &json!({}))]);
    let clashes = resources.clashes(&config);
    let [clash] = &clashes[..] else { panic!("one clash") };
    let error = clash.error.to_string();
    assert!(error.starts_with("butler.yaml:3:") && error.contains("`Layer team-a/web`"), "{error}");
    resources.note("butler.yaml", &clashes);
    let refusal = refusal_of(&resources, &clash.key);
    assert_eq!(refusal.reason, "NameConflict");
    assert!(resources.configs()["team-a"].layers.contains_key("team-a.web"), "it stays in force");
    // The configuration is gone.
    resources.retain_notes(|place| place != "butler.yaml");
    assert!(resources.taken()[&clash.key].refusal.is_none());
}

#[test]
fn defaults_of_the_server_apply_to_resources_as_far_as_their_authors_could_write_them() {
    let config = own(
        "defaults: {tool: 1.11.4, pass-env: [TOKEN], secrets: {a: {env: A}}, after-plan: /bin/true}",
    );
    let mut resources = Resources::default();
    resources.replace(vec![repository("team-a/infra"), layer("team-a/web", 1, &json!({}))]);
    resources.resolve(&config, &limits(None));
    let entry = &resources.configs()["team-a"].layers["team-a.web"].entry;
    assert_eq!(entry.tool.as_ref().unwrap().value, "1.11.4");
    assert!(entry.pass_env.is_empty() && entry.secrets.is_empty());
}

#[test]
fn check_for_drift_does_not_change_whether_a_layer_is_ready() {
    let mut object = (*layer("team-a/web", 1, &json!({}))).clone();
    let ready =
        Holds { status: ConditionStatus::True, reason: "Noop".to_owned(), message: String::new() };
    let known = Observed { ready, ..Observed::nothing() };
    object.status = Some(status(&object, None, Some(&known), "before"));
    let checked = Observed { keeps_ready: true, ..Observed::nothing() };
    let of = |object: &CustomObject| {
        status(object, None, Some(&checked), "now").condition("Ready").unwrap().clone()
    };
    let found = of(&object);
    assert_eq!((found.status, &*found.last_transition_time), (ConditionStatus::True, "before"));
    // What held for another generation is not known to hold for this one.
    object.generation = 2;
    assert_eq!(of(&object).status, ConditionStatus::Unknown);
}

#[test]
fn status_says_what_holds_since_when() {
    let refusal = Refusal { reason: "Invalid", message: "no".to_owned() };
    let mut object = (*repository("team-a/infra")).clone();
    object.generation = 3;
    let condition = |status: ConditionStatus| Condition {
        kind: "Accepted".to_owned(),
        status,
        observed_generation: 2,
        last_transition_time: "before".to_owned(),
        reason: "Valid".to_owned(),
        message: String::new(),
    };
    let was = |status| ResourceStatus {
        conditions: vec![condition(status)],
        ..ResourceStatus::default()
    };
    object.status = Some(was(ConditionStatus::True));
    let fine = status(&object, None, Some(&Observed::nothing()), "now");
    let accepted = fine.condition("Accepted").unwrap();
    assert_eq!(
        (accepted.status, &*accepted.last_transition_time),
        (ConditionStatus::True, "before")
    );
    assert_eq!((fine.observed_generation, accepted.observed_generation), (3, 3));
    assert_eq!(fine.condition("Ready").unwrap().status, ConditionStatus::Unknown);
    let refused = status(&object, Some(&refusal), Some(&Observed::nothing()), "now");
    let accepted = refused.condition("Accepted").unwrap();
    assert_eq!((accepted.status, &*accepted.last_transition_time), (ConditionStatus::False, "now"));
    assert_eq!(accepted.message, "no; the last valid generation stays in force");
    let unused = status(&object, Some(&refusal), None, "now");
    assert_eq!(unused.condition("Ready").unwrap().reason, "NotAccepted");
    assert_eq!(unused.condition("Accepted").unwrap().message, "no");
    assert_eq!(unused.condition("Ready").unwrap().message, "the server does not use it: no");
    assert_eq!(unused.phase, None, "a repository has no phase");
}

#[test]
fn follower_that_is_refused_is_blocked_with_the_reason() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let stages = json!([{"name": "a", "kind": "job", "create": pod, "succeeded": [{"path": "$.a", "exists": true}]}]);
    let wrong = follower_of("team-a/web", &json!({"kubernetes": {"stages": stages}}));
    let resources = resolved(vec![repository("team-a/infra"), wrong.clone()]);
    let refused: Vec<_> = resources.refused_followers().collect();
    let [(id, why)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(id, "team-a.web");
    assert!(why.contains("cannot use `Pod`"), "{why}");
    let taken = &resources.taken()[&wrong.key];
    let written = status(&wrong, taken.refusal.as_ref(), None, "now");
    assert_eq!(written.phase.as_deref(), Some("Blocked"));
    assert!(written.condition("Ready").unwrap().message.contains("cannot use `Pod`"));
    // The last valid generation stays what it was.
    let observed = Observed { phase: Some("Noop".to_owned()), ..Observed::nothing() };
    let written = status(&wrong, taken.refusal.as_ref(), Some(&observed), "now");
    assert_eq!(written.phase.as_deref(), Some("Noop"));
}

/// The rules of structural schemas, from the documentation of Kubernetes.
fn assert_structural(schema: &Value, path: &str) {
    let allowed = [
        "additionalProperties",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let members = schema.as_object().unwrap_or_else(|| panic!("{path}: {schema}"));
    for key in members.keys() {
        assert!(allowed.contains(&key.as_str()), "{path}: {key}");
    }
    let is_any = schema["x-kubernetes-preserve-unknown-fields"] == true;
    assert!(is_any || schema["type"].is_string(), "{path}: {schema}");
    assert!(
        !(members.contains_key("properties") && members.contains_key("additionalProperties")),
        "{path}"
    );
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{path}: {name}");
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{path}: {name}");
        assert_structural(of, &format!("{path}.{name}"));
    }
    for nested in ["additionalProperties", "items"] {
        if let Some(of) = members.get(nested) {
            assert_structural(of, &format!("{path}.{nested}"));
        }
    }
    assert!(schema["type"] != "array" || members.contains_key("items"), "{path}");
}

/// The types of Kubernetes have fractions in all numbers.
fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), with_floats(value))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn definitions_have_structural_schemas_columns_and_a_status() {
    let definitions = definitions();
    let names: Vec<_> =
        definitions.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    let group = "runner.butlerlabs.dev";
    assert_eq!(
        names,
        ["repositories", "layers", "followers"].map(|name| format!("{name}.{group}"))
    );
    for definition in &definitions {
        let [version] = &definition["spec"]["versions"].as_array().unwrap()[..] else {
            panic!("one version")
        };
        assert_eq!((&version["name"], &version["storage"]), (&json!("v1alpha1"), &json!(true)));
        assert!(version["subresources"]["status"].is_object(), "{version}");
        assert!(version["additionalPrinterColumns"].as_array().unwrap().len() > 2);
        let schema = &version["schema"]["openAPIV3Schema"];
        assert_structural(schema, "");
        let rules = schema["properties"]["spec"].to_string();
        assert!(
            rules.contains("x-kubernetes-validations") && !rules.contains("tokenEnv"),
            "{rules}"
        );
        // The types of Kubernetes have all of it.
        let typed: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
            serde_json::from_value(definition.clone()).unwrap();
        let typed = json!(typed);
        assert_eq!(
            with_floats(&typed["spec"]["versions"][0]["schema"]),
            with_floats(&version["schema"])
        );
    }
}

#[test]
fn example_of_the_documentation_is_used() {
    let page = include_str!("../../../../docs/custom-resources.md");
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let objects = example.split("---\n").map(|text| {
        let found: Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(found["apiVersion"], "runner.butlerlabs.dev/v1alpha1");
        let is_it = |kind: &ResourceKind| found["kind"] == kind.as_str();
        let kind = ResourceKind::ALL.into_iter().find(is_it).unwrap();
        let text = |field: &str| found["metadata"][field].as_str().unwrap().to_owned();
        object(kind, &format!("{}/{}", text("namespace"), text("name")), 1, &found["spec"])
    });
    let resources = resolved(objects.collect());
    assert_eq!(problems(&resources), Vec::<String>::new());
    assert_eq!(resources.configs()["team-a"].layers.len(), 2);
    assert_eq!(resources.followers()[0].stages.len(), 2);
    // Windows of the server's file can be about them.
    own("windows: [{deny: [apply], layers: [team-a.*], schedule: '0 18 * * FRI', for: 62h}]");
}
