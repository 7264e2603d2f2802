//! `--dry-run server`: the checks of the cluster before anything is created, and those that are
//! missing.

use super::{JOB, Scene};
use butler_testing::api_server::{FaultEffect, NAMESPACE};

const PODS: &str = "/api/v1/namespaces/runs/pods";

/// All objects of the namespace that a Job can need, and their paths.
const NEEDS: [(&str, &str, &str); 5] = [
    ("--pull-secret", "registry-login", "secrets"),
    ("--env-from", "git-token", "secrets"),
    ("--mount-secret", "database", "secrets"),
    ("--cache-claim", "terraform-cache", "persistentvolumeclaims"),
    ("--ca-config-map", "company-ca", "configmaps"),
];

const NEVER_CHECKED: &str = "not checked: whether the image can be pulled, whether a node has room, and whether the network lets the pod reach the registry\n";

fn words(flags: &[(&'static str, &'static str, &str)]) -> Vec<&'static str> {
    let flags = flags.iter().flat_map(|(flag, name, _)| [*flag, *name]);
    ["--dry-run", "server"].into_iter().chain(flags).collect()
}

#[tokio::test]
async fn dry_run_validates_all_objects_and_creates_none() {
    let scene = Scene::still().await;
    for (_, name, plural) in NEEDS {
        scene.cluster.keep(plural, name);
    }
    scene.cluster.keep("serviceaccounts", "terraform");
    let words = [&words(&NEEDS)[..], &["--service-account", "terraform", "--network-policy"]];
    let before = scene.cluster.objects();
    let said = scene.applied(&words.concat()).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    said.says(&format!("the cluster would accept the Job {JOB} in namespace {NAMESPACE}"));
    said.ends_with(NEVER_CHECKED);
    assert_eq!(said.count("not checked"), 1, "{said:#?}");
    let asked = scene.cluster.requests();
    let posts: Vec<_> = asked.iter().filter(|request| request.starts_with("POST")).collect();
    assert_eq!(posts.len(), 4, "a Job, its pod, a policy and a Secret");
    assert!(posts.iter().all(|request| request.contains("dryRun=All")), "{posts:?}");
    assert_eq!(scene.cluster.objects(), before);
}

/// The cluster accepts a Job whose pod it would reject.
#[tokio::test]
async fn dry_run_reports_a_pod_that_would_be_refused() {
    let quota = "pods \"x\" is forbidden: exceeded quota: runs, requested: pods=1, used: pods=0, limited: pods=0";
    let range =
        "pods \"x\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi";
    for refusal in [quota, range] {
        let scene = Scene::still().await;
        scene.cluster.fault("POST", PODS, FaultEffect::Status(403, "Forbidden", refusal));
        let said = scene.applied(&["--dry-run", "server"]).await;
        assert_eq!(said.code, Some(1), "{said:#?}");
        said.says(&format!(
            "error: the cluster refuses to `create` `pods` in namespace `runs`: {refusal}\n"
        ));
    }
}

#[tokio::test]
async fn dry_run_reports_a_missing_service_account() {
    let scene = Scene::still().await;
    let said = scene.applied(&["--dry-run", "server", "--service-account", "terraform"]).await;
    assert_eq!(said.code, Some(1), "{said:#?}");
    said.says("serviceaccount \"terraform\" not found\n");
}

#[tokio::test]
async fn dry_run_reports_all_problems_of_the_namespace_together() {
    let scene = Scene::still().await;
    scene.cluster.keep("secrets", "git-token");
    let said = scene.applied(&words(&NEEDS)).await;
    assert_eq!(said.code, Some(1), "{said:#?}");
    said.says(
        "error: the run would never begin: namespace `runs` has no Secret `registry-login`, PersistentVolumeClaim `terraform-cache`, ConfigMap `company-ca`, Secret `database`\nhint: create what is missing",
    );
}

#[tokio::test]
async fn each_object_that_the_namespace_lacks_is_said_by_a_dry_run() {
    for (flag, missing, plural) in NEEDS {
        let scene = Scene::still().await;
        for (_, name, plural) in NEEDS.iter().filter(|(other, ..)| *other != flag) {
            scene.cluster.keep(plural, name);
        }
        let said = scene.applied(&words(&NEEDS)).await;
        assert_eq!(said.code, Some(1), "{flag}: {said:#?}");
        let kind = match plural {
            "secrets" => "Secret",
            "configmaps" => "ConfigMap",
            _ => "PersistentVolumeClaim",
        };
        said.says(&format!("namespace `runs` has no {kind} `{missing}`\n"));
    }
}

/// An account that can create Jobs may lack other permissions.
#[tokio::test]
async fn dry_run_lists_checks_without_permission() {
    let scene = Scene::still().await;
    let forbidden = |what: &str| {
        let text = format!("pods is forbidden: User \"ci\" cannot {what} in API group \"\"");
        FaultEffect::Status(403, "Forbidden", text.leak())
    };
    scene.cluster.fault("POST", PODS, forbidden("create resource \"pods\""));
    scene.cluster.fault("GET", "/secrets/git-token", forbidden("get resource \"secrets\""));
    let said = scene.applied(&["--dry-run", "server", "--env-from", "git-token"]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    said.says(
        "not checked: the pod against quotas, limits and the service account (no permission to `create` `pods`)\n",
    );
    said.says(
        "not checked: whether there is a Secret `git-token` (no permission to `get` `secrets`)\n",
    );
    said.ends_with(NEVER_CHECKED);
}
