//! The outcome of a run, from the states of its Job and its pod.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use super::pod::{
    Stage, disruption, ended, is_of_image, is_on_silent_node, name, never_started, node, sentence,
    stage, was_rejected,
};
use super::watch::Sight;

/// The exit code of a run that the cluster ended, or whose result is unknown.
const FAILED: u8 = 1;

/// 128 and SIGKILL.
const KILLED: i32 = 137;

/// How a run ended, as far as the cluster knows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The runner's exit code where it had one.
    pub code: u8,
    /// What happened.
    pub summary: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What can be said now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The run goes on.
    Open,
    /// This, unless the Job still says more.
    Provisional(Outcome),
    /// This.
    Final(Outcome),
}

/// What was seen of a run that its pod does not say any more.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether the runner ran.
    pub(super) has_run: bool,
    /// What the run waited for last.
    pub(super) wait: Option<String>,
}

/// What the Job and the pod say together.
pub(super) fn verdict(job: &Sight<Job>, pod: &Sight<Pod>, seen: &Seen) -> Verdict {
    let decided = match job {
        Sight::Unknown => None,
        // There was one, which was created.
        Sight::Nothing => Some("the Job was deleted".to_owned()),
        Sight::There(job) => end(job).map(reason),
        Sight::Gone(job) => Some(end(job).map_or("the Job was deleted".to_owned(), reason)),
    };
    let is_decided = decided.is_some();
    let outcome = match pod {
        Sight::Unknown => return Verdict::Open,
        Sight::Nothing => match decided {
            // Job and pod are watched apart: the pod's own end may be on its way.
            Some(why) if may_have_had_pod(job) => {
                return Verdict::Provisional(without_pod(job, &why));
            }
            Some(why) => never_began(Some(&why), seen),
            None => return Verdict::Open,
        },
        Sight::There(pod) if stage(pod) != Stage::Over => return Verdict::Open,
        // What was seen of the pod last may be older than what the Job says.
        Sight::There(pod) | Sight::Gone(pod) if ended(pod).is_none() && is_complete(job) => {
            succeeded()
        }
        Sight::There(pod) | Sight::Gone(pod) => of_pod(pod, decided.as_deref(), seen),
    };
    if is_decided || outcome.code == 0 {
        Verdict::Final(outcome)
    } else {
        Verdict::Provisional(outcome)
    }
}

/// Whether the Job may have had a pod: its controller has counted one, or the Job was never seen.
fn may_have_had_pod(job: &Sight<Job>) -> bool {
    if matches!(job, Sight::Nothing) {
        return true;
    }
    let status = job.last().and_then(|job| job.status.as_ref());
    status.is_some_and(|status| {
        [status.active, status.succeeded, status.failed].into_iter().flatten().any(|it| it > 0)
    })
}

fn is_complete(job: &Sight<Job>) -> bool {
    job.last().and_then(end).is_some_and(|condition| condition.type_ == "Complete")
}

/// What is left to say where the pod itself is never seen.
fn without_pod(job: &Sight<Job>, why: &str) -> Outcome {
    if is_complete(job) {
        return succeeded();
    }
    Outcome {
        code: FAILED,
        summary: format!("the Job ended, but the runner's result is unknown: {why}"),
        hint: advice(why),
    }
}

fn succeeded() -> Outcome {
    Outcome { code: 0, summary: "the run succeeded".to_owned(), hint: None }
}

/// What it waited for, and in parentheses what ended the wait.
fn never_began(why: Option<&str>, seen: &Seen) -> Outcome {
    let reason = match (seen.wait.as_deref(), why) {
        (Some(wait), Some(why)) => format!("{wait} ({why})"),
        (Some(only), None) | (None, Some(only)) => only.to_owned(),
        (None, None) => "its container was not started".to_owned(),
    };
    let hint = seen.wait.as_deref().and_then(advice_on_wait).or_else(|| why.and_then(advice));
    Outcome { code: FAILED, summary: format!("the run never began: {reason}"), hint }
}

