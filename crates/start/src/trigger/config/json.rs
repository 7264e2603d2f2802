//! Parses `ci_config`, the registry's JSON.
//!
//! Unknown keys are tolerated, because a newer registry may send more; a warning names each, because it may
//! be a typing error. A known key with a value that is not valid is an error with the key's name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ci_config::{CiConfig, check_input_name, parse_url, value_error};
use super::{ConfigError, Event};
use crate::trigger::CredentialReference;
use butler_base::error::visible;
use butler_base::similar::closest;

/// The known keys.
const KEYS: [&str; 13] = [
    "provider",
    "url",
    "repository",
    "workflowFile",
    "ref",
    "event",
    "appId",
    "installationId",
    "job",
    "user",
    "credentials",
    "apiCredentials",
    "inputs",
];

impl CiConfig {
    /// Parses the JSON. Adds a warning for each unknown key.
    ///
    /// # Errors
    /// If the text is not a JSON object, or the value of a key is not valid.
    pub fn parse(text: &[u8], warnings: &mut Vec<String>) -> Result<Self, ConfigError> {
        let object: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| ConfigError::Syntax(Some(error)))?;
        for key in object.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let near = closest(&camel_case(key), KEYS);
            let near = near.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
            let key: String = visible(key).take(60).collect();
            warnings.push(format!("unknown key `{key}` in the CI configuration{near}"));
        }
        let reader = Fields(&object);
        Ok(Self {
            provider: reader.text("provider")?,
            url: reader.text("url")?.map(|text| parse_url(&text)).transpose()?,
            repository: reader.word("repository")?,
            workflow_file: reader.word("workflowFile")?,
            git_ref: reader.text("ref")?,
            event: reader
                .text("event")?
                .map(|text| {
                    Event::parse(&text).ok_or_else(|| {
                        value_error(
                            "event",
                            "is neither `workflow_dispatch` nor `repository_dispatch`",
                        )
                    })
                })
                .transpose()?,
            app_id: reader.word("appId")?,
            installation_id: reader.word("installationId")?,
            job: reader.text("job")?,
            user: reader.text("user")?,
            credentials: reader.credentials("credentials")?,
            api_credentials: reader.credentials("apiCredentials")?,
            inputs: reader.inputs()?,
        })
    }
}

/// `workflow_file` as `workflowFile`.
fn camel_case(key: &str) -> String {
    let mut words = key.split(['_', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut characters = word.chars();
        name.extend(characters.next().map(|it| it.to_ascii_uppercase()));
        name.push_str(characters.as_str());
        name
    })
}

/// Reads the fields of an object. `null` is treated as a missing field.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn present(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Err(value_error(key, "is empty")),
            Some(Value::String(text)) if text.chars().any(char::is_control) => {
                Err(value_error(key, "holds a control character"))
            }
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(value_error(key, &format!("is {}, not a string", type_name(other)))),
        }
    }

    /// A string, or a number as a string.
    fn word(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.present(key) {
            Some(Value::Number(number)) if number.is_u64() => Ok(Some(number.to_string())),
            _ => self.text(key),
        }
    }

    fn credentials(&self, key: &'static str) -> Result<Option<CredentialReference>, ConfigError> {
        let Some(found) = self.present(key) else { return Ok(None) };
        let object = found
            .as_object()
            .ok_or_else(|| value_error(key, &format!("is {}, not an object", type_name(found))))?;
        let fields = Fields(object);
        let part = |name: &'static str| {
            fields.text(name).map_err(|error| match error {
                ConfigError::Value { problem, .. } => {
                    value_error(key, &format!("has a `{name}` that {problem}"))
                }
                other => other,
            })
        };
        let source = part("source")?;
        let reference = part("ref")?.ok_or_else(|| value_error(key, "has no `ref`"))?;
        CredentialReference::from_config(source.as_deref(), &reference, part("key")?)
            .map(Some)
            .map_err(|problem| value_error(key, &problem))
    }

    fn inputs(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let Some(found) = self.present("inputs") else { return Ok(BTreeMap::new()) };
        let object = found.as_object().ok_or_else(|| {
            value_error("inputs", &format!("is {}, not an object", type_name(found)))
        })?;
        let pair = |(name, given): (&String, &Value)| {
            check_input_name(name)?;
            let text = match given {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => given.to_string(),
                other => {
                    let problem =
                        format!("has `{name}`, which is {}, not a string", type_name(other));
                    return Err(value_error("inputs", &problem));
                }
            };
            Ok((name.clone(), text))
        };
        object.iter().map(pair).collect()
    }
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(CiConfig, Vec<String>), String> {
        let mut warnings = Vec::new();
        let config = CiConfig::parse(text.as_bytes(), &mut warnings);
        config.map(|config| (config, warnings)).map_err(|error| butler_base::error::chain(&error))
    }

    #[test]
    fn registry_configuration_is_parsed() {
        let (config, warnings) = parse(
            r#"{"provider": "github-actions", "repository": "org/infra", "workflowFile": "butler-run.yml",
            "credentials": {"source": "secret", "ref": "butler-system/github-app-key", "key": "private-key"},
            "appId": 12345, "inputs": {"operation": "plan", "count": 3}, "url": null}"#,
        )
        .unwrap();
        assert_eq!(config.repository.as_deref(), Some("org/infra"));
        assert_eq!(config.app_id.as_deref(), Some("12345"));
        assert_eq!(config.inputs["count"], "3");
        assert_eq!(
            config.credentials.unwrap().to_string(),
            "butler-system/github-app-key:private-key"
        );
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn unknown_keys_are_tolerated_and_errors_name_the_key() {
        let (_, warnings) = parse(r#"{"workflow_file": "x", "later": {"a": 1}}"#).unwrap();
        assert_eq!(
            warnings,
            [
                "unknown key `later` in the CI configuration",
                "unknown key `workflow_file` in the CI configuration; did you mean `workflowFile`?",
            ]
        );
        for (text, message) in [
            ("[]", "not a JSON object"),
            (r#"{"repository": true}"#, "`repository` of the CI configuration is a boolean"),
            (r#"{"job": ""}"#, "`job` of the CI configuration is empty"),
            (r#"{"event": "push"}"#, "`event` of the CI configuration is neither"),
            (
                r#"{"credentials": "ghp_hunter2"}"#,
                "`credentials` of the CI configuration is a string",
            ),
            (r#"{"credentials": {"key": "a"}}"#, "has no `ref`"),
            (r#"{"credentials": {"source": "vault", "ref": "a"}}"#, "`source`"),
            (r#"{"inputs": {"run_id": "7"}}"#, "`run_id`, which the runner sends itself"),
            (r#"{"inputs": {"a b": "7"}}"#, "not a word"),
            (r#"{"url": "https://user:hunter2@example.com"}"#, "holds a user name or password"),
            (r#"{"url": "ftp://example.com"}"#, "neither http nor https"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
