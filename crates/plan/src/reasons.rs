//! The reasons for which Terraform changes a resource or executes an action, in words.

/// The words for `action_reason` of the resource `address`. `forcing` are the attributes that force a replacement.
pub(super) fn reason(given: &str, address: &str, forcing: &[&str]) -> String {
    let key = key(address);
    match given {
        "replace_because_cannot_update" if forcing.is_empty() => {
            "a changed attribute cannot be changed in place".to_owned()
        }
        "replace_because_cannot_update" => {
            format!("{} cannot be changed in place", listed(forcing))
        }
        "replace_because_tainted" => "it is tainted: its creation failed".to_owned(),
        "replace_by_request" => "its replacement is requested (`-replace`)".to_owned(),
        "replace_by_triggers" => {
            "`replace_triggered_by` refers to something that changes".to_owned()
        }
        "delete_because_no_resource_config" => "it is not in the configuration".to_owned(),
        "delete_because_no_module" => "its module is not in the configuration".to_owned(),
        "delete_because_no_move_target" => {
            "it was moved to an address that is not in the configuration".to_owned()
        }
        "delete_because_wrong_repetition" => match key {
            None => "the configuration has `count` or `for_each`, and it has no index".to_owned(),
            Some(key) if key.starts_with('"') => {
                format!("the configuration has no `for_each`, and it has the key [{key}]")
            }
            Some(key) => format!("the configuration has no `count`, and it has the index [{key}]"),
        },
        "delete_because_count_index" => match key {
            None => "its index is not below `count`".to_owned(),
            Some(key) => format!("index [{key}] is not below `count`"),
        },
        "delete_because_each_key" => match key {
            None => "its key is not in `for_each`".to_owned(),
            Some(key) => format!("the key [{key}] is not in `for_each`"),
        },
        "read_because_config_unknown" => "its settings are known only during the apply".to_owned(),
        "read_because_dependency_pending" => "it depends on something that changes".to_owned(),
        "read_because_check_nested" => "it belongs to a check".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The words for the trigger of an action: `event` of the resource `address`.
pub(super) fn trigger(event: &str, address: &str) -> String {
    let (order, done) = match event {
        "BeforeCreate" => ("before", "created"),
        "AfterCreate" => ("after", "created"),
        "BeforeUpdate" => ("before", "updated"),
        "AfterUpdate" => ("after", "updated"),
        "BeforeDestroy" => ("before", "destroyed"),
        "AfterDestroy" => ("after", "destroyed"),
        other => return format!("on {other} of {address}"),
    };
    format!("{order} {address} is {done}")
}

/// The key of the last part of an address, as it is written.
fn key(address: &str) -> Option<&str> {
    let inner = address.strip_suffix(']')?;
    // A key can contain brackets, but a quoted one ends with the last quote.
    let start = if inner.ends_with('"') { inner.rfind("[\"")? } else { inner.rfind('[')? };
    Some(&inner[start + 1..])
}

/// How many attributes are named.
const MOST_NAMES: usize = 3;

fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_with_the_index() {
        for (given, address, forcing, words) in [
            (
                "replace_because_cannot_update",
                "a.b",
                &[][..],
                "a changed attribute cannot be changed in place",
            ),
            ("replace_because_cannot_update", "a.b", &["ami"], "ami cannot be changed in place"),
            (
                "replace_because_cannot_update",
                "a.b",
                &["a", "b", "c", "d", "e"],
                "a, b, c and 2 more cannot be changed in place",
            ),
            ("replace_because_tainted", "a.b", &[], "it is tainted: its creation failed"),
            ("delete_because_no_resource_config", "a.b", &[], "it is not in the configuration"),
            (
                "delete_because_count_index",
                "module.m[\"x\"].a.b[3]",
                &[],
                "index [3] is not below `count`",
            ),
            ("delete_because_count_index", "a.b", &[], "its index is not below `count`"),
            (
                "delete_because_each_key",
                "a.b[\"x[1].y\"]",
                &[],
                "the key [\"x[1].y\"] is not in `for_each`",
            ),
            (
                "delete_because_wrong_repetition",
                "a.b[0]",
                &[],
                "the configuration has no `count`, and it has the index [0]",
            ),
            (
                "delete_because_wrong_repetition",
                "a.b[\"k\"]",
                &[],
                "the configuration has no `for_each`, and it has the key [\"k\"]",
            ),
            (
                "delete_because_wrong_repetition",
                "a.b",
                &[],
                "the configuration has `count` or `for_each`, and it has no index",
            ),
            ("read_because_check_nested", "data.a.b", &[], "it belongs to a check"),
            ("some_later_reason", "a.b", &[], "some later reason"),
        ] {
            assert_eq!(reason(given, address, forcing), words, "{given} {address}");
        }
    }

    #[test]
    fn triggers_are_words() {
        assert_eq!(trigger("AfterCreate", "a.b[0]"), "after a.b[0] is created");
        assert_eq!(trigger("BeforeDestroy", "a.b"), "before a.b is destroyed");
        assert_eq!(trigger("Later", "a.b"), "on Later of a.b");
    }
}
