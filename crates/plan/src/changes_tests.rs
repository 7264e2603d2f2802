use std::collections::BTreeSet;

use secrecy::SecretString;
use serde_json::{Value, json};

use super::super::reading::for_tests::clean;
use super::*;
use butler_result::Shown;

fn changes(plan: &[u8], redactor: &Redactor) -> Result<Changes> {
    clean(plan, &BTreeSet::new(), redactor, std::io::sink())?.changes
}

fn read(plan: &Value, secrets: &[&str]) -> Changes {
    let redactor = Redactor::new();
    let secrets: Vec<_> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
    redactor.register(&secrets);
    changes(plan.to_string().as_bytes(), &redactor).unwrap()
}

fn shown(shown: Option<&Shown>) -> String {
    match shown {
        None => "-".to_owned(),
        Some(Shown::Value(text)) => text.clone(),
        Some(Shown::Text(text)) => format!("{text:?}"),
        Some(Shown::Sensitive) => "(sensitive)".to_owned(),
        Some(Shown::Unknown) => "(unknown)".to_owned(),
    }
}

fn lines(changes: &[AttributeChange]) -> Vec<String> {
    let line = |change: &AttributeChange| {
        let [before, after] = [&change.before, &change.after].map(|side| shown(side.as_ref()));
        let forces = if change.forces_replacement { " !" } else { "" };
        format!("{}: {before} → {after}{forces}", change.path)
    };
    changes.iter().map(line).collect()
}

/// The attributes that this change of a resource changes.
fn difference(change: &Value, secrets: &[&str]) -> Vec<String> {
    let plan = json!({"format_version": "1.2", "resource_changes": [{"address": "a.b", "change": change}]});
    let changes = read(&plan, secrets);
    assert_eq!(changes.planned.len(), 1);
    lines(&changes.planned[0].attributes)
}

