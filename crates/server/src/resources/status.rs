//! The status of a resource.

use butler_cluster::{Condition, ConditionStatus, CustomObject, ResourceKind, ResourceStatus};
use butler_follower::Phase;

use super::choice::Refusal;

/// Whether something holds, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holds {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// In one word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What the server knows about the repository, the layer or the follower that a resource defines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Observed {
    /// Its phase.
    pub phase: Option<String>,
    /// The commit that is applied, or was delivered.
    pub commit: Option<String>,
    /// The number of layers of a layer set.
    pub layers: Option<usize>,
    /// Whether the resource has reached its desired state.
    pub ready: Holds,
    /// Whether `ready` stays what it was, because something runs that does not change what is reached.
    pub keeps_ready: bool,
    /// Whether infrastructure and state differ.
    pub drifted: Option<Holds>,
}

impl Observed {
    /// What is known of something that was not looked at yet.
    #[must_use]
    pub fn nothing() -> Self {
        let ready = Holds {
            status: ConditionStatus::Unknown,
            reason: "Pending".to_owned(),
            message: "the server has not looked at it yet".to_owned(),
        };
        Self { phase: None, commit: None, layers: None, ready, keeps_ready: false, drifted: None }
    }
}

/// The status of `object` at `now`, as long as it is not known what all resources of its namespace want.
#[must_use]
pub fn status_of_held(object: &CustomObject, now: &str) -> ResourceStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let before = status.condition("Ready").filter(|it| it.status == ConditionStatus::Unknown);
    let ready = Condition {
        kind: "Ready".to_owned(),
        status: ConditionStatus::Unknown,
        observed_generation: object.generation,
        last_transition_time: before
            .map_or_else(|| now.to_owned(), |it| it.last_transition_time.clone()),
        reason: "NotListed".to_owned(),
        message: "the server cannot list all resources of the namespace, and starts nothing for its layers until then"
            .to_owned(),
    };
    match status.conditions.iter_mut().find(|condition| condition.kind == ready.kind) {
        Some(condition) => *condition = ready,
        None => status.conditions.push(ready),
    }
    status
}

/// The status of `object` at `now`. `observed` is missing if no generation of it is in force.
#[must_use]
pub fn status(
    object: &CustomObject,
    refusal: Option<&Refusal>,
    observed: Option<&Observed>,
    now: &str,
) -> ResourceStatus {
    let accepted = match refusal {
        None => Holds {
            status: ConditionStatus::True,
            reason: "Valid".to_owned(),
            message: "the server uses it".to_owned(),
        },
        Some(Refusal { reason, message }) => Holds {
            status: ConditionStatus::False,
            reason: (*reason).to_owned(),
            message: match observed {
                Some(_) => format!("{message}; the last valid generation stays in force"),
                None => message.clone(),
            },
        },
    };
    let unused = Holds {
        status: ConditionStatus::False,
        reason: "NotAccepted".to_owned(),
        message: refusal.map_or_else(
            || "the server does not use it".to_owned(),
            |refusal| format!("the server does not use it: {}", refusal.message),
        ),
    };
    // A follower that is not in force waits for a person, as one whose object was refused.
    let is_blocked = object.key.kind == ResourceKind::Follower && observed.is_none();
    let blocked = || is_blocked.then(|| Phase::Blocked.as_str().to_owned());
    let was_ready = object.status.as_ref().and_then(|status| status.condition("Ready"));
    let was_ready = was_ready.filter(|was| was.observed_generation == object.generation);
    let ready = match (observed, was_ready) {
        (None, _) => unused,
        (Some(Observed { keeps_ready: true, .. }), Some(was)) => {
            Holds { status: was.status, reason: was.reason.clone(), message: was.message.clone() }
        }
        (Some(observed), _) => observed.ready.clone(),
    };
    let drifted = observed.and_then(|observed| observed.drifted.clone());
    let named = [("Accepted", Some(accepted)), ("Ready", Some(ready)), ("Drifted", drifted)];
    let conditions = named.into_iter().filter_map(|(kind, holds)| {
        let Holds { status, reason, message } = holds?;
        let before = object.status.as_ref().and_then(|status| status.condition(kind));
        let same = before.filter(|before| before.status == status);
        let since = same.map_or(now, |before| &before.last_transition_time);
        Some(Condition {
            kind: kind.to_owned(),
            status,
            observed_generation: object.generation,
            last_transition_time: since.to_owned(),
            reason,
            message,
        })
    });
    ResourceStatus {
        observed_generation: object.generation,
        phase: observed.and_then(|observed| observed.phase.clone()).or_else(blocked),
        commit: observed.and_then(|observed| observed.commit.clone()),
        layers: observed.and_then(|it| it.layers).map(|it| i32::try_from(it).unwrap_or(i32::MAX)),
        conditions: conditions.collect(),
    }
}
