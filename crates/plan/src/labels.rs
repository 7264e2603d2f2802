//! Terraform's own words in a plan, which describe its parts, as opposed to values.
//!
//! These words are not redacted, because a plan without `create` or `name` would be unreadable.

/// Members whose strings are names, kinds and versions: of Terraform, of providers, or of blocks in
/// the module. Those of checks, drift and actions among them.
const LABELS: [&str; 28] = [
    "action_reason",
    "action_trigger_block_index",
    "actions",
    "address",
    "depends_on",
    "deposed",
    "format_version",
    "full_name",
    "kind",
    "mode",
    "module",
    "module_address",
    "name",
    "previous_address",
    "provider_config_key",
    "provider_name",
    "reason",
    "references",
    "resource",
    "schema_version",
    "status",
    "terraform_version",
    "timestamp",
    "to_display",
    "triggering_resource_address",
    "type",
    "version",
    "version_constraint",
];

/// Whether the strings in the member `name` of one of Terraform's own objects are such words.
pub(super) fn is_label(name: &str) -> bool {
    LABELS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted() {
        assert!(LABELS.is_sorted());
        assert!(is_label("address") && is_label("version_constraint") && !is_label("value"));
    }
}
