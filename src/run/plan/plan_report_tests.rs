use std::io::Read;
use std::path::Path;

use super::super::plan_text::{CHUNK, CUT};
use super::*;

/// A report of a plan with these lengths of members and text.
fn report(directory: &Path, text: &str) -> PlanReport {
    let file = |name: &str, content: &str| {
        std::fs::write(directory.join(name), content).unwrap();
        directory.join(name)
    };
    let filler = "x".repeat(2000);
    let plan = format!(
        r#"{{"format_version":"1.2","terraform_version":"1.11.4","variables":{{"a":{{"value":"{filler}"}}}},"resource_changes":[],"prior_state":{{"v":"{filler}"}},"configuration":{{"c":"{filler}"}}}}"#
    );
    let (json, text) = (file("plan.json", &plan), file("plan.txt", text));
    let files = PlanFiles { file: directory.join("plan.tfplan"), json, text };
    let options = PlanOptions {
        sensitive: BTreeSet::new(),
        given_secrets: BTreeSet::new(),
        json: PlanJson::Clean,
        limit: Some(u64::MAX),
    };
    let redactor = Redactor::new();
    let text = PlanText::create(files.text.clone(), true, &redactor);
    PlanReport::create_blocking((files, text), options, &redactor).unwrap().report.unwrap()
}

fn sent(report: &PlanReport, level: DetailLevel, limit: BodyLimit) -> (serde_json::Value, u64) {
    let body = report.body(level, limit).unwrap();
    let mut bytes = Vec::new();
    for part in body.parts() {
        part.open().unwrap().read_to_end(&mut bytes).unwrap();
    }
    assert_eq!(bytes.len() as u64, body.length());
    (serde_json::from_slice(&bytes).unwrap(), body.length())
}

#[test]
fn each_level_is_smaller_than_the_level_before_and_names_its_omissions() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path(), &"line \"quoted\"\t\u{1b}[1m\u{20ac}\n".repeat(200));
    let (mut limit, mut level, mut sent_levels) =
        (BodyLimit::new(u64::MAX), DetailLevel::Everything, Vec::new());
    loop {
        let (body, length) = sent(&report, level, limit);
        let members: Vec<_> = body["plan_json"]
            .as_object()
            .map(|json| json.keys().cloned().collect())
            .unwrap_or_default();
        sent_levels.push((level, members.len(), body["plan_text"].is_string()));
        let parts = report.body(level, limit).unwrap();
        assert!(parts.parts().len() <= 7, "adjacent members are one part");
        assert_eq!(level.note().is_none(), level == DetailLevel::Everything);
        let Some(smaller) = level.smaller() else { break };
        limit = BodyLimit::after_refusal(length);
        level = report.fitting_level(smaller, limit);
    }
    assert_eq!(
        sent_levels,
        [
            (DetailLevel::Everything, 6, true),
            (DetailLevel::WithoutState, 4, true),
            (DetailLevel::Changes, 3, true),
            (DetailLevel::ChangesAndCutText, 3, true),
            (DetailLevel::ChangesAlone, 3, false),
            (DetailLevel::Note, 0, true),
        ]
    );
}

#[test]
fn body_never_exceeds_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path(), &"\u{1}\"\u{20ac}x\n".repeat(3000));
    for bytes in (1100..80_000).step_by(777) {
        let limit = BodyLimit::new(bytes);
        let level = report.fitting_level(DetailLevel::Everything, limit);
        let (body, length) = sent(&report, level, limit);
        assert!(length <= bytes, "{level:?}: {length} of {bytes}");
        let text = body["plan_text"].as_str().unwrap_or_default();
        assert_eq!(
            text.ends_with(CUT),
            matches!(level, DetailLevel::ChangesAndCutText | DetailLevel::CutText)
        );
    }
}

#[test]
fn line_longer_than_a_read_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("x{}\n", "\u{20ac}\"".repeat(CHUNK));
    let report = report(directory.path(), &text);
    let (body, _) = sent(&report, DetailLevel::Everything, BodyLimit::new(u64::MAX));
    assert!(body["plan_text"] == text.as_str());
}

#[test]
fn plan_without_text_has_a_report_without_text() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path(), "");
    let (body, _) = sent(&report, DetailLevel::Everything, BodyLimit::new(u64::MAX));
    assert!(body.get("plan_text").is_none() && body["plan_json"].is_object(), "{body}");
    assert_eq!(
        report.fitting_level(DetailLevel::Everything, BodyLimit::new(20)),
        DetailLevel::Note
    );
}