#[test]
fn changed_attributes_are_listed_with_their_path() {
    let change = json!({"actions": ["delete", "create"],
        "before": {"same": {"x": [1]}, "name": "a", "gone": true, "tags": {"Name": "n", "odd key": 1},
            "rules": [{"port": 1}, {"port": 2}, {"port": 3}], "n": null, "id": "i-1", "set": ["c"]},
        "after": {"same": {"x": [1]}, "name": "b", "new": 12_345_678_901_234_567_890_u64, "tags": {"Name": "m", "odd key": 2},
            "rules": [{"port": 0}, {"port": 1}, {"port": 2}, {"port": 3}], "n": null, "set": []},
        "after_unknown": {"id": true, "rules": [{}, {}, {}, {}], "deep": {"er": true}},
            "before_sensitive": false, "after_sensitive": {}, "replace_paths": [["name"], ["tags", "odd key"]]});
    expect_test::expect![[r#"
            gone: true → -
            id: "i-1" → (unknown)
            name: "a" → "b" !
            rules[0].port: - → 0
            set[0]: "c" → -
            tags.Name: "n" → "m"
            tags["odd key"]: 1 → 2 !
            new: - → 12345678901234567890
            deep: - → (unknown)"#]]
    .assert_eq(&difference(&change, &[]).join("\n"));
}

#[test]
fn attribute_marked_on_either_side_is_listed_without_its_value() {
    let change = json!({"actions": ["update"],
        "before": {"password": "hunter-1", "was": "hunter-2", "list": ["a", "hunter-3"], "odd": ["hunter-4", 1], "whole": {"x": "hunter-5"},
            "same": "hunter-6", "becomes": "hunter-7", "deep": {"a": {"b": "hunter-8", "c": 1}}, "unknown": {"v": "hunter-9", "w": "open"}},
        "after": {"password": "hunter-a", "was": "hunter-b", "list": ["b", "hunter-c"], "odd": ["hunter-d"], "whole": {"x": "hunter-e"},
            "same": "hunter-6", "becomes": "hunter-f", "deep": {"a": {"b": "hunter-g", "c": 2}}, "text": "x hunter-h\ny"},
        "before_sensitive": {"password": true, "was": true, "list": [false, true], "odd": [true], "whole": true, "same": true, "becomes": false,
            "deep": {"a": {"b": true}}, "unknown": {"v": true}},
        "after_sensitive": {"password": true, "list": [false, true], "odd": [true, true], "whole": {}, "same": true, "becomes": true,
            "deep": {"a": {"b": true}}},
        "after_unknown": {"unknown": true}});
    let found = difference(&change, &["hunter-h"]).join("\n");
    assert!(!found.contains("hunter"), "{found}");
    expect_test::expect![[r#"
            becomes: (sensitive) → (sensitive)
            deep.a.b: (sensitive) → (sensitive)
            deep.a.c: 1 → 2
            list[0]: "a" → "b"
            list[1]: (sensitive) → (sensitive)
            odd: (sensitive) → (sensitive)
            password: (sensitive) → (sensitive)
            unknown: {"v":"***","w":"open"} → (unknown)
            was: (sensitive) → (sensitive)
            whole: (sensitive) → (sensitive)
            text: - → "x ***\ny""#]]
    .assert_eq(&found);
}

#[test]
fn registered_secrets_are_masked_in_all_fields() {
    let plan = json!({"format_version": "1.2", "resource_changes": [
        {"address": "a.b[\"hunter22-key\"]", "previous_address": "a.c[\"hunter22-key\"]", "action_reason": "hunter22-key",
         "change": {"actions": ["update"],
            "before": {"v": "hunter22-key", "n": 123_454_321, "m": {"hunter22-key": 1}, "policy": "{\"a\":1,\"t\":\"x\"}"},
            "after": {"v": "a hunter22-key b", "n": 5, "m": {"hunter22-key": 2}, "policy": "{\"a\":2,\"t\":\"hunter22-key\"}",
                "whole": "{\"k\":\"hunter22-key\"}"}}}],
        "output_changes": {"o": {"actions": ["update"], "before": "hunter22-key", "after": "x", "before_sensitive": true, "after_sensitive": true},
            "p": {"actions": ["create"], "before": null, "after": {"k": "hunter22-key!"}}}});
    let changes = read(&plan, &["hunter22-key", "123454321"]);
    let text = format!("{changes:?}");
    assert!(!text.contains("hunter22") && !text.contains("123454321"), "{text}");
    assert_eq!(lines(&changes.outputs), ["o: (sensitive) → (sensitive)", r#"p.k: - → "***!""#]);
    assert_eq!(changes.planned[0].address, r#"a.b["***"]"#);
}

#[test]
fn document_that_is_a_secret_is_hidden() {
    let document = r#"{"user":"u","password":"p"}"#;
    let change = json!({"actions": ["update"], "before": {"d": "{}"}, "after": {"d": document}});
    assert_eq!(difference(&change, &[document]), [r#"d: "{}" → (sensitive)"#]);
}

#[test]
fn json_in_a_string_is_compared_by_its_content() {
    let change = json!({"actions": ["update"],
        "before": {"policy": "{\"Statement\":[{\"Action\":\"s3:Get\",\"Effect\":\"Allow\"}]}", "spaces": "{\"a\":1}", "was": "x"},
        "after": {"policy": "{\"Statement\":[{\"Action\":\"s3:*\",\"Effect\":\"Allow\"}]}", "spaces": "{ \"a\": 1}", "was": "[1]", "new": "[true]"}});
    assert_eq!(
        difference(&change, &[]),
        [
            r#"jsondecode(policy).Statement[0].Action: "s3:Get" → "s3:*""#,
            r#"spaces: "{\"a\":1}" → "{ \"a\": 1}""#,
            r#"was: "x" → "[1]""#,
            "jsondecode(new)[0]: - → true",
        ]
    );
}

#[test]
fn deeply_nested_changes_are_read_without_recursion() {
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(20_000), "]".repeat(20_000));
    let json = format!(
        r#"{{"resource_changes":[{{"address":"a.b","change":{{"actions":["update"],"before":{{"v":{}}},
            "after":{{"v":{}}},"after_sensitive":{{"v":{}}}}}}}]}}"#,
        deep("1"),
        deep("\"hunter22\""),
        deep("true")
    );
    let changes = changes(json.as_bytes(), &Redactor::new());
    let text = format!("{changes:?}");
    assert!(!text.contains("hunter22"), "{text}");
}

#[test]
fn html_escapes_are_shown_as_characters() {
    let json = r#"{"resource_changes":[{"address":"a.b","change":{"actions":["create"],"before":null,
            "after":{"v":"\u003cb\u003e \\u003c \u0026"}}}]}"#;
    let changes = changes(json.as_bytes(), &Redactor::new()).unwrap();
    assert_eq!(lines(&changes.planned[0].attributes), [r#"v: - → "<b> \\u003c &""#]);
}

#[test]
fn every_action_is_listed_except_no_op() {
    let resource = |address: &str, actions: &[&str], rest: &Value| {
        let mut resource = json!({"address": address, "change": {"actions": actions, "before": {"x": 1}, "after": {"x": 2}}});
        for (name, value) in rest.as_object().unwrap() {
            let into = if name == "importing" { &mut resource["change"] } else { &mut resource };
            into[name] = value.clone();
        }
        resource
    };
    let none = json!({});
    let plan = json!({"format_version": "1.2",
        "resource_drift": [resource("x.changed", &["update"], &none), resource("x.moved", &["no-op"], &json!({"previous_address": "x.was"}))],
        "resource_changes": [
            resource("x.a", &["create"], &none), resource("x.b", &["update"], &none), resource("x.c", &["delete"], &none),
            resource("x.d", &["create", "delete"], &json!({"action_reason": "replace_because_tainted"})), resource("data.x.e", &["read"], &none),
            resource("x.f", &["forget"], &none), resource("x.g", &["no-op"], &none),
            resource("x.h", &["no-op"], &json!({"previous_address": "x.was"})), resource("x.i", &["no-op"], &json!({"importing": {"id": "1"}})),
            resource("x.j", &["delete"], &json!({"deposed": "00000001"})), resource("x.k", &["create", "forget"], &none)]});
    let changes = read(&plan, &[]);
    let told: Vec<_> = changes
        .planned
        .iter()
        .map(|change| format!("{} {:?} {}", change.address, change.action, change.attributes.len()))
        .collect();
    expect_test::expect![[r"
            x.a Create 1
            x.b Update 1
            x.c Delete 1
            x.d Replace 1
            data.x.e Read 1
            x.f Forget 0
            x.h Nothing 0
            x.i Nothing 1
            x.j (deposed object 00000001) Delete 1
            x.k Replace 1"]]
    .assert_eq(&told.join("\n"));
    assert_eq!(changes.planned[3].reason.as_deref(), Some("it is tainted: its creation failed"));
    let kept = "the old object is forgotten, not destroyed";
    assert_eq!(changes.planned[9].reason.as_deref(), Some(kept));
    assert_eq!(changes.planned[6].previous_address.as_deref(), Some("x.was"));
    assert!(changes.planned[7].imported);
    assert_eq!(changes.planned[7].import_id.as_deref(), Some("\"1\""));
    assert_eq!(lines(&changes.planned[7].attributes), ["x: 2 → 2"]);
    assert_eq!(changes.drift.len(), 1);
}

#[test]
fn import_shows_its_id_and_the_values_that_it_finds() {
    let import = |importing: &Value, after: &Value| {
        let plan = json!({"resource_changes": [{"address": "a.b", "change": {"actions": ["no-op"], "importing": importing,
            "before": after, "after": after, "before_sensitive": {}, "after_sensitive": {"p": true}, "after_unknown": {}}}]});
        let changes = read(&plan, &["hunter22-id"]);
        (changes.planned[0].import_id.clone(), lines(&changes.planned[0].attributes))
    };
    let values = json!({"id": "i-1", "p": "hunter22", "tags": {"a": "b"}, "none": null});
    let (id, found) = import(&json!({"id": "i-1"}), &values);
    assert_eq!(id.as_deref(), Some("\"i-1\""));
    assert_eq!(found, [r#"id: "i-1" → "i-1""#, "p: - → (sensitive)", r#"tags.a: "b" → "b""#]);
    let (id, _) = import(&json!({"identity": {"region": "eu", "id": "i-2"}}), &values);
    assert_eq!(id.as_deref(), Some(r#"{"id":"i-2","region":"eu"}"#));
    assert_eq!(import(&json!({"id": "hunter22-id"}), &values).0.as_deref(), Some("\"***\""));
    assert_eq!(import(&json!({"unknown": true}), &values).0, None);
}

#[test]
fn drift_is_changed_or_gone_and_not_destroyed() {
    let change = |address: &str, actions: &[&str]| json!({"address": address, "change": {"actions": actions, "before": {"x": 1}}});
    let changes = read(
        &json!({"resource_drift": [change("a.changed", &["update"]), change("a.gone", &["delete"])],
            "resource_changes": [change("a.gone", &["delete"])]}),
        &[],
    );
    let actions: Vec<_> = changes.drift.iter().map(|change| change.action).collect();
    assert_eq!(actions, [Action::Changed, Action::Gone]);
    assert_eq!(changes.planned[0].action, Action::Delete);
}

#[test]
fn reason_of_a_replacement_names_what_forces_it() {
    let plan = json!({"resource_changes": [
        {"address": "a.b", "action_reason": "replace_because_cannot_update", "change": {"actions": ["delete", "create"],
            "before": {"ami": 1, "size": 1}, "after": {"ami": 2, "size": 2}, "replace_paths": [["ami"]]}},
        {"address": "a.c[2]", "action_reason": "delete_because_count_index", "change": {"actions": ["delete"], "before": {}}},
        {"address": "a.d[\"hunter22-key\"]", "action_reason": "delete_because_each_key", "change": {"actions": ["delete"], "before": {}}}]});
    let changes = read(&plan, &["hunter22-key"]);
    let reasons: Vec<_> =
        changes.planned.iter().filter_map(|change| change.reason.clone()).collect();
    assert_eq!(
        reasons,
        [
            "ami cannot be changed in place",
            "index [2] is not below `count`",
            "the key [\"***\"] is not in `for_each`",
        ]
    );
}

#[test]
fn actions_are_listed_with_trigger_and_settings() {
    let action = |name: &str, rest: &Value| {
        let mut action = json!({"address": format!("action.x.{name}"), "type": "x", "name": name,
            "config_values": {"command": "hunter22 run", "token": "hunter22-token"}, "config_sensitive": {"token": true},
            "config_unknown": {"at": true}});
        for (name, value) in rest.as_object().unwrap() {
            action[name] = value.clone();
        }
        action
    };
    let trigger = json!({"lifecycle_action_trigger": {"triggering_resource_address": "a.b[0]", "action_trigger_event": "AfterCreate",
        "action_trigger_block_index": 0, "actions_list_index": 0}});
    let plan = json!({"action_invocations": [action("one", &trigger), action("two", &json!({"invoke_action_trigger": {}}))],
        "deferred_action_invocations": [{"reason": "instance_count_unknown", "action_invocation": action("three", &trigger)}]});
    let changes = read(&plan, &["hunter22-token"]);
    let told: Vec<_> = changes
        .actions
        .iter()
        .map(|action| format!("{}: {}", action.address, action.reason.as_deref().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            "action.x.one: after a.b[0] is created",
            "action.x.two: asked for on the command line (`-invoke`)",
            "action.x.three: after a.b[0] is created; deferred to a later plan: instance count unknown",
        ]
    );
    assert_eq!(
        lines(&changes.actions[0].attributes),
        [r#"command: - → "hunter22 run""#, "token: - → (sensitive)", "at: - → (unknown)"]
    );
}

#[test]
fn removed_elements_of_a_list_are_the_only_rows() {
    let list: Vec<_> = (0..100).map(|number| format!("10.0.{number}.0/24")).collect();
    let without: Vec<_> =
        list.iter().filter(|it| !["10.0.10.0/24", "10.0.80.0/24"].contains(&it.as_str())).collect();
    let change = json!({"actions": ["update"], "before": {"l": list}, "after": {"l": without}});
    assert_eq!(
        difference(&change, &[]),
        [r#"l[10]: "10.0.10.0/24" → -"#, r#"l[80]: "10.0.80.0/24" → -"#]
    );
    // Blocks, with one that is changed beside one that is removed and one that is added.
    let block = |port: u16, open: bool| json!({"port": port, "open": open});
    let change = json!({"actions": ["update"],
        "before": {"l": [block(1, true), block(2, true), block(3, true), block(4, true)]},
        "after": {"l": [block(1, true), block(3, false), block(4, true), block(5, true)]},
        "after_unknown": {"l": [{}, {}, {}, {}]}});
    assert_eq!(
        difference(&change, &[]),
        [
            "l[1].open: true → false",
            "l[1].port: 2 → 3",
            "l[2].open: true → -",
            "l[2].port: 3 → -",
            "l[3].open: - → true",
            "l[3].port: - → 5",
        ]
    );
}

#[test]
fn line_that_becomes_several_is_compared_as_lines() {
    let change = json!({"actions": ["update"], "before": {"a": "one", "b": "one\ntwo", "c": "one\r\ntwo"},
        "after": {"a": "one\ntwo", "b": "one", "c": "one\ntwo"}});
    assert_eq!(
        difference(&change, &[]),
        [r#"a: "one" → "one\ntwo""#, r#"b: "one\ntwo" → "one""#, r#"c: "one\r\ntwo" → "one\ntwo""#,]
    );
    let plan = json!({"resource_changes": [{"address": "a.b", "change": change}]});
    let texts = read(&plan, &[]);
    let is_text = |shown: &Option<Shown>| matches!(shown, Some(Shown::Text(_)));
    assert!(texts.planned[0].attributes.iter().all(|it| is_text(&it.before) && is_text(&it.after)));
}

#[test]
fn list_of_changes_is_limited_and_omissions_are_counted() {
    let attributes: serde_json::Map<_, _> =
        (0..400).map(|number| (format!("a{number}"), json!("x".repeat(40)))).collect();
    let long = json!({"v": "ä".repeat(1_000_000)});
    let resource = |number: usize, after: &Value| json!({"address": format!("x.y[{number}]"), "change": {"actions": ["create"], "before": null, "after": after}});
    let mut resources = vec![resource(0, &long)];
    let attributes = Value::Object(attributes);
    resources.extend((1..6000).map(|number| {
        if number < 300 {
            resource(number, &attributes)
        } else {
            resource(number, &json!({"v": 1}))
        }
    }));
    let changes = read(&json!({"format_version": "1.2", "resource_changes": resources}), &[]);
    assert_eq!((changes.planned.len(), changes.left_out), (MAX_RESOURCES, 1000));
    let Some(Shown::Value(text)) = &changes.planned[0].attributes[0].after else { panic!() };
    assert!(text.ends_with("more bytes)") && text.capacity() < 9000, "{}", text.capacity());
    assert_eq!(changes.planned[1].more_attributes, 100);
    let last = changes.planned.last().unwrap();
    assert_eq!((last.attributes.len(), last.more_attributes), (0, 1));
    let size: usize = changes.planned.iter().flat_map(|change| &change.attributes).count();
    assert!(size * 64 < MAX_LIST_SIZE);
}

#[test]
fn outputs_of_a_tool_that_lists_all_as_new_are_not_listed() {
    for (version, expected) in [("0.13.7", 0), ("0.14.11", 1)] {
        let output = json!({"o": {"actions": ["create"], "before": null, "after": "x"}});
        let plan = json!({"format_version": "0.1", "output_changes": output});
        let head = format!("{{\"terraform_version\":\"{version}\",");
        let text = plan.to_string().replacen('{', &head, 1);
        let changes = changes(text.as_bytes(), &Redactor::new()).unwrap();
        assert_eq!(changes.outputs.len(), expected, "{version}");
    }
}
