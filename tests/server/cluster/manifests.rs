//! Printed manifests are valid, reproducible, and equal to the created objects.

use std::collections::BTreeSet;

use expect_test::expect_file;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::{JOB, Scene, TOKEN};
use butler_testing::api_server::PodCourse;
use butler_testing::linters::{kubernetes_manifests, yaml};
use butler_testing::machine::Machine;
use butler_testing::world::RUN_ID;

/// All options.
const EVERYTHING: &[&str] = &[
    "--endpoint",
    "https://portal.example.com:8443/api/registry",
    "--run-id",
    "550e8400-e29b-41d4-a716-446655440000",
    "--namespace",
    "terraform",
    "--image",
    "registry.example.com/tools/butler-runner",
    "--runner-version",
    "1.2.3",
    "--digest",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "--pull-secret",
    "registry-login",
    "--timeout",
    "2h",
    "--grace-period",
    "5m",
    "--keep",
    "1d",
    "--cpu",
    "2",
    "--memory",
    "4Gi",
    "--node-selector",
    "kubernetes.io/arch=amd64",
    "--toleration",
    "dedicated=terraform:NoSchedule",
    "--toleration",
    "spot",
    "--service-account",
    "terraform-runs",
    "--mount-account-token",
    "--aws-role",
    "arn:aws:iam::123456789012:role/terraform",
    "--aws-region",
    "eu-central-1",
    "--gcp-service-account",
    "terraform@project.iam.gserviceaccount.com",
    "--azure-client-id",
    "00000000-0000-0000-0000-000000000001",
    "--azure-tenant-id",
    "00000000-0000-0000-0000-000000000002",
    "--azure-subscription-id",
    "00000000-0000-0000-0000-000000000003",
    "--cache-claim",
    "terraform-cache",
    "--proxy",
    "http://proxy.example.com:3128",
    "--no-proxy",
    ".svc,.cluster.local,10.0.0.0/8",
    "--ca-config-map",
    "company-ca/root.pem",
    "--network-policy",
    "--egress-port",
    "22",
    "--egress-network",
    "10.0.0.0/8",
    "--env-from",
    "git-token",
    "--mount-secret",
    "database",
];

fn printed(words: &[&str]) -> String {
    let words = [&["generate", "kubernetes"], words].concat();
    Machine::new().run(&words).expect_success().stdout
}

/// The object of this kind.
fn object(text: &str, kind: &str) -> Value {
    let objects = yaml(text);
    objects.into_iter().find(|object| object["kind"] == kind).unwrap()
}

