//! Settings of the s3 backend: adds defaults for stores that are not AWS, and translates names between
//! the versions before and from 1.6.
//!
//! Terraform 1.6 and `OpenTofu` 1.6 moved the endpoints into one `endpoints` setting and the role into
//! one `assume_role`, and renamed a few others. They deprecate the old names. Terraform 1.10 removed the old
//! names of the role. Versions before 1.6 only accept the old names.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use semver::Version;
use serde_json::value::RawValue;
use url::Url;

use butler_protocol::backend::is_aws_host;
use butler_source::hcl;

/// Flat settings that became the members of one object.
struct Group {
    /// The object.
    name: &'static str,
    /// The flat settings and their keys in it.
    members: &'static [(&'static str, &'static str)],
    /// The key without which the others have no effect.
    essential: Option<&'static str>,
}

const GROUPS: [Group; 2] = [
    Group {
        name: "endpoints",
        members: &[
            ("endpoint", "s3"),
            ("iam_endpoint", "iam"),
            ("sts_endpoint", "sts"),
            ("dynamodb_endpoint", "dynamodb"),
        ],
        essential: None,
    },
    Group {
        name: "assume_role",
        members: &[
            ("role_arn", "role_arn"),
            ("session_name", "session_name"),
            ("external_id", "external_id"),
            ("assume_role_duration_seconds", DURATION),
            ("assume_role_policy", "policy"),
            ("assume_role_policy_arns", "policy_arns"),
            ("assume_role_tags", "tags"),
            ("assume_role_transitive_tag_keys", "transitive_tag_keys"),
        ],
        essential: Some("role_arn"),
    },
];

/// A text such as `1h` in the object, a number of seconds as a flat setting.
const DURATION: &str = "duration";

/// The name before and from 1.6.
const PATH_STYLE: (&str, &str) = ("force_path_style", "use_path_style");

/// One file before 1.6, a list of files from 1.6.
const CREDENTIALS_FILE: (&str, &str) = ("shared_credentials_file", "shared_credentials_files");

/// Versions before 1.6.1 refuse this setting. The request that it skips exists since 1.6.
const SKIP_ACCOUNT: &str = "skip_requesting_account_id";

/// Checks that send requests to AWS itself (STS, IAM, instance metadata, the list of regions). They fail with the
/// logins of another store.
const AWS_CHECKS: [&str; 4] = [
    "skip_credentials_validation",
    "skip_metadata_api_check",
    SKIP_ACCOUNT,
    "skip_region_validation",
];

type Members = BTreeMap<String, SecretString>;

/// The settings by the names that `version` accepts, with the defaults for a store that is not AWS. If both
/// names of a setting are given, the one that `version` accepts wins. `null` is the same as a missing setting.
/// Values are JSON text.
pub(super) fn translate(
    settings: &[(&str, &SecretString)],
    version: &Version,
) -> Vec<(String, SecretString)> {
    let is_given = |value: &SecretString| value.expose_secret().trim() != "null";
    let mut given: Vec<_> = settings.iter().copied().filter(|(_, value)| is_given(value)).collect();
    let yes = SecretString::from("true");
    let defaults = defaults(&given);
    given.extend(defaults.iter().map(|name| (*name, &yes)));
    let release = (version.major, version.minor, version.patch);
    if release < (1, 6, 0) { to_flat(&given) } else { to_nested(&given, release) }
}

/// The settings that must be `true` for a store that is not AWS and are not given.
fn defaults(given: &[(&str, &SecretString)]) -> Vec<&'static str> {
    let value = |name: &str| given.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
    let nested = value("endpoints").and_then(object).and_then(|mut members| members.remove("s3"));
    let endpoint = nested.as_ref().or_else(|| value("endpoint"));
    if !endpoint.is_some_and(is_another_store) {
        return Vec::new();
    }
    let mut missing: Vec<_> = AWS_CHECKS.into_iter().filter(|name| value(name).is_none()).collect();
    if value(PATH_STYLE.0).is_none() && value(PATH_STYLE.1).is_none() {
        missing.push(PATH_STYLE.1);
    }
    missing
}

/// Whether the endpoint, as JSON text, is given and is not an endpoint of AWS.
fn is_another_store(endpoint: &SecretString) -> bool {
    let Some(text) = hcl::json_string(endpoint.expose_secret()) else { return false };
    let text = text.trim();
    let address = Url::parse(text).or_else(|_| Url::parse(&format!("https://{text}")));
    !text.is_empty() && !address.is_ok_and(|url| url.host_str().is_some_and(is_aws_host))
}

