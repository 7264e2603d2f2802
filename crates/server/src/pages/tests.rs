//! Pages and forms against a store in memory.

mod held;
mod sign_in;
mod windows;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use butler_base::event::{LogLine, Stream};
use secrecy::ExposeSecret as _;
use tower::ServiceExt as _;

use super::*;
use crate::api::tests::{LIMITED, Tested, tested, tested_with, tested_without_copies, token};
use crate::api::{Hosts, Peer, Role};
use crate::model::{Ending, PlanDigest, SavedPlan};
use crate::store::{AttemptResult, MemoryStore, Outcome, Store as _};

/// A browser: the pages of a server, and a cookie.
struct Visitor {
    router: Router,
    cookie: String,
    host: &'static str,
    peer: &'static str,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn location(&self) -> &str {
        self.headers.get(header::LOCATION).map_or("", |value| value.to_str().unwrap())
    }

    /// The hidden field of a form.
    fn field(&self, name: &str) -> String {
        let begin = format!("name=\"{name}\" value=\"");
        let rest = self.body.split(&begin).nth(1).unwrap_or_else(|| panic!("{name} {}", self.body));
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Visitor {
    fn new(tested: &Tested) -> Self {
        let pages = router(tested.state.clone());
        let router = crate::api::router(tested.state.clone(), pages);
        Self { router, cookie: String::new(), host: "localhost:7373", peer: "127.0.0.1:5000" }
    }

    async fn signed_in(tested: &Tested, token: &str) -> Self {
        let mut visitor = Self::new(tested);
        let answer = visitor.post("/sign-in", &[("access-token", token)]).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        visitor
    }

    async fn send(&mut self, request: Request<Body>) -> Answer {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        if let Some(cookie) = parts.headers.get(header::SET_COOKIE) {
            self.cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        }
        let body = to_bytes(body, 4 << 20).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.host)
            .header("cookie", &self.cookie)
            .extension(ConnectInfo(Peer(self.peer.parse().unwrap())))
    }

    async fn get(&mut self, path: &str) -> Answer {
        let request = self.request(Method::GET, path).body(Body::empty()).unwrap();
        self.send(request).await
    }

    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.extend_pairs(fields).finish();
        let request = self.request(Method::POST, path).body(Body::from(body)).unwrap();
        self.send(request).await
    }

    /// Sends a form with the token of this session.
    async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.get("/").await.field("token");
        let mut all = vec![("token", token.as_str())];
        all.extend_from_slice(fields);
        self.post(path, &all).await
    }
}

/// A plan of the layer `a` that waits for an approval. Returns its run.
async fn waiting_plan(tested: &Tested) -> String {
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    let plan = SavedPlan {
        digest: PlanDigest::new("p1"),
        counts: crate::model::ChangeCounts { add: 1, destroy: 2, ..Default::default() },
        is_stored: true,
        is_empty: false,
        saved: crate::model::Moment::from_millis(1_000),
        discarded: None,
        stale: None,
    };
    let result = AttemptResult { plan: Some(plan), ..AttemptResult::ended(Ending::Succeeded) };
    assert_eq!(tested.store.finish(&attempt, result).await.unwrap(), Outcome::Made);
    run
}

#[tokio::test]
async fn each_page_is_open_to_its_role_and_those_above_only() {
    let tested = tested().await;
    let runs = [tested.plan("a").await, tested.plan("b").await];
    let mut visitors = BTreeMap::new();
    for role in Role::ALL {
        visitors.insert(role, Visitor::signed_in(&tested, &token(role)).await);
    }
    let mut limited = Visitor::signed_in(&tested, LIMITED).await;
    let mut stranger = Visitor::new(&tested);
    for route in routes::<MemoryStore>(&tested.state) {
        let Some(least) = route.role else { continue };
        // It would end the session.
        if route.path == "/sign-out" {
            continue;
        }
        let of = |layer: &str, run: &str| {
            let path = route.path.replace("{layer}", layer).replace("{run}", run);
            path.replace("{repository}", "infra")
        };
        let path = of("a", &runs[0]);
        let is_form = route.method == Method::POST;
        let answer =
            if is_form { stranger.post(&path, &[]).await } else { stranger.get(&path).await };
        assert!(answer.location().starts_with("/sign-in"), "{route:?} {}", answer.status);
        for (role, visitor) in &mut visitors {
            let answer =
                if is_form { visitor.submit(&path, &[]).await } else { visitor.get(&path).await };
            let is_refused = answer.status == StatusCode::FORBIDDEN;
            assert_eq!(is_refused, *role < least, "{route:?} {role:?} {}", answer.status);
            assert!(!answer.status.is_server_error(), "{route:?} {role:?} {}", answer.body);
            if is_form {
                let answer = visitor.post(&path, &[("token", "of another session")]).await;
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "{route:?} {role:?}");
                assert!(answer.body.contains("not from this session"), "{route:?} {role:?}");
            }
        }
        if is_form {
            let answer = limited.submit(&of("b", &runs[1]), &[]).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{route:?}");
        }
    }
}

