//! Whole runs whose source is on a real git server, and the programs that get its credentials.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use butler_testing::authority::Authority;
use butler_testing::git_server::{Behaviour, GitServer, Repository};
use butler_testing::release_site::{ReleaseSite, archive};
use butler_testing::ssh_server::SshServer;
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World, sequence};

/// The token of the server, which no other program may get.
const GIT_TOKEN: &str = "glpat-hunter22-very-secret";

/// A module that prints its directory.
const PRIVATE: &str = r#"
output "place" { value = path.module }
"#;

fn private_server(authority: &Authority) -> GitServer {
    let login = Some(("x-access-token".to_owned(), GIT_TOKEN.to_owned()));
    GitServer::with_tls(Behaviour { login, ..Behaviour::default() }, authority)
}

/// A repository whose module uses another one from a private repository of the same server.
fn calling(private_url: &str) -> Repository {
    let module = format!(
        "module \"private\" {{\n  source = \"git::{private_url}//network?ref=main\"\n}}\n\
         output \"place\" {{ value = module.private.place }}\n"
    );
    Repository::create(&[("main.tf", &module)])
}

/// All files below `directory`, with their contents.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn private_modules_are_fetched_with_the_credentials_of_the_run() {
    let authority = Authority::create();
    let server = private_server(&authority);
    let private = Repository::create(&[("network/main.tf", PRIVATE)]);
    let repository = calling(&server.url(&private));
    let url = server.url(&repository);
    for from_config in [true, false] {
        let mut world = World::new(&[]).await;
        let own = "[credential]\n\thelper = \"!touch ~/asked; :\"\n[user]\n\tname = Somebody\n";
        std::fs::write(world.path("home/.gitconfig"), own).unwrap();
        let before = files(&world.path("home"));
        world.set("BUTLER_CA_BUNDLE", authority.bundle());
        let mut config = world.config("plan");
        config["source"]["gitRepo"] = json!(url);
        if from_config {
            config["source"]["credentials"] = json!({"type": "token", "token": GIT_TOKEN});
        } else {
            world.set("BUTLER_GIT_TOKEN", GIT_TOKEN);
        }
        let end = world.run(config).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let received = world.received();
        assert_eq!(received.request_names(), sequence(&["POST plan"]));
        assert_eq!(world.last_status()["source_commit"], repository.head().as_str());
        let place = &received.plans[0]["plan_json"]["planned_values"]["outputs"]["place"]["value"];
        assert_eq!(place, ".terraform/modules/private/network");
        assert!(
            !world.reports_and_output(&end).contains(GIT_TOKEN),
            "{}",
            world.reports_and_output(&end)
        );
        assert_eq!(files(&world.path("home")), before, "the user's own files are as they were");
    }
}

#[tokio::test]
async fn untrusted_git_server_certificate_fails_the_run_before_the_token_is_sent() {
    let authority = Authority::create();
    let server = private_server(&authority);
    let repository = Repository::create(&[("main.tf", MODULE)]);
    let world = World::new(&[]).await;
    let mut config = world.config("plan");
    config["source"]["gitRepo"] = json!(server.url(&repository));
    config["source"]["credentials"] = json!({"type": "token", "token": GIT_TOKEN});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.last_status()["error"]["phase"], "source");
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[tokio::test]
async fn wrong_git_token_fails_the_run_and_is_masked() {
    let server = GitServer::with_login("x-access-token", "another");
    let repository = Repository::create(&[("main.tf", MODULE)]);
    let world = World::new(&[]).await;
    let mut config = world.config("plan");
    config["source"]["gitRepo"] = json!(server.url(&repository));
    config["source"]["credentials"] = json!({"type": "token", "token": GIT_TOKEN});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.last_status()["error"]["phase"], "source");
    assert!(
        !world.reports_and_output(&end).contains(GIT_TOKEN),
        "{}",
        world.reports_and_output(&end)
    );
}

#[tokio::test]
async fn ssh_run_does_not_use_files_of_the_user() {
    let server = SshServer::start();
    let repository = Repository::create(&[("main.tf", MODULE)]);
    let world = World::new(&[]).await;
    let mut config = world.config("apply");
    config["source"]["gitRepo"] = json!(server.url(&repository));
    config["source"]["credentials"] = json!({
        "type": "ssh-key",
        "privateKey": server.private_key(),
        "knownHosts": server.known_hosts(),
    });
    let end = world.run(config.clone()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&["POST plan", "POST outputs"]));
    let key = server.private_key();
    for line in key.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!world.reports_and_output(&end).contains(line), "{line}");
    }
    assert_eq!(files(&world.path("home")), [], "no known_hosts, no key is left there");

    // The same key with another host key.
    let other = SshServer::start();
    let wrong = other.known_hosts().replace(&other.port().to_string(), &server.port().to_string());
    config["source"]["credentials"]["knownHosts"] = json!(wrong);
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.last_status()["error"]["phase"], "source");
}

