//! How browsers sign in, and how long they stay signed in.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn browser_signs_in_with_a_token_and_its_session_ends() {
    let tested = tested().await;
    let mut visitor = Visitor::new(&tested);
    let asked = visitor.get("/layers/a?x=1").await;
    assert_eq!(asked.location(), "/sign-in?next=%2Flayers%2Fa%3Fx%3D1");
    let form = visitor.get(asked.location()).await;
    assert_eq!((form.status, form.field("next").as_str()), (StatusCode::OK, "/layers/a?x=1"));
    for wrong in ["", "breg_unknown", "brce_viewer", "viewer"] {
        let answer = visitor.post("/sign-in", &[("access-token", wrong)]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        assert!(answer.body.contains("This token is not valid."), "{}", answer.body);
        assert!(answer.headers.get(header::SET_COOKIE).is_none());
    }
    let viewer = token(Role::Viewer);
    let fields = [("access-token", viewer.as_str()), ("next", "/layers/a?x=1")];
    let answer = visitor.post("/sign-in", &fields).await;
    assert_eq!(answer.location(), "/layers/a?x=1");
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax"), "{cookie}");
    assert_eq!(visitor.get("/layers/a").await.status, StatusCode::OK);
    // The browser may follow events, and change nothing without a form.
    assert_eq!(visitor.get("/api/v1/layers").await.status, StatusCode::OK);
    let answer = visitor.post("/api/v1/layers/a/plan", &[]).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    // Signing in again makes another session.
    let first = visitor.cookie.clone();
    visitor.post("/sign-in", &fields).await;
    assert_ne!(visitor.cookie, first);
    let second = visitor.cookie.clone();
    let answer = visitor.submit("/sign-out", &[]).await;
    assert_eq!(answer.location(), "/sign-in");
    assert_eq!(visitor.cookie, "butler=");
    // One ended when the other began, and the other one when the browser signed out.
    for cookie in [first, second] {
        visitor.cookie = cookie;
        assert_eq!(visitor.get("/").await.location(), "/sign-in");
    }
}

#[tokio::test]
async fn browser_is_sent_only_to_this_server_after_it_signed_in() {
    let tested = tested().await;
    let mut visitor = Visitor::new(&tested);
    let viewer = token(Role::Viewer);
    for next in ["https://evil.test", "//evil.test", "/\\evil.test", "/%2e%2e/other", "", "layers"]
    {
        let answer = visitor.post("/sign-in", &[("access-token", &viewer), ("next", next)]).await;
        assert_eq!(answer.location(), "/", "{next}");
    }
}