/// The hint for a run that waited without success.
fn advice_on_wait(wait: &str) -> Option<String> {
    if is_of_image(wait) {
        return Some("check --image, --runner-version and --pull-secret".to_owned());
    }
    let is_missing = ["CreateContainerConfigError", "FailedMount"];
    is_missing
        .iter()
        .any(|reason| wait.starts_with(reason))
        .then(|| "create what is missing in the namespace".to_owned())
}

fn of_pod(pod: &Pod, of_job: Option<&str>, seen: &Seen) -> Outcome {
    let disruption = disruption(pod);
    // The reason for the failure is enough; the Job's condition only repeats that the pod failed.
    let of_job = of_job.filter(|why| !why.starts_with("BackoffLimitExceeded"));
    let why = disruption.as_deref().or(of_job);
    match ended(pod) {
        Some(state) => of_runner(state, why),
        None if stage(pod) == Stage::Waiting => {
            never_began(why.or(Some("the pod was deleted")), seen)
        }
        None if was_rejected(pod) => never_began(why.or(Some("its node did not take it")), seen),
        None if never_started(pod) && !seen.has_run => never_began(why, seen),
        None => {
            let gone = "the pod was removed before the runner reported its result";
            let why = why.unwrap_or("its node may be lost");
            Outcome {
                code: FAILED,
                summary: format!("{gone}: {why}"),
                hint: Some("the registry has its last report".to_owned()),
            }
        }
    }
}

fn of_runner(state: &ContainerStateTerminated, why: Option<&str>) -> Outcome {
    if state.exit_code == 0 {
        return succeeded();
    }
    let code = u8::try_from(state.exit_code).unwrap_or(FAILED);
    let reason = state.reason.as_deref().unwrap_or_default();
    let (summary, hint) = match reason {
        "OOMKilled" => {
            // With cgroups v1 the kernel kills one process, which need not be the runner; the kubelet
            // writes the same of both.
            let summary = if state.exit_code == KILLED {
                "the runner was killed because the container was out of memory (OOMKilled)"
                    .to_owned()
            } else {
                format!(
                    "the runner ended with exit code {code}: a process of its own was killed because the container was out of memory (OOMKilled)"
                )
            };
            (summary, Some("give it more with --memory".to_owned()))
        }
        "" | "Error" | "Completed" => (format!("the runner ended with exit code {code}"), None),
        other => {
            let said = sentence(other, state.message.as_deref());
            (format!("the container ended with exit code {code}: {said}"), None)
        }
    };
    match why {
        Some(why) => Outcome {
            code,
            summary: format!("{summary}: {why}"),
            hint: hint.or_else(|| advice(why)),
        },
        None => Outcome { code, summary, hint },
    }
}

fn advice(why: &str) -> Option<String> {
    if why.starts_with("DeadlineExceeded") {
        return Some("give it longer with --timeout".to_owned());
    }
    if why.starts_with("Evicted") {
        return Some("the node ran out of what the message names; ask for more of it".to_owned());
    }
    None
}

/// What is said of a pod that does not end in its time.
pub(super) fn endless(pod: &Pod, job: &Sight<Job>) -> Outcome {
    let node = node(pod).unwrap_or("unknown");
    let what =
        if is_on_silent_node(pod) { "does not answer (NotReady)" } else { "does not end it" };
    let why = job.last().and_then(end).map(|condition| format!(": {}", reason(condition)));
    Outcome {
        code: FAILED,
        summary: format!(
            "the pod `{}` did not end in time, and its node `{node}` {what}{}",
            name(pod),
            why.unwrap_or_default()
        ),
        hint: Some("the run may still go on there; the registry has its last report".to_owned()),
    }
}

/// The condition that ended the Job. `FailureTarget` comes before the pods are gone, `Failed` after.
pub(super) fn end(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ends = ["Failed", "FailureTarget", "Complete"];
    ends.iter().find_map(|type_| {
        conditions.iter().find(|condition| condition.type_ == *type_ && condition.status == "True")
    })
}

/// Why the Job ended.
pub(super) fn reason(condition: &JobCondition) -> String {
    let reason = condition.reason.as_deref().unwrap_or(&condition.type_);
    sentence(reason, condition.message.as_deref())
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
