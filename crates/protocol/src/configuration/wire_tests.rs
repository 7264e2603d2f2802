//! Configurations of the registry, and what is wrong with them.

use std::path::PathBuf;

use secrecy::ExposeSecret as _;

use super::{ConfigError, Parsed, StopStatus, parse_config};
use crate::backend::{DriftComparison, StateReport, StateVersion};
use crate::spec::{PlanFile, PlanPurpose, SecretReference, SensitiveValues, Source};

const MINIMAL: &str = r#"{"operation":"plan","source":{"gitRepo":"https://github.com/org/infra.git","gitRef":"v1.2.0"}}"#;

fn with(fields: &str) -> Result<Parsed, ConfigError> {
    parse_config(format!("{},{fields}}}", MINIMAL.strip_suffix('}').unwrap()).as_bytes())
}

#[test]
fn example_of_the_adr_is_parsed() {
    let parsed = with(
        r#""runId":"550e8400","terraformVersion":"1.9.0","future":{"x":1},
        "variables":{"region":{"value":"us-east-1"},"count":{"value":12345678901234567890.10},
          "db_password":{"sensitive":true,"source":"secret","ref":"butler-system/db-creds","key":"password"}},
        "envVars":{"A":{"value":"x\ny"},"B":{"value":true},"C":{"value":1.50},"D":null},
        "upstreamOutputs":{"network_subnet_ids":["subnet-1","subnet-2"]},
        "stateBackend":{"type":"pg","config":{"conn_str":"postgres://","schema_name":"s"}},
        "callbacks":{"statusUrl":"/v1/ci/module-runs/550e8400/status","logsUrl":null}"#,
    )
    .unwrap();
    let names: Vec<_> = parsed.spec.variables.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["region", "count", "db_password"]);
    assert_eq!(
        parsed.spec.variables[1].1.value.as_ref().unwrap().expose_secret(),
        "12345678901234567890.10"
    );
    assert_eq!(
        parsed.spec.variables[2].1.reference,
        Some(SecretReference {
            namespace: Some("butler-system".to_owned()),
            name: "db-creds".to_owned(),
            key: Some("password".to_owned()),
        })
    );
    let environment: Vec<_> = parsed
        .spec
        .environment
        .iter()
        .map(|(name, variable)| (name.as_str(), variable.value.expose_secret()))
        .collect();
    assert_eq!(environment, [("A", "x\ny"), ("B", "true"), ("C", "1.50")]);
    assert_eq!(parsed.callbacks[0].as_deref(), Some("/v1/ci/module-runs/550e8400/status"));
    assert_eq!(parsed.callbacks[1], None);
}

#[test]
fn null_counts_as_absent() {
    let parsed = with(
        r#""terraformVersion":null,"variables":null,"envVars":null,"upstreamOutputs":null,"stateBackend":null,"callbacks":null"#,
    )
    .unwrap();
    assert!(
        parsed.spec.variables.is_empty()
            && parsed.spec.backend.is_none()
            && parsed.spec.tool.is_none()
    );
}

