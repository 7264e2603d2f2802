//! The comments in printed manifests, by the path of the value that they describe.

use serde_json::Value;

use crate::JobName;

/// A comment about one value of an object.
#[derive(Debug)]
pub(crate) struct Comment {
    /// The object's kind.
    pub(crate) kind: &'static str,
    /// The path of the value: members by their names, elements of lists by theirs in brackets. Empty for the
    /// beginning of the object.
    pub(crate) path: &'static str,
    /// One or more lines.
    pub(crate) text: &'static str,
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
# makes the Job the owner of the others, so that they are deleted with it. If you create it manually, delete them:
#
#   kubectl delete secret,networkpolicy -l app.kubernetes.io/instance=NAME
";

/// The comment at the beginning of the file.
pub(crate) fn file_header(name: &JobName) -> String {
    HEAD.replace("NAME", name.as_str())
}

/// The comments about `object`.
pub(crate) fn comments_for(object: &Value) -> Vec<&'static Comment> {
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

pub(crate) const COMMENTS: &[Comment] = &[
    account(
        "",
        "The identity of the pod in the cloud. Create it once, configure the cloud to trust its name, and\nremove it from the files of later runs.",
    ),
    account(
        "automountServiceAccountToken",
        "Tokens for clouds are mounted as separate volumes; the token for the cluster itself is not needed.",
    ),
    secret("immutable", "The token of a run does not change."),
    secret(
        "stringData",
        "Valid for this run only. Users who can read Secrets in this namespace can report for the run.",
    ),
    policy(
        "",
        "No ingress; egress to DNS, to HTTPS and to the registry. Policies contain addresses, not host\nnames, so the registry's host cannot be named: restrict `to` to its network if you know it. Only\nnetwork plug-ins that enforce policies apply it; others ignore it.",
    ),
    policy(
        "spec.egress",
        "First DNS, for any resolver of the cluster; then the ports for downloads, the registry and the proxy.",
    ),
    policy("spec.policyTypes", "Ingress without rules: no connection to the pod is allowed."),
    job(
        "spec.activeDeadlineSeconds",
        "Counted from the Job's start, including the wait for a node. The pod then gets SIGTERM and its grace period.",
    ),
    job(
        "spec.backoffLimit",
        "A failed run is not retried: the registry decides about retries, and an apply may have changed resources.",
    ),
    job(
        "spec.podFailurePolicy",
        "A run that was evicted, preempted or lost with its node is not retried either.",
    ),
    job(
        "spec.ttlSecondsAfterFinished",
        "How long the ended Job and its log are kept. The objects that it owns are deleted with it.",
    ),
    job(
        "spec.template.metadata.annotations",
        "The autoscaler must not remove the node of a run that holds a state lock.",
    ),
    job(
        "spec.template.spec.automountServiceAccountToken",
        "Modules run code, so the pod does not get a token for its own cluster unless requested.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_TOKEN_FILE]",
        "A file, because variables are visible in `kubectl describe`, in /proc and in crash reports.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_GRACE_PERIOD]",
        "The time for Terraform after SIGTERM. terminationGracePeriodSeconds is 10 more, for the last reports.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_TMPFS_DIR]",
        "The directory for secret files, in memory. The files count as memory of the container.",
    ),
    job(
        "spec.template.spec.containers[runner].env[BUTLER_CACHE_DIR]",
        "Tools, providers, and undelivered reports and states (recovery); a claim keeps them. The runner creates\nthis directory with mode 0700, because every user may write to the root of an empty volume.",
    ),
    job(
        "spec.template.spec.containers[runner].env[HOME]",
        "The root file system is read-only, and some providers write to the home directory.",
    ),
    job(
        "spec.template.spec.containers[runner].resources",
        "Request and limit of memory are equal, so that a full node evicts other pods first. There is no CPU limit,\nbecause it would only make the run slower.",
    ),
    job(
        "spec.template.spec.containers[runner].securityContext",
        "The pod security standard `restricted`, and a read-only root file system.",
    ),
    job(
        "spec.template.spec.enableServiceLinks",
        "A module does not need the addresses of the namespace's services.",
    ),
    job(
        "spec.template.spec.securityContext",
        "The image's user. With fsGroup it can read the token and write to a claim.",
    ),
    job(
        "spec.template.spec.terminationGracePeriodSeconds",
        "BUTLER_GRACE_PERIOD and 10 seconds for the final status.",
    ),
    job(
        "spec.template.spec.volumes[token]",
        "Mode 0440 (288): root and the pod's group can read the file.",
    ),
    job(
        "spec.template.spec.volumes[secret]",
        "In memory: these files are never written to a disk.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_fit_on_a_screen_and_have_distinct_paths() {
        let mut paths = std::collections::BTreeSet::new();
        for comment in COMMENTS {
            assert!(paths.insert((comment.kind, comment.path)), "{comment:?}");
            assert!(comment.text.lines().all(|line| line.len() <= 110), "{comment:?}");
        }
    }
}
