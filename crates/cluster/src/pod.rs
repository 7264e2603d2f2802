//! Interprets the state of a run's pod.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};

use crate::manifest::CONTAINER;

/// Reasons of a normal start.
const NORMAL_START: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Reasons why a kubelet rejects a pod, in addition to `OutOf` with a resource.
const REJECTIONS: [&str; 3] = ["NodeAffinity", "NodeShutdown", "UnexpectedAdmissionError"];

/// The kubelet's reason between two attempts to pull an image.
const BACK_OFF: &str = "ImagePullBackOff";

/// The kubelet's reason for a container that it does not know; the exit code is then not the container's.
const UNKNOWN: &str = "ContainerStatusUnknown";

/// The progress of a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// The run has not begun.
    Waiting,
    /// The runner runs.
    Running,
    /// The runner has ended, or will never start.
    Over,
}

pub(crate) fn stage(pod: &Pod) -> Stage {
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

/// The end of the runner; `None` if the kubelet does not know it.
pub(crate) fn ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let state = container(pod)?.terminated.as_ref()?;
    (state.reason.as_deref() != Some(UNKNOWN)).then_some(state)
}

/// Whether the container ended without ever being started, because its image or another dependency was missing.
pub(crate) fn never_started(pod: &Pod) -> bool {
    let is_placeholder = |status: &ContainerStatus| {
        let state = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        // A container that a node lost has an id, or its message contains that it was running.
        state.is_some_and(|state| {
            let message = state.message.as_deref().unwrap_or_default();
            state.reason.as_deref() == Some(UNKNOWN)
                && state.started_at.is_none()
                && !message.contains("used to be Running")
        }) && status.container_id.as_deref().unwrap_or_default().is_empty()
    };
    status(pod).is_some_and(is_placeholder)
}

/// The reason of the scheduler or the kubelet why the run has not begun.
pub(crate) fn wait_reason(pod: &Pod) -> Option<String> {
    if stage(pod) != Stage::Waiting {
        return None;
    }
    let waiting = container(pod).and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    if let Some(reason) = reason.filter(|reason| !NORMAL_START.contains(reason)) {
        let message = waiting.and_then(|waiting| waiting.message.as_deref());
        let text = sentence(reason, message);
        // Between two attempts the kubelet appends the last error to its own message.
        return Some(match text.find("ErrImagePull: ") {
            Some(at) if reason == BACK_OFF => text[at..].to_owned(),
            _ => text,
        });
    }
    let scheduled = condition(pod, "PodScheduled").filter(|condition| condition.status == "False");
    scheduled.map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
        sentence(reason, condition.message.as_deref())
    })
}

/// Whether the wait for `why` adds nothing to the earlier wait for `other`.
pub(crate) fn is_same_wait(why: &str, other: &str) -> bool {
    // Older kubelets omit the error in their message for the pause between two attempts.
    why == other || why.starts_with(BACK_OFF) && is_image_wait(other)
}

/// Whether the reason of a wait is about the image.
pub(crate) fn is_image_wait(why: &str) -> bool {
    let reason = why.split(':').next().unwrap_or_default();
    [BACK_OFF, "ErrImagePull", "ErrImageNeverPull", "ImageInspectError", "InvalidImageName"]
        .contains(&reason)
}

/// Whether the node stopped reporting: the node controller then clears the readiness of the pod, but not
/// the readiness of the container.
pub(crate) fn is_on_silent_node(pod: &Pod) -> bool {
    let is_ready = |pod| condition(pod, "Ready").is_none_or(|condition| condition.status == "True");
    stage(pod) == Stage::Running && !is_ready(pod) && status(pod).is_some_and(|status| status.ready)
}

/// The reason why the cluster removes or removed the pod.
pub(crate) fn disruption(pod: &Pod) -> Option<String> {
    let target = condition(pod, "DisruptionTarget").filter(|condition| condition.status == "True");
    let of_target = target.map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or("disrupted");
        sentence(reason, condition.message.as_deref())
    });
    // The status has `Evicted` and `NodeLost`. The message of an eviction names the exhausted resource.
    let status = pod.status.as_ref();
    let own = status.and_then(|status| {
        let reason = status.reason.as_deref()?;
        Some(sentence(reason, status.message.as_deref()))
    });
    own.or(of_target)
}

/// The reason of [`disruption`] in one word.
pub(crate) fn disruption_reason(pod: &Pod) -> Option<&str> {
    let target = condition(pod, "DisruptionTarget").filter(|condition| condition.status == "True");
    let own = pod.status.as_ref().and_then(|status| status.reason.as_deref());
    own.or_else(|| target.and_then(|condition| condition.reason.as_deref()))
}

/// Whether the kubelet rejected the pod before its container ran. Not for evictions: their status does not
/// tell whether the container had started.
pub(crate) fn was_rejected(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref()).unwrap_or_default();
    container(pod).is_none() && (reason.starts_with("OutOf") || REJECTIONS.contains(&reason))
}

/// Whether the pod is being deleted.
pub(crate) fn is_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// The name of the pod's node.
pub(crate) fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

pub(crate) fn name(pod: &Pod) -> &str {
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

/// A reason with its message.
pub(crate) fn sentence(reason: &str, message: Option<&str>) -> String {
    match message.map(str::trim).filter(|message| !message.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}
