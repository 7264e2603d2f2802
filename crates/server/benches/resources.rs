//! How long 10,000 custom resources take to be resolved: at the start, and after a change of one of them.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it has measured")]

use std::sync::Arc;
use std::time::Instant;

use butler_cluster::{CustomObject, ResourceKey, ResourceKind};
use butler_server::config::{Config, RemoteLimits};
use butler_server::resources::Resources;
use serde_json::{Value, json};

/// The number of layers.
const LAYERS: usize = 10_000;

/// The numbers of namespaces with an equal part of the layers.
const NAMESPACES: [usize; 2] = [1, 100];

fn main() {
    for namespaces in NAMESPACES {
        let mut objects = objects(namespaces);
        let limits = RemoteLimits {
            git_hosts: vec!["git.example.com".to_owned()],
            ..RemoteLimits::default()
        };
        let config = Config::default();
        let mut resources = Resources::default();
        let mut take = |what: &str, objects: &[Arc<CustomObject>]| {
            let begun = Instant::now();
            resources.replace(objects.to_vec());
            resources.resolve_changed(&config, &limits);
            let seconds = begun.elapsed().as_secs_f64();
            assert_eq!(resources.problems().count(), 0);
            println!("namespaces={namespaces} {what}={seconds:.3}");
        };
        take("first", &objects);
        let mut changed = (*objects[LAYERS / 2]).clone();
        changed.generation += 1;
        changed.spec.insert("strategy".to_owned(), json!("auto"));
        objects[LAYERS / 2] = Arc::new(changed);
        take("changed", &objects);
    }
}

/// Layers, and a repository in each namespace.
fn objects(namespaces: usize) -> Vec<Arc<CustomObject>> {
    let namespace = |number: usize| format!("team-{}", number % namespaces);
    let layers = (0..LAYERS).map(|number| {
        let backend = json!({"type": "s3", "config": {"bucket": "tf", "key": format!("{number}"), "region": "eu-west-1"}});
        let spec = json!({
            "repository": "infra", "path": format!("layers/{number}"), "backend": backend, "strategy": "plan-only",
        });
        object(ResourceKind::Layer, &namespace(number), &format!("layer-{number}"), spec)
    });
    let repositories = (0..namespaces).map(|number| {
        let spec = json!({"url": "https://git.example.com/infra.git"});
        object(ResourceKind::Repository, &namespace(number), "infra", spec)
    });
    layers.chain(repositories).collect()
}

fn object(kind: ResourceKind, namespace: &str, name: &str, spec: Value) -> Arc<CustomObject> {
    let Value::Object(spec) = spec else { unreachable!("an object") };
    Arc::new(CustomObject {
        key: ResourceKey { namespace: namespace.to_owned(), kind, name: name.to_owned() },
        uid: name.to_owned(),
        generation: 1,
        resource_version: "1".to_owned(),
        spec,
        status: None,
    })
}
