//! Whole runs whose source is an archive that the registry serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use butler_registry::memory::Server;
use futures_util::stream;
use serde_json::{Value, json};

use butler_testing::deployed;
use butler_testing::world::{MODULE, RUN_ID, RunEnd, World, merge};

/// The commit of the archive.
const COMMIT: &str = "4f2a7e0c3b1d5a6978812345abcdef0123456789";

/// The limit for an archive, in bytes.
const LIMIT: usize = 256 * 1024 * 1024;

/// A tar of these files.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

/// The module of the world in `envs/prod`, with a module beside it.
fn module() -> Vec<u8> {
    let calling = format!("{MODULE}\nmodule \"name\" {{\n  source = \"../../modules/name\"\n}}\n");
    archive(&[
        ("modules/name/main.tf", "output \"name\" { value = \"x\" }\n"),
        ("envs/prod/main.tf", &calling),
    ])
}

/// A module whose only file is stored in Git LFS.
fn pointer() -> Vec<u8> {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    archive(&[("envs/prod/main.tf", pointer)])
}

/// The configuration of a run on an archive.
fn config(world: &World, operation: &str) -> Value {
    let mut config = world.config(operation);
    config["source"] = json!({
        "type": "archive",
        "url": format!("/v1/ci/module-runs/{RUN_ID}/source"),
        "commit": COMMIT,
        "workingDirectory": "envs/prod",
    });
    config
}

/// Executes a run on `archive`.
async fn run(world: &World, config: Value, archive: Vec<u8>) -> RunEnd {
    world.add_run(config);
    world.registry.set_source(RUN_ID, archive);
    world.end(&world.execute().output().await.unwrap())
}

/// The number of requests for the archive.
fn requests(world: &World) -> usize {
    world.received().request_names().iter().filter(|name| *name == "GET source").count()
}

#[tokio::test]
async fn archive_is_planned_and_applied_like_a_clone() {
    let world = World::new(&[]).await;
    for operation in ["plan", "apply"] {
        let end = run(&world, config(&world, operation), module()).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert_eq!(requests(&world), 1);
        let status = world.last_status();
        assert_eq!(status["status"], "succeeded");
        assert_eq!(status["source_commit"], COMMIT);
        assert_eq!(status["resources_to_add"], 1);
    }
    assert_eq!(world.received().outputs[0]["outputs"]["greeting"]["value"], "hello world");
    assert!(world.received().log_text().contains(&format!("Fetching the files of {COMMIT}")));
}

#[tokio::test]
async fn state_in_the_unpacked_files_is_refused() {
    let world = World::new(&[]).await;
    let mut config = config(&world, "apply");
    config["stateBackend"].take();
    let end = run(&world, config, module()).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = world.last_error();
    assert!(message.contains("state"), "{message}");
}

#[tokio::test]
async fn login_of_the_repository_is_masked_and_the_repository_is_shown() {
    let world = World::new(&[]).await;
    let mut config = config(&world, "plan");
    config["source"]["gitRepo"] = json!("https://me:hunter22-in-url@git.example.com/org/infra.git");
    config["source"]["workingDirectory"] = json!("");
    let leak = archive(&[("main.tf", "output \"leak\" { value = \"hunter22-in-url\" }\n")]);
    world.add_run(config);
    world.registry.set_source(RUN_ID, leak);
    let mut command = world.execute();
    command.env("BUTLER_REPORT_DIR", world.path("reports"));
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(!world.reports_and_output(&end).contains("hunter22"), "{}", end.stdout);
    let result = std::fs::read_to_string(world.path("reports/result.json")).unwrap();
    assert!(result.contains("git.example.com/org/infra") && !result.contains("hunter22"));
}

/// An archive with a hard link.
fn hostile() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Link);
    header.set_size(0);
    tar.append_link(&mut header, "envs/prod/hard", "/etc/passwd").unwrap();
    tar.into_inner().unwrap()
}

