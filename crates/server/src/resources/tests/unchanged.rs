//! Namespaces whose resources have not changed.

use std::collections::BTreeMap;

use super::*;

#[test]
fn only_namespaces_with_a_change_are_read_again() {
    let mut resources = Resources::default();
    let objects = |generation, path: &str| {
        vec![
            repository("team-a/infra"),
            repository("team-b/infra"),
            layer("team-a/web", 1, &json!({})),
            layer("team-b/web", generation, &json!({"path": path})),
        ]
    };
    let tool = |resources: &Resources, namespace: &str| {
        let layer = &resources.configs()[namespace].layers[&format!("{namespace}.web")];
        layer.entry.tool.as_ref().unwrap().value.clone()
    };
    resources.replace(objects(1, "a"));
    resources.resolve(&own("defaults: {tool: 1.11.3}"), &limits(None));
    // These defaults are not those that were in force: what has them was read again.
    let other = own("defaults: {tool: 1.11.4}");
    resources.replace(objects(2, "b"));
    resources.resolve_changed(&other, &limits(None));
    assert_eq!((&*tool(&resources, "team-a"), &*tool(&resources, "team-b")), ("1.11.3", "1.11.4"));
    resources.resolve(&other, &limits(None));
    assert_eq!(tool(&resources, "team-a"), "1.11.4");
}

#[test]
fn unchanged_namespaces_come_to_the_same_result_as_if_they_were_read_again() {
    let mut compared = 0;
    for seed in 0..80 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut changed, mut whole) = (Resources::default(), Resources::default());
        let mut objects: BTreeMap<_, _> = ["team-a", "team-b", "team-c"]
            .map(|it| {
                (key(ResourceKind::Repository, it, "infra"), repository(&format!("{it}/infra")))
            })
            .into();
        let mut config = Config::default();
        for step in 1..20 {
            let namespace = random.choice(["team-a", "team-b", "team-c"]).unwrap();
            let name = random.choice(["a", "b", "c"]).unwrap();
            let other = random.choice(["a", "b", "c"]).unwrap();
            let full = format!("{namespace}/{name}");
            let of_layer =
                |more: &Value| (ResourceKind::Layer, name, Some(layer(&full, step, more)));
            let (kind, name, object) = match random.u8(0..12) {
                0..6 => of_layer(&json!({"path": other})),
                6 => of_layer(&json!({"after": [other]})),
                7 => of_layer(&json!({"unknown": 1})),
                8 => (ResourceKind::Layer, name, None),
                9 => (ResourceKind::Repository, "infra", None),
                10 => (
                    ResourceKind::Repository,
                    "infra",
                    Some(repository(&format!("{namespace}/infra"))),
                ),
                _ => {
                    let follower = follower_of(&full, &json!({"terraform": {"layer": other}}));
                    (ResourceKind::Follower, name, Some(follower))
                }
            };
            match object {
                Some(object) => objects.insert(key(kind, namespace, name), object),
                None => objects.remove(&key(kind, namespace, name)),
            };
            let all: Vec<_> = objects.values().cloned().collect();
            assert_eq!(changed.replace(all.clone()), whole.replace(all.clone()));
            let is_other = if step % 5 == 0 {
                config = own(&format!("defaults: {{ref: v{step}}}"));
                changed.resolve(&config, &limits(None))
            } else {
                changed.resolve_changed(&config, &limits(None))
            };
            assert_eq!(is_other, whole.resolve(&config, &limits(None)), "seed {seed}, step {step}");
            assert_eq!(format!("{changed:?}"), format!("{whole:?}"), "seed {seed}, step {step}");
            // What is in force has no history if everything is used.
            if !changed.has_refusals() {
                let mut new = Resources::default();
                new.replace(all);
                new.resolve(&config, &limits(None));
                let defined = |it: &Resources| format!("{:?} {:?}", it.configs(), it.followers());
                assert_eq!(defined(&changed), defined(&new), "seed {seed}, step {step}");
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
}
