//! What an installation has for followers: their registry, and what the server may do for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kube::core::{GroupVersion, GroupVersionKind};
use kube::discovery::ApiResource;

use super::options::{Installation, InstalledFollowers, Values};
use super::role_names::RoleNames;
use crate::native_logs::pod_label;
use crate::yaml::scalar_text;

/// What may be done in a namespace: the verbs, by group, resource and names.
type Rules = BTreeMap<(String, String, Vec<String>), BTreeSet<&'static str>>;

/// The values of the template; none for a server without followers.
pub(super) fn values(installation: &Installation, block: impl Fn(&str) -> String) -> Values {
    let Some(followers) = &installation.followers else { return Vec::new() };
    let variable = "            - name: BUTLER_FOLLOWERS
              value: /etc/butler-runner/config/followers.yaml";
    vec![
        ("followers-registry", format!("  followers.yaml: {}", block(&followers.registry))),
        ("followers-variable", variable.to_owned()),
        ("followers-roles", roles(followers, &installation.namespace)),
    ]
}

/// The namespaces of what the stages create and read, and of the copies.
pub(super) fn namespaces(installation: &Installation) -> BTreeSet<&str> {
    let Some(followers) = &installation.followers else { return BTreeSet::new() };
    let of_copies = (!followers.copies.is_empty()).then_some(followers.namespace.as_str());
    followers.objects.iter().map(|object| object.namespace.as_str()).chain(of_copies).collect()
}

/// A Role and its binding for each namespace.
fn roles(followers: &InstalledFollowers, server: &str) -> String {
    let mut namespaces: BTreeMap<&str, Rules> = BTreeMap::new();
    for object in &followers.objects {
        let rules = namespaces.entry(&object.namespace).or_default();
        let (group, plural) = resource(&object.api_version, &object.kind);
        let is_pipeline_run = group == "tekton.dev" && object.kind == "PipelineRun";
        let tekton = group.clone();
        let verbs = rules.entry((group, plural, Vec::new())).or_default();
        verbs.insert("get");
        if object.is_created {
            verbs.insert("create");
        }
        // What `follower status` shows of a `PipelineRun`.
        if is_pipeline_run {
            rules.entry((tekton, "taskruns".to_owned(), Vec::new())).or_default().insert("list");
        }
        // `follower logs` reads those of the pods that the object has.
        if pod_label(&object.kind).is_some() {
            for (resource, verb) in [("pods", "list"), ("pods/log", "get")] {
                let key = (String::new(), resource.to_owned(), Vec::new());
                rules.entry(key).or_default().insert(verb);
            }
        }
    }
    if !followers.copies.is_empty() {
        let rules = namespaces.entry(&followers.namespace).or_default();
        let key = |names| (String::new(), "configmaps".to_owned(), names);
        rules.entry(key(followers.copies.clone())).or_default().insert("patch");
        rules.entry(key(Vec::new())).or_default().insert("create");
    }
    let documents =
        namespaces.into_iter().map(|(namespace, rules)| role(namespace, &rules, server));
    documents.collect::<Vec<_>>().join("\n")
}

fn role(namespace: &str, rules: &Rules, server: &str) -> String {
    // Servers of several namespaces can have followers in one.
    let name = RoleNames::of(server).followers;
    let (namespace, server) = (scalar_text(namespace), scalar_text(server));
    let mut text = format!(
        "# What the stages of followers create and read in this namespace, and the copies of their state.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {name}
  namespace: {namespace}
rules:
"
    );
    for ((group, resource, names), verbs) in rules {
        let group = if group.is_empty() { "\"\"" } else { group };
        let verbs = verbs.iter().copied().collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "  - apiGroups: [{group}]\n    resources: [{resource}]");
        if !names.is_empty() {
            let _ = writeln!(text, "    resourceNames: [{}]", names.join(", "));
        }
        let _ = writeln!(text, "    verbs: [{verbs}]");
    }
    text.push_str(&binding(&name, &namespace, &server));
    text
}

/// The end of a Role, and the binding that gives it to the server. The texts are those of YAML.
pub(super) fn binding(name: &str, namespace: &str, server: &str) -> String {
    format!(
        "---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {name}
  namespace: {namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {name}
subjects:
  - kind: ServiceAccount
    name: butler-server
    namespace: {server}
---"
    )
}

/// The group of a kind, and its name in paths. The plural is that of English, as custom resources have it by convention.
fn resource(api_version: &str, kind: &str) -> (String, String) {
    let version: GroupVersion = api_version.parse().unwrap_or(GroupVersion::gv("", api_version));
    let kind: GroupVersionKind = version.with_kind(kind);
    let resource = ApiResource::from_gvk(&kind);
    (resource.group, resource.plural)
}
