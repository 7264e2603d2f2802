//! What an installation has for custom resources: their kinds, and what the server may do with them.

use super::followers::binding;
use super::options::{Installation, Values};
use super::role_names::RoleNames;
use crate::resources::{GROUP, ResourceKind};
use crate::yaml::{document, scalar_text};

/// The values of the template; none for a server without custom resources.
pub(super) fn values(installation: &Installation) -> Values {
    let Some(resources) = &installation.resources else { return Vec::new() };
    let variable = |name: &str, values: &[String]| {
        let values = scalar_text(&values.join(","));
        format!("            - name: {name}\n              value: {values}")
    };
    let mut variables = vec![variable("BUTLER_RESOURCES", &resources.namespaces)];
    if !resources.git_hosts.is_empty() {
        variables.push(variable("BUTLER_ALLOWED_GIT_HOST", &resources.git_hosts));
    }
    let definitions = resources.definitions.iter().map(|definition| {
        let text = document(definition);
        format!(
            "# Deleting it deletes all resources of this kind. Infrastructure stays.\n{text}---"
        )
    });
    let roles = resources.namespaces.iter().map(|name| role(name, &installation.namespace));
    vec![
        ("resources-variables", variables.join("\n")),
        ("resources-definitions", definitions.collect::<Vec<_>>().join("\n")),
        ("resources-roles", roles.collect::<Vec<_>>().join("\n")),
    ]
}

/// A Role and its binding.
fn role(namespace: &str, server: &str) -> String {
    let plurals = ResourceKind::ALL.map(ResourceKind::plural);
    let status = plurals.iter().map(|plural| format!("{plural}/status")).collect::<Vec<_>>();
    let (plurals, status) = (plurals.join(", "), status.join(", "));
    // Servers of several namespaces can use the resources of one.
    let name = RoleNames::of(server).resources;
    let (namespace, server) = (scalar_text(namespace), scalar_text(server));
    format!(
        "# The resources in this namespace that are part of the desired state. The server writes their status only.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {name}
  namespace: {namespace}
rules:
  - apiGroups: [{GROUP}]
    resources: [{plurals}]
    verbs: [list, watch]
  - apiGroups: [{GROUP}]
    resources: [{status}]
    verbs: [patch]
  # What resources name with `secret`. Without this rule, they cannot name any.
  - apiGroups: [\"\"]
    resources: [secrets]
    verbs: [get]
{}",
        binding(&name, &namespace, &server)
    )
}
