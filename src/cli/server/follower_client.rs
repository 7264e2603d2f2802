//! Requests about followers to a server, and the wait for a delivery.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use butler_follower::Phase;
use butler_follower::status::{FollowerStatus, evidence_table, status_table};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::{Client, Failure, part};
use super::follow::RESTART;
use crate::cli::output::print;

/// The time between two requests about a follower that is waited for.
const LOOK: Duration = Duration::from_secs(1);

/// The most followers whose timings are printed at once.
const MOST_TIMINGS: usize = 10;

/// Requests about followers.
pub(super) struct FollowerClient<'a> {
    pub(super) client: &'a Client,
    /// Whether nothing is told beside the answer.
    pub(super) quiet: bool,
}

impl FollowerClient<'_> {
    /// Makes the server look at one follower, or at each one.
    pub(super) async fn run_each(
        &self,
        follower: Option<&str>,
        body: &Value,
    ) -> Result<Answer, Failure> {
        if let Some(id) = follower {
            let followers = vec![self.run_once(id, body).await?];
            return Ok(Answer { followers, problems: Vec::new() });
        }
        let mut answer = self.statuses(None).await?;
        for follower in &mut answer.followers {
            *follower = self.run_once(&follower.id, body).await?;
        }
        Ok(answer)
    }

    pub(super) async fn statuses(&self, follower: Option<&str>) -> Result<Answer, Failure> {
        if let Some(id) = follower {
            return Ok(Answer { followers: vec![self.status(id).await?], problems: Vec::new() });
        }
        let mut answer = self.client.get("/followers").await?;
        let problems: Vec<String> = parsed(answer["problems"].take())?;
        for problem in &problems {
            self.note(problem);
        }
        Ok(Answer { followers: parsed(answer["items"].take())?, problems })
    }

    async fn status(&self, id: &str) -> Result<FollowerStatus, Failure> {
        parsed(self.client.get(&format!("/followers/{}", part(id))).await?)
    }

    /// Makes the server look at a follower.
    async fn run_once(&self, id: &str, body: &Value) -> Result<FollowerStatus, Failure> {
        let path = format!("/followers/{}/run", part(id));
        let mut answer = self.client.post_json(&path, body).await?;
        if let Some(object) = answer["submitted"].as_str() {
            self.note(&format!("{id}: {object} is submitted"));
        }
        parsed(answer["follower"].take())
    }

    /// Waits until the commit of a follower is delivered or a stage has failed, at most until `end`. What is blocked can
    /// go on. Tells each change.
    pub(super) async fn wait_for(
        &self,
        mut follower: FollowerStatus,
        end: Instant,
    ) -> Result<FollowerStatus, Failure> {
        let (mut told, mut reached) = (None, Instant::now());
        loop {
            let now = (follower.phase, follower.message.clone());
            if told.as_ref() != Some(&now) {
                self.note(&format!("{}: {}: {}", follower.id, now.0.as_str(), now.1));
                told = Some(now);
            }
            match follower.phase {
                Phase::Noop | Phase::Succeeded | Phase::Failed | Phase::Skipped => {
                    return Ok(follower);
                }
                Phase::Observed
                | Phase::Blocked
                | Phase::PendingTrigger
                | Phase::Triggering
                | Phase::ClosingOut
                | Phase::Superseded => {}
            }
            if Instant::now() >= end {
                self.note(&format!("{}: it is not waited for any longer", follower.id));
                return Ok(follower);
            }
            tokio::time::sleep(LOOK).await;
            match self.status(&follower.id).await {
                Ok(found) => (follower, reached) = (found, Instant::now()),
                Err(error) if error.is_unanswered() && reached.elapsed() < RESTART => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells something beside the answer.
    fn note(&self, text: &str) {
        if !self.quiet {
            note(text);
        }
    }
}

/// What the server says about followers.
pub(super) struct Answer {
    pub(super) followers: Vec<FollowerStatus>,
    /// What is wrong with their registry, if all followers were asked for.
    problems: Vec<String>,
}

impl Answer {
    pub(super) fn show(&self, json: bool) -> Result<u8, Failure> {
        let Self { followers, problems } = self;
        if json {
            let answer = json!({"followers": followers, "problems": problems});
            let text = serde_json::to_string_pretty(&answer)
                .map_err(|error| Failure::refused(error.to_string()))?;
            return Ok(print(format!("{text}\n").as_bytes()));
        }
        let mut text = status_table(followers);
        for follower in followers.iter().take(MOST_TIMINGS) {
            let FollowerStatus { id, message, timings, .. } = follower;
            let _ = write!(text, "\n{id}: {message}\n{}", timings.table());
            text.push_str(&evidence_table(follower).unwrap_or_default());
        }
        if followers.len() > MOST_TIMINGS {
            text.push_str("\n`--follower ID` shows the timings of the others\n");
        }
        Ok(print(text.as_bytes()))
    }
}

pub(super) fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::refused(format!(
            "the server's answer has another form, as of another version: {error}"
        ))
    })
}

/// Tells something on standard error.
pub(super) fn note(text: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}
