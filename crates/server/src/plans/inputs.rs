//! What a saved plan was made from, without the values: if one of them changes, the plan no longer says
//! what an apply would do.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

use super::credentials::is_credential;
use super::keys::{KeyError, PlanKey, PlanKeys};
use crate::model::StalePlan;

/// The kind of an environment variable, in front of its name.
const ENVIRONMENT: &str = "environment variable";

/// The tool and the values of a run's configuration. Values are HMACs with a key that only the server
/// has, so that a short secret cannot be guessed from them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanInputs {
    /// The id of the key.
    key: String,
    /// The version that the configuration names.
    tool: Option<String>,
    /// By name: `variable region`, `environment variable AWS_PROFILE`, `backend`.
    values: BTreeMap<String, Input>,
}

/// One value.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Input {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    secret: bool,
    hmac: String,
}

impl PlanInputs {
    /// What this configuration of a run contains.
    ///
    /// # Errors
    /// If the key file cannot be used.
    pub fn of(configuration: &Value, keys: &PlanKeys) -> Result<Self, KeyError> {
        Ok(Self::with(configuration, &keys.newest()?))
    }

    fn with(configuration: &Value, key: &PlanKey) -> Self {
        let mut values = BTreeMap::new();
        for (field, kind) in [("variables", "variable"), ("envVars", ENVIRONMENT)] {
            for (name, entry) in configuration[field].as_object().into_iter().flatten() {
                let secret = entry["sensitive"] == true;
                let hmac = hmac(key, &entry["value"]);
                values.insert(format!("{kind} `{name}`"), Input { secret, hmac });
            }
        }
        let backend = &configuration["stateBackend"];
        if !backend.is_null() {
            let hmac = hmac(key, backend);
            values.insert("backend".to_owned(), Input { secret: false, hmac });
        }
        let tool = configuration["terraformVersion"].as_str().map(str::to_owned);
        Self { key: hex::encode(key.id()), tool, values }
    }

    /// The first difference of `configuration`, as a kind and a sentence. `None` if there is no difference. Credentials in
    /// the environment may differ, also those that `credentials` names.
    ///
    /// # Errors
    /// If the key file cannot be used.
    pub fn difference(
        &self,
        configuration: &Value,
        credentials: &[&str],
        keys: &PlanKeys,
    ) -> Result<Option<(StalePlan, String)>, KeyError> {
        let mut id = [0; 8];
        let key = match hex::decode_to_slice(&self.key, &mut id) {
            Ok(()) => keys.find(id)?,
            Err(_) => None,
        };
        let Some(key) = key else {
            let text = "the key with which it was saved is not in the key file any more";
            return Ok(Some((StalePlan::File, text.to_owned())));
        };
        let now = Self::with(configuration, &key);
        if now.tool != self.tool {
            let name = |tool: &Option<String>| {
                tool.as_ref().map_or("no version".to_owned(), |tool| format!("`{tool}`"))
            };
            let (before, now) = (name(&self.tool), name(&now.tool));
            let text = format!("`tool` was {before} when it was made, and is {now} now");
            return Ok(Some((StalePlan::Tool, text)));
        }
        let names = self.values.keys().chain(now.values.keys());
        let counts = |name: &&String| match name.strip_prefix(ENVIRONMENT) {
            Some(quoted) => !is_credential(quoted.trim_matches([' ', '`']), credentials),
            None => true,
        };
        let changed = names.filter(counts).filter(|name| {
            let hmac = |inputs: &Self| inputs.values.get(*name).map(|input| input.hmac.clone());
            hmac(self) != hmac(&now)
        });
        let Some(name) = changed.min() else { return Ok(None) };
        let is_secret = [self, &now]
            .iter()
            .any(|inputs| inputs.values.get(name).is_some_and(|input| input.secret));
        let kind = if is_secret { StalePlan::Secrets } else { StalePlan::Variables };
        let secret = if is_secret { "secret " } else { "" };
        Ok(Some((kind, format!("the {secret}{name} has changed since it was made"))))
    }
}

fn hmac(key: &PlanKey, value: &Value) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).expect("any length is valid");
    // Not with the bytes that encrypt anything: each use of a key has a text of its own in front.
    mac.update(b"butler-plan-inputs-1\n");
    mac.update(value.to_string().as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration() -> Value {
        json!({
            "terraformVersion": "1.11.4",
            "variables": {"size": {"value": 1}, "password": {"value": "precious", "sensitive": true}},
            "envVars": {
                "AWS_PROFILE": {"value": "prod"},
                "AWS_SESSION_TOKEN": {"value": "expires", "sensitive": true},
                "ACME_LOGIN": {"value": "expires"},
            },
            "stateBackend": {"type": "s3", "config": {"bucket": "a"}},
            "callbacks": {"statusUrl": "/1"},
        })
    }

    #[test]
    fn each_changed_value_makes_a_plan_stale_and_is_named_without_its_content() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("plan.key");
        let keys = PlanKeys::at_or_new(&path).unwrap();
        let inputs = PlanInputs::of(&configuration(), &keys).unwrap();
        let stored = serde_json::to_string(&inputs).unwrap();
        assert!(!stored.contains("precious") && !stored.contains("prod"), "{stored}");
        let inputs: PlanInputs = serde_json::from_str(&stored).unwrap();
        let changed = |pointer: &str, value: Value| {
            let mut configuration = configuration();
            *configuration.pointer_mut(pointer).unwrap() = value;
            inputs.difference(&configuration, &["ACME_LOGIN"], &keys).unwrap()
        };
        // Another attempt has other addresses.
        assert_eq!(changed("/callbacks/statusUrl", json!("/2")), None);
        // Credentials have been renewed.
        for name in ["AWS_SESSION_TOKEN", "ACME_LOGIN"] {
            assert_eq!(changed(&format!("/envVars/{name}/value"), json!("new")), None);
            assert_eq!(changed(&format!("/envVars/{name}"), json!(null)), None);
        }
        for (pointer, value, kind, name) in [
            ("/terraformVersion", json!("1.12.0"), StalePlan::Tool, "`1.11.4` when it was made"),
            ("/variables/size/value", json!(2), StalePlan::Variables, "variable `size`"),
            ("/variables", json!({}), StalePlan::Secrets, "secret variable `password`"),
            (
                "/variables/password/value",
                json!("other"),
                StalePlan::Secrets,
                "secret variable `password`",
            ),
            ("/envVars/AWS_PROFILE/value", json!("b"), StalePlan::Variables, "`AWS_PROFILE`"),
            ("/stateBackend/config/bucket", json!("b"), StalePlan::Variables, "backend"),
        ] {
            let (found, text) = changed(pointer, value).unwrap();
            assert_eq!(found, kind, "{text}");
            assert!(text.contains(name) && !text.contains("other"), "{text}");
        }
        // After a rotation the old key still compares; without it nothing can.
        let old = std::fs::read_to_string(&path).unwrap();
        let new = "ab".repeat(32);
        std::fs::write(&path, format!("{new}\n{old}")).unwrap();
        assert_eq!(changed("/callbacks/statusUrl", json!("/2")), None);
        std::fs::write(&path, new).unwrap();
        let (kind, text) = changed("/callbacks/statusUrl", json!("/2")).unwrap();
        assert_eq!(kind, StalePlan::File, "{text}");
    }
}