#[tokio::test]
async fn terraform_runs_in_the_working_directory() {
    let module = "output \"where\" { value = \"${path.root} ${basename(path.cwd)} ${file(\"../shared.txt\")}\" }";
    let files = [
        ("modules/network/main.tf", module),
        ("modules/shared.txt", "shared"),
        ("main.tf", "broken"),
    ];
    let world = World::new(&files).await;
    let mut config = world.config("apply");
    config["source"]["workingDirectory"] = json!("modules/network");
    let end = world.run(config.clone()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.received().outputs[0]["outputs"]["where"]["value"], ". network shared");

    for outside in ["../..", "/", "missing"] {
        config["source"]["workingDirectory"] = json!(outside);
        let end = world.run(config.clone()).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert_eq!(world.received().request_names(), sequence(&[]), "{outside}");
        assert_eq!(world.last_status()["error"]["phase"], "source", "{outside}");
    }
}

#[tokio::test]
async fn run_without_a_git_ref_fails() {
    for reference in [json!(""), json!(null)] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        let mut config = world.config("plan");
        config["source"]["gitRef"] = reference;
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let names = world.received().request_names();
        assert_eq!(names, ["GET status", "GET config", "POST logs", "POST status"]);
        assert_eq!(world.statuses(), ["failed"]);
        let status = world.last_status();
        let advice = status["error"]["advice"].as_str().unwrap();
        assert!(advice.contains("the default branch is never guessed"), "{status}");
    }
}

#[tokio::test]
async fn signal_ends_a_fetch_from_a_hanging_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut world = World::new(&[]).await;
    // A fetch has nothing to save, so it does not get the grace period.
    world.set("BUTLER_GRACE_PERIOD", "1h");
    let mut config = world.config("plan");
    config["source"]["gitRepo"] = json!(format!("http://{address}/repository.git"));
    world.add_run(config);
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    let (mut connection, _) = listener.accept().await.unwrap();
    // The request has been sent, and the server never responds.
    connection.read_u8().await.unwrap();
    kill(pid, Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.statuses(), ["running", "failed"]);
    let error = world.last_status()["error"].clone();
    assert_eq!(
        (&error["phase"], &error["message"]),
        (&json!("source"), &json!("stopped because the runner received SIGTERM"))
    );
}

#[tokio::test]
async fn terraform_inherits_a_ci_token_only_if_the_fetch_did_not_use_it() {
    let server = GitServer::with_login("x-access-token", GIT_TOKEN);
    let repository = Repository::create(&[("main.tf", MODULE)]);
    for used in [true, false] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.set("GITHUB_TOKEN", GIT_TOKEN);
        let tool = StandIn::install(&mut world, AtPlan::Fail);
        let mut config = world.config("plan");
        if used {
            config["source"]["gitRepo"] = json!(server.url(&repository));
        }
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert_eq!(world.last_status()["error"]["phase"], "plan", "{}", end.stderr);
        let environment = tool.record("environment");
        assert_eq!(environment.contains(GIT_TOKEN), !used, "used: {used}");
        assert!(
            !world.reports_and_output(&end).contains(GIT_TOKEN),
            "{}",
            world.reports_and_output(&end)
        );
    }
}

#[tokio::test]
async fn terraform_never_inherits_the_git_token_of_the_runner() {
    let server = GitServer::with_login("x-access-token", GIT_TOKEN);
    let repository = Repository::create(&[("main.tf", MODULE)]);
    for from_config in [true, false] {
        let mut world = World::new(&[]).await;
        let tool = StandIn::install(&mut world, AtPlan::Fail);
        let mut config = world.config("plan");
        config["source"]["gitRepo"] = json!(server.url(&repository));
        if from_config {
            config["source"]["credentials"] = json!({"type": "token", "token": GIT_TOKEN});
        } else {
            world.set("BUTLER_GIT_TOKEN", GIT_TOKEN);
        }
        let end = world.run(config).await;
        assert_eq!(world.last_status()["error"]["phase"], "plan", "{}", end.stderr);
        for record in ["environment", "arguments"] {
            let record = tool.record(record);
            assert!(!record.is_empty() && !record.contains(GIT_TOKEN), "{record}");
        }
        assert!(
            !world.reports_and_output(&end).contains(GIT_TOKEN),
            "{}",
            world.reports_and_output(&end)
        );
    }
}

#[tokio::test]
async fn tool_trusts_the_certificates_of_the_bundle() {
    let authority = Authority::create();
    let package = archive(&[("main.tf", MODULE.as_bytes())]);
    let site = ReleaseSite::start_with_files(&authority, &[("/module.zip", &package)]);
    // The state and a module, each over HTTPS.
    let module = format!(
        "terraform {{\n  backend \"http\" {{\n    address = \"{0}none\"\n  }}\n}}\n\
         module \"a\" {{\n  source = \"{0}module.zip\"\n}}\n",
        site.url()
    );
    let mut world = World::new(&[("main.tf", &module)]).await;
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, advice) = world.last_error();
    assert!(message.contains("certificate"), "{message}");
    assert!(advice.contains("--ca-bundle") && advice.contains("SSL_CERT_FILE"), "{advice}");

    world.set("BUTLER_CA_BUNDLE", authority.bundle());
    for isolation in ["none", "auto"] {
        world.set("BUTLER_ISOLATION", isolation);
        let end = world.run(world.config("plan")).await;
        assert_eq!(end.code, Some(0), "{isolation}: {}", end.stderr);
    }
}
