//! What became of a run, from what its Job and its pod say.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use super::pod::{Stage, disruption, ended, sentence, stage, was_rejected};
use super::watch::Sight;

/// What a run ends with that the cluster ended, or nobody knows how.
const FAILED: u8 = 1;

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

/// What the Job and the pod say together.
pub(super) fn verdict(job: &Sight<Job>, pod: &Sight<Pod>) -> Verdict {
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
            Some(why) => never_began(&why),
            None => return Verdict::Open,
        },
        Sight::There(pod) if stage(pod) != Stage::Over => return Verdict::Open,
        // What was seen of the pod last may be older than what the Job says.
        Sight::There(pod) | Sight::Gone(pod) if ended(pod).is_none() && is_complete(job) => {
            succeeded()
        }
        Sight::There(pod) | Sight::Gone(pod) => of_pod(pod, decided.as_deref()),
    };
    if is_decided || outcome.code == 0 {
        Verdict::Final(outcome)
    } else {
        Verdict::Provisional(outcome)
    }
}

/// Whether the Job's controller has ever counted a pod of it, or nobody knows.
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
        summary: format!("the Job ended, and how the runner did is not known: {why}"),
        hint: advice(why),
    }
}

fn succeeded() -> Outcome {
    Outcome { code: 0, summary: "the run succeeded".to_owned(), hint: None }
}

fn never_began(why: &str) -> Outcome {
    Outcome { code: FAILED, summary: format!("the run never began: {why}"), hint: advice(why) }
}