#[test]
fn error_names_the_setting_that_prevents_the_run() {
    for (json, message) in [
        (r#"{"source":{}}"#, "the run has no operation"),
        (r#"{"operation":"explode"}"#, "unknown operation `explode`"),
        (
            r#"{"operation":"plan","source":{"type":"none"}}"#,
            "the run has no source to fetch (source type `none`)",
        ),
        (
            r#"{"operation":"plan","source":{"gitRepo":"https://x/y","gitRef":" "}}"#,
            "the run's source names no git reference",
        ),
        (
            r#"{"operation":"plan","terraformVersion":"newest"}"#,
            "`terraformVersion` cannot be used",
        ),
    ] {
        assert_eq!(parse_config(json.as_bytes()).unwrap_err().to_string(), message);
    }
}

#[test]
fn archive_is_parsed_with_and_without_its_repository() {
    let parse = |source: &str| {
        let json = format!(r#"{{"operation":"plan","source":{{"type":"archive",{source}}}}}"#);
        match parse_config(json.as_bytes())?.spec.source {
            Source::Archive(archive) => Ok(archive),
            source => panic!("{source:?}"),
        }
    };
    let plain = parse(r#""url":"/v1/x/source","commit":" 4f2a ""#).unwrap();
    assert_eq!((plain.url.as_str(), plain.commit.as_str()), ("/v1/x/source", "4f2a"));
    assert_eq!(plain.working_directory, "");
    assert!(plain.origin.is_none());
    let full = parse(
        r#""url":"/x","commit":"4f2a","gitRepo":"https://a/b","workingDirectory":"envs/prod""#,
    );
    let full = full.unwrap();
    assert_eq!(full.working_directory, "envs/prod");
    let origin = full.origin.unwrap();
    assert_eq!(origin.repository.expose_secret(), "https://a/b");
    assert_eq!(origin.reference, "4f2a");
    let error = parse(r#""commit":"4f2a""#).unwrap_err();
    assert!(matches!(error, ConfigError::NoArchive), "{error}");
    let error = parse(r#""url":"/x","commit":" ""#).unwrap_err();
    assert!(matches!(error, ConfigError::NoCommit), "{error}");
}

#[test]
fn sensitive_values_of_a_run_are_auto_or_literal() {
    for (field, expected) in [
        (r#""future":1"#, SensitiveValues::Auto),
        (r#""sensitiveValues":null"#, SensitiveValues::Auto),
        (r#""sensitiveValues":"auto""#, SensitiveValues::Auto),
        (r#""sensitiveValues":"literal""#, SensitiveValues::Literal),
    ] {
        assert_eq!(with(field).unwrap().spec.sensitive_values, expected, "{field}");
    }
    let error = with(r#""sensitiveValues":"hunter22""#).unwrap_err();
    assert!(matches!(error, ConfigError::SensitiveValues), "{error}");
}

#[test]
fn stop_is_cancelled_only_if_the_registry_names_this_status() {
    for (field, expected) in [
        (r#""future":1"#, StopStatus::Failed),
        (r#""finalStatuses":null"#, StopStatus::Failed),
        (r#""finalStatuses":[]"#, StopStatus::Failed),
        (r#""finalStatuses":["succeeded","failed","Cancelled"]"#, StopStatus::Failed),
        (r#""finalStatuses":["future","cancelled"]"#, StopStatus::Cancelled),
    ] {
        assert_eq!(with(field).unwrap().stop_status, expected, "{field}");
    }
}

#[test]
fn plan_file_is_applied_or_sent_by_the_operations_that_can() {
    let parse = |operation: &str, fields: &str| {
        let json = format!(
            r#"{{"operation":"{operation}","source":{{"gitRepo":"/a","gitRef":"b"}},{fields}}}"#
        );
        parse_config(json.as_bytes()).map(|parsed| parsed.spec.plan_file)
    };
    let sha256 = "0123456789abcdef".repeat(4);
    let given = format!(r#""planFile":{{"url":"/p","sha256":"{sha256}"}}"#);
    let fetched = PlanFile::Fetch { url: "/p".to_owned(), sha256: sha256.clone() };
    assert_eq!(parse("apply", &given).unwrap(), fetched);
    assert_eq!(parse("destroy", &given).unwrap(), fetched);
    for wrong in [
        parse("plan", &given),
        parse("apply", r#""planFile":{"url":"/p"}"#),
        parse("apply", &given.to_uppercase().replace("PLANFILE", "planFile")),
        parse("apply", &format!(r#""planFile":{{"sha256":"{sha256}"}}"#)),
    ] {
        assert!(matches!(wrong, Err(ConfigError::PlanFile(_))), "{wrong:?}");
    }
    let callback = r#""callbacks":{"planFileUrl":"/p"}"#;
    assert_eq!(parse("plan", callback).unwrap(), PlanFile::Send { url: "/p".to_owned() });
    assert_eq!(parse("apply", callback).unwrap(), PlanFile::None);
    assert_eq!(parse("plan", r#""planFile":null"#).unwrap(), PlanFile::None);
}

#[test]
fn plan_is_for_an_apply_or_destroys_or_accepts() {
    for (field, expected) in [
        (r#""planPurpose":null"#, PlanPurpose::Apply),
        (r#""planPurpose":"apply""#, PlanPurpose::Apply),
        (r#""planPurpose":"destroy""#, PlanPurpose::Destroy),
        (r#""planPurpose":"accept""#, PlanPurpose::Accept),
    ] {
        assert_eq!(with(field).unwrap().spec.plan_purpose, expected);
    }
    let wrong = with(r#""planPurpose":"drift""#);
    assert!(matches!(wrong, Err(ConfigError::PlanPurpose)), "{wrong:?}");
}

#[test]
fn version_of_the_state_is_reported_if_it_is_asked_for() {
    let report = |field: &str| with(field).map(|parsed| parsed.spec.state_report);
    assert_eq!(report(r#""stateReport":null"#).unwrap(), StateReport::Omit);
    for none in [r#""stateReport":{}"#, r#""stateReport":{"known":null}"#] {
        assert_eq!(
            report(none).unwrap(),
            StateReport::Send { known: None, compare: DriftComparison::State }
        );
    }
    let known = StateVersion { lineage: "a-b".to_owned(), serial: 7 };
    let given = r#""stateReport":{"known":{"lineage":"a-b","serial":7}}"#;
    assert_eq!(
        report(given).unwrap(),
        StateReport::Send { known: Some(known), compare: DriftComparison::State }
    );
    assert_eq!(
        report(r#""stateReport":{"compare":"code"}"#).unwrap(),
        StateReport::Send { known: None, compare: DriftComparison::Code }
    );
    assert!(report(r#""stateReport":{"known":{"lineage":"a-b"}}"#).is_err());
    assert!(report(r#""stateReport":{"compare":"both"}"#).is_err());
}

#[test]
fn only_a_plan_removes_a_lock() {
    let parse = |operation: &str, id: &str| {
        let json = format!(
            r#"{{"operation":"{operation}","source":{{"gitRepo":"/a","gitRef":"b"}},"forceUnlock":{id}}}"#
        );
        parse_config(json.as_bytes()).map(|parsed| parsed.spec.force_unlock.map(String::from))
    };
    assert_eq!(parse("plan", "\"1-2\"").unwrap().as_deref(), Some("1-2"));
    assert_eq!(parse("apply", "null").unwrap(), None);
    for (operation, id) in [("apply", "\"1-2\""), ("plan", "\"-lock=false\""), ("plan", "\"\"")] {
        let wrong = parse(operation, id);
        assert!(matches!(wrong, Err(ConfigError::ForceUnlock(_))), "{operation} {id}: {wrong:?}");
    }
}

#[test]
fn work_directory_is_a_path_without_steps_upwards() {
    let parse = |text: &str| {
        with(&format!(r#""workDirectory":"{text}""#)).map(|parsed| parsed.spec.work_directory)
    };
    for path in ["/data/work/a", "a", "a/b"] {
        assert_eq!(parse(path).unwrap(), Some(PathBuf::from(path)));
    }
    for wrong in ["", "./a", "/", "/a/../b", "..", "../a"] {
        assert!(matches!(parse(wrong), Err(ConfigError::WorkDirectory)), "{wrong}");
    }
}

#[test]
fn errors_quote_no_value() {
    let error =
        with(r#""variables":{"a":{"value":"hunter22","sensitive":"hunter22"}}"#).unwrap_err();
    assert!(!butler_base::error::chain(&error).contains("hunter22"), "{error}");
    assert!(with(r#""variables":{"a":{},"a":{}}"#).is_err());
}
