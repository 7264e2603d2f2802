//! Finds the pipeline of a request whose response was lost: by its name or its variable `RUN_ID`, among
//! those created since just before the request, by the server's clock.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::client::{GitLab, Pipeline, RUN_ID};
use crate::trigger::lost_response::contains_id;
use crate::trigger::{StartRequest, StartedRun, TriggerError};
use butler_base::http::now;

/// The largest assumed difference between the clocks of the server's machines.
const SKEW: Duration = Duration::from_secs(10);

/// Pipelines in a page (the API's maximum), and pages that are read.
const PAGE: usize = 100;
const PAGES: usize = 5;

/// Pipelines among which that of an earlier process is searched: each can cost a request.
const EXISTING: usize = 20;

/// A variable of a pipeline.
#[derive(Deserialize)]
struct Variable {
    key: String,
    value: Value,
}

impl GitLab {
    /// The newest pipeline with this id, among the last ones of the branch.
    pub(in crate::trigger) async fn find_existing(
        &self,
        start: &StartRequest,
    ) -> Result<Option<StartedRun>, TriggerError> {
        let git_ref = self.reference().await?;
        let (pipelines, _) = self.list_pipelines(&git_ref, 1).await?;
        for pipeline in pipelines.into_iter().take(EXISTING) {
            if self.is_requested(&pipeline, start).await? {
                return Ok(Some(pipeline.into()));
            }
        }
        Ok(None)
    }

    /// Searches for the pipeline of a request that was sent at `begun`. `why` is the reason why it is unclear
    /// whether the pipeline exists.
    pub(super) async fn find(
        &self,
        start: &StartRequest,
        git_ref: &str,
        begun: Instant,
        why: String,
    ) -> Result<StartedRun, TriggerError> {
        let place = format!("the pipelines of `{}`", self.project);
        if self.access.is_none() {
            let how = "to let the runner search, set BUTLER_CI_API_TOKEN to an access token";
            return Err(self.server.outcome_unclear(why, &format!("{place} ({how})")));
        }
        // The variables of a pipeline do not change, so they are requested once per pipeline.
        let mut others = BTreeSet::new();
        let look = async || self.find_once(start, git_ref, begun, &mut others).await;
        self.server.find_lost_run(why, &place, look).await
    }

    async fn find_once(
        &self,
        start: &StartRequest,
        git_ref: &str,
        begun: Instant,
        others: &mut BTreeSet<u64>,
    ) -> Result<Option<StartedRun>, TriggerError> {
        for number in 1..=PAGES {
            let (pipelines, time) = self.list_pipelines(git_ref, number).await?;
            let since = time - begun.elapsed() - SKEW;
            let is_last = pipelines.len() < PAGE;
            for pipeline in pipelines {
                if created_at(&pipeline).is_some_and(|at| at < since) {
                    return Ok(None);
                }
                if others.contains(&pipeline.id) {
                    continue;
                }
                if self.is_requested(&pipeline, start).await? {
                    return Ok(Some(pipeline.into()));
                }
                others.insert(pipeline.id);
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    /// A page of pipelines, newest first, and the server's time.
    async fn list_pipelines(
        &self,
        git_ref: &str,
        number: usize,
    ) -> Result<(Vec<Pipeline>, SystemTime), TriggerError> {
        let what = "list the project's pipelines";
        let mut url = self.url(["pipelines"]);
        url.query_pairs_mut()
            .append_pair("source", "trigger")
            .append_pair("ref", git_ref)
            .append_pair("order_by", "id")
            .append_pair("per_page", &PAGE.to_string())
            .append_pair("page", &number.to_string());
        let response = self.get(what, &url).await?;
        Ok((self.server.parse(what, &response)?, now(&response.headers)))
    }

    /// Whether a pipeline has the id of the requested run in its name or as a variable.
    async fn is_requested(
        &self,
        pipeline: &Pipeline,
        start: &StartRequest,
    ) -> Result<bool, TriggerError> {
        let run_id = start.run_id.as_str();
        if contains_id(pipeline.name.as_deref().unwrap_or_default(), run_id) {
            return Ok(true);
        }
        let what = "read the pipeline's variables";
        let url = self.url(["pipelines", &pipeline.id.to_string(), "variables"]);
        let response = self.get(what, &url).await?;
        let variables: Vec<Variable> = self.server.parse(what, &response)?;
        Ok(variables.iter().any(|it| it.key == RUN_ID && it.value == *run_id))
    }
}

fn created_at(pipeline: &Pipeline) -> Option<SystemTime> {
    parse_time(pipeline.created_at.as_deref()?)
}

/// Parses a time by RFC 3339 in UTC or with an offset, which servers with a time zone send.
fn parse_time(text: &str) -> Option<SystemTime> {
    let (local, offset) = text.len().checked_sub(6).and_then(|at| text.split_at_checked(at))?;
    let (is_ahead, hours, minutes) = match (offset.get(..1), offset.get(1..3), offset.get(4..6)) {
        (Some(sign @ ("+" | "-")), Some(hours), Some(minutes)) => (sign == "+", hours, minutes),
        _ => return humantime::parse_rfc3339(text).ok(),
    };
    let minutes = hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?;
    let local = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let offset = Duration::from_secs(minutes * 60);
    if is_ahead { local.checked_sub(offset) } else { local.checked_add(offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_with_an_offset_is_converted_to_utc() {
        let expected = humantime::parse_rfc3339("2026-11-21T17:00:00Z").ok();
        for text in [
            "2026-11-21T17:00:00.000Z",
            "2026-11-21T18:30:00.000+01:30",
            "2026-11-21T12:00:00-05:00",
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
        for text in ["", "soon", "2026-11-21", "2026-11-21T12:00:00-0a:00"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
