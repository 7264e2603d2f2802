use serde_json::{Value, json};

use super::super::reading::for_tests;
use super::*;

fn survey(plan: &Value, variables: &[&str]) -> Survey {
    let mut plan = plan.clone();
    plan["format_version"] = json!("1.2");
    let text = plan.to_string();
    let variables = variables.iter().map(|name| (*name).to_owned()).collect();
    for_tests::survey(|| Ok(text.as_bytes()), variables).unwrap()
}

fn secrets(plan: &Value, variables: &[&str]) -> Vec<String> {
    let survey = survey(plan, variables);
    survey.secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect()
}

fn change(address: &str, after: &Value, marks: &Value) -> Value {
    json!({"address": address, "type": "terraform_data", "name": address.rsplit('.').next(),
        "change": {"actions": ["create"], "before": null, "after": after, "after_sensitive": marks}})
}

#[test]
fn individually_marked_values_and_outputs_are_secrets_and_marked_objects_are_not() {
    let engine =
        json!({"engine": "postgresql-16", "region": "eu-central-1", "password": "hunter22-one"});
    let plan = json!({
        "resource_changes": [
            change("terraform_data.a", &engine, &json!({"password": true})),
            change("terraform_data.b", &json!({"block": {"id": "hunter22-two"}}), &json!({"block": true})),
            change("terraform_data.c", &json!({"list": ["hunter22-three", "x"]}), &json!({"list": [true, false]})),
        ],
        "output_changes": {"o": {"after": {"name": "hunter22-four"}, "after_sensitive": true}},
        "planned_values": {"outputs": {"o": {"sensitive": true, "value": "hunter22-five"}}},
        "prior_state": {"values": {"root_module": {"resources": [{"address": "terraform_data.d",
            "values": {"v": "hunter22-six"}, "sensitive_values": {"v": true}}]}}},
        "variables": {"given": {"value": {"password": "hunter22-seven"}}, "other": {"value": "hunter22-eight"}},
    });
    let expected = [
        "hunter22-five",
        "hunter22-four",
        "hunter22-one",
        "hunter22-seven",
        "hunter22-six",
        "hunter22-three",
    ];
    assert_eq!(secrets(&plan, &["given"]), expected);
}

#[test]
fn plan_without_changes_has_the_secrets_of_its_states() {
    let state = |value: &str, kind: &str| {
        json!({"root_module": {"child_modules": [{"resources": [{"address": "module.m.x.y", "type": kind, "name": "y",
            "values": {"v": value, "block": {"id": "hunter22-block"}}, "sensitive_values": {"v": true, "block": true}}]}]}})
    };
    let plan = json!({"planned_values": state("hunter22-planned", "x"), "prior_state": {"values": state("production", "random_password")}});
    assert_eq!(secrets(&plan, &[]), ["hunter22-planned", "production"]);
    let open = json!({"planned_values": state("hunter22-planned", "x"), "resource_changes": [
        change("terraform_data.a", &json!({"v": "hunter22-planned"}), &json!({}))]});
    assert_eq!(secrets(&open, &[]), [""; 0]);
}

#[test]
fn value_that_another_state_gave_without_a_mark_can_be_a_secret() {
    let read = |kind: &str| {
        json!({"address": "data.x.y", "mode": "data", "type": kind, "name": "y", "values": {"outputs": {"p": "hunter22-read"}},
            "sensitive_values": {}})
    };
    let plan = |kind: &str| {
        json!({"prior_state": {"values": {"root_module": {"resources": [read(kind)]}}},
            "output_changes": {"o": {"actions": ["create"], "before": null, "after": "hunter22-read", "after_sensitive": true}}})
    };
    assert_eq!(secrets(&plan("terraform_remote_state"), &[]), ["hunter22-read"]);
    assert_eq!(secrets(&plan("other"), &[]), [""; 0]);
}

#[test]
fn unmarked_values_are_not_secrets() {
    let marked = json!({"region": "eu-central-1", "kind": "terraform_data", "named": "network-2024",
        "copied": "hunter22-copied", "key": "each-key-2024"});
    let marks = json!({"region": true, "kind": true, "named": true, "copied": true, "key": true});
    let mut with_copy = change("terraform_data.a", &marked, &marks);
    with_copy["change"]["after"]["output"] = json!("hunter22-copied");
    let mut plan = json!({
        "variables": {"region": {"value": "eu-central-1"}},
        "resource_changes": [
            with_copy,
            change("terraform_data.network-2024", &json!({}), &json!({})),
            change("module.m[\"each-key-2024\"].terraform_data.x", &json!({}), &json!({})),
        ],
        // The configuration alone is not a reason to show it.
        "configuration": {"root_module": {"resources": [{"expressions": {"copied": {"constant_value": "hunter22-copied"}}}]}},
    });
    assert_eq!(secrets(&plan, &[]), ["hunter22-copied"]);
    plan["prior_state"]["values"]["outputs"] =
        json!({"open": {"sensitive": false, "value": ["hunter22-copied"]}});
    assert_eq!(secrets(&plan, &[]), [""; 0]);
}

#[test]
fn short_values_and_words_are_not_secrets_and_the_number_is_limited() {
    let values = |value: &Value| json!({"resource_changes": [change("x.y", &json!({"v": value}), &json!({"v": true}))]});
    for (value, found) in [
        (json!("5432\nlong enough-1\n"), &["long enough-1"][..]),
        (json!("kind: Configuration\ntoken: hunter22-token"), &["token: hunter22-token"]),
        (json!("kind: Configuration"), &["kind: Configuration"]),
        (json!("PostgreSQLengine"), &[]),
        (json!("aBxQzKyWvTpLmN"), &["aBxQzKyWvTpLmN"]),
        (json!("hunter22-24"), &[]),
        (json!("123456789012345"), &[]),
        (json!(123_456_789_012_345_u64), &[]),
        (json!("Passwörter12"), &["Passwörter12"]),
    ] {
        assert_eq!(secrets(&values(&value), &[]), found, "{value}");
    }
    assert!(survey(&values(&json!("x1".repeat(MAX_MARKED_SIZE))), &[]).incomplete);
}

#[test]
fn variables_declared_sensitive_in_the_configuration_are_returned() {
    let plan = json!({
        "variables": {"key": {"value": "hunter22-key"}},
        "resource_changes": [change("x.y", &json!({"v": "hunter22-key"}), &json!({"v": true}))],
        "configuration": {"root_module": {"variables": {"key": {"sensitive": true}}}},
    });
    let survey = survey(&plan, &[]);
    assert_eq!(survey.variables, BTreeSet::from(["key".to_owned()]));
    assert_eq!(survey.secrets.len(), 1);
}
