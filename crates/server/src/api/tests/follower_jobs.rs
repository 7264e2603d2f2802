//! What Jobs may ask that have the token for requests about followers.

use super::*;

const TOKEN: &str = "breg_0123456789abcdef0123456789";

/// Another token.
const NEXT: &str = "breg_abcdef0123456789abcdef0123";

/// A server with a file of this token, and the file.
async fn with_token() -> (Tested, tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let access = Access::new(Vec::new()).with_follower_token(Some(file.clone()));
    let tested = tested_by(Hosts::new([127, 0, 0, 1].into()), Some(access)).await;
    (tested, directory, file)
}

#[tokio::test]
async fn jobs_may_send_requests_about_followers_and_no_other() {
    let (tested, _directory, _) = with_token().await;
    let mut about_followers = 0;
    for route in routes::<MemoryStore>() {
        let path = route.path.replace("{follower}", "web").replace("{layer}", "a");
        let (status, body) = tested.ask(route.method.clone(), &path, Some(TOKEN), None).await;
        let is_allowed = path.split('/').nth(1) == Some("followers");
        about_followers += usize::from(is_allowed);
        assert_eq!(status == StatusCode::UNAUTHORIZED, !is_allowed, "{route:?} {status} {body}");
        assert_ne!(status, StatusCode::FORBIDDEN, "{route:?}");
    }
    assert_eq!(about_followers, 5);
    let request = Request::builder().uri("/metrics").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {TOKEN}"));
    let answer = tested.router.clone().oneshot(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.unwrap().status(), StatusCode::UNAUTHORIZED);
    // Nor can it sign in, or is it listed.
    assert!(tested.state.access.user(TOKEN).is_none() && tested.state.access.known().is_empty());
}

#[tokio::test]
async fn replaced_token_counts_at_once_and_a_file_without_one_allows_nothing() {
    let (tested, _directory, file) = with_token().await;
    let ask = async |token: &str| tested.ask(Method::GET, "/followers", Some(token), None).await.0;
    assert_eq!(ask(TOKEN).await, StatusCode::OK);
    std::fs::write(&file, NEXT).unwrap();
    assert_eq!((ask(TOKEN).await, ask(NEXT).await), (StatusCode::UNAUTHORIZED, StatusCode::OK));
    for content in ["", "breg_", "breg_short", &NEXT[5..]] {
        std::fs::write(&file, content).unwrap();
        assert_eq!(ask(content).await, StatusCode::UNAUTHORIZED, "{content}");
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(ask(NEXT).await, StatusCode::UNAUTHORIZED);
    // The server works without it, and takes it when it is there again.
    std::fs::write(&file, TOKEN).unwrap();
    assert_eq!(ask(TOKEN).await, StatusCode::OK);
}
