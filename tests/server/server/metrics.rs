//! `/metrics` of a server that plans, applies, and polls.

use butler_server::metrics::FAMILIES;

use super::*;
use butler_testing::documented::assert_documented;

/// The status and the body of `/metrics`, with this token.
fn scrape(installation: &Installation, token: Option<&str>) -> (String, String) {
    let address = &installation.server.as_ref().unwrap().address;
    let mut command = std::process::Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--write-out", "\n%{http_code}"]);
    if let Some(token) = token {
        command.arg("--header").arg(format!("Authorization: Bearer {token}"));
    }
    let output = command.arg(format!("{address}/metrics")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let (body, status) = said.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// The body of `/metrics` for the administrator.
pub(super) fn scraped(installation: &Installation) -> String {
    let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
    scrape(installation, Some(token.trim())).1
}

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(name, _)| *name == series);
    found.unwrap_or_else(|| panic!("no `{series}` in {text}")).1.parse().unwrap()
}

const FAILED: &str = "butler_polls_total{repository=\"infra\",result=\"failed\"}";
const SUCCEEDED: &str = "butler_polls_total{repository=\"infra\",result=\"succeeded\"}";
const LAST: &str = "butler_repository_last_successful_poll_timestamp_seconds{repository=\"infra\"}";

#[tokio::test]
async fn metrics_follow_a_plan_an_apply_and_a_poll_that_fails() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: envs/a, backend: {{type: local}}, strategy: auto}}
",
        repository.url(),
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 2).await;
    assert_eq!(scrape(&installation, None).0, "401");
    let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
    let token = token.trim();
    let ended = |action: &str| {
        format!("butler_attempts_ended_total{{action=\"{action}\",outcome=\"succeeded\"}}")
    };
    // The layer is looked at, and ends are counted, after they can be read.
    eventually("an apply that is counted", || {
        let (status, text) = scrape(&installation, Some(token));
        assert_eq!(status, "200", "{text}");
        let is_at_rest = value(&text, "butler_layers{phase=\"Noop\"}") > 0.0;
        is_at_rest && value(&text, &ended("apply")) > 0.0
    })
    .await;
    let (_, text) = scrape(&installation, Some(token));
    for (series, expected) in [
        (&*ended("plan"), 1.0),
        (&ended("apply"), 1.0),
        (&ended("drift"), 0.0),
        ("butler_attempt_duration_seconds_count{action=\"apply\",outcome=\"succeeded\"}", 1.0),
        (
            "butler_attempt_duration_seconds_bucket{action=\"apply\",outcome=\"succeeded\",le=\"14400\"}",
            1.0,
        ),
        ("butler_run_wait_seconds_count{action=\"apply\"}", 1.0),
        ("butler_breaker_open", 0.0),
        ("butler_attempts_running", 0.0),
        ("butler_runs_waiting", 0.0),
        ("butler_problems", 0.0),
        (FAILED, 0.0),
    ] {
        assert_eq!(value(&text, series).to_bits(), f64::to_bits(expected), "{series}: {text}");
    }
    for measured in [
        "butler_attempt_duration_seconds_sum{action=\"plan\",outcome=\"succeeded\"}",
        "butler_poll_duration_seconds_count{result=\"succeeded\"}",
        "butler_store_transaction_duration_seconds_count{kind=\"read\"}",
        "butler_store_transaction_duration_seconds_count{kind=\"write\"}",
    ] {
        assert!(value(&text, measured) > 0.0, "{measured}: {text}");
    }
    assert!(value(&text, SUCCEEDED) > 0.0 && value(&text, LAST) > 1e9, "{text}");
    super::alerts::promtool(&["check", "metrics"], &text).unwrap();
    assert_eq!(installation.terminate().await, Some(0));

    // The next server counts from zero, cannot read the repository, and answers without a token.
    drop(repository);
    installation.serve(&["--metrics-open".to_owned()]).await;
    eventually("a failed poll", || value(&scrape(&installation, None).1, FAILED) > 0.0).await;
    let (status, text) = scrape(&installation, None);
    assert_eq!(status, "200", "{text}");
    assert!(!text.contains(LAST), "{text}");
    for (series, expected) in [
        (SUCCEEDED, 0.0),
        ("butler_problems", 1.0),
        (&ended("plan"), 0.0),
        ("butler_layers{phase=\"Noop\"}", 1.0),
    ] {
        assert_eq!(value(&text, series).to_bits(), f64::to_bits(expected), "{series}: {text}");
    }
}

#[test]
fn page_for_operators_has_all_metrics() {
    let rows = FAMILIES.iter().map(|family| {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind.name(), family.help);
        format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "))
    });
    assert_documented("docs/operating.md", "metrics", &rows.collect::<Vec<_>>());
    // The text names metrics that exist.
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operating.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words = page.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("butler_")).collect();
    assert!(named.len() >= FAMILIES.len(), "{named:?}");
    for name in named {
        assert!(FAMILIES.iter().any(|family| name == family.name), "`{name}`");
    }
}
