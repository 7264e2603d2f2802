//! Repositories over ssh, with a real sshd.

use super::*;
use butler_testing::ssh_server::{SshServer, keygen};
use butler_testing::world::files_with;

#[tokio::test]
async fn repository_over_ssh_is_planned_and_a_wrong_host_key_is_refused() {
    let (mut installation, server) = (Installation::new(), SshServer::start());
    let repository = Repository::create(&[("a/main.tf", LAYER)]);
    let hosts = installation.path("known_hosts");
    std::fs::write(&hosts, server.known_hosts()).unwrap();
    installation.configure(&format!(
        "repositories:
  infra:
    url: {}
    credentials: {{ssh-key-file: {}, known-hosts: {}}}
layers:
  a: {{repository: infra, ref: main, path: a}}
",
        server.url(&repository),
        server.key_file().display(),
        hosts.display(),
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    let more = LAYER.replace("one", "two");
    let planned = repository.commit("Change", &[("a/more.tf", more.as_str())]);
    assert!(installation.ask(&["layer", "sync", "a"]).status.success());
    installation.until("a", "Succeeded", 2).await;
    assert_eq!(installation.runs("a")[0]["commit"], planned.as_str());

    // The file is read at each poll. What was read before stays in force.
    keygen(&["-t", "ed25519", "-N", ""], &installation.path("other"));
    let other = std::fs::read_to_string(installation.path("other.pub")).unwrap();
    std::fs::write(&hosts, format!("[127.0.0.1]:{} {other}", server.port())).unwrap();
    let unread =
        repository.commit("Change", &[("a/more.tf", more.replace("= \"a\"", "= \"b\"").as_str())]);
    assert!(installation.ask(&["layer", "sync", "a"]).status.success());
    let log = || std::fs::read_to_string(installation.path("server.log")).unwrap();
    eventually("a refused host key", || log().contains("does not match the known key")).await;
    assert_eq!(installation.runs("a").len(), 2);

    // The commit that was refused is not lost.
    std::fs::write(&hosts, server.known_hosts()).unwrap();
    assert!(installation.ask(&["layer", "sync", "a"]).status.success());
    installation.until("a", "Succeeded", 3).await;
    assert_eq!(installation.runs("a")[0]["commit"], unread.as_str());
    installation.until_tidy().await;
    let key = server.private_key();
    for line in key.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!log().contains(line), "{}", log());
        let files = files_with(&installation.data(), line);
        assert!(files.is_empty(), "{files:?}");
    }
}
