use secrecy::ExposeSecret;
use serde_json::json;

use super::*;

fn survey(state: &Value) -> StateSurvey {
    survey_state(state.to_string().as_bytes(), &Redactor::new()).unwrap()
}

fn texts(secrets: &[SecretString]) -> Vec<&str> {
    secrets.iter().map(ExposeSecret::expose_secret).collect()
}

/// A state with this resource and these outputs, written by this version.
fn state(version: &str, resource: &Value, outputs: &Value) -> Value {
    json!({"version": 4, "terraform_version": version, "serial": 1, "lineage": "a", "outputs": outputs,
        "resources": [resource]})
}

/// A resource with these attributes and the paths of its sensitive ones.
fn resource(kind: &str, attributes: &Value, sensitive: &Value) -> Value {
    let provider = if kind.starts_with("terraform_") {
        "provider[\"terraform.io/builtin/terraform\"]"
    } else {
        "module.x.provider[\"registry.example/acme/x\"]"
    };
    json!({"mode": if kind == REMOTE_STATE { "data" } else { "managed" }, "type": kind, "name": "x", "provider": provider,
        "instances": [{"schema_version": 0, "attributes": attributes, "sensitive_attributes": sensitive}]})
}

fn attribute(name: &str) -> Value {
    json!({"type": "get_attr", "value": name})
}

fn key(value: &Value) -> Value {
    json!({"type": "index", "value": {"value": value, "type": "string"}})
}

#[test]
fn marked_values_of_a_stored_state_are_secrets() {
    let attributes = json!({"password": "hunter22-one", "open": "in-clear-text-1",
        "list": ["hunter22-two", "in-clear-text-2"], "map": {"k": "hunter22-three", "l": "in-clear-text-3"},
        "any": {"type": "string", "value": "hunter22-four"},
        "object": {"type": ["object", {"p": "string"}], "value": {"p": "hunter22-five", "q": "in-clear-text-4"}},
        "record": {"type": "A", "value": "hunter22-six"}, "block": {"a": "hunter22-block"}, "set": ["hunter22-set"]});
    let paths = json!([
        [attribute("password")],
        [attribute("list"), key(&json!(0))],
        [attribute("map"), key(&json!("k"))],
        [attribute("any")],
        [attribute("object"), attribute("p")],
        [attribute("record"), attribute("value")],
        [attribute("block")],
        [attribute("set"), key(&json!({"no": "index"}))],
        [attribute("missing"), attribute("deep")],
    ]);
    let outputs = json!({"secret": {"value": {"p": "hunter22-seven"}, "type": ["object", {"p": "string"}], "sensitive": true},
        "open": {"value": "in-clear-text-5", "type": "string"}});
    let found = survey(&state("1.11.4", &resource("acme_x", &attributes, &paths), &outputs));
    let expected = [
        "hunter22-five",
        "hunter22-four",
        "hunter22-one",
        "hunter22-seven",
        "hunter22-six",
        "hunter22-three",
        "hunter22-two",
    ];
    assert_eq!(texts(&found.secrets), expected);
    assert!(!found.incomplete && !found.lacks_marks(false) && !found.lacks_marks(true));
}

#[test]
fn passwords_of_random_password_are_secrets_and_values_without_a_mark_elsewhere_are_not() {
    let password = |value: &str| {
        let marked = json!([[attribute("result")]]);
        let made = resource("random_password", &json!({"result": value, "length": 8}), &marked);
        let found = survey(&state("1.11.4", &made, &json!({})));
        found.secrets.len()
    };
    for (value, count) in [("production", 1), ("abcd", 1), ("8675309", 1), ("abc", 0)] {
        assert_eq!(password(value), count, "{value}");
    }
    let outputs = json!({"o": {"value": "hunter22-open", "type": "string"}});
    for (kind, count) in [("acme_x", 0), ("random_password", 1)] {
        let made = resource(kind, &json!({"p": "hunter22-open"}), &json!([[attribute("p")]]));
        let found = survey(&state("1.11.4", &made, &outputs));
        assert_eq!(found.secrets.len(), count, "{kind}");
    }
}

#[test]
fn marks_of_schemas_are_missing_in_old_states_and_in_data_sources_of_opentofu() {
    let external = resource("acme_x", &json!({}), &json!([]));
    let own = resource("terraform_data", &json!({}), &json!([]));
    let mut data = external.clone();
    data["mode"] = json!("data");
    for (version, resource, terraform, tofu) in [
        ("1.7.5", &external, true, true),
        ("1.8.0", &external, false, false),
        ("1.12.6", &external, false, false),
        ("1.7.5", &own, false, false),
        ("1.7.5", &data, true, true),
        ("1.11.4", &data, false, true),
        ("", &external, true, true),
    ] {
        let found = survey(&state(version, resource, &json!({})));
        let lacks = (found.lacks_marks(false), found.lacks_marks(true));
        assert_eq!(lacks, (terraform, tofu), "{version} {resource}");
    }
}

#[test]
fn outputs_of_another_state_are_returned_with_its_backend() {
    let attributes = json!({"backend": "local", "workspace": "blue",
        "config": {"value": {"path": "../up.tfstate", "n": 1}, "type": ["object", {"path": "string", "n": "number"}]},
        "outputs": {"value": {"password": "hunter22"}, "type": ["object", {"password": "string"}]}, "defaults": null});
    let read = resource(REMOTE_STATE, &attributes, &json!([]));
    let found = survey(&state("1.11.4", &read, &json!({})));
    let [remote] = &found.remote_states[..] else { panic!("{found:?}") };
    assert_eq!((&*remote.backend, remote.workspace.as_deref()), ("local", Some("blue")));
    assert_eq!(remote.settings, BTreeMap::from([("path".to_owned(), "../up.tfstate".to_owned())]));
    assert_eq!(remote.outputs.len(), 1);
    // A value that has no mark there can still be a secret.
    let outputs = json!({"o": {"value": "hunter22-read", "type": "string", "sensitive": true}});
    let mut both = state("1.11.4", &read, &outputs);
    both["resources"][0]["instances"][0]["attributes"]["outputs"]["value"]["password"] =
        json!("hunter22-read");
    assert_eq!(texts(&survey(&both).secrets), ["hunter22-read"]);
}

#[test]
fn shown_state_has_all_marks() {
    let state = json!({"format_version": "1.0", "terraform_version": "1.6.0", "values": {
        "outputs": {"o": {"sensitive": true, "type": "string", "value": "hunter22-out"}},
        "root_module": {"child_modules": [{"resources": [{"address": "module.m.random_password.x", "type": "random_password",
            "name": "x", "values": {"result": "QwErTyUi"}, "sensitive_values": {"result": true}}]}]}}})
    .to_string();
    let (secrets, incomplete) =
        survey_shown_state(|| Ok(state.as_bytes()), &Redactor::new()).unwrap();
    assert_eq!((texts(&secrets), incomplete), (vec!["QwErTyUi", "hunter22-out"], false));
    let none = survey_shown_state(|| Ok(&br#"{"format_version":"1.0"}"#[..]), &Redactor::new());
    assert!(none.unwrap().0.is_empty());
}

#[test]
fn content_other_than_a_stored_state_is_an_error_and_an_empty_file_is_not() {
    for text in [r#"{"encrypted_data":"x","serial":1,"lineage":"a"}"#, r#"{"version":3}"#, "{", "x"]
    {
        assert!(survey_state(text.as_bytes(), &Redactor::new()).is_err(), "{text}");
    }
    assert!(survey_state(b"\n", &Redactor::new()).unwrap().secrets.is_empty());
}
