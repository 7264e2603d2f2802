//! How those Roles are deleted that an earlier installation had and this one has not.

use std::collections::BTreeSet;

use super::followers;
use super::options::Installation;
use super::role_names::RoleNames;

/// The commands, as a comment, that delete the Roles which `kubectl apply` leaves in namespaces of earlier installations.
pub(super) fn comment(installation: &Installation) -> String {
    let names = RoleNames::of(&installation.namespace);
    let of_resources = installation.resources.iter().flat_map(|it| &it.namespaces);
    let wanted = [
        (names.followers, followers::namespaces(installation)),
        (names.resources, of_resources.map(String::as_str).collect()),
    ];
    let commands = wanted.map(|(name, namespaces)| command(&name, &namespaces));
    commands.join("\n")
}

fn command(name: &str, namespaces: &BTreeSet<&str>) -> String {
    let is_name = |text: &&&str| text.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
    let kept = namespaces.iter().filter(is_name).map(|it| format!(",metadata.namespace!={it}"));
    let kept: String = kept.collect();
    format!("#   kubectl delete role,rolebinding -A --field-selector 'metadata.name={name}{kept}'")
}
