//! The default status of followers, as text and as JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{FailureStatus, InFlightStatus, StageStatus};
use super::table::Table;
use super::timings::Timings;
use crate::commit::Commit;
use crate::config::{Budget, BudgetOrigin, DEFAULT_BUDGET, Follower};
use crate::phase::Phase;
use crate::state::Record;
use butler_base::moment::Moment;

/// The status of a follower. It is made from what is stored, and reads nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowerStatus {
    /// The follower's id.
    pub id: String,
    /// The last phase. `Observed` before the first decision.
    pub phase: Phase,
    /// What delivers a commit.
    pub adapter: String,
    /// The repository.
    pub repository: String,
    /// The branch.
    pub branch: String,
    /// The last head of the branch that was read.
    pub observed: Option<Commit>,
    /// The commit that is being delivered, or was delivered last.
    pub target: Option<Commit>,
    /// The last commit for which an object exists or was submitted.
    pub triggered: Option<Commit>,
    /// The last commit that was delivered.
    pub succeeded: Option<Commit>,
    /// The object that is submitted or runs.
    pub in_flight: Option<InFlightStatus>,
    /// The highest attempt of a stage; 0 before the first look.
    pub attempts: u32,
    /// The last failure of the target.
    pub failure: Option<FailureStatus>,
    /// Who set the budget: `follower`, `controller` or `default`.
    pub budget_source: String,
    /// The timings.
    pub timings: Timings,
    /// The stages, with their evidence of reuse.
    pub stages: Vec<StageStatus>,
    /// References to the configurations that own what is delivered.
    pub config_refs: Vec<String>,
    /// The reasons of the last decision.
    pub message: String,
    /// The commands that show more, or that help.
    pub next: Vec<String>,
}

impl FollowerStatus {
    /// The status of a follower, whose record is `None` before the first decision.
    #[must_use]
    pub fn new(follower: &Follower, record: Option<&Record>, now: Moment) -> Self {
        let phase = record.map_or(Phase::Observed, |record| record.phase);
        Self {
            id: follower.id.clone(),
            phase,
            adapter: follower.adapter.as_str().to_owned(),
            repository: follower.source.repository.clone(),
            branch: follower.source.branch.clone(),
            observed: record.and_then(|record| record.observed.clone()),
            target: record.and_then(|record| record.target.clone()),
            triggered: record.and_then(|record| record.triggered.clone()),
            succeeded: record.and_then(|record| record.succeeded.clone()),
            in_flight: record.and_then(|record| record.in_flight.as_ref().map(InFlightStatus::new)),
            attempts: record.map_or(0, Record::attempts),
            failure: record.and_then(|record| record.failure.as_ref().map(FailureStatus::new)),
            budget_source: follower.budget.origin.as_str().to_owned(),
            timings: Timings::new(record, follower.budget, now),
            stages: record
                .map(|record| record.stages.iter().map(StageStatus::new).collect())
                .unwrap_or_default(),
            config_refs: follower.config_refs.clone(),
            message: record.map(|record| record.message.clone()).unwrap_or_default(),
            next: next_commands(&follower.id, phase),
        }
    }
}

impl FollowerStatus {
    /// The status of a follower that the server does not use, because its definition is refused.
    #[must_use]
    pub fn refused(id: &str, why: &str, now: Moment) -> Self {
        let unknown = || "-".to_owned();
        let budget = Budget { limit: DEFAULT_BUDGET, origin: BudgetOrigin::Default };
        Self {
            id: id.to_owned(),
            phase: Phase::Blocked,
            adapter: unknown(),
            repository: unknown(),
            branch: unknown(),
            observed: None,
            target: None,
            triggered: None,
            succeeded: None,
            in_flight: None,
            attempts: 0,
            failure: None,
            budget_source: budget.origin.as_str().to_owned(),
            timings: Timings::new(None, budget, now),
            stages: Vec::new(),
            config_refs: Vec::new(),
            message: format!("the definition of the follower is refused: {why}"),
            next: Vec::new(),
        }
    }
}

/// The commands that show more, or that help in this phase.
fn next_commands(id: &str, phase: Phase) -> Vec<String> {
    let command = |words: &str| format!("butler-runner follower {words}");
    let events = command(&format!("events --follower {id}"));
    let logs = command(&format!("logs --follower {id}"));
    match phase {
        Phase::Failed => {
            vec![logs, events, command(&format!("run-once --follower {id} --confirm --wait"))]
        }
        Phase::PendingTrigger => {
            vec![events, command(&format!("run-once --follower {id} --confirm --wait"))]
        }
        Phase::Blocked | Phase::Skipped | Phase::Observed => {
            vec![events, command("status --live")]
        }
        Phase::Noop
        | Phase::Triggering
        | Phase::ClosingOut
        | Phase::Succeeded
        | Phase::Superseded => vec![events, logs],
    }
}

/// The default table of followers, and the next commands of each.
#[must_use]
pub fn status_table(followers: &[FollowerStatus]) -> String {
    let mut table = Table::new(&[
        "FOLLOWER",
        "PHASE",
        "ADAPTER",
        "BRANCH",
        "OBSERVED",
        "TARGET",
        "TRIGGERED",
        "SUCCEEDED",
        "IN FLIGHT",
        "BUDGET",
        "TIMING",
    ]);
    let mut next = Table::new(&["NEXT", ""]);
    for follower in followers {
        let in_flight = follower.in_flight.as_ref().map(|it| it.object.to_string());
        table.push([
            follower.id.clone(),
            follower.phase.as_str().to_owned(),
            follower.adapter.clone(),
            follower.branch.clone(),
            short(follower.observed.as_ref()),
            short(follower.target.as_ref()),
            short(follower.triggered.as_ref()),
            short(follower.succeeded.as_ref()),
            in_flight.unwrap_or_else(|| "-".to_owned()),
            follower.budget_source.clone(),
            follower.timings.summary(),
        ]);
        for command in &follower.next {
            next.push([follower.id.clone(), command.clone()]);
        }
    }
    format!("{table}\n{next}")
}

fn short(commit: Option<&Commit>) -> String {
    commit.map_or("-", Commit::short).to_owned()
}
