//! Requests to the API of a server, for tests that wait until it answers something.
//!
//! A test that looks every few milliseconds would keep a processor busy with the start of commands.

use std::path::Path;
use std::time::Duration;

use butler_base::http::{Redirects, direct_client};
use serde_json::Value;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_mins(1);

/// The document at `url`.
///
/// # Panics
/// If the server does not answer with one.
pub fn get(url: &str, token: &str, ca_bundle: Option<&Path>) -> Value {
    let client = direct_client(ca_bundle, Redirects::Refuse).unwrap();
    let request = client.get(url).bearer_auth(token).timeout(ANSWER);
    let answered = async {
        let answer = request.send().await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{url}: {status}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    // The runtime of the test is waiting for this function.
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(answered)
        });
        asking.join().unwrap()
    })
}