#[tokio::test]
async fn plan_is_approved_beside_its_difference_and_a_late_approval_is_explained() {
    let tested = tested().await;
    let run = waiting_plan(&tested).await;
    let mut operator = Visitor::signed_in(&tested, &token(Role::Operator)).await;
    let mut viewer = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let path = format!("/runs/{run}");
    let page = operator.get(&path).await;
    assert_eq!(page.field("planDigest"), "p1");
    assert!(page.body.contains("+1 ~0 \u{2212}2"), "{}", page.body);
    let seen = viewer.get(&path).await.body;
    assert!(!seen.contains("/approve") && !seen.contains("/cancel"), "{seen}");
    // A commit comes first.
    tested.push("c2").await;
    let approve = format!("{path}/approve");
    let late = operator.submit(&approve, &[("planDigest", "p1")]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    for part in
        ["Nothing was done", "a newer commit has changed the layer", "This plan cannot be approved"]
    {
        assert!(late.body.contains(part), "{part}: {}", late.body);
    }
    // A form that was not changed by its page is answered as the API does.
    let wrong = operator.submit(&approve, &[("planDigest", "p2")]).await;
    assert!(wrong.body.contains("you have approved another one: p2"), "{}", wrong.body);
    let missing = operator.submit(&approve, &[]).await;
    assert!(missing.status.is_client_error(), "{}", missing.status);
}

#[tokio::test]
async fn form_that_is_sent_twice_makes_one_run() {
    let tested = tested().await;
    let mut operator = Visitor::signed_in(&tested, &token(Role::Operator)).await;
    let page = operator.get("/layers/a").await;
    let (form, key) = (page.field("token"), page.field("key"));
    let fields = [("token", form.as_str()), ("key", key.as_str())];
    let first = operator.post("/layers/a/plan", &fields).await.location().to_owned();
    assert!(first.starts_with("/runs/"), "{first}");
    assert_eq!(operator.post("/layers/a/plan", &fields).await.location(), first);
    let page = operator.get("/layers/a").await;
    assert_ne!(page.field("key"), key);
}

#[tokio::test]
async fn hostile_lines_and_names_are_shown_as_text() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    let long = "x".repeat(1 << 20);
    let contents = [
        "</div></details><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\u{1b}]0;title\u{7}\u{202e}reversed",
        long.as_str(),
    ];
    let lines: Vec<LogLine> = (1..)
        .zip(contents)
        .map(|(sequence, content)| LogLine {
            sequence,
            stream: Stream::Stdout,
            content: content.to_owned(),
        })
        .collect();
    std::fs::create_dir_all(tested.files(&attempt).path()).unwrap();
    tested.files(&attempt).log().append(&lines, 0, u64::MAX).unwrap();
    let plan = r#"{"format_version":"1.2","resource_changes":[{"address":"a.<script>","type":"a","name":"b","change":{"actions":["delete"],"before":{"<b>":"<i>"},"after":null}}]}"#;
    tested.files(&attempt).write_plan(Some(plan), None).unwrap();
    let mut viewer = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let page = viewer.get(&format!("/runs/{run}")).await;
    assert_eq!(page.status, StatusCode::OK);
    for part in ["<script>", "<img", "\u{1b}", "\u{202e}", "<b>", "<i>"] {
        assert!(!page.body.contains(part), "{part}");
    }
    assert!(page.body.contains("Destroyed or replaced"), "{}", page.body);
    // The long line is on the next page.
    let more = format!("/runs/{run}?attempt=1&#38;after=3#log");
    assert!(page.body.contains(&more), "{}", page.body);
    let next = viewer.get(&format!("/runs/{run}?attempt=1&after=3")).await;
    assert!(next.body.contains(&long));
    // What a visitor asks for is text, too.
    for path in ["/?q=%3Cscript%3E", "/layers/%3Cscript%3E", "/events?layer=%3Cscript%3E"] {
        let answer = viewer.get(path).await;
        assert!(!answer.body.contains("<script>"), "{path}");
    }
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn layers_are_filtered_and_listed_page_by_page() {
    let tested = tested().await;
    let mut viewer = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let listed = |answer: &Answer| {
        let rows = answer.body.split("<tr><th scope=\"row\">").skip(1);
        rows.map(|row| row.split(['>', '<']).nth(2).unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (query, expected) in [
        ("", &["a", "b"][..]),
        ("?q=a", &["a"]),
        ("?q=&state=&repository=infra", &["a", "b"]),
        ("?repository=other", &[]),
        ("?state=failed", &[]),
        ("?state=waiting", &["a", "b"]),
        ("?after=a", &["b"]),
    ] {
        let answer = viewer.get(&format!("/{query}")).await;
        assert_eq!(listed(&answer), expected, "{query}");
    }
    for wrong in ["/?state=none", "/?phase=none", "/?x=1"] {
        assert_eq!(viewer.get(wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn style_sheet_and_script_are_kept_by_browsers() {
    let tested = tested().await;
    let mut visitor = Visitor::new(&tested);
    let page = visitor.get("/sign-in").await.body;
    let assets = page.split('"').filter(|part| part.starts_with("/assets/"));
    let assets: Vec<String> = assets.map(str::to_owned).collect();
    assert_eq!(assets.len(), 2, "{page}");
    for path in assets {
        let answer = visitor.get(&path).await;
        let kept = answer.headers[header::CACHE_CONTROL].to_str().unwrap().to_owned();
        assert!(answer.status == StatusCode::OK && kept.contains("immutable"), "{path} {kept}");
    }
    assert_eq!(visitor.get("/assets/other.css").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn session_ends_when_its_user_leaves_the_access_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.yaml");
    let entry = |name: &str| {
        let hash = butler_registry::TokenHash::of(&format!("breg_{name}"));
        format!("  - {{name: {name}, role: viewer, token-sha256: {hash}}}\n")
    };
    std::fs::write(&path, format!("users:\n{}{}", entry("ana"), entry("ben"))).unwrap();
    let access = crate::api::Access::looking(&path, std::time::Duration::ZERO).unwrap();
    let hosts = Hosts::new([127, 0, 0, 1].into());
    let tested = crate::api::tests::tested_by(hosts, Some(access)).await;
    let mut ana = Visitor::signed_in(&tested, "breg_ana").await;
    let mut ben = Visitor::signed_in(&tested, "breg_ben").await;
    assert_eq!(ana.get("/").await.status, StatusCode::OK);
    std::fs::write(&path, format!("users:\n{}", entry("ben"))).unwrap();
    assert_eq!(ana.get("/").await.location(), "/sign-in");
    assert_eq!(ana.get("/api/v1/layers").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(ben.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn unknown_address_is_a_page_for_people_and_json_for_programs() {
    let tested = tested().await;
    let mut visitor = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let request = visitor.request(Method::GET, "/none&b").header("accept", "text/html,*/*");
    let page = visitor.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    assert!(page.body.contains("There is no `/none&#38;b`."), "{}", page.body);
    assert!(page.body.contains("Sign out"), "{}", page.body);
    let json = visitor.get("/none").await;
    assert_eq!(json.status, StatusCode::NOT_FOUND);
    assert!(json.body.starts_with("{\"error\""), "{}", json.body);
}

#[tokio::test]
async fn run_shows_what_a_program_says_about_its_plan() {
    let tested = tested().await;
    let run = waiting_plan(&tested).await;
    let (_, known) =
        tested.state.store.run(&crate::model::RunId::new(&run)).await.unwrap().unwrap();
    let attempt = crate::store::AttemptId { layer: "a".parse().unwrap(), run: known.id, number: 1 };
    let reports = tested.files(&attempt).reports();
    std::fs::create_dir_all(&reports).unwrap();
    let document =
        butler_result::PlanCheck::new("cost".to_owned(), true, "<b>+12 EUR</b>\n").document();
    std::fs::write(reports.join("after-plan.json"), document).unwrap();
    let mut visitor = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let page = visitor.get(&format!("/runs/{run}")).await;
    assert!(page.body.contains("accepted the plan"), "{}", page.body);
    assert!(page.body.contains("&#60;b&#62;+12 EUR&#60;/b&#62;"), "{}", page.body);
}

#[tokio::test]
async fn page_and_api_say_that_the_files_of_another_server_cannot_be_read() {
    let tested = tested_without_copies().await;
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    tested.end(&attempt, Ending::Succeeded).await;
    let mut visitor = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let page = visitor.get(&format!("/runs/{run}")).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    assert!(page.body.contains("The log and the plan are not complete"), "{}", page.body);
    assert!(page.body.contains("does not answer"), "{}", page.body);
    for what in ["logs", "plan", "policy"] {
        let answer = visitor.get(&format!("/api/v1/runs/{run}/{what}")).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{what}: {}", answer.body);
    }
}
