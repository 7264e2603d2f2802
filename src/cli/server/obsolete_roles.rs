//! The Roles that an earlier installation of a server has left in the cluster.

use std::collections::BTreeSet;

use butler_cluster::{NativeObject, NativeObjects, RoleNames};
use serde_json::{Value, json};

use super::follower_client::note;

/// The group and version of Roles.
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The Roles of the server that `objects` install, and their bindings, which are in the cluster and not among these
/// objects: the bindings first. A user who may not list Roles of all namespaces is told how to find them.
pub(super) async fn obsolete_roles(cluster: &NativeObjects, objects: &[Value]) -> Vec<Value> {
    let account = objects.iter().map(NativeObject::of).find(|it| it.kind == "ServiceAccount");
    let Some(NativeObject { namespace: Some(server), name: account, .. }) = account else {
        return Vec::new();
    };
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": server});
    let wanted: BTreeSet<_> = objects.iter().map(place).collect();
    let RoleNames { attempts, followers, resources } = RoleNames::of(server);
    let mut obsolete = Vec::new();
    for (name, is_shared) in [(followers, false), (resources, false), (attempts, true)] {
        let found = async {
            Ok::<_, String>([
                everywhere(cluster, "RoleBinding", &name).await?,
                everywhere(cluster, "Role", &name).await?,
            ])
        };
        let [mut bindings, mut roles] = match found.await {
            Ok(found) => found,
            Err(why) => {
                note(&format!(
                    "cannot look for Roles that are not wanted any more: {why}; `kubectl get role,rolebinding -A \
                     --field-selector metadata.name={name}` shows all of them"
                ));
                continue;
            }
        };
        bindings
            .retain(|binding| !wanted.contains(&place(binding)) && is_only_of(binding, &subject));
        let places: BTreeSet<_> = bindings.iter().map(|it| namespace(it).to_owned()).collect();
        roles.retain(|role| {
            let is_own = !is_shared || places.contains(namespace(role));
            is_own && !wanted.contains(&place(role))
        });
        obsolete.extend(bindings.into_iter().chain(roles));
    }
    obsolete
}

async fn everywhere(cluster: &NativeObjects, kind: &str, name: &str) -> Result<Vec<Value>, String> {
    cluster.everywhere(NativeObject { api_version: RBAC, kind, namespace: None, name }).await
}

/// The kind, the namespace and the name of an object.
fn place(object: &Value) -> (String, String, String) {
    let NativeObject { kind, namespace, name, .. } = NativeObject::of(object);
    (kind.to_owned(), namespace.unwrap_or_default().to_owned(), name.to_owned())
}

fn namespace(object: &Value) -> &str {
    NativeObject::of(object).namespace.unwrap_or_default()
}

/// Whether a binding is for this account and for no other.
fn is_only_of(binding: &Value, subject: &Value) -> bool {
    let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it =
        |it: &Value| ["kind", "name", "namespace"].iter().all(|key| it[*key] == subject[*key]);
    subjects.iter().all(is_it) && !subjects.is_empty()
}
