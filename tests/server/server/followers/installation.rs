//! `follower plan` and `apply`, and what `generate server` has for followers.

use super::*;

/// A directory with a registry, and a cluster.
struct Operator {
    directory: tempfile::TempDir,
    cluster: ApiServer,
}

impl Operator {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cluster = ApiServer::start(&directory.path().join("node"), &[]).await;
        for (name, content) in
            [("kubeconfig", cluster.kubeconfig()), ("followers.yaml", CHAIN.to_owned())]
        {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        Self { directory, cluster }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command: Command = runner().into();
        command.arg("follower").args(words).args(["--followers", "followers.yaml"]);
        command.env("KUBECONFIG", self.directory.path().join("kubeconfig"));
        command.current_dir(self.directory.path()).kill_on_drop(true);
        command
    }

    async fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().await.unwrap();
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    }

    /// The data of a config map.
    fn data(&self, name: &str) -> Value {
        let all = self.cluster.all("configmaps");
        all.iter().find(|it| it["metadata"]["name"] == name).unwrap()["data"].clone()
    }

    /// Makes the Deployment ready when it is there.
    async fn become_ready(&self) {
        eventually("the Deployment", || !self.cluster.names("deployments").is_empty()).await;
        let mut deployment = self.cluster.only("deployments").unwrap();
        deployment["status"] =
            json!({"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1});
        let path = "/apis/apps/v1/namespaces/butler-system/deployments/butler-server";
        self.cluster.put(path, deployment);
    }
}

#[tokio::test]
async fn apply_installs_and_updates_a_server_and_keeps_its_certificate_token_and_configuration() {
    let operator = Operator::new().await;
    let planned = operator.run(&["plan"]).await;
    assert!(planned.contains("create") && planned.contains(" to create, 0 to change"), "{planned}");
    let unconfirmed = operator.run(&["apply"]).await;
    assert!(unconfirmed.contains("nothing is changed; `--confirm` applies it"), "{unconfirmed}");
    assert_eq!(operator.cluster.names("deployments"), Vec::<String>::new());
    let words = ["apply", "--confirm", "--wait"];
    let (applied, ()) = tokio::join!(operator.run(&words), operator.become_ready());
    assert!(applied.contains("the installation is applied"), "{applied}");
    assert_eq!(operator.data("butler-config")["followers.yaml"], CHAIN);
    let again = operator.run(&["plan"]).await;
    assert!(again.contains("0 to create, 0 to change"), "{again}");

    // An administrator has written the configuration, and the certificate is in use.
    let mut config = operator.cluster.all("configmaps");
    let mut config = config
        .remove(config.iter().position(|it| it["metadata"]["name"] == "butler-config").unwrap());
    config["data"]["butler.yaml"] = json!("layers: {}\n");
    operator.cluster.put("/api/v1/namespaces/butler-system/configmaps/butler-config", config);
    let kept = || {
        let secrets = operator.cluster.all("secrets").into_iter();
        let secrets: Vec<_> = secrets.map(|mut secret| secret["data"].take()).collect();
        assert_eq!(secrets.len(), 2, "the certificate, and the token of Jobs");
        (secrets, operator.data("butler-ca"))
    };
    let before = kept();
    let changed = CHAIN.replace("poll: 2s", "poll: 3s");
    std::fs::write(operator.directory.path().join("followers.yaml"), &changed).unwrap();
    let planned = operator.run(&["plan"]).await;
    assert!(planned.contains(".data.followers.yaml"), "{planned}");
    assert!(planned.contains("0 to create, 1 to change"), "{planned}");
    operator.run(&["apply", "--confirm"]).await;
    assert_eq!(operator.data("butler-config")["followers.yaml"], *changed);
    assert_eq!(operator.data("butler-config")["butler.yaml"], "layers: {}\n");
    assert_eq!(kept(), before);
    // What attempts trust is restored from the Secret, and not from a new certificate.
    operator.cluster.put("/api/v1/namespaces/butler-attempts/configmaps/butler-ca", json!({
        "metadata": {"name": "butler-ca", "namespace": "butler-attempts"}, "data": {"ca.crt": "another"},
    }));
    operator.run(&["apply", "--confirm"]).await;
    assert_eq!(kept(), before);
}

#[tokio::test]
async fn apply_does_not_put_several_servers_beside_one() {
    let operator = Operator::new().await;
    operator.run(&["apply", "--confirm"]).await;
    let output = operator.command(&["plan", "--shared-secret", "shared"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why =
        "the installation has Deployment butler-system/butler-server: leave out `--shared-secret`";
    assert!(text(&output).contains(why), "{}", text(&output));
    let output = Command::from(runner()).args(["follower", "plan"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("no followers are given (--followers or --resources)"),
        "{}",
        text(&output)
    );
}

#[tokio::test]
async fn apply_deletes_roles_that_are_not_wanted_any_more_and_no_others() {
    let operator = Operator::new().await;
    operator.run(&["apply", "--confirm", "--resources", "team-a"]).await;
    // Another server has the same name for the Role of its attempts.
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/others";
    let object = |kind: &str, server: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "butler-server", "namespace": "others"},
            "subjects": [{"kind": "ServiceAccount", "name": "butler-server", "namespace": server}],
        })
    };
    operator.cluster.put(&format!("{rbac}/roles/butler-server"), object("Role", "second"));
    let binding = object("RoleBinding", "second");
    operator.cluster.put(&format!("{rbac}/rolebindings/butler-server"), binding);
    let places = || {
        ["roles", "rolebindings"].map(|plural| {
            let all = operator.cluster.all(plural).into_iter();
            let mut places: Vec<_> =
                all.map(|it| it["metadata"]["namespace"].as_str().unwrap().to_owned()).collect();
            places.sort();
            places
        })
    };
    let before = ["argocd", "butler-attempts", "ci", "others", "team-a", "web"].map(str::to_owned);
    assert_eq!(places(), [before.to_vec(), before.to_vec()]);

    let changed = CHAIN.replace("namespace: argocd", "namespace: ci");
    std::fs::write(operator.directory.path().join("followers.yaml"), changed).unwrap();
    let words = ["--job-namespace", "runs"];
    let planned = operator.run(&[&["plan"], &words[..]].concat()).await;
    assert!(planned.contains(", 6 to delete"), "{planned}");
    let is_deleted = |kind: &str, namespace: &str, name: &str| {
        planned.lines().any(|line| {
            line.split_whitespace().collect::<Vec<_>>() == ["delete", kind, namespace, name]
        })
    };
    for kind in ["RoleBinding", "Role"] {
        assert!(is_deleted(kind, "argocd", "butler-followers-butler-system"), "{planned}");
        assert!(is_deleted(kind, "team-a", "butler-resources-butler-system"), "{planned}");
        assert!(is_deleted(kind, "butler-attempts", "butler-server"), "{planned}");
    }
    assert_eq!(places(), [before.to_vec(), before.to_vec()], "only shown");
    operator.run(&[&["apply", "--confirm"], &words[..]].concat()).await;
    let after = ["ci", "others", "runs", "web"].map(str::to_owned);
    assert_eq!(places(), [after.to_vec(), after.to_vec()]);
    // A user who may not look everywhere is told how.
    let refused = FaultEffect::Status(403, "Forbidden", "cannot list resource \"rolebindings\"");
    operator.cluster.faults("GET", "v1/rolebindings", refused, 3);
    let planned = operator.run(&[&["plan"], &words[..]].concat()).await;
    let how = "kubectl get role,rolebinding -A --field-selector metadata.name=butler-followers-butler-system";
    assert!(planned.contains(how) && planned.contains(", 0 to delete"), "{planned}");
}
