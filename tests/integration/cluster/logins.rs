//! Every way in: tokens, certificates, helper programs, the pod's own account, proxies, contexts.

use serde_json::json;

use super::{Said, Scene};
use crate::support::api_server::{ApiServer, NAMESPACE, TOKEN};
use crate::support::forward_proxy::ForwardProxy;
use crate::support::release_site::executable;
use crate::support::world::with_mounts;

#[tokio::test]
async fn client_certificate_is_a_login() {
    let mut scene = Scene::still().await;
    scene.cluster = ApiServer::by_certificate(&scene.world.path("node")).await;
    scene.log_in(&scene.cluster.kubeconfig_with_certificate());
    let said = scene.applied(&["--dry-run", "server"]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
}

#[tokio::test]
async fn helper_program_logs_in_and_sees_no_secret_of_the_runners() {
    let scene = Scene::still().await;
    let (helper, seen) = (scene.world.path("helper"), scene.world.path("seen"));
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": TOKEN},
    });
    executable(&helper, format!("#!/bin/sh\nenv >{}\necho '{credential}'\n", seen.display()));
    let user = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": helper,
        "interactiveMode": "Never",
        "env": [{"name": "AWS_PROFILE", "value": "production"}],
    }});
    scene.log_in(&scene.cluster.kubeconfig_of(&user, &[]));
    let mut command = scene.apply(&["--dry-run", "server"]);
    command.env("BUTLER_GIT_TOKEN", "ghp_hunter2hunter2");
    let said = Said::of(&command.output().await.unwrap());
    assert_eq!(said.code, Some(0), "{said:#?}");
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("AWS_PROFILE=production") && !seen.contains("BUTLER_"), "{seen}");
}

#[tokio::test]
async fn proxy_of_the_cluster_or_of_the_environment_stands_in_between() {
    let scene = Scene::still().await;
    let proxy = ForwardProxy::start(None);
    let token = json!({"token": TOKEN});
    let connect = format!("CONNECT {}", scene.cluster.address());
    scene.log_in(&scene.cluster.kubeconfig_of(&token, &[("proxy-url", &proxy.url(""))]));
    assert_eq!(scene.applied(&["--dry-run", "server"]).await.code, Some(0));
    assert!(proxy.asked().contains(&connect), "{:?}", proxy.asked());

    let proxy = ForwardProxy::start(None);
    scene.log_in(&scene.cluster.kubeconfig());
    let through = |not_for: &'static str| {
        let mut command = scene.apply(&["--dry-run", "server"]);
        command.env("HTTPS_PROXY", proxy.url("")).env("NO_PROXY", not_for);
        command
    };
    assert!(through("127.0.0.1").output().await.unwrap().status.success());
    assert!(proxy.asked().is_empty(), "NO_PROXY is about the cluster: {:?}", proxy.asked());
    assert!(through("portal.example.com").output().await.unwrap().status.success());
    assert!(proxy.asked().contains(&connect), "{:?}", proxy.asked());
}

#[tokio::test]
async fn context_and_namespace_can_be_chosen() {
    let scene = Scene::still().await;
    let said = scene.applied(&["--dry-run", "server", "--namespace", "others"]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    let asked = scene.cluster.requests();
    assert!(asked.iter().all(|request| request.contains("/namespaces/others/")), "{asked:?}");
    let said = scene.applied(&["--dry-run", "server", "--context", "none"]).await;
    assert_eq!(said.code, Some(1));
    said.says("error: cannot use the kubeconfig: failed to load current context: none");
    said.says("hint: check KUBECONFIG, --kubeconfig and --context");
}

#[tokio::test]
async fn cluster_that_nobody_names_is_asked_for() {
    let scene = Scene::still().await;
    let mut command = scene.apply(&[]);
    command.env("KUBECONFIG", "/proc/nonexistent/kubeconfig");
    let said = Said::of(&command.output().await.unwrap());
    assert_eq!(said.code, Some(1));
    said.says(
        "error: no cluster is known: there is neither a kubeconfig nor a pod's service account\n",
    );
    said.says("hint: set KUBECONFIG, or name a file with --kubeconfig\n");
}

/// In a pod its own cluster would be the next that is known, and is not what was asked for.
#[tokio::test]
async fn file_or_context_that_is_named_and_not_there_is_not_replaced_by_the_pods_own_account() {
    let scene = Scene::still().await;
    for (words, said_so) in [
        (
            ["--kubeconfig", "/proc/nonexistent"],
            "error: cannot use the kubeconfig `/proc/nonexistent`: ",
        ),
        (["--context", "production"], "error: no cluster is known"),
    ] {
        let mut command = scene.apply(&words);
        command.env("KUBECONFIG", "/proc/none").env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        let said = Said::of(&command.output().await.unwrap());
        assert_eq!(said.code, Some(1));
        said.says(said_so);
    }
}

#[tokio::test]
async fn account_of_a_pod_is_a_login() {
    let scene = Scene::still().await;
    let account = scene.world.path("account");
    std::fs::create_dir(&account).unwrap();
    for (name, content) in [("token", TOKEN), ("namespace", NAMESPACE)] {
        std::fs::write(account.join(name), content).unwrap();
    }
    std::fs::copy(scene.cluster.certificate(), account.join("ca.crt")).unwrap();
    std::fs::remove_file(scene.world.path("home").join(".kube/config")).unwrap();
    let mut command = scene.apply(&["--dry-run", "server"]);
    let (host, port) = scene.cluster.address().rsplit_once(':').unwrap();
    command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
    let mounts = format!(
        "mount -t tmpfs none /var/run\nmkdir -p /var/run/secrets/kubernetes.io\n\
         cp -r {} /var/run/secrets/kubernetes.io/serviceaccount",
        account.display()
    );
    let output = with_mounts(&command, &mounts).output().await.unwrap();
    let said = Said::of(&output);
    assert_eq!(said.code, Some(0), "{said:#?}");
    said.says(&format!("in namespace {NAMESPACE}"));
}
