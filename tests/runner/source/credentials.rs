//! Which servers and processes get credentials.

use std::process::Command;

use butler_base::error::chain;
use butler_source::git::FetchError;

use super::{Case, TOKEN, with_history};
use butler_testing::git_server::{Behaviour, GitServer, git};

#[tokio::test]
async fn git_token_authenticates_and_is_not_stored() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    let with_login = url.replace("//", &format!("//x-access-token:{TOKEN}@"));
    for case in [
        Case::new(&url, "main").token(TOKEN),
        Case::new(&with_login, "main"),
        Case::new(&url, "main").environment_token(None),
        Case::new(&url, "main").environment_token(Some("127.0.0.1")),
        Case::new(&url, "main").password("x-access-token", TOKEN),
        Case::new(&url, "main").environment_token(None).github_app(),
    ] {
        let checkout = case.succeed().await;
        let from_environment = !case.environment.tokens.is_empty();
        assert_eq!(
            checkout.used_tokens,
            if from_environment { vec!["GITHUB_TOKEN"] } else { vec![] }
        );
        assert!(!case.has_logged(TOKEN));
        let found = Command::new("grep").args(["-r", TOKEN]).arg(case.directory.path()).output();
        assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
        assert_eq!(git(&case.clone(), &["remote", "get-url", "origin"]), url);
    }
}

#[tokio::test]
async fn missing_and_refused_git_credentials_have_different_errors() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    let error = Case::new(&url, "main").fail().await;
    assert!(matches!(error, FetchError::CredentialsMissing { .. }), "{error:?}");
    let error = Case::new(&url, "main").environment_token(Some("git.example.com")).fail().await;
    assert!(matches!(error, FetchError::CredentialsMissing { .. }), "{error:?}");
    assert!(server.requests().iter().all(|request| request.authorization.is_none()));
    let case = Case::new(&url, "main").token("another-secret");
    let error = case.run().await.unwrap_err();
    assert!(chain(&error).ends_with("refused the login with the given token"), "{error:?}");
    assert!(!format!("{error:?}").contains("another-secret"));
    assert!(server.requests().len() < 10);
}

#[tokio::test]
async fn git_token_is_not_sent_to_a_redirect_target_on_another_host() {
    let repository = with_history();
    let other = GitServer::with_login("x-access-token", TOKEN);
    let _ = other.url(&repository);
    let behaviour = Behaviour {
        login: Some(("x-access-token".to_owned(), TOKEN.to_owned())),
        redirect: Some(other.origin().replace("127.0.0.1", "localhost")),
    };
    let server = GitServer::with(behaviour);
    let error = Case::new(&server.url(&repository), "main").token(TOKEN).fail().await;
    assert!(matches!(error, FetchError::Redirected { .. }), "{error:?}");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}