fn of_pod(pod: &Pod, of_job: Option<&str>) -> Outcome {
    let disruption = disruption(pod);
    // That the pod failed is no news beside why it did.
    let of_job = of_job.filter(|why| !why.starts_with("BackoffLimitExceeded"));
    let why = disruption.as_deref().or(of_job);
    match ended(pod) {
        Some(state) => of_runner(state, why),
        None if stage(pod) == Stage::Waiting => never_began(why.unwrap_or("the pod was deleted")),
        None if was_rejected(pod) => never_began(why.unwrap_or("its node did not take it")),
        None => {
            let gone = "the pod was taken away before the runner could say how it ended";
            let why = why.unwrap_or("its node may be lost");
            Outcome {
                code: FAILED,
                summary: format!("{gone}: {why}"),
                hint: Some("its registry knows what it reported last".to_owned()),
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
        "OOMKilled" => (
            "the runner was killed because the container was out of memory (OOMKilled)".to_owned(),
            Some("give it more with --memory".to_owned()),
        ),
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

/// The condition that ended the Job. `FailureTarget` comes before the pods are gone, `Failed` after.
pub(super) fn end(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ends = ["Failed", "FailureTarget", "Complete"];
    ends.iter().find_map(|type_| {
        conditions.iter().find(|condition| condition.type_ == *type_ && condition.status == "True")
    })
}

fn reason(condition: &JobCondition) -> String {
    let reason = condition.reason.as_deref().unwrap_or(&condition.type_);
    sentence(reason, condition.message.as_deref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(condition: Option<(&str, &str, &str)>) -> Sight<Job> {
        let conditions: Vec<Value> = condition
            .into_iter()
            .map(|(type_, reason, message)| {
                json!({"type": type_, "status": "True", "reason": reason, "message": message})
            })
            .collect();
        let job = json!({"metadata": {}, "status": {"conditions": conditions}});
        Sight::There(Box::new(serde_json::from_value(job).unwrap()))
    }

    fn pod(status: &Value) -> Box<Pod> {
        Box::new(serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap())
    }

    fn terminated(code: i32, reason: &str) -> Value {
        json!({
            "phase": if code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": [{
                "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "reason": reason}},
            }],
        })
    }

    fn said(job: &Sight<Job>, pod: &Sight<Pod>) -> (u8, String) {
        match verdict(job, pod) {
            Verdict::Open => panic!("open"),
            Verdict::Provisional(outcome) | Verdict::Final(outcome) => {
                (outcome.code, outcome.summary)
            }
        }
    }

    #[test]
    fn the_runners_exit_code_is_the_outcome() {
        for (code, summary) in [
            (0, "the run succeeded"),
            (1, "the runner ended with exit code 1"),
            (3, "the runner ended with exit code 3"),
            (143, "the runner ended with exit code 143"),
        ] {
            let pod = Sight::There(pod(&terminated(code, "Error")));
            let expected = (u8::try_from(code).unwrap(), summary.to_owned());
            assert_eq!(said(&job(None), &pod), expected);
        }
        let failed = Sight::There(pod(&terminated(1, "Error")));
        assert!(matches!(verdict(&job(None), &failed), Verdict::Provisional(_)));
        let limit = job(Some(("Failed", "BackoffLimitExceeded", "Job has reached the limit")));
        assert!(matches!(verdict(&limit, &failed), Verdict::Final(_)));
        assert_eq!(said(&limit, &failed).1, "the runner ended with exit code 1");
    }

    #[test]
    fn what_the_cluster_did_is_said() {
        let deadline = job(Some((
            "FailureTarget",
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )));
        let killed = Sight::There(pod(&terminated(143, "Error")));
        assert_eq!(
            said(&deadline, &killed).1,
            "the runner ended with exit code 143: DeadlineExceeded: Job was active longer than specified deadline"
        );
        assert_eq!(
            said(&deadline, &Sight::Nothing).1,
            "the run never began: DeadlineExceeded: Job was active longer than specified deadline"
        );
        let memory = Sight::There(pod(&terminated(137, "OOMKilled")));
        let Verdict::Provisional(outcome) = verdict(&job(None), &memory) else { panic!() };
        assert_eq!(outcome.code, 137);
        assert_eq!(outcome.hint.unwrap(), "give it more with --memory");
        let evicted = json!({
            "phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: ephemeral-storage.",
        });
        assert_eq!(
            said(&job(None), &Sight::There(pod(&evicted))).1,
            "the pod was taken away before the runner could say how it ended: Evicted: The node was low on resource: ephemeral-storage."
        );
        let lost = json!({"phase": "Running", "conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }], "containerStatuses": [{
            "name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {}},
        }]});
        let gone = Sight::Gone(pod(&lost));
        assert!(
            said(&job(None), &gone).1.ends_with("DeletionByPodGC: PodGC: node no longer exists")
        );
        let waiting = Sight::Gone(pod(&json!({"phase": "Pending"})));
        assert_eq!(
            said(&deadline, &waiting).1,
            "the run never began: DeadlineExceeded: Job was active longer than specified deadline"
        );
    }

    /// The Job is over before anybody has looked for its pod, or seen it.
    #[test]
    fn a_pod_that_was_not_looked_at_says_nothing_yet() {
        let ended = |type_: &str, status: Value| {
            let condition = json!([{"type": type_, "status": "True", "reason": "R"}]);
            let mut job = json!({"metadata": {}, "status": status});
            job["status"]["conditions"] = condition;
            Sight::There(Box::new(serde_json::from_value(job).unwrap()))
        };
        let complete = ended("Complete", json!({"succeeded": 1}));
        assert_eq!(verdict(&complete, &Sight::Unknown), Verdict::Open);
        assert_eq!(verdict(&complete, &Sight::Nothing), Verdict::Provisional(succeeded()));
        let failed = verdict(&ended("Failed", json!({"failed": 1})), &Sight::Nothing);
        let Verdict::Provisional(outcome) = failed else { panic!("{failed:?}") };
        assert_eq!(outcome.code, 1);
        let never = verdict(&ended("Failed", json!({})), &Sight::Nothing);
        assert_eq!(never, Verdict::Final(never_began("R")));
    }

    #[test]
    fn job_that_completed_beats_what_was_seen_of_its_pod_before() {
        let running = pod(&json!({"phase": "Running", "containerStatuses": [{
            "name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {}},
        }]}));
        let complete = job(Some(("Complete", "CompletionsReached", "")));
        assert_eq!(verdict(&complete, &Sight::Gone(running)), Verdict::Final(succeeded()));
    }

    /// It was created, so that a cluster that has none has deleted it, whoever has seen it.
    #[test]
    fn job_that_is_never_seen_was_deleted() {
        let Verdict::Provisional(outcome) = verdict(&Sight::Nothing, &Sight::Nothing) else {
            panic!("it is waited for, and nothing comes")
        };
        assert_eq!(outcome.code, FAILED);
        assert!(outcome.summary.ends_with("is not known: the Job was deleted"), "{outcome:?}");
        assert_eq!(verdict(&Sight::Unknown, &Sight::Nothing), Verdict::Open);
    }

    #[test]
    fn pod_that_its_node_did_not_take_never_ran() {
        let rejected = pod(&json!({
            "phase": "Failed", "reason": "OutOfmemory", "message": "Node didn't have enough resource",
        }));
        assert_eq!(
            said(&job(None), &Sight::There(rejected)).1,
            "the run never began: OutOfmemory: Node didn't have enough resource"
        );
    }
}
