//! The outcome of a run, from the states of its Job and its pod.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use crate::pod::{
    Stage, disruption, ended, is_image_wait, is_on_silent_node, name, never_started, node,
    sentence, stage, was_rejected,
};
use crate::watch::ObservedObject;

/// The exit code of a run that the cluster ended, or whose result is unknown.
const FAILED: u8 = 1;

/// The exit code after SIGKILL.
pub(crate) const KILLED: i32 = 137;

/// The outcome of a run, as far as the cluster reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The runner's exit code, or 1 if the runner did not report one.
    pub code: u8,
    /// One sentence without a full stop.
    pub summary: String,
    /// The hint, in the imperative.
    pub hint: Option<String>,
    /// Who knows it.
    pub source: OutcomeSource,
}

/// Who knows the outcome of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutcomeSource {
    /// The runner, which ended by itself. Its log says the same.
    Runner,
    /// The cluster, which ended the run or never began it.
    Cluster,
    /// The run may still go on.
    Open,
}

/// The outcome at this point of the run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The run goes on.
    Open,
    /// The outcome, unless the Job reports a reason soon.
    Provisional(Outcome),
    /// The outcome.
    Final(Outcome),
}

/// Earlier states of a run, which the pod's current status does not contain.
#[derive(Debug, Default)]
pub(crate) struct RunHistory {
    /// Whether the runner ran.
    pub(crate) has_run: bool,
    /// The reason of the last wait.
    pub(crate) wait: Option<String>,
}

/// The outcome according to the Job and the pod.
pub(crate) fn verdict(
    job: &ObservedObject<Job>,
    pod: &ObservedObject<Pod>,
    seen: &RunHistory,
) -> Verdict {
    let decided = match job {
        ObservedObject::Unknown => None,
        // The runner created the Job, so it must have been deleted.
        ObservedObject::Nothing => Some("the Job was deleted".to_owned()),
        ObservedObject::There(job) => end_condition(job).map(reason),
        ObservedObject::Gone(job) => {
            Some(end_condition(job).map_or("the Job was deleted".to_owned(), reason))
        }
    };
    let is_decided = decided.is_some();
    let outcome = match pod {
        ObservedObject::Unknown => return Verdict::Open,
        ObservedObject::Nothing => match decided {
            // The watches of Job and pod are independent: the pod's end may not have arrived yet.
            Some(why) if may_have_had_pod(job) => {
                return Verdict::Provisional(outcome_without_pod(job, &why));
            }
            Some(why) => never_began(Some(&why), seen),
            None => return Verdict::Open,
        },
        ObservedObject::There(pod) if stage(pod) != Stage::Over => return Verdict::Open,
        // The last state of the pod may be older than the Job's.
        ObservedObject::There(pod) | ObservedObject::Gone(pod)
            if ended(pod).is_none() && is_complete(job) =>
        {
            succeeded()
        }
        ObservedObject::There(pod) | ObservedObject::Gone(pod) => {
            outcome_of_pod(pod, decided.as_deref(), seen)
        }
    };
    if is_decided || outcome.code == 0 {
        Verdict::Final(outcome)
    } else {
        Verdict::Provisional(outcome)
    }
}

/// Whether the Job may have had a pod: its controller has counted one, or the Job was never seen.
fn may_have_had_pod(job: &ObservedObject<Job>) -> bool {
    if matches!(job, ObservedObject::Nothing) {
        return true;
    }
    let status = job.last().and_then(|job| job.status.as_ref());
    status.is_some_and(|status| {
        [status.active, status.succeeded, status.failed].into_iter().flatten().any(|it| it > 0)
    })
}

fn is_complete(job: &ObservedObject<Job>) -> bool {
    job.last().and_then(end_condition).is_some_and(|condition| condition.type_ == "Complete")
}

/// The outcome if no state of the pod is known.
fn outcome_without_pod(job: &ObservedObject<Job>, why: &str) -> Outcome {
    if is_complete(job) {
        return succeeded();
    }
    Outcome {
        code: FAILED,
        summary: format!("the Job ended, but the runner's result is unknown: {why}"),
        hint: advice(why),
        source: OutcomeSource::Cluster,
    }
}

fn succeeded() -> Outcome {
    let summary = "the run succeeded".to_owned();
    Outcome { code: 0, summary, hint: None, source: OutcomeSource::Runner }
}

