//! The commit that a reference resolves to, and how much history is fetched.

use butler_source::git::FetchError;

use super::{Case, with_history};
use butler_testing::git_server::{GitServer, git};

#[tokio::test]
async fn branch_and_tag_are_fetched_with_depth_1() {
    let repository = with_history();
    let server = GitServer::start();
    for (reference, commit) in [
        ("main", repository.head()),
        ("refs/heads/main", repository.head()),
        ("v1.0.0", repository.git(&["rev-parse", "v1.0.0^{commit}"])),
        ("feature/x", repository.git(&["rev-parse", "feature/x"])),
    ] {
        let case = Case::new(&server.url(&repository), reference);
        let before = server.requests().len();
        let checkout = case.succeed().await;
        let requests = server.requests().split_off(before);
        let listings = requests.iter().filter(|request| request.target.contains("info/refs"));
        assert_eq!(listings.count(), 1, "{requests:?}");
        assert_eq!(checkout.commit, commit);
        assert_eq!(git(&case.clone(), &["rev-parse", "HEAD"]), commit);
        assert_eq!(case.commits(), 1, "{reference}");
        assert_eq!(git(&case.clone(), &["status", "--porcelain"]), "");
        assert!(checkout.directory.join("main.tf").is_file());
        assert!(
            case.has_logged(&format!("at {reference}"))
                && case.has_logged(&format!("Checked out {commit}"))
        );
    }
}

#[tokio::test]
async fn commit_is_fetched_alone_if_the_server_allows_it_and_with_history_otherwise() {
    let repository = with_history();
    let commit = repository.git(&["rev-parse", "HEAD~2"]);
    let server = GitServer::start();
    let case = Case::new(&server.url(&repository), &commit);
    assert_eq!(case.succeed().await.commit, commit);
    assert_eq!(case.commits(), 3);
    assert!(case.has_logged("fetching the whole history"));

    repository.allow_any_commit();
    let case = Case::new(&server.url(&repository), &commit);
    assert_eq!(case.succeed().await.commit, commit);
    assert_eq!(case.commits(), 1);
    assert!(!case.has_logged("whole history"));
}

#[tokio::test]
async fn abbreviated_commit_id_is_resolved() {
    let repository = with_history();
    let server = GitServer::start();
    let old = repository.git(&["rev-parse", "HEAD~2"]);
    for (reference, commit, commits) in
        [(&repository.head()[..7], repository.head(), 1), (&old[..9], old.clone(), 3)]
    {
        let case = Case::new(&server.url(&repository), reference);
        assert_eq!(case.succeed().await.commit, commit);
        assert_eq!(case.commits(), commits);
    }
    let case = Case::new(&server.url(&repository), "0000000");
    assert!(matches!(case.fail().await, FetchError::ReferenceNotFound { .. }));
}

#[tokio::test]
async fn missing_reference_error_suggests_similar_names() {
    let repository = with_history();
    let server = GitServer::start();
    let error = Case::new(&server.url(&repository), "v1.0").fail().await;
    assert_eq!(error.to_string(), "no branch, tag or commit `v1.0` (similar: `v1.0.0`)");
    let missing = "0123456789012345678901234567890123456789";
    for allowed in [false, true] {
        if allowed {
            repository.allow_any_commit();
        }
        let error = Case::new(&server.url(&repository), missing).fail().await;
        assert!(error.to_string().contains(missing), "{error}");
        assert!(matches!(error, FetchError::ReferenceNotFound { .. }), "{error:?}");
    }
    let error = Case::new(&server.url(&repository), "").fail().await;
    assert!(matches!(error, FetchError::UnusableReference { .. }));
}
