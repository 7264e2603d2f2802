use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use super::super::unreliable::{Faults, Unreliable};
use super::*;

/// The directories of one attempt at two servers, and the object store between them.
struct Servers {
    root: tempfile::TempDir,
    objects: Arc<Unreliable>,
    bucket: Bucket,
}

impl Servers {
    fn new() -> Self {
        let objects = Arc::new(Unreliable::new(Faults::None));
        let bucket = Bucket::of(objects.clone());
        Self { root: tempfile::tempdir().unwrap(), objects, bucket }
    }

    fn own(&self) -> AttemptDirectory {
        AttemptDirectory::at(&self.root.path().join("own"))
    }

    fn other(&self) -> AttemptDirectory {
        AttemptDirectory::at(&self.root.path().join("other"))
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.own().path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn copied(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.other().path().join(name)).ok()
    }

    async fn copy_log(&self, from: Option<u64>) -> u64 {
        copy_log(&self.bucket, "r-1", &self.own(), from).await.unwrap()
    }

    async fn copy_in(&self) -> bool {
        copy_in(&self.bucket, "r-1", &self.other()).await.unwrap()
    }
}

#[tokio::test]
async fn log_of_a_running_attempt_is_copied_by_whole_lines() {
    let servers = Servers::new();
    assert!(!servers.copy_in().await);
    assert!(!servers.other().path().exists());
    servers.write("log.jsonl", "one\ntwo\nthr");
    let length = servers.copy_log(None).await;
    assert_eq!(length, 8);
    assert!(!servers.copy_in().await);
    assert_eq!(servers.copied("log.jsonl").unwrap(), b"one\ntwo\n");
    // What is not complete is not shown as the plan.
    servers.write("plan.json", "{}");
    servers.write("log.jsonl", "one\ntwo\nthree\n");
    assert_eq!(servers.copy_log(Some(length)).await, 14);
    // A server that was started again.
    assert_eq!(servers.copy_log(None).await, 14);
    assert!(!servers.copy_in().await);
    assert_eq!(servers.copied("log.jsonl").unwrap(), b"one\ntwo\nthree\n");
    assert_eq!(servers.copied("plan.json"), None);
    assert!(is_copy(&servers.other()) && !is_complete_copy(&servers.other()));
}

#[tokio::test]
async fn files_of_an_attempt_that_has_ended_are_copied_with_their_content() {
    let servers = Servers::new();
    // More than a chunk, and with a line that has no end.
    let log = "a line of a log\n".repeat(1_200_000) + "the last";
    let files = [
        ("log.jsonl", log.as_bytes()),
        ("plan.json", b"{\"a\": 1}"),
        ("plan.txt", b""),
        ("reports/after-plan.json", b"{}"),
        ("saved-plan", b"sealed"),
        ("reports/result.json", b"{\"status\": \"succeeded\"}"),
    ];
    for (name, content) in files {
        servers.write(name, content);
    }
    for private in ["token", "home/.aws", "output.log", "reports/recovery/terraform.tfstate"] {
        servers.write(private, "hunter22");
    }
    let copied = copy_out(&servers.bucket, "r-1", &servers.own()).await.unwrap();
    assert_eq!(copied, Copied { has_plan: true });
    assert_eq!(super::copied(&servers.own()).unwrap(), Some(copied));
    assert!(servers.copy_in().await);
    for (name, content) in files {
        assert!(servers.copied(name).unwrap() == content, "{name}");
        let path = servers.other().path().join(name);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    for directory in [servers.other().path().to_owned(), servers.other().reports()] {
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
    let chunks = servers.bucket.chunks("attempts").await.unwrap();
    assert_eq!(chunks["r-1/log.jsonl"].len(), 3);
    assert!(chunks.keys().all(|name| !name.contains("token") && !name.contains("recovery")));

    remove_plan(&servers.bucket, "r-1", &servers.own()).await.unwrap();
    let chunks = servers.bucket.chunks("attempts").await.unwrap();
    assert!(!chunks.contains_key("r-1/saved-plan") && chunks.contains_key("r-1/plan.json"));
    assert_eq!(super::copied(&servers.own()).unwrap(), Some(Copied { has_plan: false }));
    servers.bucket.delete("attempts/r-1").await.unwrap();
    assert!(servers.bucket.chunks("attempts").await.unwrap().is_empty());
}

#[tokio::test]
async fn copies_are_complete_after_any_faults() {
    for seed in 0..100 {
        let servers = Servers::new();
        let mut random = fastrand::Rng::with_seed(seed);
        servers.objects.set(Faults::Random(random.fork()));
        let (mut log, mut from) = (String::new(), None);
        for _ in 0..random.u32(1..8) {
            let lines = random.usize(0..4);
            log.extend((0..lines).map(|_| format!("{}\n", random.u64(..))));
            servers.write("log.jsonl", format!("{log}part of a line"));
            if let Ok(length) = copy_log(&servers.bucket, "r-1", &servers.own(), from).await {
                from = Some(length);
            }
            if random.u8(..) < 50 {
                // It was started again.
                from = None;
            }
            let _ = copy_in(&servers.bucket, "r-1", &servers.other()).await;
            let seen = servers.copied("log.jsonl").unwrap_or_default();
            assert!(log.as_bytes().starts_with(&seen), "{seed}");
        }
        servers.write("log.jsonl", &log);
        servers.write("plan.json", "{\"a\": 1}");
        while copy_out(&servers.bucket, "r-1", &servers.own()).await.is_err() {}
        while !copy_in(&servers.bucket, "r-1", &servers.other()).await.unwrap_or_default() {}
        let log = Some(log.into_bytes()).filter(|log| !log.is_empty());
        assert_eq!(servers.copied("log.jsonl"), log, "{seed}");
        assert_eq!(servers.copied("plan.json").unwrap(), b"{\"a\": 1}", "{seed}");
    }
}

#[tokio::test]
async fn copy_that_is_read_while_it_is_written_is_complete_or_not_shown_as_complete() {
    for seed in 0..200 {
        let servers = Servers::new();
        servers.objects.set(Faults::Slow(fastrand::Rng::with_seed(seed)));
        servers.write("log.jsonl", "one\n");
        servers.copy_log(None).await;
        servers.write("log.jsonl", "one\ntwo\n");
        servers.write("plan.json", "{}");
        let own = servers.own();
        let written = copy_out(&servers.bucket, "r-1", &own);
        let read = async {
            while !servers.copy_in().await {
                tokio::task::yield_now().await;
            }
        };
        let (written, ()) = tokio::join!(written, read);
        written.unwrap();
        assert_eq!(servers.copied("log.jsonl").unwrap(), b"one\ntwo\n", "{seed}");
        assert_eq!(servers.copied("plan.json").unwrap(), b"{}", "{seed}");
    }
}
