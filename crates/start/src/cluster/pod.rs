//! Interprets the state of a run's pod.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};

use super::manifest::CONTAINER;

/// Reasons that are on the way to a start.
const ON_THE_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Why a kubelet does not take a pod, beside `OutOf` and a resource.
const REJECTIONS: [&str; 3] = ["NodeAffinity", "NodeShutdown", "UnexpectedAdmissionError"];

/// What a kubelet writes between two tries to pull an image.
const BACK_OFF: &str = "ImagePullBackOff";

/// What a kubelet writes where it knows nothing of a container, with an exit code that it makes up.
const UNKNOWN: &str = "ContainerStatusUnknown";

/// How far a pod is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// The run has not begun.
    Waiting,
    /// The runner runs.
    Running,
    /// It does not run any more, or never will.
    Over,
}

pub(super) fn stage(pod: &Pod) -> Stage {
    let state = container(pod);
    let ended = state.is_some_and(|state| state.terminated.is_some());
    if ended || matches!(phase(pod), "Failed" | "Succeeded") {
        return Stage::Over;
    }
    match state.and_then(|state| state.running.as_ref()) {
        Some(_) => Stage::Running,
        None => Stage::Waiting,
    }
}

/// How the runner ended; none where the kubelet does not know.
pub(super) fn ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let state = container(pod)?.terminated.as_ref()?;
    (state.reason.as_deref() != Some(UNKNOWN)).then_some(state)
}

/// Whether the container came to an end without ever having been started: its image was never there, or
/// something that it needs.
pub(super) fn never_started(pod: &Pod) -> bool {
    let is_made_up = |status: &ContainerStatus| {
        let state = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        // A container that a node has lost has an identifier, or its message says that it ran.
        state.is_some_and(|state| {
            let message = state.message.as_deref().unwrap_or_default();
            state.reason.as_deref() == Some(UNKNOWN)
                && state.started_at.is_none()
                && !message.contains("used to be Running")
        }) && status.container_id.as_deref().unwrap_or_default().is_empty()
    };
    status(pod).is_some_and(is_made_up)
}

/// Why the run has not begun: what the scheduler or the kubelet says.
pub(super) fn waiting(pod: &Pod) -> Option<String> {
    if stage(pod) != Stage::Waiting {
        return None;
    }
    let waiting = container(pod).and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    if let Some(reason) = reason.filter(|reason| !ON_THE_WAY.contains(reason)) {
        let message = waiting.and_then(|waiting| waiting.message.as_deref());
        let said = sentence(reason, message);
        // Between two tries the kubelet says the last error behind its own words.
        return Some(match said.find("ErrImagePull: ") {
            Some(at) if reason == BACK_OFF => said[at..].to_owned(),
            _ => said,
        });
    }
    let scheduled = condition(pod, "PodScheduled").filter(|condition| condition.status == "False");
    scheduled.map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
        sentence(reason, condition.message.as_deref())
    })
}

/// Whether that the run waits for `why` says nothing beside `other`, for which it waited before.
pub(super) fn is_said_by(why: &str, other: &str) -> bool {
    // Older kubelets leave the error out of their words for the pause between two tries.
    why == other || why.starts_with(BACK_OFF) && is_of_image(other)
}

/// Whether a wait is for the image.
pub(super) fn is_of_image(why: &str) -> bool {
    let reason = why.split(':').next().unwrap_or_default();
    [BACK_OFF, "ErrImagePull", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName"]
        .contains(&reason)
}

/// Whether the node stopped reporting: the node controller then clears the readiness of the pod, but not
/// the readiness of the container.
pub(super) fn is_on_silent_node(pod: &Pod) -> bool {
    let is_ready = |pod| condition(pod, "Ready").is_none_or(|condition| condition.status == "True");
    stage(pod) == Stage::Running && !is_ready(pod) && status(pod).is_some_and(|status| status.ready)
}

/// Why the cluster took the pod away, or is about to.
pub(super) fn disruption(pod: &Pod) -> Option<String> {
    let target = condition(pod, "DisruptionTarget").filter(|condition| condition.status == "True");
    let of_target = target.map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or("disrupted");
        sentence(reason, condition.message.as_deref())
    });
    // `Evicted` and `NodeLost` stand here; the message of an eviction says which resource ran out.
    let status = pod.status.as_ref();
    let own = status.and_then(|status| {
        let reason = status.reason.as_deref()?;
        Some(sentence(reason, status.message.as_deref()))
    });
    own.or(of_target)
}

/// Whether the kubelet refused it before anything in it ran. An eviction is something else: nothing in
/// the pod says whether it had begun.
pub(super) fn was_rejected(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    container(pod).is_none() && (reason.starts_with("OutOf") || REJECTIONS.contains(&reason))
}

/// The node that it runs on.
pub(super) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

pub(super) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn container(pod: &Pod) -> Option<&ContainerState> {
    status(pod)?.state.as_ref()
}

fn status(pod: &Pod) -> Option<&ContainerStatus> {
    let PodStatus { container_statuses, .. } = pod.status.as_ref()?;
    container_statuses.iter().flatten().find(|status| status.name == CONTAINER)
}

fn condition<'pod>(pod: &'pod Pod, type_: &str) -> Option<&'pod PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A reason with its message, which may say it again.
pub(super) fn sentence(reason: &str, message: Option<&str>) -> String {
    match message.map(str::trim).filter(|message| !message.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}
