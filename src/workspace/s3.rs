//! Translates settings of the s3 backend between the names before and from version 1.6.
//!
//! Terraform 1.6 and `OpenTofu` 1.6 moved the endpoints into one `endpoints` setting and renamed
//! `force_path_style`; both deprecate the old names, and versions before know no others.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use semver::Version;
use serde_json::value::RawValue;

/// The flat settings before 1.6 and their keys in `endpoints`.
const ENDPOINTS: [(&str, &str); 4] = [
    ("endpoint", "s3"),
    ("iam_endpoint", "iam"),
    ("sts_endpoint", "sts"),
    ("dynamodb_endpoint", "dynamodb"),
];

/// The same setting before and from 1.6.
const PATH_STYLE: (&str, &str) = ("force_path_style", "use_path_style");

/// A setting that versions before 1.6.1 refuse; all that it skips came with 1.6.
const SKIP_ACCOUNT: &str = "skip_requesting_account_id";

/// The settings by the names that `version` knows. Where both names are given, the one that
/// `version` knows wins. Values are JSON text.
pub(super) fn translate(
    settings: &[(&str, &SecretString)],
    version: &Version,
) -> Vec<(String, SecretString)> {
    let release = (version.major, version.minor, version.patch);
    if release < (1, 6, 0) { to_flat(settings) } else { to_nested(settings, release) }
}

fn to_nested(
    settings: &[(&str, &SecretString)],
    release: (u64, u64, u64),
) -> Vec<(String, SecretString)> {
    let mut translated = Vec::new();
    // Those that are given in the new form come last and win.
    let mut endpoints: BTreeMap<String, SecretString> = BTreeMap::new();
    for (name, value) in settings {
        let flat = ENDPOINTS.iter().find(|(flat, _)| flat == name);
        if let Some((_, key)) = flat {
            endpoints.insert((*key).to_owned(), (*value).clone());
        } else if *name == PATH_STYLE.0 {
            put(&mut translated, PATH_STYLE.1, value, settings);
        } else if !(*name == SKIP_ACCOUNT && release < (1, 6, 1)) {
            translated.push(((*name).to_owned(), (*value).clone()));
        }
    }
    if endpoints.is_empty() {
        return translated;
    }
    if let Some(position) = translated.iter().position(|(name, _)| name == "endpoints") {
        match object(&translated[position].1) {
            Some(given) => endpoints.extend(given),
            // Not what it should be: Terraform says so.
            None => return translated,
        }
        translated.remove(position);
    }
    let members: Vec<_> = endpoints
        .iter()
        .map(|(key, value)| format!("{}:{}", serde_json::json!(key), value.expose_secret()))
        .collect();
    translated.push(("endpoints".to_owned(), format!("{{{}}}", members.join(",")).into()));
    translated
}

fn to_flat(settings: &[(&str, &SecretString)]) -> Vec<(String, SecretString)> {
    let mut translated = Vec::new();
    for (name, value) in settings {
        if *name == PATH_STYLE.1 {
            put(&mut translated, PATH_STYLE.0, value, settings);
        } else if *name == "endpoints"
            && let Some(endpoints) = object(value)
        {
            for (flat, key) in ENDPOINTS {
                if let Some(value) = endpoints.get(key) {
                    put(&mut translated, flat, value, settings);
                }
            }
        } else if *name != SKIP_ACCOUNT {
            translated.push(((*name).to_owned(), (*value).clone()));
        }
    }
    translated
}

/// Adds a translated setting, unless it is also given by this name.
fn put(
    translated: &mut Vec<(String, SecretString)>,
    name: &str,
    value: &SecretString,
    settings: &[(&str, &SecretString)],
) {
    if !settings.iter().any(|(given, _)| *given == name) {
        translated.push((name.to_owned(), value.clone()));
    }
}

fn object(value: &SecretString) -> Option<BTreeMap<String, SecretString>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.expose_secret()).ok()?;
    Some(members.into_iter().map(|(key, value)| (key, value.get().into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(version: &str, settings: &[(&str, &str)]) -> Vec<(String, String)> {
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| (*name, SecretString::from(*value))).collect();
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value)).collect();
        translate(&settings, &version.parse().unwrap())
            .into_iter()
            .map(|(name, value)| (name, value.expose_secret().to_owned()))
            .collect()
    }

    fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_version_gets_the_names_that_it_knows() {
        let flat = [
            ("bucket", r#""b""#),
            ("endpoint", r#""http://s3""#),
            ("sts_endpoint", r#""http://sts""#),
            ("use_path_style", "true"),
            ("skip_requesting_account_id", "true"),
        ];
        let endpoints = ("endpoints", r#"{"s3":"http://s3","sts":"http://sts"}"#);
        assert_eq!(translated("1.11.4", &flat), owned(&[flat[0], flat[3], flat[4], endpoints]));
        assert_eq!(translated("1.6.0", &flat), owned(&[flat[0], flat[3], endpoints]));
        assert_eq!(
            translated("1.5.7", &flat),
            owned(&[flat[0], flat[1], flat[2], ("force_path_style", "true")])
        );
        assert_eq!(
            translated("1.5.7", &[endpoints, ("endpoint", r#""mine""#)]),
            owned(&[("sts_endpoint", r#""http://sts""#), ("endpoint", r#""mine""#)])
        );
    }

    #[test]
    fn what_is_given_by_the_right_name_wins() {
        let both = [
            ("endpoints", r#"{"s3": "new"}"#),
            ("endpoint", r#""old""#),
            ("iam_endpoint", r#""iam""#),
            ("force_path_style", "false"),
            ("use_path_style", "true"),
        ];
        assert_eq!(
            translated("1.9.0", &both),
            owned(&[("use_path_style", "true"), ("endpoints", r#"{"iam":"iam","s3":"new"}"#)])
        );
        let nothing = [("key", r#""k""#), ("endpoints", r#"{"s3": "new"}"#)];
        assert_eq!(translated("1.9.0", &nothing), owned(&nothing));
    }
}
