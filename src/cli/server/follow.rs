//! Follows the log of a run until the run is over.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Client, Failure, part};
use super::show::text;
use crate::cli::output::print;
use crate::exit::Exit;

/// The wait before a connection that has ended is made again.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a server that was reached once may be away, for example while it is restarted.
pub(super) const RESTART: Duration = Duration::from_mins(1);

/// Whether the lines of the log are printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Log {
    /// To standard output.
    Printed,
    /// Not at all: standard output is for the run.
    Hidden,
}

/// The end of a run that was followed.
pub(super) struct Followed {
    /// The run.
    pub(super) run: Value,
    /// The exit code: 0 if the run succeeded, else 1.
    pub(super) code: u8,
}

/// Prints the log of a run, or of one of its attempts, until it is over.
pub(super) async fn follow(
    client: &Client,
    id: &str,
    attempt: Option<u32>,
    log: Log,
) -> Result<Followed, Failure> {
    let attempt = attempt.map(|number| format!("?attempt={number}")).unwrap_or_default();
    let path = format!("/runs/{}/logs{attempt}", part(id));
    let (mut last, mut reached) = (None, None::<Instant>);
    loop {
        let mut messages = match client.follow(&path, last.as_deref()).await {
            Ok(messages) => messages,
            Err(error)
                if error.is_unanswered() && reached.is_some_and(|it| it.elapsed() < RESTART) =>
            {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        while let Some(message) = messages.next().await {
            last = message.id.or(last);
            if message.kind.as_deref() == Some("end") {
                return Ok(ended(&message.data));
            }
            if log == Log::Printed {
                let code = print(format!("{}\n", text(&message.data["content"])).as_bytes());
                if code != Exit::Success.code() {
                    return Ok(Followed { run: Value::Null, code });
                }
            }
        }
        // The server has ended, or the connection to it. Another one goes on behind the last line.
        reached = Some(Instant::now());
        tokio::time::sleep(AGAIN).await;
    }
}

fn ended(end: &Value) -> Followed {
    note_left_out(&end["leftOut"]);
    let run = end["run"].clone();
    let is_success = run["phase"] == "Succeeded";
    let code = if is_success { Exit::Success } else { Exit::Failed }.code();
    Followed { run, code }
}

/// Tells how many lines a log does not have.
pub(super) fn note_left_out(left_out: &Value) {
    if let Some(count) = left_out["lines"].as_u64() {
        let text = "further lines were not kept: the log has reached `max-log`";
        // If standard error is closed, the message is lost.
        let _ = writeln!(std::io::stderr(), "{count} {text}");
    }
}
