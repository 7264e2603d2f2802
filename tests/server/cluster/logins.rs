//! All authentication methods: tokens, certificates, helpers, the pod's service account, proxies,
//! contexts.

use serde_json::json;

use super::{ClusterOutput, Scene};
use butler_testing::api_server::{ApiServer, NAMESPACE, TOKEN};
use butler_testing::forward_proxy::ForwardProxy;
use butler_testing::release_site::executable;
use butler_testing::world::with_mounts;

#[tokio::test]
async fn client_certificate_authenticates() {
    let mut scene = Scene::still().await;
    scene.cluster = ApiServer::by_certificate(&scene.world.path("node")).await;
    scene.log_in(&scene.cluster.kubeconfig_with_certificate());
    let said = scene.applied(&["--dry-run", "server"]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
}

#[tokio::test]
async fn credential_helper_authenticates_and_sees_no_secret_of_the_runner() {
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
    let said = ClusterOutput::of(&command.output().await.unwrap());
    assert_eq!(said.code, Some(0), "{said:#?}");
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("AWS_PROFILE=production") && !seen.contains("BUTLER_"), "{seen}");
}

#[tokio::test]
async fn proxy_of_the_kubeconfig_or_the_environment_is_used() {
    let scene = Scene::still().await;
    let proxy = ForwardProxy::start(None);
    let token = json!({"token": TOKEN});
    let connect = format!("CONNECT {}", scene.cluster.address());
    scene.log_in(&scene.cluster.kubeconfig_of(&token, &[("proxy-url", &proxy.url(""))]));
    assert_eq!(scene.applied(&["--dry-run", "server"]).await.code, Some(0));
    assert!(proxy.request_lines().contains(&connect), "{:?}", proxy.request_lines());
    // NO_PROXY applies to the environment's proxy; the proxy of the kubeconfig gets the cluster's
    // own address.
    let before = proxy.request_lines().len();
    let mut command = scene.apply(&["--dry-run", "server"]);
    command.env("NO_PROXY", "127.0.0.1,localhost");
    assert!(command.output().await.unwrap().status.success());
    assert!(
        proxy.request_lines().len() > before,
        "the kubeconfig's proxy is left out: {:?}",
        proxy.request_lines()
    );

    let proxy = ForwardProxy::start(None);
    scene.log_in(&scene.cluster.kubeconfig());
    let through = |not_for: &'static str| {
        let mut command = scene.apply(&["--dry-run", "server"]);
        command.env("HTTPS_PROXY", proxy.url("")).env("NO_PROXY", not_for);
        command
    };
    assert!(through("127.0.0.1").output().await.unwrap().status.success());
    assert!(
        proxy.request_lines().is_empty(),
        "NO_PROXY is about the cluster: {:?}",
        proxy.request_lines()
    );
    assert!(through("portal.example.com").output().await.unwrap().status.success());
    assert!(proxy.request_lines().contains(&connect), "{:?}", proxy.request_lines());
}