/// The outcome of a run that never began: the reason of the wait, and in parentheses the reason for its end.
fn never_began(why: Option<&str>, seen: &RunHistory) -> Outcome {
    let reason = match (seen.wait.as_deref(), why) {
        (Some(wait), Some(why)) => format!("{wait} ({why})"),
        (Some(only), None) | (None, Some(only)) => only.to_owned(),
        (None, None) => "its container was not started".to_owned(),
    };
    let hint = seen.wait.as_deref().and_then(advice_on_wait).or_else(|| why.and_then(advice));
    let summary = format!("the run never began: {reason}");
    Outcome { code: FAILED, summary, hint, source: OutcomeSource::Cluster }
}

/// The hint for a run that waited without success.
fn advice_on_wait(wait: &str) -> Option<String> {
    if is_image_wait(wait) {
        return Some("check --image, --runner-version and --pull-secret".to_owned());
    }
    let is_missing = ["CreateContainerConfigError", "FailedMount"];
    is_missing
        .iter()
        .any(|reason| wait.starts_with(reason))
        .then(|| "create what is missing in the namespace".to_owned())
}

fn outcome_of_pod(pod: &Pod, of_job: Option<&str>, seen: &RunHistory) -> Outcome {
    let disruption = disruption(pod);
    // The reason for the failure is enough; the Job's condition only repeats that the pod failed.
    let of_job = of_job.filter(|why| !why.starts_with("BackoffLimitExceeded"));
    let why = disruption.as_deref().or(of_job);
    match ended(pod) {
        Some(state) => outcome_of_runner(state, why),
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
                source: OutcomeSource::Cluster,
            }
        }
    }
}

fn outcome_of_runner(state: &ContainerStateTerminated, why: Option<&str>) -> Outcome {
    if state.exit_code == 0 {
        return succeeded();
    }
    let code = u8::try_from(state.exit_code).unwrap_or(FAILED);
    let reason = state.reason.as_deref().unwrap_or_default();
    let is_own = matches!(reason, "" | "Error" | "Completed") && why.is_none();
    let source = if is_own { OutcomeSource::Runner } else { OutcomeSource::Cluster };
    let (summary, hint) = match reason {
        "OOMKilled" => {
            // With cgroups v1 the kernel kills one process, which may be a child of the runner. The
            // kubelet reports the same reason for both.
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
        "" | "Error" if state.exit_code == KILLED && why.is_none() => {
            // Nothing in the container can kill its first process, and the cluster names every reason of its own. Some
            // kubelets miss that the kernel did it.
            let summary = "the runner was killed (exit code 137), and the cluster does not say why: most likely the \
                           container or its node was out of memory";
            (summary.to_owned(), Some("give it more with --memory".to_owned()))
        }
        "" | "Error" | "Completed" => (format!("the runner ended with exit code {code}"), None),
        other => {
            let reason = sentence(other, state.message.as_deref());
            (format!("the container ended with exit code {code}: {reason}"), None)
        }
    };
    match why {
        Some(why) => Outcome {
            code,
            summary: format!("{summary}: {why}"),
            hint: hint.or_else(|| advice(why)),
            source,
        },
        None => Outcome { code, summary, hint, source },
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

/// The outcome for a pod that did not end in time.
pub(crate) fn overdue_outcome(pod: &Pod, job: &ObservedObject<Job>) -> Outcome {
    let node = node(pod).unwrap_or("unknown");
    let what =
        if is_on_silent_node(pod) { "does not answer (NotReady)" } else { "does not end it" };
    let why =
        job.last().and_then(end_condition).map(|condition| format!(": {}", reason(condition)));
    Outcome {
        code: FAILED,
        summary: format!(
            "the pod `{}` did not end in time, and its node `{node}` {what}{}",
            name(pod),
            why.unwrap_or_default()
        ),
        hint: Some("the run may still go on there; the registry has its last report".to_owned()),
        source: OutcomeSource::Open,
    }
}

/// The condition that ended the Job. The cluster sets `FailureTarget` before the pods have ended, `Failed` after.
pub(crate) fn end_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ends = ["Failed", "FailureTarget", "Complete"];
    ends.iter().find_map(|type_| {
        conditions.iter().find(|condition| condition.type_ == *type_ && condition.status == "True")
    })
}

/// The reason for the Job's end, with its message.
pub(crate) fn reason(condition: &JobCondition) -> String {
    let reason = condition.reason.as_deref().unwrap_or(&condition.type_);
    sentence(reason, condition.message.as_deref())
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
