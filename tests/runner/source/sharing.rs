//! The credentials of the run for git, if Terraform starts it.

use butler_protocol::spec::GitCredentials;

use super::{Case, TOKEN, with_history};
use butler_testing::authority::Authority;
use butler_testing::git_server::{Behaviour, GitServer, Repository};
use butler_testing::ssh_server::SshServer;

#[tokio::test]
async fn encrypted_ssh_key_works_for_the_fetch_and_for_git() {
    let repository = with_history();
    for kind in ["ed25519", "rsa"] {
        let server = SshServer::start_with_key(kind, TOKEN);
        let url = server.url(&repository);
        let mut case = Case::new(&url, "main");
        case.source.credentials = GitCredentials::SshKey {
            username: None,
            private_key: server.private_key().into(),
            passphrase: Some(TOKEN.into()),
            known_hosts: Some(server.known_hosts()),
        };
        case.succeed().await;
        let output = case.ls_remote(&url);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
async fn git_sends_the_token_to_the_same_server_only() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    for case in
        [Case::new(&url, "main").token(TOKEN), Case::new(&url, "main").environment_token(None)]
    {
        // The user's own credential helper must not be asked for this server.
        let case = case.in_home(".gitconfig", "[credential]\n\thelper = \"!touch asked; :\"\n");
        let output = case.ls_remote(&url);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains(&repository.head()));
        assert!(!case.directory.path().join("asked").exists());
        let other = GitServer::with_login("x-access-token", TOKEN);
        for url in [other.url(&repository), server.url_on("localhost", &repository)] {
            let output = case.ls_remote(&url);
            assert!(!output.status.success());
        }
        assert!(other.requests().iter().all(|request| request.authorization.is_none()));
    }
}

#[tokio::test]
async fn terraform_init_fetches_a_private_module_with_the_token_of_the_run() {
    let authority = Authority::create();
    let behaviour = Behaviour {
        login: Some(("x-access-token".to_owned(), TOKEN.to_owned())),
        ..Behaviour::default()
    };
    let server = GitServer::with_tls(behaviour, &authority);
    let private = with_history();
    let url = server.url(&private);
    let module =
        format!("module \"private\" {{\n  source = \"git::{url}//modules/a?ref=main\"\n}}\n");
    let repository = Repository::create(&[("main.tf", &module)]);
    let mut case = Case::new(&server.url(&repository), "main").token(TOKEN);
    case.environment.ca_bundle = Some(authority.bundle());
    let checkout = case.succeed().await;
    let output =
        case.lent(&checkout.directory, "terraform", &["init", "-input=false", "-no-color"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(checkout.directory.join(".terraform/modules/private/modules/a/main.tf").is_file());
}

#[tokio::test]
async fn git_uses_the_configured_ssh_key_and_known_hosts() {
    let repository = with_history();
    let server = SshServer::start();
    let url = server.url(&repository);
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(server.known_hosts()));
    let output = case.ls_remote(&url);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let other = SshServer::start();
    let wrong = other.known_hosts().replace(&other.port().to_string(), &server.port().to_string());
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(wrong));
    let output = case.ls_remote(&url);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Host key verification failed"));
}