#[tokio::test]
async fn context_and_namespace_can_be_selected() {
    let scene = Scene::still().await;
    let said = scene.applied(&["--dry-run", "server", "--namespace", "others"]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    let asked = scene.cluster.requests();
    assert!(asked.iter().all(|request| request.contains("/namespaces/others/")), "{asked:?}");
    let said = scene.applied(&["--dry-run", "server", "--context", "none"]).await;
    assert_eq!(said.code, Some(1));
    said.says("error: the kubeconfig has no context `none`; it has `elsewhere`, `test`\n");
}

#[tokio::test]
async fn missing_cluster_configuration_is_an_error() {
    let scene = Scene::still().await;
    let mut command = scene.apply(&[]);
    command.env("KUBECONFIG", "/nope");
    let said = ClusterOutput::of(&command.output().await.unwrap());
    assert_eq!(said.code, Some(1));
    said.says(
        "error: no cluster is known: KUBECONFIG names `/nope`, which does not exist, and this process is not in a pod\n",
    );
    said.says("hint: correct KUBECONFIG, or name a file with --kubeconfig\n");
    let home = scene.world.path("home").join(".kube/config");
    std::fs::remove_file(&home).unwrap();
    let said = scene.applied(&[]).await;
    said.says(&format!("error: no cluster is known: `{}` does not exist, and", home.display()));
    said.says("hint: set KUBECONFIG, or name a file with --kubeconfig\n");
}

/// In a pod, the default would be its own cluster, which was not requested.
#[tokio::test]
async fn missing_named_file_or_context_does_not_fall_back_to_the_service_account() {
    let scene = Scene::still().await;
    for (words, said_so) in [
        (
            ["--kubeconfig", "/proc/nonexistent"],
            "error: cannot read the kubeconfig `/proc/nonexistent`: No such file",
        ),
        (
            ["--context", "production"],
            "error: no context `production`: KUBECONFIG names `/proc/none`, which does not exist\nhint: name its file with --kubeconfig, or leave out --context to use the pod's service account\n",
        ),
    ] {
        let mut command = scene.apply(&words);
        command.env("KUBECONFIG", "/proc/none").env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        let said = ClusterOutput::of(&command.output().await.unwrap());
        assert_eq!(said.code, Some(1));
        said.says(said_so);
    }
}

/// Its lines are secrets, or are next to secrets.
#[tokio::test]
async fn kubeconfig_that_cannot_be_parsed_is_not_quoted() {
    let scene = Scene::still().await;
    for (text, at) in [
        (
            "users:\n- name: ci\n  user:\n    token: hunter2hunter2\n    client-key-data: [hunter2\n",
            "",
        ),
        (
            "users:\n- name: ci\n  user:\n    token: hunter2hunter2\n   password: hunter2\n",
            "line 5, column ",
        ),
        ("clusters: hunter2hunter2\n", "line 1, column 11"),
        (
            "{\"users\": [{\"name\": \"ci\", \"user\": {\"token\": [\"hunter2hunter2\"]}}]}",
            "line 1, column ",
        ),
        ("%hunter2 hunter2\n\tuser: \"hunter2", ""),
    ] {
        scene.log_in(text);
        let said = scene.applied(&["--log", "trace"]).await;
        assert_eq!(said.code, Some(1));
        let path = scene.world.path("home").join(".kube/config");
        said.says(&format!("error: cannot parse the kubeconfig `{}`: line ", path.display()));
        said.says(at);
        assert!(!format!("{said:?}").contains("hunter2"), "{said:#?}");
    }
}

/// An editor, or `echo`, ends a file with a newline.
#[tokio::test]
async fn token_file_authenticates_and_is_read_again_after_a_change() {
    let scene = Scene::new("plan", butler_testing::world::MODULE).await;
    let file = scene.world.path("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    scene.log_in(&scene.cluster.kubeconfig_of(&json!({"tokenFile": file}), &[]));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    for (content, said_so) in [(Some(" \n"), "is empty"), (None, "cannot be read: ")] {
        match content {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let said = scene.applied(&[]).await;
        assert_eq!(said.code, Some(1), "{said:#?}");
        said.says(&format!("the token file `{}` {said_so}", file.display()));
    }
}

#[tokio::test]
async fn service_account_of_a_pod_authenticates() {
    let scene = Scene::still().await;
    let account = scene.world.path("account");
    std::fs::create_dir(&account).unwrap();
    for (name, content) in [("token", TOKEN), ("namespace", NAMESPACE)] {
        std::fs::write(account.join(name), content).unwrap();
    }
    std::fs::copy(scene.cluster.certificate(), account.join("ca.crt")).unwrap();
    std::fs::remove_file(scene.world.path("home").join(".kube/config")).unwrap();
    let (host, port) = scene.cluster.address().rsplit_once(':').unwrap();
    let mounts = format!(
        "mount -t tmpfs none /var/run\nmkdir -p /var/run/secrets/kubernetes.io\n\
         cp -r {} /var/run/secrets/kubernetes.io/serviceaccount",
        account.display()
    );
    for kubeconfig in [None, Some("/proc/none")] {
        let mut command = scene.apply(&["--dry-run", "server"]);
        command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
        command.envs(kubeconfig.map(|file| ("KUBECONFIG", file)));
        let output = with_mounts(&command, &mounts).output().await.unwrap();
        let said = ClusterOutput::of(&output);
        assert_eq!(said.code, Some(0), "{said:#?}");
        said.says(&format!("in namespace {NAMESPACE}"));
        let warning = "WARN KUBECONFIG names `/proc/none`, which does not exist: the pod's service account is used";
        assert_eq!(said.count(warning), usize::from(kubeconfig.is_some()), "{said:#?}");
    }
}
