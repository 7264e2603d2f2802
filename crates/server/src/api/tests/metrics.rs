//! `GET /metrics`.

use super::*;
use crate::metrics::{CONTENT_TYPE, FAMILIES};
use crate::model::{FailureClass, Gate};
use crate::serve::LayerView;

/// The status, the media type and the body of `/metrics`.
async fn ask(router: &Router, token: Option<&str>) -> (StatusCode, String, String) {
    let mut request = Request::builder().uri("/metrics").header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (status, kind) = (answer.status(), answer.headers()["content-type"].to_str().unwrap());
    let kind = kind.to_owned();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, kind, String::from_utf8(body.to_vec()).unwrap())
}

impl Tested {
    /// Decides about a layer again, as the scheduler does, and asks for the metrics.
    async fn metrics(&self) -> String {
        let layer: LayerName = "a".parse().unwrap();
        let source = self.desired.catalogs().borrow().layers[&layer].clone();
        self.views.look(&*self.store, &layer, Some(&source)).await;
        self.attempts.catch_up(&*self.store).await.unwrap();
        let (status, kind, text) = ask(&self.router, Some(&token(Role::Viewer))).await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, CONTENT_TYPE), "{text}");
        text
    }
}

/// The value of a series.
fn value<'a>(text: &'a str, series: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(name, _)| *name == series);
    found.unwrap_or_else(|| panic!("no `{series}` in {text}")).1
}

#[tokio::test]
async fn metrics_need_the_token_of_a_viewer_unless_they_are_open() {
    let tested = tested().await;
    for stranger in [None, Some("brce_viewer"), Some("breg_unknown"), Some("viewer")] {
        let (status, _, body) = ask(&tested.router, stranger).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{stranger:?}");
        assert!(!body.contains("butler_"), "{body}");
    }
    for role in Role::ALL {
        assert_eq!(ask(&tested.router, Some(&token(role))).await.0, StatusCode::OK, "{role:?}");
    }
    let open = ApiState {
        sign_ins: SignIns::default(),
        store: Arc::clone(&tested.store),
        views: Arc::clone(&tested.views),
        desired: Arc::clone(&tested.desired),
        data: DataDirectory::at(tested.directory.path()),
        files: Arc::clone(&tested.state.files),
        disk: DiskLook::default(),
        plans: Rendered::default(),
        not_copied: Arc::default(),
        events: mpsc::unbounded_channel().0,
        access: Access::new(Vec::new()),
        hosts: Hosts::new([127, 0, 0, 1].into()),
        isolation: "landlock".to_owned(),
        leadership: tested.state.leadership.clone(),
        attempts: Arc::clone(&tested.attempts),
        poll_durations: Arc::default(),
        transactions: Arc::default(),
        log_watch: Arc::default(),
        followers: Arc::default(),
        follower_cluster: Arc::default(),
        deliveries: Arc::default(),
        notifications: Arc::default(),
        metrics_open: true,
    };
    let open = router(Arc::new(open), Router::new());
    let (status, _, text) = ask(&open, None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(value(&text, "butler_attempts_running"), "0");
}

#[tokio::test]
async fn answer_has_every_metric_once_and_no_other() {
    let tested = tested().await;
    let text = tested.metrics().await;
    let named = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let expected = FAMILIES.iter().map(|family| format!("{} {}", family.name, family.kind.name()));
    assert_eq!(named.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
        let name = series.split('{').next().unwrap();
        let suffixes = ["", "_bucket", "_sum", "_count"];
        let is_of = |name: &str, family: &str| {
            suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(family))
        };
        assert!(FAMILIES.iter().any(|family| is_of(name, family.name)), "{line}");
    }
    let version = format!("butler_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&text, &version), "1");
}

#[tokio::test]
async fn runs_and_attempts_are_counted_while_they_wait_run_and_end() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    let waits = tested.metrics().await;
    assert_eq!(value(&waits, "butler_runs_waiting"), "1");
    let age: f64 = value(&waits, "butler_runs_waiting_oldest_seconds").parse().unwrap();
    assert!(age > 0.0, "{age}");
    assert_eq!(value(&waits, "butler_attempts_running"), "0");
    let wait = "butler_run_wait_seconds_count{action=\"plan\"}";
    assert_eq!(value(&waits, wait), "0");

    let attempt = tested.start(&run, 1).await;
    let runs = tested.metrics().await;
    assert_eq!(value(&runs, "butler_runs_waiting"), "0");
    assert_eq!(value(&runs, "butler_runs_waiting_oldest_seconds"), "0");
    assert_eq!(value(&runs, "butler_attempts_running"), "1");
    assert_eq!(value(&runs, "butler_layers{phase=\"ClosingOut\"}"), "1");
    let failed = "butler_attempts_ended_total{action=\"plan\",outcome=\"failed\"}";
    let lost = "butler_attempts_ended_total{action=\"plan\",outcome=\"lost\"}";
    let count = "butler_attempt_duration_seconds_count{action=\"plan\",outcome=\"failed\"}";
    assert_eq!(value(&runs, wait), "1");
    assert_eq!((value(&runs, failed), value(&runs, count)), ("0", "0"));

    tested.end(&attempt, Ending::Failed(FailureClass::Module)).await;
    let ended = tested.metrics().await;
    assert_eq!(value(&ended, "butler_attempts_running"), "0");
    assert_eq!((value(&ended, failed), value(&ended, lost)), ("1", "0"));
    assert_eq!(value(&ended, count), "1");
    // An end is counted once.
    let again = tested.metrics().await;
    assert_eq!((value(&again, failed), value(&again, count)), ("1", "1"));
    assert_eq!(value(&again, wait), "1");

    // A paused layer waits for nothing.
    tested.plan("a").await;
    assert_eq!(value(&tested.metrics().await, "butler_runs_waiting"), "1");
    tested.store.pause(&"a".parse().unwrap(), Some("ana")).await.unwrap();
    let paused = tested.metrics().await;
    assert_eq!(value(&paused, "butler_runs_waiting"), "0");
    assert_eq!(value(&paused, "butler_layers_gated{gate=\"pause\"}"), "1");
    assert_eq!(value(&paused, "butler_layers{phase=\"Skipped\"}"), "1");
}