fn to_nested(
    settings: &[(&str, &SecretString)],
    release: (u64, u64, u64),
) -> Vec<(String, SecretString)> {
    let mut translated = Vec::new();
    let mut groups: [Members; GROUPS.len()] = Default::default();
    for (name, value) in settings {
        if let Some((group, key)) = group_of(name) {
            let value = if key == DURATION { duration_text(value) } else { (*value).clone() };
            groups[group].insert(key.to_owned(), value);
        } else if *name == PATH_STYLE.0 {
            add_translated(&mut translated, PATH_STYLE.1, value, settings);
        } else if *name == CREDENTIALS_FILE.0 {
            let list = format!("[{}]", value.expose_secret()).into();
            add_translated(&mut translated, CREDENTIALS_FILE.1, &list, settings);
        } else if !(*name == SKIP_ACCOUNT && release < (1, 6, 1)) {
            translated.push(((*name).to_owned(), (*value).clone()));
        }
    }
    for (group, members) in GROUPS.iter().zip(groups) {
        add_group(&mut translated, group, members);
    }
    translated
}

/// The group of a flat setting, and its key in the group.
fn group_of(name: &str) -> Option<(usize, &'static str)> {
    GROUPS.iter().enumerate().find_map(|(index, group)| {
        let (_, key) = group.members.iter().find(|(flat, _)| *flat == name)?;
        Some((index, *key))
    })
}

/// Adds flat settings to the group's object. Members of a given object win.
fn add_group(translated: &mut Vec<(String, SecretString)>, group: &Group, mut members: Members) {
    if members.is_empty() {
        return;
    }
    if let Some(position) = translated.iter().position(|(name, _)| name == group.name) {
        match object(&translated[position].1) {
            Some(given) => members.extend(given),
            // Not an object: Terraform reports it.
            None => return,
        }
        translated.remove(position);
    }
    if group.essential.is_some_and(|key| !members.contains_key(key)) {
        return;
    }
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| format!("{}:{}", serde_json::json!(key), value.expose_secret()))
        .collect();
    translated.push((group.name.to_owned(), format!("{{{}}}", members.join(",")).into()));
}

fn to_flat(settings: &[(&str, &SecretString)]) -> Vec<(String, SecretString)> {
    let mut translated = Vec::new();
    for (name, value) in settings {
        let group = GROUPS.iter().find(|group| group.name == *name);
        if *name == PATH_STYLE.1 {
            add_translated(&mut translated, PATH_STYLE.0, value, settings);
        } else if let Some(group) = group
            && let Some(members) = object(value)
        {
            for (flat, key) in group.members {
                let Some(value) = members.get(*key) else { continue };
                let value = if *key == DURATION { &seconds(value) } else { value };
                add_translated(&mut translated, flat, value, settings);
            }
        } else if *name != SKIP_ACCOUNT {
            translated.push(((*name).to_owned(), (*value).clone()));
        }
    }
    translated
}

fn duration_text(seconds: &SecretString) -> SecretString {
    format!("\"{}s\"", seconds.expose_secret().trim().trim_matches('"')).into()
}

/// A duration as a number of seconds. Another text stays as it is, and Terraform reports it.
fn seconds(duration: &SecretString) -> SecretString {
    let text = duration.expose_secret().trim().trim_matches('"');
    humantime::parse_duration(text)
        .map_or_else(|_| duration.clone(), |duration| duration.as_secs().to_string().into())
}