#[tokio::test]
async fn unusable_archive_fails_the_run_with_the_reason() {
    let counted = Arc::<AtomicUsize>::default();
    let asked = counted.clone();
    let count = move || async move { counted.fetch_add(1, Ordering::SeqCst).to_string() };
    let elsewhere = Server::start(Router::new().fallback(count)).await.unwrap();
    let directory = |name: &str| json!({"workingDirectory": name});
    let cases = [
        (
            directory("envs/dev"),
            Some(module()),
            1,
            "the working directory `envs/dev` cannot be used: the repository has no such directory",
        ),
        (
            directory("../x"),
            Some(module()),
            1,
            "the working directory `../x` cannot be used: it contains `..`",
        ),
        (
            directory("/etc"),
            Some(module()),
            1,
            "the working directory `/etc` cannot be used: it is absolute",
        ),
        (directory("envs/prod/main.tf"), Some(module()), 1, "it is not a directory"),
        (
            json!({}),
            Some(pointer()),
            1,
            "1 file is only a Git LFS pointer in the module: `main.tf`",
        ),
        (
            json!({"url": elsewhere.endpoint().as_str()}),
            Some(module()),
            1,
            "is not a URL below the registry's endpoint",
        ),
        (json!({}), None, 4, "the registry refused to send the archive"),
        (json!({}), Some(hostile()), 1, "`envs/prod/hard`, which is a hard link"),
        (json!({}), Some(b"<h1>Sign in</h1>".to_vec()), 4, "unknown format"),
    ];
    for (change, archive, code, expected) in cases {
        let world = World::new(&[]).await;
        let mut config = config(&world, "plan");
        merge(&mut config["source"], &change);
        world.add_run(config);
        if let Some(archive) = archive {
            world.registry.set_source(RUN_ID, archive);
        }
        let end = world.end(&world.execute().output().await.unwrap());
        let (message, _) = world.last_error();
        assert!(message.contains(expected), "{expected}: {message}");
        assert_eq!(end.code, Some(code), "{expected}: {}", end.stderr);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing is sent to another origin");
}

#[tokio::test]
async fn archive_of_a_run_that_is_over_stops_the_run() {
    let world = World::new(&[]).await;
    world.fault("GET", "source", 409);
    let end = run(&world, config(&world, "plan"), module()).await;
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running"]);
}

#[tokio::test]
async fn archive_without_a_registry_is_refused() {
    let world = World::new(&[]).await;
    let file = world.path("run.json");
    std::fs::write(&file, config(&world, "plan").to_string()).unwrap();
    let command = ["execute", "--config", file.to_str().unwrap()];
    let end = world.end(&world.command(&command).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(end.stderr.contains("the run has no registry"), "{}", end.stderr);
}

/// The world's registry with its first answer to `GET source` replaced, and the number of these requests.
async fn answering_first(
    world: &World,
    first: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let counted = asked.clone();
    let layer = from_fn(move |request: Request, next: Next| {
        let is_source = request.uri().path().ends_with("/source");
        let is_first = is_source && counted.fetch_add(1, Ordering::SeqCst) == 0;
        let first = first.clone();
        async move { if is_first { first() } else { next.run(request).await } }
    });
    let router = deployed::router(world.registry.clone()).layer(layer);
    (Server::start(router).await.unwrap(), asked)
}

/// Executes a run on the module at `server`.
async fn run_at(world: &World, server: &Server) -> RunEnd {
    world.add_run(config(world, "plan"));
    world.registry.set_source(RUN_ID, module());
    let mut command = world.execute();
    command.env("BUTLER_ENDPOINT", server.endpoint().as_str());
    world.end(&command.output().await.unwrap())
}

#[tokio::test]
async fn incomplete_archive_is_downloaded_again_from_its_beginning() {
    // Other files, so that leftovers of the first attempt would change the plan.
    let begin = || {
        let mut other =
            archive(&[("envs/prod/extra.tf", "resource \"terraform_data\" \"x\" {}\n")]);
        other.truncate(other.len() - 1024);
        other
    };
    let broken = move || {
        let parts: [Result<_, std::io::Error>; 2] =
            [Ok(begin()), Err(std::io::Error::other("the store failed"))];
        Body::from_stream(stream::iter(parts)).into_response()
    };
    let truncated = move || begin().into_response();
    let unavailable = || StatusCode::SERVICE_UNAVAILABLE.into_response();
    let firsts: [Arc<dyn Fn() -> Response + Send + Sync>; 3] =
        [Arc::new(broken), Arc::new(truncated), Arc::new(unavailable)];
    for first in firsts {
        let world = World::new(&[]).await;
        let (server, asked) = answering_first(&world, move || first()).await;
        let end = run_at(&world, &server).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(world.last_status()["resources_to_add"], 1);
    }
}

#[tokio::test]
async fn archive_that_is_too_large_is_refused_without_a_retry() {
    let world = World::new(&[]).await;
    let endless = || {
        let chunk = Bytes::from(vec![0; 1024 * 1024]);
        let chunks =
            std::iter::repeat_n(chunk, LIMIT / 1024 / 1024 + 1).map(Ok::<_, std::io::Error>);
        Body::from_stream(stream::iter(chunks)).into_response()
    };
    let (server, asked) = answering_first(&world, endless).await;
    let end = run_at(&world, &server).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let (message, _) = world.last_error();
    assert!(message.contains(&format!("larger than {LIMIT} bytes")), "{message}");
}
