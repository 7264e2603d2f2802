//! JSON Schemas of files as structural schemas of custom resources.
//!
//! A custom resource wants what an entry of a file says, with the same words; only the form of its keys is that
//! of Kubernetes (`max-log` is `maxLog`). The schema of an entry thus becomes the schema of the resource, and
//! it turns what a resource wants into an entry again. The rules of structural schemas are in the
//! documentation of Kubernetes: each value has one type, and unions and references do not exist.

use serde_json::{Map, Value, json};

/// What a structural schema takes from a JSON Schema as it is.
const KEPT: [&str; 9] = [
    "description",
    "enum",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "type",
];

/// The structural schema of a JSON Schema without references, with the keys of files.
pub(super) fn structural(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else { return any(None) };
    let description = members.get("description");
    for union in ["oneOf", "anyOf"] {
        if let Some(variants) = members.get(union).and_then(Value::as_array) {
            return described(union_of(variants), description);
        }
    }
    let Some(kind) = members.get("type").map(only_type) else { return any(description) };
    let mut found = Map::new();
    for key in KEPT {
        found.extend(members.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    found.insert("type".to_owned(), kind.clone());
    if let Some(Value::Object(properties)) = members.get("properties") {
        let properties = properties.iter().map(|(name, of)| (name.clone(), structural(of)));
        found.insert("properties".to_owned(), Value::Object(properties.collect()));
        found.extend(members.get("required").map(|names| ("required".to_owned(), names.clone())));
    } else if kind == "object" {
        let patterns = members.get("patternProperties").and_then(Value::as_object);
        let of_pattern = patterns.and_then(|patterns| patterns.values().next());
        let values = of_pattern.or_else(|| members.get("additionalProperties"));
        found.insert(
            "additionalProperties".to_owned(),
            values.map_or_else(|| any(None), structural),
        );
    }
    if let Some(items) = members.get("items") {
        found.insert("items".to_owned(), structural(items));
    }
    Value::Object(found)
}

/// One of `variants`.
fn union_of(variants: &[Value]) -> Value {
    let variants: Vec<&Value> =
        variants.iter().filter(|variant| variant["type"] != "null").collect();
    match &variants[..] {
        [only] => structural(only),
        // Words.
        all if all.iter().all(|variant| variant.get("const").is_some()) => {
            let words: Vec<&Value> = all.iter().map(|variant| &variant["const"]).collect();
            json!({"type": "string", "enum": words})
        }
        // Objects with one key, which says which one it is.
        all if all.iter().all(|variant| variant.get("properties").is_some()) => {
            let properties = all.iter().flat_map(|variant| {
                let properties = structural(variant)["properties"].take();
                let Value::Object(properties) = properties else { return Map::new() };
                let description = variant.get("description");
                let named = properties.into_iter();
                named.map(|(name, of)| (name, described(of, description))).collect()
            });
            let properties: Map<String, Value> = properties.collect();
            json!({"type": "object", "minProperties": 1, "maxProperties": 1, "properties": properties})
        }
        _ => any(None),
    }
}

/// The type that is not `null`. A resource leaves out an optional key.
fn only_type(kind: &Value) -> Value {
    let of_list = kind.as_array().and_then(|all| all.iter().find(|kind| *kind != "null"));
    of_list.unwrap_or(kind).clone()
}

/// Any value.
fn any(description: Option<&Value>) -> Value {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
    described(any, description)
}

/// `schema` with a description, which says more than its own.
fn described(mut schema: Value, description: Option<&Value>) -> Value {
    if let Some(description) = description {
        schema["description"] = description.clone();
    }
    schema
}

/// The structural schema with the keys of resources.
pub(super) fn with_resource_keys(schema: &Value) -> Value {
    let mut keys = Vec::new();
    collect_keys(schema, &mut keys);
    renamed(schema, &keys)
}

fn renamed(schema: &Value, keys: &[&str]) -> Value {
    let mut found = schema.clone();
    let Some(members) = found.as_object_mut() else { return found };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        let own = std::mem::take(properties).into_iter();
        *properties = own.map(|(name, of)| (resource_key(&name), renamed(&of, keys))).collect();
    }
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text_with_resource_keys(text, keys);
    }
    if let Some(Value::Array(names)) = members.get_mut("required") {
        for name in names {
            *name = json!(name.as_str().map(resource_key));
        }
    }
    for nested in ["additionalProperties", "items"] {
        if let Some(of) = members.get_mut(nested) {
            *of = renamed(of, keys);
        }
    }
    found
}

