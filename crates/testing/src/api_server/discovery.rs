//! The kinds that the cluster has, as clients look them up.

use serde_json::{Value, json};

/// The groups and versions, with their kinds and plurals.
const KINDS: [(&str, &[(&str, &str)]); 10] = [
    (
        "v1",
        &[
            ("ConfigMap", "configmaps"),
            ("Namespace", "namespaces"),
            ("PersistentVolumeClaim", "persistentvolumeclaims"),
            ("Pod", "pods"),
            ("Secret", "secrets"),
            ("Service", "services"),
            ("ServiceAccount", "serviceaccounts"),
        ],
    ),
    ("batch/v1", &[("Job", "jobs")]),
    ("apps/v1", &[("Deployment", "deployments"), ("StatefulSet", "statefulsets")]),
    ("tekton.dev/v1", &[("PipelineRun", "pipelineruns"), ("TaskRun", "taskruns")]),
    ("argoproj.io/v1alpha1", &[("Application", "applications")]),
    ("networking.k8s.io/v1", &[("NetworkPolicy", "networkpolicies")]),
    ("policy/v1", &[("PodDisruptionBudget", "poddisruptionbudgets")]),
    ("rbac.authorization.k8s.io/v1", &[("Role", "roles"), ("RoleBinding", "rolebindings")]),
    (
        "runner.butlerlabs.dev/v1alpha1",
        &[("Repository", "repositories"), ("Layer", "layers"), ("Follower", "followers")],
    ),
    ("apiextensions.k8s.io/v1", &[("CustomResourceDefinition", "customresourcedefinitions")]),
];

/// The path of a group and version.
fn prefix(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}

/// The list of the kinds of a group and version, if that is what the path asks for.
pub(super) fn kinds(path: &str) -> Option<Value> {
    let (version, kinds) = KINDS.into_iter().find(|(version, _)| prefix(version) == path)?;
    let resources = kinds.iter().map(|(kind, plural)| {
        json!({
            "name": plural, "singularName": kind.to_lowercase(), "kind": kind,
            "namespaced": !["CustomResourceDefinition", "Namespace"].contains(kind),
            "verbs": ["create", "delete", "get", "list", "patch", "watch"],
        })
    });
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
        "resources": resources.collect::<Vec<_>>(),
    }))
}

/// Whether the path is below that of a group and version which is served.
pub(super) fn is_served(path: &str) -> bool {
    KINDS.into_iter().any(|(version, _)| path.starts_with(&format!("{}/", prefix(version))))
}
