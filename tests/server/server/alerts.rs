//! `docs/alerts.yml`, checked with Prometheus' own tool.

use std::io::Write as _;
use std::process::Stdio;

use butler_server::metrics::{FAMILIES, Kind};

use butler_testing::project::project_path;

/// What `promtool` says, if it finds something.
pub(super) fn promtool(arguments: &[&str], input: &str) -> Result<(), String> {
    let path = project_path("target/tools/prometheus/promtool");
    assert!(path.exists(), "`{}` is installed by `.ci/setup test`", path.display());
    let mut command = std::process::Command::new(path);
    command.args(arguments).current_dir(project_path(""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    // It reads everything before it writes, and ends early only if it does not read at all.
    let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    promtool(&["check", "rules", "docs/alerts.yml"], "").unwrap();
    promtool(&["test", "rules", "tests/data/alerts-test.yml"], "").unwrap();
    // The tool finds mistakes.
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("alerts.yml");
    std::fs::write(&broken, "groups: [{name: a, rules: [{alert: A, expr: 'up == '}]}]").unwrap();
    let found = promtool(&["check", "rules", broken.to_str().unwrap()], "").unwrap_err();
    assert!(found.contains("could not parse expression"), "{found}");
    let found = promtool(&["check", "metrics"], "# TYPE a counter\na 1\n").unwrap_err();
    assert!(found.contains("no help text"), "{found}");
}

#[test]
fn each_metric_of_an_alert_exists() {
    let alerts = std::fs::read_to_string(project_path("docs/alerts.yml")).unwrap();
    let words = alerts.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("butler_")).collect();
    assert!(named.len() >= 14, "{named:?}");
    for name in named {
        let is_known = FAMILIES.iter().any(|family| match family.kind {
            Kind::Counter | Kind::Gauge => family.name == name,
            Kind::Histogram => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix) == Some(family.name)),
        });
        assert!(is_known, "`{name}`");
    }
}