#[test]
fn printed_manifests_are_valid_and_reproducible() {
    for (words, file) in [
        (&[][..], expect_file!["../../data/kubernetes/template.yaml"]),
        (EVERYTHING, expect_file!["../../data/kubernetes/everything.yaml"]),
    ] {
        let text = printed(words);
        // A new release changes only the image.
        file.assert_eq(&text.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
        assert_eq!(text, printed(words));
        kubernetes_manifests(&[&text]).unwrap();
    }
}

#[test]
fn printed_objects_match_the_kubernetes_types() {
    let text = printed(EVERYTHING);
    let again = |object: &Value| -> Value {
        let object = object.clone();
        match object["kind"].as_str().unwrap() {
            "Job" => json!(serde_json::from_value::<Job>(object).unwrap()),
            "Secret" => json!(serde_json::from_value::<Secret>(object).unwrap()),
            "NetworkPolicy" => json!(serde_json::from_value::<NetworkPolicy>(object).unwrap()),
            "ServiceAccount" => json!(serde_json::from_value::<ServiceAccount>(object).unwrap()),
            other => panic!("{other}"),
        }
    };
    let objects = yaml(&text);
    assert_eq!(objects.len(), 4);
    for object in objects {
        assert_eq!(again(&object), object, "nothing is lost and nothing is unknown");
    }
}

/// The rules of the pod security standard "restricted", as Kubernetes' documentation lists them.
#[test]
fn pod_is_restricted_with_every_option() {
    for words in [&[][..], EVERYTHING] {
        let job = object(&printed(words), "Job");
        let pod = &job["spec"]["template"]["spec"];
        for forbidden in ["hostNetwork", "hostPID", "hostIPC", "hostUsers", "initContainers"] {
            assert_eq!(pod[forbidden], Value::Null, "{forbidden}");
        }
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["runAsUser"], 65532);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let containers = pod["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 1);
        let context = &containers[0]["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
        let allowed: BTreeSet<_> =
            ["name", "secret", "emptyDir", "configMap", "persistentVolumeClaim"].into();
        for volume in pod["volumes"].as_array().unwrap() {
            let keys: BTreeSet<_> =
                volume.as_object().unwrap().keys().map(String::as_str).collect();
            assert!(keys.is_subset(&allowed), "{volume}");
        }
        let asked = words.contains(&"--mount-account-token");
        assert_eq!(pod["automountServiceAccountToken"], asked);
        assert_eq!(job["spec"]["backoffLimit"], 0);
        assert_eq!(pod["restartPolicy"], "Never");
    }
}

#[test]
fn termination_grace_period_of_the_pod_is_ten_seconds_longer_than_the_tools() {
    for (period, grace, pod) in [("60s", "60s", 70), ("5m", "300s", 310)] {
        let job = object(&printed(&["--grace-period", period]), "Job");
        let spec = &job["spec"]["template"]["spec"];
        assert_eq!(spec["terminationGracePeriodSeconds"], pod);
        let variables = spec["containers"][0]["env"].as_array().unwrap();
        let told = variables.iter().find(|it| it["name"] == "BUTLER_GRACE_PERIOD").unwrap();
        assert_eq!(told["value"], grace);
    }
}

#[tokio::test]
async fn created_objects_equal_the_printed_manifests() {
    let scene = Scene::still().await;
    scene.cluster.course(PodCourse::Unschedulable);
    // The options of a cloud also print a service account, which outlives runs and is not created.
    let options: Vec<_> = EVERYTHING.iter().skip(4).copied().collect();
    let options: Vec<_> =
        options.into_iter().filter(|word| !matches!(*word, "--namespace" | "terraform")).collect();
    let said = scene.applied(&[&["--detach"], &*options].concat()).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    let endpoint = scene.world.endpoint();
    let words = [&["--endpoint", &*endpoint, "--run-id", RUN_ID], &*options].concat();
    let text = printed(&words);
    // Objects that the Job owns have unique names.
    let own = scene.cluster.names("secrets").remove(0);
    assert!(own.starts_with(&format!("{JOB}-")) && own.len() == JOB.len() + 17, "{own}");
    assert!(scene.cluster.names("networkpolicies").iter().eq([&own]));
    for (plural, kind) in
        [("jobs", "Job"), ("secrets", "Secret"), ("networkpolicies", "NetworkPolicy")]
    {
        let created = scene.cluster.only(plural).unwrap().to_string().replace(&own, JOB);
        let mut created: Value = serde_json::from_str(&created).unwrap();
        let mut printed = object(&text, kind);
        for object in [&mut created, &mut printed] {
            let object = object.as_object_mut().unwrap();
            object.remove("status");
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.retain(|name, _| matches!(&**name, "name" | "labels"));
        }
        if kind == "Secret" {
            printed["stringData"]["token"] = json!(TOKEN);
        }
        assert_eq!(created, printed, "{kind}");
    }
}

#[test]
fn template_with_envsubst_creates_a_run_and_prints_no_token() {
    let text = printed(&[]);
    let filled = text
        .replace("${BUTLER_ENDPOINT}", "https://portal.example.com/api/registry")
        .replace("${BUTLER_RUN_ID}", RUN_ID)
        .replace("${BUTLER_TOKEN}", TOKEN);
    let given = ["--endpoint", "https://portal.example.com/api/registry", "--run-id", RUN_ID];
    assert_eq!(object(&filled, "Job"), object(&printed(&given), "Job"));
    let machine = Machine::new();
    let said = machine.run(&["generate", "kubernetes", "--token-file", "/x"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.stderr.contains("--token-file cannot be used with a file that is printed"),
        "{said:?}"
    );
}

#[test]
fn manifest_file_with_a_token_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let machine = Machine::new();
    let mode = |path: &str| {
        let file = std::fs::metadata(machine.path(path)).unwrap();
        format!("{:o}", file.permissions().mode() & 0o7777)
    };
    let words = ["generate", "kubernetes", "--output", "run.yaml"];
    machine.run(&words).expect_success();
    assert_eq!(mode("run.yaml"), "600");
    // Replaces a file that others could read, without making the new content readable to them.
    std::fs::set_permissions(machine.path("run.yaml"), PermissionsExt::from_mode(0o644)).unwrap();
    machine.run(&[&words[..], &["--force"]].concat()).expect_success();
    assert_eq!(mode("run.yaml"), "600");
    // A file without a token is readable for all, but permissions of an existing file are not
    // extended.
    let words = ["generate", "circleci", "--output", "config.yml"];
    machine.run(&words).expect_success();
    assert_eq!(mode("config.yml"), "644");
    std::fs::set_permissions(machine.path("config.yml"), PermissionsExt::from_mode(0o640)).unwrap();
    machine.run(&[&words[..], &["--force"]].concat()).expect_success();
    assert_eq!(mode("config.yml"), "640");
}

#[test]
fn malformed_cluster_options_are_refused() {
    for (words, said_so) in [
        (&["--namespace", "Terraform"][..], "lower-case letters"),
        (&["--memory", "2 GB"], "an amount such as 500m or 2Gi"),
        (&["--cpu=-1"], "an amount such as 500m or 2Gi"),
        (&["--node-selector", "gpu"], "KEY=VALUE"),
        (&["--toleration", "a:Sometimes"], "`Sometimes` is not an effect"),
        (&["--egress-network", "10.0.0.0/33"], "a network such as 10.0.0.0/8"),
        (&["--ca-config-map", "a/b/c"], "NAME or NAME/KEY"),
        (&["--keep", "500ms"], "whole seconds"),
        (&["--proxy", "http://user:hunter2@proxy"], "user name or password"),
        (&["--detach", "--keep=1h"], "--apply"),
    ] {
        let said = Machine::new().run(&[&["generate", "kubernetes"], words].concat());
        assert_eq!(said.code, Some(2), "{words:?}");
        assert!(said.stderr.contains(said_so), "{words:?}: {}", said.stderr);
    }
}
