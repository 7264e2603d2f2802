//! The keys of Atlantis' files and their types.
//!
//! Atlantis refuses a file with an unknown key or a value of another type. So does the import, because the meaning of
//! such a file is unknown. The keys are those of its documentation of the repository-level and the server-side
//! configuration.

use butler_base::similar::closest;
use serde_json::{Map, Value};

use super::super::fields::flag;

/// A key and the type of its value. `null` is the same as a missing key.
pub(super) type Key = (&'static str, Kind);

/// The type of a value. Scalars are texts as they are written.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Flag,
    Number,
    Texts,
    /// A mapping with these keys.
    Map(&'static [Key]),
    /// A list of such mappings.
    List(&'static [Key]),
    /// A mapping from names to such mappings.
    Named(&'static [Key]),
    /// Any value. The import does not read it here.
    Any,
}

use Kind::{Any, Flag, List, Map as Mapping, Named, Number, Text, Texts};

/// The `atlantis.yaml` of a repository.
pub(super) const REPOSITORY_FILE: &[Key] = &[
    ("abort_on_execution_order_fail", Flag),
    ("allowed_regexp_prefixes", Texts),
    ("autodiscover", Mapping(AUTODISCOVER)),
    ("automerge", Flag),
    ("delete_source_branch_on_merge", Flag),
    ("emoji_reaction", Text),
    ("parallel_apply", Flag),
    ("parallel_plan", Flag),
    ("policies", Any),
    ("projects", List(PROJECT)),
    ("repo_locks", Mapping(REPO_LOCKS)),
    ("silence_pr_comments", Texts),
    ("version", Number),
    ("workflows", Named(WORKFLOW)),
];

/// The configuration of an Atlantis server.
pub(super) const SERVER_FILE: &[Key] = &[
    ("external_stores", Any),
    ("metrics", Any),
    ("policies", Any),
    ("repos", List(REPO)),
    ("team_authz", Any),
    ("workflows", Named(WORKFLOW)),
];

const AUTODISCOVER: &[Key] = &[("ignore_paths", Texts), ("mode", Text)];

const REPO_LOCKS: &[Key] = &[("mode", Text)];

const PROJECT: &[Key] = &[
    ("apply_requirements", Texts),
    ("autoplan", Mapping(&[("enabled", Flag), ("when_modified", Texts)])),
    ("branch", Text),
    ("custom_policy_check", Flag),
    ("delete_source_branch_on_merge", Flag),
    ("depends_on", Texts),
    ("dir", Text),
    ("execution_order_group", Number),
    ("import_requirements", Texts),
    ("name", Text),
    ("plan_requirements", Texts),
    ("policy_check", Flag),
    ("repo_locking", Flag),
    ("repo_locks", Mapping(REPO_LOCKS)),
    ("silence_pr_comments", Texts),
    ("terraform_distribution", Text),
    ("terraform_version", Text),
    ("workflow", Text),
    ("workspace", Text),
];

// `steps` has several forms, which `steps` checks.
const STAGE: Kind = Mapping(&[("steps", Any)]);

const WORKFLOW: &[Key] = &[
    ("apply", STAGE),
    ("import", STAGE),
    ("plan", STAGE),
    ("policy_check", STAGE),
    ("state_rm", STAGE),
];

const REPO: &[Key] = &[
    ("allow_custom_workflows", Flag),
    ("allowed_overrides", Texts),
    ("allowed_workflows", Texts),
    ("apply_requirements", Texts),
    ("autodiscover", Mapping(AUTODISCOVER)),
    ("branch", Text),
    ("custom_policy_check", Flag),
    ("delete_source_branch_on_merge", Flag),
    ("id", Text),
    ("import_requirements", Texts),
    ("plan_requirements", Texts),
    ("policy_check", Flag),
    ("post_workflow_hooks", Any),
    ("pre_workflow_hooks", Any),
    ("repo_config_file", Text),
    ("repo_locking", Flag),
    ("repo_locks", Mapping(REPO_LOCKS)),
    ("silence_pr_comments", Texts),
    ("workflow", Text),
];

/// Checks a mapping at `path` of a file.
///
/// # Errors
/// The first key that is not known, or has a value of another type.
pub(super) fn check(map: &Map<String, Value>, keys: &[Key], path: &str) -> Result<(), String> {
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let Some((_, kind)) = keys.iter().find(|(known, _)| known == key) else {
            let near = closest(key, keys.iter().map(|(known, _)| *known));
            let advice = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(format!("Atlantis refuses the unknown key `{path}`{advice}"));
        };
        check_value(value, *kind, &path)?;
    }
    Ok(())
}

fn check_value(value: &Value, kind: Kind, path: &str) -> Result<(), String> {
    let wants = |what: &str| Err(format!("Atlantis refuses `{path}`, which must be {what}"));
    match (kind, value) {
        (Any, _) | (Text, Value::String(_)) | (_, Value::Null) => Ok(()),
        (Text, _) => wants("a text"),
        (Flag, Value::String(text)) if flag(text).is_some() => Ok(()),
        (Flag, _) => wants("`true` or `false`"),
        (Number, Value::String(text)) if text.parse::<i64>().is_ok() => Ok(()),
        (Number, _) => wants("a number"),
        (Texts, Value::Array(items)) if items.iter().all(Value::is_string) => Ok(()),
        (Texts, _) => wants("a list of texts"),
        (Mapping(keys), Value::Object(map)) => check(map, keys, path),
        (Named(keys), Value::Object(map)) => map.iter().try_for_each(|(name, value)| {
            check_value(value, Mapping(keys), &format!("{path}.{name}"))
        }),
        (Mapping(_) | Named(_), _) => wants("a mapping"),
        (List(keys), Value::Array(items)) => {
            items.iter().enumerate().try_for_each(|(index, value)| {
                check_value(value, Mapping(keys), &format!("{path}[{index}]"))
            })
        }
        (List(_), _) => wants("a list"),
    }
}