/// The value with the keys of files. `schema` has them too. Names that people choose stay as they are.
pub(super) fn with_file_keys(schema: &Value, value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let properties = schema["properties"].as_object();
            let renamed = members.into_iter().map(|(key, value)| {
                let known =
                    properties.into_iter().flatten().find(|(name, _)| resource_key(name) == key);
                let Some((name, of)) = known else {
                    return (key, with_file_keys(&schema["additionalProperties"], value));
                };
                (name.clone(), with_file_keys(of, value))
            });
            Value::Object(renamed.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter().map(|item| with_file_keys(&schema["items"], item));
            Value::Array(items.collect())
        }
        other => other,
    }
}

/// A message with the keys of resources: `` `token-file` `` becomes `` `tokenFile` ``.
pub(super) fn message_with_resource_keys(schema: &Value, message: &str) -> String {
    let mut keys = Vec::new();
    collect_keys(schema, &mut keys);
    text_with_resource_keys(message, &keys)
}

fn text_with_resource_keys(text: &str, keys: &[&str]) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| {
        let is_key = |word: &&str| keys.contains(word);
        if index % 2 == 0 {
            return part.to_owned();
        }
        // `webhook.secret-file`, and `strategy: plan-only`, whose value is not a key.
        let (path, rest) =
            part.split_once(':').map_or((part, ""), |(path, _)| (path, &part[path.len()..]));
        let words = path.split('.').map(|word| match Some(word).filter(is_key) {
            Some(word) => resource_key(word),
            None => word.to_owned(),
        });
        format!("{}{rest}", words.collect::<Vec<_>>().join("."))
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The keys of a schema whose form differs.
fn collect_keys<'a>(schema: &'a Value, keys: &mut Vec<&'a str>) {
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        if name.contains('-') {
            keys.push(name);
        }
        collect_keys(of, keys);
    }
    for nested in ["additionalProperties", "items"] {
        if let Some(of) = schema.get(nested) {
            collect_keys(of, keys);
        }
    }
}

/// The form of a key in resources.
fn resource_key(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        text.chars().chain(first).chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_form_of_kubernetes_and_names_of_people_stay() {
        let schema = structural(&json!({"type": "object", "properties": {
            "max-log": {"type": ["string", "null"]},
            "variables": {"type": "object", "patternProperties": {"^.+$": true}},
            "stages": {"type": "array", "items": {"type": "object", "properties": {"source-commit": true}}},
            "adapter": {"oneOf": [
                {"type": "object", "properties": {"gitlab-ci": {"type": "object", "properties": {"token-file": {"type": "string"}}}}},
                {"type": "object", "properties": {"jenkins": {"type": "object", "properties": {}}}},
            ]},
        }}));
        let wanted = json!({
            "maxLog": "1MiB",
            "variables": {"max-log": {"maxLog": 1}, "maxLog": 2},
            "stages": [{"sourceCommit": ["$.a"]}],
            "adapter": {"gitlabCi": {"tokenFile": "/a"}},
            "otherKey": 1,
        });
        let entry = json!({
            "max-log": "1MiB",
            "variables": {"max-log": {"maxLog": 1}, "maxLog": 2},
            "stages": [{"source-commit": ["$.a"]}],
            "adapter": {"gitlab-ci": {"token-file": "/a"}},
            "otherKey": 1,
        });
        assert_eq!(with_file_keys(&schema, wanted), entry);
        let of_resource = with_resource_keys(&schema);
        assert_eq!(of_resource["properties"]["maxLog"]["type"], "string");
        let adapter = &of_resource["properties"]["adapter"];
        assert_eq!(adapter["properties"]["gitlabCi"]["properties"]["tokenFile"]["type"], "string");
        assert_eq!((&adapter["minProperties"], &adapter["maxProperties"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn messages_name_the_keys_of_resources() {
        let schema = structural(&json!({"type": "object", "properties": {
            "webhook": {"type": "object", "properties": {"secret-file": {"type": "string"}}},
        }}));
        for (message, expected) in [
            ("`webhook.secret-file` is wrong", "`webhook.secretFile` is wrong"),
            ("`other-key` and secret-file", "`other-key` and secret-file"),
            ("`secret-file: secret-file`", "`secretFile: secret-file`"),
        ] {
            assert_eq!(message_with_resource_keys(&schema, message), expected);
        }
    }
}