#[tokio::test]
async fn code_signs_in_one_browser_of_this_machine() {
    let tested = tested().await;
    let mut visitor = Visitor::new(&tested);
    let code = tested.state.sign_ins.new_code().unwrap();
    let path = format!("/sign-in?code={}", code.expose_secret());
    // There are several users, so the code is for none of them.
    assert_eq!(visitor.get(&path).await.status, StatusCode::UNAUTHORIZED);

    let directory = tempfile::tempdir().unwrap();
    let only = crate::api::Access::administrator(&directory.path().join("token")).unwrap();
    let tested = crate::api::tests::tested_by(Hosts::new([127, 0, 0, 1].into()), Some(only)).await;
    let mut visitor = Visitor::new(&tested);
    let code = tested.state.sign_ins.new_code().unwrap();
    let path = format!("/sign-in?code={}", code.expose_secret());
    visitor.peer = "192.0.2.7:5000";
    assert_eq!(visitor.get(&path).await.status, StatusCode::UNAUTHORIZED);
    visitor.peer = "127.0.0.1:5000";
    let answer = visitor.get(&path).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/"));
    assert_eq!(visitor.get("/access").await.status, StatusCode::OK);
    assert_eq!(visitor.get(&path).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn cookie_and_addresses_follow_the_public_url() {
    let public = "butler.example.com";
    for (url, host, name, base) in [
        ("https://butler.example.com/", public, "__Host-butler", ""),
        // A proxy that does not hand on the name.
        ("https://butler.example.com/", "127.0.0.1:7373", "__Host-butler", ""),
        ("https://butler.example.com/ops/butler/", public, "__Secure-butler", "/ops/butler"),
        ("http://butler.example.com/ops", public, "butler", "/ops"),
    ] {
        let hosts = Hosts {
            names: vec![public.to_owned()],
            public_url: Some(url.parse().unwrap()),
            ..Hosts::new([127, 0, 0, 1].into())
        };
        let tested = tested_with(hosts).await;
        let mut visitor = Visitor { host, ..Visitor::new(&tested) };
        let viewer = token(Role::Viewer);
        // A proxy may remove the path or hand it on.
        for prefix in ["", base] {
            let answer =
                visitor.post(&format!("{prefix}/sign-in"), &[("access-token", &viewer)]).await;
            assert_eq!(answer.location(), format!("{base}/"), "{url}");
            let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
            assert!(cookie.starts_with(&format!("{name}=")), "{cookie}");
            let path = if base.is_empty() { "/" } else { base };
            assert!(cookie.contains(&format!("; Path={path};")), "{cookie}");
            assert_eq!(cookie.contains("; Secure"), url.starts_with("https"), "{cookie}");
            for page in ["/", "/layers/a"] {
                let answer = visitor.get(&format!("{prefix}{page}")).await;
                assert_eq!(answer.status, StatusCode::OK, "{url} {prefix}{page}");
                let mut links = answer.body.split(['"']).filter(|part| part.starts_with('/'));
                assert!(links.all(|link| link.starts_with(&format!("{base}/"))), "{}", answer.body);
            }
        }
    }
}

/// Opens a stream of events as a browser does.
async fn follow(visitor: &Visitor) -> Body {
    let request = visitor.request(Method::GET, "/api/v1/events?after=1000");
    let request = request.header("accept", "text/event-stream").body(Body::empty()).unwrap();
    let answer = visitor.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body()
}

#[tokio::test(start_paused = true)]
async fn stream_ends_with_the_session_of_its_browser() {
    let tested = tested().await;
    let mut leaving = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let mut staying = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let (ended, open) = (follow(&leaving).await, follow(&staying).await);
    leaving.submit("/sign-out", &[]).await;
    let (ended, open) = (to_bytes(ended, 1 << 20), to_bytes(open, 1 << 20));
    // The time is that of the test: nothing waits for real.
    tokio::time::timeout(Duration::from_mins(1), ended).await.unwrap().unwrap();
    let day = Duration::from_hours(24);
    assert!(tokio::time::timeout(day, open).await.is_err(), "another session goes on");
    assert_eq!(staying.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn page_that_only_refreshes_itself_does_not_use_its_session() {
    const HOUR: u64 = 3_600_000;
    let tested = tested().await;
    let mut left = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    let mut used = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    for hour in 1..=13 {
        tested.clock.store(hour * HOUR, Ordering::Relaxed);
        let refresh = left.request(Method::GET, "/").header("butler-refresh", "true");
        let answer = left.send(refresh.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status == StatusCode::OK, hour <= 12, "{hour}");
        let events = left.get("/api/v1/events").await;
        assert_eq!(events.status == StatusCode::OK, hour <= 12, "{hour}");
        assert_eq!(used.get("/").await.status, StatusCode::OK, "{hour}");
    }
}

#[tokio::test]
async fn browser_behind_a_proxy_with_a_password_of_its_own_can_follow_events() {
    let tested = tested().await;
    let visitor = Visitor::signed_in(&tested, &token(Role::Viewer)).await;
    for (cookie, authorization, expected) in [
        (visitor.cookie.as_str(), "Basic YW5hOnByb3h5", StatusCode::OK),
        ("", "Basic YW5hOnByb3h5", StatusCode::UNAUTHORIZED),
        // A token that is not valid is not replaced by a cookie.
        (visitor.cookie.as_str(), "Bearer breg_unknown", StatusCode::UNAUTHORIZED),
    ] {
        let visitor = Visitor { cookie: cookie.to_owned(), ..Visitor::new(&tested) };
        let request = visitor.request(Method::GET, "/api/v1/events");
        let request = request.header("authorization", authorization).body(Body::empty()).unwrap();
        let answer = visitor.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), expected, "{authorization}");
    }
}
