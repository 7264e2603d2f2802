//! The directory for temporary files of an attempt: providers create sockets in it.

use std::os::unix::fs::PermissionsExt;

use super::faults::HeldBackend;
use super::*;
use butler_testing::release_site::platform;

/// A program that listens on the socket with the longest path that a provider chooses, and is not a
/// provider. Terraform shows its first line.
const LISTENER: &str = r#"#!/usr/bin/perl
use Socket;
my $directory = "$ENV{TMPDIR}/plugin-dir1234567890";
my $path = "$directory/plugin1234567890";
mkdir $directory or die "$directory: $!";
socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
my $is_bound = length($path) <= 107 && bind($socket, pack_sockaddr_un($path)) && listen($socket, 1);
print $is_bound ? "listening on $path\n" : "cannot listen on $path: $!\n";
"#;

const MODULE: &str = r#"
terraform {
  required_providers {
    listener = { source = "example.com/test/listener" }
  }
}
provider "listener" {}
resource "listener_one" "one" {}
"#;

/// A repository whose module has the provider beside it.
fn repository() -> Repository {
    let provider = format!(
        "envs/a/terraform.d/plugins/example.com/test/listener/1.0.0/{}/terraform-provider-listener_v1.0.0",
        platform()
    );
    let repository = Repository::create(&[("envs/a/main.tf", MODULE), (&provider, LISTENER)]);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(repository.path().join(&provider), executable).unwrap();
    repository.git(&["commit", "--quiet", "--all", "--message", "Make the provider executable"]);
    repository
}

/// A data directory with a path of at least 60 characters.
fn far_away() -> Installation {
    let prefix = "a-data-directory-with-a-long-path".repeat(2);
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
    let installation = Installation::in_directory(directory);
    assert!(installation.data().as_os_str().len() >= 60);
    installation
}

#[tokio::test]
async fn sockets_of_providers_fit_whatever_the_path_of_the_data_directory_is() {
    let repository = repository();
    for isolation in ["landlock", "none"] {
        let installation = far_away();
        let mut arguments = Installation::quick_start(&repository);
        arguments.extend(["--isolation", isolation].map(str::to_owned));
        let temporary = tempfile::Builder::new().prefix("t").rand_bytes(4).tempdir().unwrap();
        let mut command = installation.command(&["serve", "--once"]);
        command.args(&arguments).env("TMPDIR", temporary.path());
        let pass = command.output().await.unwrap();
        assert_eq!(pass.status.code(), Some(1), "{}", text(&pass));
        let attempt = attempts(&installation.data()).remove(0);
        let log = std::fs::read_to_string(attempt.join("log.jsonl")).unwrap();
        let in_temporary = format!("{}/butler-", temporary.path().display());
        assert!(log.contains("message: listening on"), "{isolation}: {log}");
        assert!(log.contains(&in_temporary), "{isolation}: {log}");
        assert!(!log.contains("too long"), "{log}");
        // Nothing is left of it.
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "{isolation}");
    }
}

#[tokio::test]
async fn temporary_directory_of_killed_processes_is_removed_by_the_next_server() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.reading_module())]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    let created = installation.temporary().remove(0);
    assert_eq!(created.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    installation.kill().await;
    for pid in running(&installation.data()) {
        butler_base::platform::kill_child(Pid::from_raw(pid)).unwrap();
    }
    backend.release();
    installation.serve(&arguments).await;
    eventually("no directory of the killed attempt", || !created.exists()).await;
}
