//! The journal over HTTP: listed, and followed over a connection that breaks.

use butler_base::http::{self, Redirects};

use super::*;

/// A client of the API of a server that runs.
struct Client {
    http: reqwest::Client,
    address: String,
    token: String,
}

impl Client {
    fn new(installation: &Installation) -> Self {
        let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
        let address = installation.server.as_ref().unwrap().address.clone();
        Self {
            http: http::client(None, Redirects::Refuse).unwrap(),
            address,
            token: token.trim().to_owned(),
        }
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}/api/v1{path}", self.address)).bearer_auth(&self.token)
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).send().await.unwrap().error_for_status().unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    /// Follows the journal after this event.
    async fn follow(&self, last: u64) -> Stream {
        let request = self.get("/events").header("accept", "text/event-stream");
        let request = request.header("last-event-id", last.to_string());
        let answer = request.send().await.unwrap().error_for_status().unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Stream { answer, text: String::new() }
    }
}

/// A connection that follows the journal.
struct Stream {
    answer: reqwest::Response,
    text: String,
}

impl Stream {
    /// The next event, whose `id` is its sequence; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((message, _)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    message.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
                };
                let event = field("data: ").zip(field("id: "));
                let length = message.len() + 2;
                self.text.drain(..length);
                // A message without data is a comment.
                let Some((data, id)) = event else { continue };
                let event: Value = serde_json::from_str(&data).unwrap();
                assert_eq!(event["sequence"].to_string(), id);
                return Some(event);
            }
            let chunk = self.answer.chunk().await.ok()??;
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    async fn take(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.next().await.unwrap());
        }
        events
    }
}

#[tokio::test]
async fn events_are_listed_and_followed_without_gap_or_repetition() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    installation.serve(&Installation::quick_start(&repository)).await;
    installation.until("envs.a", "Succeeded", 1).await;
    let client = Client::new(&installation);
    let list = client.json("/events").await;
    let first = list["items"].as_array().unwrap().clone();
    let kinds: Vec<&str> = first.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["revision-read", "run-created", "attempt-started", "attempt-ended"]);
    assert_eq!(list["next"], first[3]["sequence"]);
    let run = &installation.runs("envs.a")[0]["id"];
    assert_eq!((&first[3]["run"], &first[3]["attempt"]), (run, &1.into()), "{list}");
    assert_eq!(first[3]["ending"], "succeeded");
    assert!(first[0]["at"].as_str().unwrap().ends_with('Z'), "{list}");

    // Two events, then a connection that breaks, and what follows on the next one.
    let mut seen = client.follow(0).await.take(2).await;
    let mut stream = client.follow(2).await;
    seen.extend(stream.take(2).await);
    assert_eq!(seen, first);
    for change in ["pause", "resume"] {
        let url = format!("{}/api/v1/layers/envs.a/{change}", client.address);
        let answer = client.http.post(url).bearer_auth(&client.token).send().await.unwrap();
        assert!(answer.status().is_success());
    }
    seen.extend(stream.take(2).await);
    assert_eq!((&seen[4]["kind"], &seen[5]["kind"]), (&"paused".into(), &"resumed".into()));
    let later = client.json("/events?after=4&limit=1&layer=envs.a").await;
    assert_eq!((&later["items"][0], &later["next"]), (&seen[4], &5.into()));
    assert_eq!(client.json("/events?after=6").await, serde_json::json!({"items": [], "next": 6}));

    // A client that follows does not keep the server from ending, and goes on with the next one.
    assert_eq!(installation.terminate().await, Some(0));
    assert_eq!(stream.next().await, None);
    installation.serve(&Installation::quick_start(&repository)).await;
    let client = Client::new(&installation);
    // The server answers before it has looked at its layers.
    eventually("a plan", || installation.ask(&["layer", "plan", "envs.a"]).status.success()).await;
    let next = client.follow(6).await.take(1).await;
    assert_eq!((&next[0]["sequence"], &next[0]["kind"]), (&7.into(), &"run-created".into()));
}