#[tokio::test]
async fn polls_are_counted_by_result() {
    let tested = tested().await;
    let failed = "butler_polls_total{repository=\"infra\",result=\"failed\"}";
    let succeeded = "butler_polls_total{repository=\"infra\",result=\"succeeded\"}";
    let last = "butler_repository_last_successful_poll_timestamp_seconds{repository=\"infra\"}";
    let before = tested.metrics().await;
    assert_eq!((value(&before, failed), value(&before, succeeded)), ("0", "0"));
    assert!(!before.contains(last), "{before}");
    tested.desired.polled("infra", None);
    tested.desired.polled("infra", Some("no route".to_owned()));
    tested.desired.polled("infra", Some("no route".to_owned()));
    let after = tested.metrics().await;
    assert_eq!((value(&after, failed), value(&after, succeeded)), ("2", "1"));
    assert!(value(&after, last).parse::<f64>().unwrap() > 1e9, "{after}");
    assert_eq!(value(&after, "butler_problems"), "1");
}

#[tokio::test]
async fn runs_that_wait_are_counted_by_each_gate_of_their_layer() {
    let tested = tested().await;
    let gated = |gate: &str| format!("butler_runs_waiting_gated{{gate=\"{gate}\"}}");
    let run = tested.plan("a").await;
    let open = tested.metrics().await;
    assert!(Gate::ALL.iter().all(|gate| value(&open, &gated(gate.as_str())) == "0"), "{open}");
    // A failure of the network is tried again after a while.
    let attempt = tested.start(&run, 1).await;
    tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    let waits = tested.metrics().await;
    assert_eq!(value(&waits, "butler_runs_waiting"), "1");
    assert_eq!(value(&waits, &gated("retry")), "1");
    assert_eq!(value(&waits, &gated("window")), "0");
    // The second attempt of a run says nothing about how long the run has waited.
    tested.start(&run, 2).await;
    assert_eq!(
        value(&tested.metrics().await, "butler_run_wait_seconds_count{action=\"plan\"}"),
        "1"
    );
}

#[tokio::test]
async fn server_tells_whether_it_decides() {
    let tested = tested().await;
    assert_eq!(value(&tested.metrics().await, "butler_decides"), "1");
    tested.leads.send_replace(Leadership::Waits);
    assert_eq!(value(&tested.metrics().await, "butler_decides"), "0");
}

#[tokio::test]
async fn oldest_drift_has_an_age() {
    let tested = tested().await;
    let oldest = "butler_drift_oldest_seconds";
    let text = tested.metrics().await;
    assert_eq!((value(&text, "butler_layers_drifted"), value(&text, oldest)), ("0", "0"));
    let layer: LayerName = "a".parse().unwrap();
    for view in tested.views.all() {
        let since = (view.name == layer).then(|| Moment::from_millis(1_000));
        tested.views.set(LayerView { drift_since: since, ..LayerView::clone(&view) });
    }
    let (_, _, text) = ask(&tested.router, Some(&token(Role::Viewer))).await;
    // The clock of the test stands in 1970.
    assert!(value(&text, oldest).parse::<f64>().unwrap() > 1e9, "{text}");
}

#[tokio::test]
async fn breaker_is_open_after_failures_in_a_row() {
    let tested = tested().await;
    assert_eq!(value(&tested.metrics().await, "butler_breaker_open"), "0");
    for layer in super::breaker::BROKEN {
        super::breaker::fail(&tested, layer, 0).await;
    }
    assert_eq!(value(&tested.metrics().await, "butler_breaker_open"), "1");
    assert_eq!(tested.store.reset_breaker("ana").await.unwrap(), Outcome::Made);
    assert_eq!(value(&tested.metrics().await, "butler_breaker_open"), "0");
}
