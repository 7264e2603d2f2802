//! Settings of the s3 backend: adds defaults for stores that are not AWS, and translates names between
//! the versions before and from 1.6.
//!
//! Terraform 1.6 and `OpenTofu` 1.6 moved the endpoints into one `endpoints` setting and the role into
//! one `assume_role`, and renamed a few others. They deprecate the old names, of which Terraform 1.10
//! dropped the role's; versions before 1.6 know no others.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use semver::Version;
use serde_json::value::RawValue;
use url::Url;

use butler_source::hcl;

/// Flat settings that became the members of one object.
struct Group {
    /// The object.
    name: &'static str,
    /// The flat settings and their keys in it.
    members: &'static [(&'static str, &'static str)],
    /// The key without which the others mean nothing.
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

/// In the object it is a text such as `1h`, before it was a number of seconds.
const DURATION: &str = "duration";

/// The same setting before and from 1.6.
const PATH_STYLE: (&str, &str) = ("force_path_style", "use_path_style");

/// A file before, and a list of files from 1.6.
const CREDENTIALS_FILE: (&str, &str) = ("shared_credentials_file", "shared_credentials_files");

/// A setting that versions before 1.6.1 refuse; all that it skips came with 1.6.
const SKIP_ACCOUNT: &str = "skip_requesting_account_id";

/// Checks that ask AWS itself (STS, IAM, instance metadata, the list of regions). Another store has no
/// answer to them, and AWS does not know its logins.
const AWS_CHECKS: [&str; 4] = [
    "skip_credentials_validation",
    "skip_metadata_api_check",
    SKIP_ACCOUNT,
    "skip_region_validation",
];

/// Domains of AWS: an endpoint there, such as a VPC endpoint, is not another store.
const AWS_DOMAINS: [&str; 3] = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];

type Members = BTreeMap<String, SecretString>;

/// The settings by the names that `version` knows, with the defaults for a store that is not AWS. If
/// both names of a setting are given, the one that `version` knows wins; what is `null` is not given.
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

/// The settings that have to be `true` for a store that is not AWS, as far as they are not given.
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

/// Whether the endpoint, as JSON text, is given and not one of AWS.
fn is_another_store(endpoint: &SecretString) -> bool {
    let Some(text) = hcl::json_string(endpoint.expose_secret()) else { return false };
    let text = text.trim();
    let address = Url::parse(text).or_else(|_| Url::parse(&format!("https://{text}")));
    let host = address.ok().and_then(|url| url.host_str().map(str::to_ascii_lowercase));
    !text.is_empty()
        && !host.is_some_and(|host| AWS_DOMAINS.iter().any(|domain| host.ends_with(domain)))
}

fn to_nested(
    settings: &[(&str, &SecretString)],
    release: (u64, u64, u64),
) -> Vec<(String, SecretString)> {
    let mut translated = Vec::new();
    let mut groups: [Members; GROUPS.len()] = Default::default();
    for (name, value) in settings {
        if let Some((group, key)) = group_of(name) {
            let value = if key == DURATION { duration(value) } else { (*value).clone() };
            groups[group].insert(key.to_owned(), value);
        } else if *name == PATH_STYLE.0 {
            put(&mut translated, PATH_STYLE.1, value, settings);
        } else if *name == CREDENTIALS_FILE.0 {
            let list = format!("[{}]", value.expose_secret()).into();
            put(&mut translated, CREDENTIALS_FILE.1, &list, settings);
        } else if !(*name == SKIP_ACCOUNT && release < (1, 6, 1)) {
            translated.push(((*name).to_owned(), (*value).clone()));
        }
    }
    for (group, members) in GROUPS.iter().zip(groups) {
        add_group(&mut translated, group, members);
    }
    translated
}

/// The group that a flat setting belongs to, and its key there.
fn group_of(name: &str) -> Option<(usize, &'static str)> {
    GROUPS.iter().enumerate().find_map(|(index, group)| {
        let (_, key) = group.members.iter().find(|(flat, _)| *flat == name)?;
        Some((index, *key))
    })
}

/// Puts what was given flat into the group's object; what is in there already wins.
fn add_group(translated: &mut Vec<(String, SecretString)>, group: &Group, mut members: Members) {
    if members.is_empty() {
        return;
    }
    if let Some(position) = translated.iter().position(|(name, _)| name == group.name) {
        match object(&translated[position].1) {
            Some(given) => members.extend(given),
            // Not what it should be: Terraform says so.
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
            put(&mut translated, PATH_STYLE.0, value, settings);
        } else if let Some(group) = group
            && let Some(members) = object(value)
        {
            for (flat, key) in group.members {
                let Some(value) = members.get(*key) else { continue };
                let value = if *key == DURATION { &seconds(value) } else { value };
                put(&mut translated, flat, value, settings);
            }
        } else if *name != SKIP_ACCOUNT {
            translated.push(((*name).to_owned(), (*value).clone()));
        }
    }
    translated
}

/// A number of seconds as a duration.
fn duration(seconds: &SecretString) -> SecretString {
    format!("\"{}s\"", seconds.expose_secret().trim().trim_matches('"')).into()
}

/// A duration as a number of seconds; what is none stays, and Terraform says so.
fn seconds(duration: &SecretString) -> SecretString {
    let text = duration.expose_secret().trim().trim_matches('"');
    humantime::parse_duration(text)
        .map_or_else(|_| duration.clone(), |duration| duration.as_secs().to_string().into())
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
    fn a_store_that_is_not_aws_is_not_checked_with_aws() {
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
        assert_eq!(added("1.11.4", &own), kept("use_path_style"), "what is given counts");
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
        // Nobody is to be assumed: the old names meant nothing without a role either.
        assert_eq!(translated("1.11.4", &[("session_name", r#""run""#)]), owned(&[]));
    }

    #[test]
    fn what_is_given_by_the_right_name_wins() {
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