/// Adds a translated setting, unless it is also given by this name.
fn add_translated(
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
    fn each_version_gets_the_names_that_it_accepts() {
        let flat = [
            ("bucket", r#""b""#),
            ("endpoint", r#""http://s3""#),
            ("sts_endpoint", r#""http://sts""#),
            ("use_path_style", "true"),
            ("skip_requesting_account_id", "true"),
            ("skip_credentials_validation", "true"),
            ("skip_metadata_api_check", "true"),
            ("skip_region_validation", "true"),
        ];
        let skips = &flat[5..];
        let endpoints = ("endpoints", r#"{"s3":"http://s3","sts":"http://sts"}"#);
        let names =
            |first: &[(&str, &str)], last: &[(&str, &str)]| owned(&[first, skips, last].concat());
        assert_eq!(translated("1.11.4", &flat), names(&[flat[0], flat[3], flat[4]], &[endpoints]));
        assert_eq!(translated("1.6.0", &flat), names(&[flat[0], flat[3]], &[endpoints]));
        assert_eq!(
            translated("1.5.7", &flat),
            names(&[flat[0], flat[1], flat[2], ("force_path_style", "true")], &[])
        );
        let aws = [("endpoints", r#"{"sts":"http://sts"}"#), ("endpoint", r#""s3.amazonaws.com""#)];
        assert_eq!(
            translated("1.5.7", &aws),
            owned(&[("sts_endpoint", r#""http://sts""#), aws[1]])
        );
    }

    #[test]
    fn checks_with_aws_are_skipped_for_another_store() {
        let all = |style: &str| {
            let names = AWS_CHECKS.into_iter().chain([style]);
            names.map(|name| (name.to_owned(), "true".to_owned())).collect::<Vec<_>>()
        };
        let added = |version: &str, settings: &[(&str, &str)]| {
            let mut translated = translated(version, settings);
            translated.retain(|(name, _)| !name.starts_with("endpoint"));
            translated
        };
        let flat = ("endpoint", r#""http://127.0.0.1:9000""#);
        assert_eq!(added("1.11.4", &[flat]), all("use_path_style"));
        assert_eq!(
            added("1.11.4", &[("endpoint", r#""objects.example.com""#)]),
            all("use_path_style")
        );
        let nested = ("endpoints", r#"{"s3": "https://objects.example.com"}"#);
        assert_eq!(added("1.9.0", &[nested]), all("use_path_style"));
        let mut before = all("force_path_style");
        before.retain(|(name, _)| name != SKIP_ACCOUNT);
        before.sort();
        for endpoint in [flat, nested] {
            let mut added = added("1.5.7", &[endpoint]);
            added.sort();
            assert_eq!(added, before);
        }

        let own = [
            flat,
            ("skip_credentials_validation", "false"),
            ("skip_metadata_api_check", r#""false""#),
            (SKIP_ACCOUNT, "false"),
            ("skip_region_validation", "false"),
            ("force_path_style", "false"),
        ];
        let kept = |style| owned(&[&own[1..5], &[(style, "false")]].concat());
        assert_eq!(
            added("1.11.4", &own),
            kept("use_path_style"),
            "given settings win over the defaults"
        );
        assert_eq!(added("1.11.4", &[flat, (SKIP_ACCOUNT, "null")]), all("use_path_style"));

        for endpoint in [
            r#""""#,
            "null",
            r#""https://s3.eu-central-1.amazonaws.com""#,
            r#""https://bucket.vpce-1a2b-3c4d.s3.us-east-1.vpce.amazonaws.com""#,
            r#""s3.cn-north-1.amazonaws.com.cn""#,
        ] {
            assert_eq!(added("1.11.4", &[("endpoint", endpoint)]), owned(&[]), "{endpoint}");
        }
        assert_eq!(added("1.11.4", &[("sts_endpoint", r#""http://sts""#)]), owned(&[]));
    }

    #[test]
    fn role_is_one_object_from_1_6_on_and_flat_before() {
        let flat = [
            ("assume_role_duration_seconds", "5400"),
            ("assume_role_tags", r#"{"team":"network"}"#),
            ("external_id", "null"),
            ("role_arn", r#""arn""#),
            ("shared_credentials_file", r#""/aws""#),
        ];
        let nested = [
            ("shared_credentials_files", r#"["/aws"]"#),
            ("assume_role", r#"{"duration":"5400s","role_arn":"arn","tags":{"team":"network"}}"#),
        ];
        assert_eq!(translated("1.11.4", &flat), owned(&nested));
        assert_eq!(translated("1.5.7", &flat), owned(&[flat[0], flat[1], flat[3], flat[4]]));
        let before = [
            ("role_arn", r#""arn""#),
            ("assume_role_duration_seconds", "5400"),
            ("assume_role_tags", r#"{"team":"network"}"#),
        ];
        for duration in ["5400s", "1h30m"] {
            let nested = nested[1].1.replace("5400s", duration);
            assert_eq!(translated("1.5.7", &[("assume_role", &nested)]), owned(&before));
        }
        // Without a role, the old names had no effect either.
        assert_eq!(translated("1.11.4", &[("session_name", r#""run""#)]), owned(&[]));
    }

    #[test]
    fn setting_with_the_accepted_name_wins() {
        let both = [
            ("endpoints", r#"{"s3": "new.amazonaws.com"}"#),
            ("endpoint", r#""old""#),
            ("iam_endpoint", r#""iam""#),
            ("force_path_style", "false"),
            ("use_path_style", "true"),
        ];
        assert_eq!(
            translated("1.9.0", &both),
            owned(&[
                ("use_path_style", "true"),
                ("endpoints", r#"{"iam":"iam","s3":"new.amazonaws.com"}"#)
            ])
        );
        let nothing = [("key", r#""k""#), ("endpoints", r#"{"s3": "new.amazonaws.com"}"#)];
        assert_eq!(translated("1.9.0", &nothing), owned(&nothing));
    }
}
