//! The comments in printed manifests.

use serde_json::Value;

use super::JobName;

/// What stands at one place of an object.
#[derive(Debug)]
pub(super) struct Comment {
    /// The object's kind.
    pub(super) kind: &'static str,
    /// The place: members by their names, elements of lists in brackets by theirs. Nothing for the
    /// beginning of the object.
    pub(super) path: &'static str,
    /// One or more lines.
    pub(super) text: &'static str,
}

/// The head of the file; `NAME` is replaced by the Job's name.
const HEAD: &str = "\
# One run of butler-runner: a Job that is never started a second time, the Secret with the run's
# callback token, and, if requested, a policy for its network. One file per run:
#
#   export BUTLER_ENDPOINT=https://... BUTLER_RUN_ID=... BUTLER_TOKEN=brce_...
#   envsubst '$BUTLER_ENDPOINT $BUTLER_RUN_ID $BUTLER_TOKEN' <this-file | kubectl create -f -
#
# `butler-runner generate kubernetes --apply` creates the same objects itself, follows the run, and
# has the Job own the others, so that they go with it. If it is created manually, the Secret stays:
#
#   kubectl delete secret,networkpolicy -l app.kubernetes.io/instance=NAME
";

/// What the file of the Job with this name begins with.
pub(super) fn head(name: &JobName) -> String {
    HEAD.replace("NAME", name.as_str())
}

/// What is said about `object`.
pub(super) fn of(object: &Value) -> Vec<&'static Comment> {
    let kind = object["kind"].as_str().unwrap_or_default();
    COMMENTS.iter().filter(|comment| comment.kind == kind).collect()
}

const fn account(path: &'static str, text: &'static str) -> Comment {
    Comment { kind: "ServiceAccount", path, text }
}

const fn secret(path: &'static str, text: &'static str) -> Comment {
    Comment { kind: "Secret", path, text }
}

const fn policy(path: &'static str, text: &'static str) -> Comment {
    Comment { kind: "NetworkPolicy", path, text }
}

const fn job(path: &'static str, text: &'static str) -> Comment {
    Comment { kind: "Job", path, text }
}

/// All of them.
pub(super) const COMMENTS: &[Comment] = &[
    account(
        "",
        "The identity of the pod in the cloud. It outlives runs: create it once, let the cloud trust its name, and\nleave it out of the files of later runs.",
    ),
    account(
        "automountServiceAccountToken",
        "The clouds' tokens are volumes of their own; the one for the cluster itself is not needed.",
    ),
    secret("immutable", "A run has one token, and it does not change."),
    secret(
        "stringData",
        "Good for this run only. Who can read Secrets here can report for the run.",
    ),
    policy(
        "",
        "No ingress; egress to DNS, to HTTPS and to the registry. A policy has addresses and no names,\nso the registry's host cannot be named: narrow `to` to its network if you know it. It needs a\nnetwork plug-in that enforces policies; others ignore it.",
    ),
    policy(
        "spec.egress",
        "Names first, wherever the cluster's resolver is; then what a run downloads and talks to.",
    ),
    policy("spec.policyTypes", "Ingress without rules: no connection to the pod is allowed."),
    job(
        "spec.activeDeadlineSeconds",
        "From the Job's start, the wait for a node included. The pod then gets SIGTERM and its grace.",
    ),
    job(
        "spec.backoffLimit",
        "A failed run is not retried: the registry decides that, and an apply may have changed resources.",
    ),
    job(
        "spec.podFailurePolicy",
        "The same for a run that was evicted, preempted or lost with its node.",
    ),
    job(
        "spec.ttlSecondsAfterFinished",
        "How long the ended Job and its log stay. What it owns goes with it.",
    ),
    job(
        "spec.template.metadata.annotations",
        "A node is not scaled away under a run that holds a state lock.",
    ),
    job(
        "spec.template.spec.automountServiceAccountToken",
        "A module runs code: it does not get a token for its own cluster, unless requested.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_TOKEN_FILE]",
        "A file, not a variable: variables are visible in `kubectl describe`, in /proc and in crash reports.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_GRACE_PERIOD]",
        "For the tool after SIGTERM. terminationGracePeriodSeconds is 10 more, for the last reports.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_TMPFS_DIR]",
        "Secret files are made here, in memory; they count as the container's memory.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_CACHE_DIR]",
        "Tools, providers, and what could not be handed over (recovery): a claim keeps it. The runner makes\nthis directory for itself alone: every user may write to the root of an empty volume.",
    ),
    job(
        "spec.template.spec.containers[runner].env[HOME]",
        "The root file system cannot be written; some providers want to write to their home.",
    ),
    job(
        "spec.template.spec.containers[runner].resources",
        "Request and limit of memory are equal, so that a full node evicts other pods first. No CPU limit:\nit would only make the run slower.",
    ),
    job(
        "spec.template.spec.containers[runner].securityContext",
        "Pod security standard `restricted`, and a read-only root file system.",
    ),
    job(
        "spec.template.spec.enableServiceLinks",
        "A module does not need the addresses of the namespace's services.",
    ),
    job(
        "spec.template.spec.securityContext",
        "The image's own user; fsGroup lets it read the token and write to a claim.",
    ),
    job(
        "spec.template.spec.terminationGracePeriodSeconds",
        "BUTLER_GRACE_PERIOD and 10 seconds for the final status.",
    ),
    job("spec.template.spec.volumes[token]", "Mode 0440 (288): root and the pod's group read it."),
    job("spec.template.spec.volumes[secret]", "In memory: what is written here reaches no disk."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comment_fits_on_a_screen_and_none_stands_at_a_place_twice() {
        let mut places = std::collections::BTreeSet::new();
        for comment in COMMENTS {
            assert!(places.insert((comment.kind, comment.path)), "{comment:?}");
            assert!(comment.text.lines().all(|line| line.len() <= 110), "{comment:?}");
        }
    }
}
