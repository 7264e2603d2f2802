//! A pass that changes nothing.

use std::collections::BTreeMap;
use std::time::SystemTime;

use butler_base::platform::{Pid, ask_to_end};

use super::faults::HeldBackend;
use super::*;

/// The size, the time of the last change and the content of each file below `directory`, and the time of
/// each directory.
fn listing(directory: &Path) -> BTreeMap<PathBuf, (u64, SystemTime, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let mut content = Vec::new();
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        } else if metadata.is_file() {
            content = std::fs::read(&path).unwrap();
        }
        found.insert(path, (metadata.len(), metadata.modified().unwrap(), content));
    }
    found
}

/// Asserts that `before` is what is in `directory` now.
fn assert_unchanged(
    directory: &Path,
    before: &BTreeMap<PathBuf, (u64, SystemTime, Vec<u8>)>,
    when: &str,
) {
    let after = listing(directory);
    let changed: Vec<_> = before
        .iter()
        .filter(|(path, found)| after.get(*path) != Some(found))
        .map(|(path, _)| path)
        .chain(after.keys().filter(|path| !before.contains_key(*path)))
        .collect();
    assert_eq!(changed, Vec::<&PathBuf>::new(), "{when}");
}

impl Installation {
    /// A dry run whose temporary files are in a directory of its own.
    fn dry_run(&self, arguments: &[String]) -> Command {
        let temporary = self.path("temporary");
        std::fs::create_dir_all(&temporary).unwrap();
        let mut command = self.command(&["serve", "--once", "--dry-run"]);
        command.args(arguments).env("TMPDIR", temporary);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The rows of a dry run that leaves nothing behind and changes nothing, as words.
    async fn rows(&self, arguments: &[String], when: &str) -> BTreeMap<String, String> {
        let before = listing(&self.data());
        let output = self.dry_run(arguments).output().await.unwrap();
        assert_unchanged(&self.data(), &before, when);
        self.assert_nothing_temporary();
        assert_eq!(output.status.code(), Some(0), "{when}: {}", text(&output));
        let printed = String::from_utf8(output.stdout).unwrap();
        let rows = printed.lines().skip(1).map(|line| {
            let words: Vec<_> = line.split_whitespace().map(without_time).collect();
            (words[0].to_owned(), words[1..].join(" "))
        });
        rows.collect()
    }

    fn assert_nothing_temporary(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path("temporary")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A word, unless it is the time of something that only the dry run has begun.
fn without_time(word: &str) -> &str {
    let is_time = word.starts_with("20") && word.contains('T') && word.contains("Z)");
    if is_time { "TIME)" } else { word }
}

#[tokio::test]
async fn dry_run_prints_what_a_pass_would_start_and_changes_nothing() {
    let (mut installation, repository) = (Installation::new(), repository());
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}', poll: 1h}}}}
layers:
  envs: {{repository: infra, ref: main, paths: ['envs/*']}}
  later: {{repository: infra, ref: main, path: modules/shared, after: [envs]}}
",
        repository.url()
    ));
    // More layers than slots.
    let arguments = ["--concurrency", "1"].map(str::to_owned);
    let layers = ["envs.envs.app", "envs.envs.db", "envs.envs.dns"];
    let due = format!("PendingTrigger would plan {}", repository.head());
    let rows = installation.rows(&arguments, "without a data directory").await;
    assert!(!installation.data().exists());
    for layer in layers {
        assert_eq!(rows[layer], due);
    }
    assert!(rows["later"].contains("not applied yet at this commit"), "{rows:?}");
    assert_eq!(rows.len(), 4);

    let pass = installation.once(&arguments).await;
    assert!(pass.status.success(), "{}", text(&pass));
    let is_planned = |row: &str| row.contains("plan Succeeded 1 to add");
    let rows = installation.rows(&arguments, "after a pass").await;
    assert!(layers.iter().all(|layer| is_planned(&rows[*layer])), "{rows:?}");

    let changed = LAYER.replace("\"a\"", "\"b\"");
    let commit = repository.commit("Change", &[("envs/dns/main.tf", &changed)]);
    let due = format!("PendingTrigger would plan {commit}");
    let rows = installation.rows(&arguments, "after a commit").await;
    assert_eq!(rows[layers[2]], due);
    assert!(is_planned(&rows[layers[0]]) && is_planned(&rows[layers[1]]), "{rows:?}");

    installation.serve(&arguments).await;
    installation.until(layers[2], "Succeeded", 2).await;
    installation.until_tidy().await;
    let commit = repository.commit("Revert", &[("envs/dns/main.tf", LAYER)]);
    let rows = installation.rows(&arguments, "beside a server").await;
    assert_eq!(rows[layers[2]], format!("PendingTrigger would plan {commit}"));
    installation.kill().await;
    let killed = installation.rows(&arguments, "after a kill of the server").await;
    assert_eq!(killed, rows);
}

#[tokio::test]
async fn dry_run_finds_the_attempts_of_a_server_that_runs() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.module())]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    let output = installation.dry_run(&arguments).output().await.unwrap();
    let printed = text(&output);
    assert!(output.status.success() && printed.contains("plan ClosingOut"), "{printed}");
    assert!(!printed.contains("would plan"), "{printed}");
    backend.release();
    installation.until("envs.a", "Succeeded", 1).await;
}

#[tokio::test]
async fn dry_run_that_is_stopped_leaves_nothing() {
    let installation = Installation::new();
    // Takes the place of a git server that does not answer.
    let backend = HeldBackend::start().await;
    let url = format!("{}/infra.git", backend.server.endpoint());
    let arguments = ["--repo", &url, "--path", "*"].map(str::to_owned);
    let mut process = installation.dry_run(&arguments).spawn().unwrap();
    backend.wait_for_request().await;
    let pid = i32::try_from(process.id().unwrap()).unwrap();
    ask_to_end(Pid::from_raw(pid));
    assert_eq!(process.wait().await.unwrap().code(), Some(1));
    installation.assert_nothing_temporary();
    assert!(!installation.data().exists());
}

#[tokio::test]
async fn dry_run_of_an_unknown_repository_fails() {
    let installation = Installation::new();
    let url = format!("file://{}", installation.path("missing").display());
    let arguments = ["--repo", &url, "--path", "*"].map(str::to_owned);
    let output = installation.dry_run(&arguments).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output);
    assert!(printed.contains("cannot read the repository `default`"), "{printed}");
}

#[tokio::test]
async fn dry_run_of_a_server_that_does_not_end_is_refused() {
    let installation = Installation::new();
    let mut command = installation.command(&["serve", "--repo", "file:///a", "--path", "*"]);
    let output = command.env("BUTLER_DRY_RUN", "true").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "--dry-run cannot be used with `serve` without `--once`";
    assert!(text(&output).contains(expected), "{}", text(&output));
}
