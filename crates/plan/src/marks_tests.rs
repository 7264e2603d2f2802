//! Tests of the values that each kind of mark hides.

use serde_json::{Value, json};

use super::*;
use crate::clean::{Content, PlanCopy};
use butler_base::secret::Redactor;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn written(write: impl FnOnce(&mut PlanCopy<'_, &mut Vec<u8>>)) -> Value {
    let (redactor, mut text) = (Redactor::new(), Vec::new());
    write(&mut PlanCopy::new(Content::Clean, &redactor, &mut text));
    serde_json::from_slice(&text).unwrap()
}

/// `value` without what `marks` hide.
fn mask(value: &Value, marks: &Value) -> Value {
    written(|target| visit_marked(&raw(value), &raw(marks), None, 0, target).unwrap())
}

fn clean(piece: &Value) -> Value {
    written(|target| target.piece("", &raw(piece)).unwrap())
}

#[test]
fn marks_hide_the_values_at_their_position() {
    let value = json!({"a": "x", "b": {"c": [1, "y"], "d": null}, "e": [{"f": 2}, {"f": 3}]});
    for (marks, expected) in [
        (json!(true), json!("***")),
        (json!(false), value.clone()),
        (json!({}), value.clone()),
        (json!({"b": true}), json!({"a": "x", "b": "***", "e": [{"f": 2}, {"f": 3}]})),
        (
            json!({"a": true, "b": {"c": [false, true], "d": true}, "gone": true}),
            json!({"a": "***", "b": {"c": [1, "***"], "d": null}, "e": [{"f": 2}, {"f": 3}]}),
        ),
        (
            json!({"e": [{}, {"f": true}]}),
            json!({"a": "x", "b": value["b"], "e": [{"f": 2}, {"f": "***"}]}),
        ),
        (json!({"e": [true]}), json!({"a": "x", "b": value["b"], "e": "***"})),
        (json!({"a": {"deep": true}}), {
            let mut expected = value.clone();
            expected["a"] = json!("***");
            expected
        }),
        (json!([true]), json!("***")),
    ] {
        assert_eq!(mask(&value, &marks), expected, "{marks}");
    }
    assert_eq!(mask(&Value::Null, &json!(true)), Value::Null);
}

#[test]
fn piece_without_effective_marks_hides_nothing() {
    for (json, expected) in [
        (r#"{"after":{"v":true},"before_sensitive":false,"after_sensitive":{"l":[{},{}]}}"#, true),
        (
            r#"{"values":{"v":"is sensitive","w":"\u003csensitive\": true"},"sensitive_values":{}}"#,
            true,
        ),
        (r#"{"after_sensitive":{"l":[{},{"v":true}]},"after":1}"#, false),
        (r#"{"sensitive_values":{"v":true},"values":{"v":1}}"#, false),
        (r#"{"sensitive" : true,"value":1}"#, false),
        (r#"{"\u0073ensitive":true,"value":1}"#, false),
        (r#"{"before\u005fsensitive":true,"before":1}"#, false),
        ("1", true),
    ] {
        let piece = RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(hides_nothing(&piece), expected, "{json}");
    }
}

#[test]
fn every_kind_of_piece_is_redacted_by_its_own_marks() {
    for (piece, expected) in [
        (
            json!({"address": "x.a", "change": {"actions": ["update"], "before": {"v": "s", "sensitive": true},
                "after": "s", "before_sensitive": {"v": true}, "after_sensitive": true}}),
            json!({"address": "x.a", "change": {"actions": ["update"], "before": {"v": "***", "sensitive": true},
                "after": "*** (changed)", "before_sensitive": {"v": true}, "after_sensitive": true}}),
        ),
        (
            json!({"actions": ["create"], "before": null, "after": ["s"],
                "before_sensitive": true, "after_sensitive": true}),
            json!({"actions": ["create"], "before": null, "after": "***",
                "before_sensitive": true, "after_sensitive": true}),
        ),
        (
            json!({"reason": "x", "resource_change": {"change": {"before_identity": {"id": "s"},
                "before_identity_sensitive": {"id": true}}}}),
            json!({"reason": "x", "resource_change": {"change": {"before_identity": {"id": "***"},
                "before_identity_sensitive": {"id": true}}}}),
        ),
        (
            json!({"values": {"v": ["s", "o"]}, "sensitive_values": {"v": [true, false]}}),
            json!({"values": {"v": ["***", "o"]}, "sensitive_values": {"v": [true, false]}}),
        ),
        (
            json!({"config_values": {"v": "s"}, "config_sensitive": {"v": true}}),
            json!({"config_values": {"v": "***"}, "config_sensitive": {"v": true}}),
        ),
        (
            json!({"sensitive": true, "type": "string", "value": "s"}),
            json!({"sensitive": true, "type": "string", "value": "***"}),
        ),
        (
            json!({"sensitive": false, "value": {"sensitive": true, "value": "o"}}),
            json!({"sensitive": false, "value": {"sensitive": true, "value": "o"}}),
        ),
        (
            json!({"sensitive": true, "expression": {"constant_value": "s"}}),
            json!({"sensitive": true, "expression": {"constant_value": "***"}}),
        ),
        (
            json!({"source": "./m", "expressions": {"p": {"constant_value": "s"}, "q": {"constant_value": "o"}},
                "module": {"variables": {"p": {"default": "s", "sensitive": true}, "q": {"default": "o"},
                    "p_sensitive": {"default": true}},
                    "module_calls": {"n": {"expressions": {"r": {"constant_value": ["s"]}},
                        "module": {"variables": {"r": {"sensitive": true}}}}}}}),
            json!({"source": "./m", "expressions": {"p": {"constant_value": "***"}, "q": {"constant_value": "o"}},
                "module": {"variables": {"p": {"default": "***", "sensitive": true}, "q": {"default": "o"},
                    "p_sensitive": {"default": true}},
                    "module_calls": {"n": {"expressions": {"r": {"constant_value": "***"}},
                        "module": {"variables": {"r": {"sensitive": true}}}}}}}),
        ),
    ] {
        assert_eq!(clean(&piece), expected);
    }
}

#[test]
fn deeply_nested_values_are_hidden_without_recursion() {
    let deep = |inner: &str, levels: usize| {
        let text = format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels));
        RawValue::from_string(text).unwrap()
    };
    let (redactor, mut text) = (Redactor::new(), Vec::new());
    let (value, marks) = (deep("\"hunter22\"", 100_000), deep("true", 100_000));
    visit_marked(&value, &marks, None, 0, &mut PlanCopy::new(Content::Clean, &redactor, &mut text))
        .unwrap();
    let levels = "[".repeat(MAX_DEPTH);
    assert_eq!(
        String::from_utf8_lossy(&text),
        format!("{levels}\"***\"{}", levels.replace('[', "]"))
    );
    text.clear();
    let change = format!(r#"{{"before":{value},"before_sensitive":{{"no":true}},"x":{value}}}"#);
    let change = RawValue::from_string(change).unwrap();
    PlanCopy::new(Content::Clean, &redactor, &mut text).piece("", &change).unwrap();
    assert!(text.len() > 200_000, "unmarked values remain at any depth");
}

/// A random value with random marks: what is left of it, and every leaf under a mark.
fn random(random: &mut fastrand::Rng, depth: usize, hidden: &mut Vec<String>) -> [Value; 3] {
    if random.u8(..6) == 0 {
        let mut inside = Vec::new();
        let [value, ..] = self::random(random, depth + 1, &mut inside);
        let leaves = value.to_string();
        hidden.extend(
            leaves
                .split(|c: char| !c.is_alphanumeric())
                .filter(|leaf| leaf.starts_with("leaf"))
                .map(str::to_owned),
        );
        return [value, json!("***"), json!(true)];
    }
    match random.u8(..if depth > 5 { 2 } else { 4 }) {
        0 => {
            let leaf = json!(format!("leaf{}\u{20ac}\"", random.u64(..)));
            [leaf.clone(), leaf, json!(false)]
        }
        1 => {
            let leaf = json!(random.i64(..));
            [leaf.clone(), leaf, json!(false)]
        }
        2 => {
            let parts: Vec<_> =
                (0..random.usize(..4)).map(|_| self::random(random, depth + 1, hidden)).collect();
            [0, 1, 2].map(|part| parts.iter().map(|parts| parts[part].clone()).collect())
        }
        _ => {
            let mut objects = [json!({}), json!({}), json!({})];
            for name in ["value", "sensitive", "a_sensitive", "a"].iter().take(random.usize(..5)) {
                let parts = self::random(random, depth + 1, hidden);
                for (object, part) in objects.iter_mut().zip(parts) {
                    // Terraform omits marks without effect.
                    if part != json!(false) {
                        object[name] = part;
                    }
                }
            }
            objects
        }
    }
}

#[test]
fn marked_values_are_redacted_and_all_others_are_unchanged() {
    let mut generator = fastrand::Rng::with_seed(11);
    let mut marked = 0;
    for _ in 0..2000 {
        let mut hidden = Vec::new();
        let [value, expected, marks] = random(&mut generator, 0, &mut hidden);
        let change = json!({"change": {"before": value, "before_sensitive": marks}});
        let cleaned = clean(&change);
        assert_eq!(cleaned, json!({"change": {"before": expected, "before_sensitive": marks}}));
        let text = cleaned.to_string();
        assert!(!hidden.iter().any(|leaf| text.contains(leaf)), "{text}");
        marked += hidden.len();
    }
    assert!(marked > 500, "{marked}");
}

/// The part `after` of a cleaned change.
fn cleaned_after(before: &Value, after: &Value, marks: &Value) -> Value {
    let redactor = Redactor::new();
    redactor.register(&["hunter22".into(), "hunter23".into()]);
    let change = json!({"change": {
        "before": before, "after": after, "before_sensitive": marks, "after_sensitive": marks,
    }});
    let mut text = Vec::new();
    PlanCopy::new(Content::Clean, &redactor, &mut text).piece("", &raw(&change)).unwrap();
    let cleaned: Value = serde_json::from_slice(&text).unwrap();
    cleaned["change"]["after"].clone()
}

#[test]
fn hidden_value_that_a_change_replaces_is_told_from_one_that_stays() {
    let changed = "*** (changed)";
    for (before, after, marks, expected) in [
        (json!("a"), json!("b"), json!(true), json!(changed)),
        (json!("a"), json!("a"), json!(true), json!("***")),
        // Created, and removed.
        (json!(null), json!("a"), json!(true), json!("***")),
        (json!("a"), json!(null), json!(true), json!(null)),
        (
            json!({"p": "a", "q": "b", "r": ["c", "d"], "s": 1}),
            json!({"p": "x", "q": "b", "r": ["c", "y"], "s": 2, "t": "new"}),
            json!({"p": true, "q": true, "r": [true, true], "t": true}),
            json!({"p": changed, "q": "***", "r": ["***", changed], "s": 2, "t": "***"}),
        ),
        (json!(["a"]), json!(["a", "b"]), json!([true, true]), json!(["***", "***"])),
        (json!({"p": "a"}), json!({"p": ["b"]}), json!({"p": true}), json!({"p": changed})),
        // A whole object is one value.
        (json!({"p": {"a": 1}}), json!({"p": {"a": 2}}), json!({"p": true}), json!({"p": changed})),
        // Secrets without marks.
        (
            json!({"script": "x hunter22", "list": [{"v": "hunter22"}]}),
            json!({"script": "x hunter23", "list": [{"v": "hunter23"}, {"v": "hunter22"}]}),
            json!({}),
            json!({"script": "x *** (changed)", "list": [{"v": changed}, {"v": "***"}]}),
        ),
        (json!({"v": "y hunter22"}), json!({"v": "x hunter22"}), json!({}), json!({"v": "x ***"})),
        (json!({"v": "hunter22"}), json!({"v": "hunter22"}), json!({}), json!({"v": "***"})),
        (json!({"v": "a"}), json!({"v": "b"}), json!({}), json!({"v": "b"})),
    ] {
        assert_eq!(cleaned_after(&before, &after, &marks), expected, "{before} {after} {marks}");
    }
}

#[test]
fn change_of_a_hidden_value_is_listed_from_the_clean_copy() {
    let plan = json!({"format_version": "1.2",
        "resource_changes": [{"address": "a.b", "change": {"actions": ["delete", "create"],
            "before": {"triggers": ["one-secret"]}, "after": {"triggers": ["two-secret"]},
            "before_sensitive": {"triggers": [true]}, "after_sensitive": {"triggers": [true]},
            "replace_paths": [["triggers", 0]]}}],
        "output_changes": {"login": {"actions": ["update"], "before": "one-secret", "after": "two-secret",
            "before_sensitive": true, "after_sensitive": true}},
    });
    let text = serde_json::to_vec(&plan).unwrap();
    let read = |text: &[u8]| {
        let mut into = Vec::new();
        let copied =
            crate::reading::for_tests::clean(text, &BTreeSet::new(), &Redactor::new(), &mut into);
        let changes = copied.unwrap().changes.unwrap();
        (changes, into)
    };
    let (of_plan, copy) = read(&text);
    let (of_copy, _) = read(&copy);
    assert_eq!(of_plan.outputs.len(), 1);
    assert_eq!(of_plan.planned[0].attributes.len(), 1);
    assert!(of_plan.planned[0].attributes[0].forces_replacement);
    assert_eq!(format!("{of_copy:?}"), format!("{of_plan:?}"));
}
