//! The commands of the documentation that install a server in a cluster, from nothing. The cluster is a stand-in
//! ([`ApiServer`]), and this file stands in for `kubectl` and the kubelet: objects are applied with requests to the API
//! server, and the container is the process that its pod describes, with its variables, volumes and probes.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use butler_base::http::{self, Redirects};
use butler_cluster::{Cluster, ClusterAccess, KubeconfigFiles, NativeObjects};
use butler_testing::HeldPort;
use butler_testing::{PASSWORD, Postgres};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;
use butler_testing::linters::yaml;
use butler_testing::object_store::{BUCKET, ObjectStore};
use butler_testing::project::project_path;

/// The token of the only user of the access file.
const TOKEN: &str = "breg_ana";

/// The port of the server in its pod.
const PORT: &str = ":7373";

/// A person at a machine, and a cluster without anything.
struct Person {
    directory: tempfile::TempDir,
    cluster: ApiServer,
    requests: NativeObjects,
    /// What is at another place on this machine, with that place.
    places: Vec<(String, String)>,
    pods: Vec<Pod>,
}

/// A pod of a server.
struct Pod {
    container: Value,
    /// Its variables, with their values.
    variables: BTreeMap<String, String>,
    /// The directories of its volumes by their paths in the container.
    volumes: BTreeMap<String, PathBuf>,
    port: HeldPort,
    kubeconfig: PathBuf,
    log: PathBuf,
    process: Option<Child>,
}

/// The lines of the commands in a part of a page.
fn commands(page: &str, from: &str, to: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project_path(page)).unwrap();
    let part = text.split_once(from).unwrap().1.split_once(to).unwrap().0;
    let blocks = part.split("```bash\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

impl Person {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cluster = ApiServer::start(&directory.path().join("node"), &[]).await;
        let kubeconfig = directory.path().join("kubeconfig");
        // Nothing listens there, so no attempt begins.
        let config = "repositories: {infra: {url: 'https://127.0.0.1:9/infra.git'}}
layers: {network: {repository: infra, path: network}}
";
        let hash = hex::encode(Sha256::digest(TOKEN));
        let access = format!("users:\n  - {{name: ana, role: viewer, token-sha256: {hash}}}\n");
        for (name, content) in [
            ("kubeconfig", &*cluster.kubeconfig()),
            ("butler.yaml", config),
            ("access.yaml", &access),
            ("ops.token", &format!("{TOKEN}\n")),
        ] {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        let access = ClusterAccess {
            kubeconfig: KubeconfigFiles::Named(kubeconfig),
            ..ClusterAccess::default()
        };
        let requests = NativeObjects::new(Cluster::connect(&access, None).await.unwrap());
        Self { directory, cluster, requests, places: Vec::new(), pods: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Executes a documented line. Returns what it prints.
    async fn run(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        match &words[..] {
            ["butler-runner", words @ ..] => {
                let mut command: Command = runner().into();
                command.args(words).current_dir(self.directory.path());
                printed(&mut command).await
            }
            ["kubectl", "apply", "-f", file] => {
                let text = std::fs::read_to_string(self.path(file)).unwrap();
                for object in yaml(&text) {
                    self.apply(&object).await;
                }
                String::new()
            }
            ["kubectl", "create", "namespace", name] => {
                let metadata = json!({"name": name});
                self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
                    .await;
                String::new()
            }
            ["kubectl", "-n", namespace, "create", "secret", "generic", name, values @ ..] => {
                let secret = self.secret(namespace, name, values);
                self.apply(&secret).await;
                String::new()
            }
            ["kubectl", "-n", _, "rollout", "status", workload] => {
                self.until_ready(workload).await;
                String::new()
            }
            ["kubectl", "-n", _, "exec", _, "--", words @ ..] => {
                printed(&mut self.pods[0].command(words)).await
            }
            ["openssl", ..] => {
                let mut command = Command::new("sh");
                command.args(["-e", "-c", line]).current_dir(self.directory.path());
                printed(&mut command).await
            }
            _ => panic!("this test does not know `{line}`"),
        }
    }

    async fn apply(&self, object: &Value) {
        let applied = self.requests.apply(object, false).await;
        applied.unwrap_or_else(|why| panic!("{}: {why}", object["metadata"]));
    }

    fn secret(&self, namespace: &str, name: &str, values: &[&str]) -> Value {
        let values = values.iter().map(|given| {
            if let Some(literal) = given.strip_prefix("--from-literal=") {
                let (key, value) = literal.split_once('=').unwrap();
                let place = |text: String, (from, to): &(String, String)| text.replace(from, to);
                let value = self.places.iter().fold(value.to_owned(), place);
                return (key.to_owned(), json!(value));
            }
            let file = given.strip_prefix("--from-file=").unwrap();
            (file.to_owned(), json!(std::fs::read_to_string(self.path(file)).unwrap()))
        });
        let values: serde_json::Map<String, Value> = values.collect();
        let metadata = json!({"namespace": namespace, "name": name});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})
    }

    /// The object of this kind with this name in the cluster.
    fn object(&self, plural: &str, name: &str) -> Value {
        let all = self.cluster.all(plural);
        let found = all.into_iter().find(|it| it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("there is no {plural} {name}"))
    }

    /// Starts the containers of a Deployment or `StatefulSet`, and waits for their probes.
    async fn until_ready(&mut self, workload: &str) {
        let (kind, name) = workload.split_once('/').unwrap();
        let workload = self.object(&format!("{kind}s"), name);
        let count = workload["spec"]["replicas"].as_u64().unwrap();
        for number in 0..count {
            self.start_pod(&workload, &format!("{name}-{number}"), HeldPort::new());
        }
        for pod in &self.pods {
            pod.until_ready().await;
        }
    }

    fn start_pod(&mut self, workload: &Value, name: &str, port: HeldPort) {
        let pod = &workload["spec"]["template"]["spec"];
        let container = pod["containers"][0].clone();
        let mut volumes = BTreeMap::new();
        for mount in container["volumeMounts"].as_array().unwrap() {
            let all = pod["volumes"].as_array().unwrap();
            let place = self.path(&format!("{name}/{}", mount["name"].as_str().unwrap()));
            if let Some(volume) = all.iter().find(|volume| volume["name"] == mount["name"]) {
                self.make_volume(volume, &place);
            } else {
                let claim = &workload["spec"]["volumeClaimTemplates"][0]["metadata"];
                assert_eq!(claim["name"], mount["name"]);
                std::fs::create_dir_all(&place).unwrap();
            }
            volumes.insert(mount["mountPath"].as_str().unwrap().to_owned(), place);
        }
        let mut variables = BTreeMap::new();
        for variable in container["env"].as_array().unwrap() {
            let value = self.value(variable, name);
            let value = value.replace("$(POD_NAME)", name);
            variables.insert(variable["name"].as_str().unwrap().to_owned(), value);
        }
        let kubeconfig = self.path("kubeconfig");
        let log = self.path(&format!("{name}.log"));
        let mut started =
            Pod { container, variables, volumes, port, kubeconfig, log, process: None };
        let words = started.container["command"].as_array().unwrap();
        let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        let log = std::fs::File::create(&started.log).unwrap();
        let mut command = started.command(&words);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        started.process = Some(command.spawn().unwrap());
        self.pods.push(started);
    }

    /// The value of a variable of a pod: a text, the name of the pod, or a key of a Secret.
    fn value(&self, variable: &Value, pod: &str) -> String {
        let source = &variable["valueFrom"];
        if source["fieldRef"]["fieldPath"] == "metadata.name" {
            return pod.to_owned();
        }
        if let Some(name) = source["secretKeyRef"]["name"].as_str() {
            let key = source["secretKeyRef"]["key"].as_str().unwrap();
            let value = self.object("secrets", name)["data"][key].clone();
            return String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
        }
        variable["value"].as_str().unwrap_or_else(|| panic!("{variable}")).to_owned()
    }

    /// Creates the directory of a volume. The files of a Secret have its mode.
    fn make_volume(&self, volume: &Value, place: &Path) {
        std::fs::create_dir_all(place).unwrap();
        let write = |key: &String, content: &[u8], mode: u64| {
            std::fs::write(place.join(key), content).unwrap();
            let mode = std::fs::Permissions::from_mode(u32::try_from(mode).unwrap());
            std::fs::set_permissions(place.join(key), mode).unwrap();
        };
        if let Some(name) = volume["configMap"]["name"].as_str() {
            for (key, value) in self.object("configmaps", name)["data"].as_object().unwrap() {
                write(key, value.as_str().unwrap().as_bytes(), 0o644);
            }
        } else if let Some(name) = volume["secret"]["secretName"].as_str() {
            if volume["secret"]["optional"] == true
                && !self.cluster.names("secrets").contains(&name.to_owned())
            {
                return;
            }
            for (key, value) in self.object("secrets", name)["data"].as_object().unwrap() {
                let content = STANDARD.decode(value.as_str().unwrap()).unwrap();
                write(key, &content, volume["secret"]["defaultMode"].as_u64().unwrap());
            }
        } else {
            let is_empty = volume["emptyDir"].is_object();
            assert!(is_empty || volume["persistentVolumeClaim"].is_object(), "{volume}");
        }
    }
}

impl Pod {
    /// Waits until each probe succeeds.
    async fn until_ready(&self) {
        let authority = self.path("/etc/butler-runner/tls/ca.crt");
        let client = http::client(Some(&authority), Redirects::Refuse).unwrap();
        for name in ["readinessProbe", "livenessProbe"] {
            let probe = &self.container[name]["httpGet"];
            assert_eq!((&probe["scheme"], &probe["port"]), (&json!("HTTPS"), &json!("https")));
            let url = format!(
                "https://127.0.0.1:{}{}",
                self.port.port(),
                probe["path"].as_str().unwrap()
            );
            let answers = async {
                loop {
                    let mut request = client.get(&url);
                    for header in probe["httpHeaders"].as_array().unwrap() {
                        let text = |field: &str| header[field].as_str().unwrap();
                        request = request.header(text("name"), text("value"));
                    }
                    if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let end = tokio::time::timeout(ANSWER, answers).await;
            let log = std::fs::read_to_string(&self.log).unwrap();
            end.unwrap_or_else(|_| panic!("{name} never succeeded: {log}"));
        }
    }

    /// The place on this machine of a path in the container.
    fn path(&self, text: &str) -> PathBuf {
        let mounted = self.volumes.iter().rev().find_map(|(path, place)| {
            let rest = text.strip_prefix(path.as_str())?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| place.join(rest.trim_start_matches('/')))
        });
        mounted.unwrap_or_else(|| PathBuf::from(text))
    }

    /// A command in the container.
    fn command(&self, words: &[&str]) -> Command {
        let program = match words[0] {
            "butler-runner" => env!("CARGO_BIN_EXE_butler-runner"),
            other => other,
        };
        let mut command = Command::new(program);
        command.args(words[1..].iter().map(|word| self.path(word))).env_clear();
        command.env("PATH", butler_testing::environment::search_path());
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
        command.current_dir(self.path(self.container["workingDir"].as_str().unwrap()));
        for (name, value) in &self.variables {
            command.env(name, self.path(&value.replace(PORT, &format!(":{}", self.port.port()))));
        }
        command
    }
}

/// The output of a command that succeeds.
async fn printed(command: &mut Command) -> String {
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn documented_installation_from_nothing_ends_with_a_server_that_answers() {
    let mut person = Person::new().await;
    let mut outputs = Vec::new();
    let lines = commands("docs/server-kubernetes.md", "## Installation", "### Several servers");
    for line in &lines {
        outputs.push(person.run(line).await);
    }
    let of = |beginning: &str| {
        let at = lines.iter().position(|line| line.contains(beginning)).unwrap();
        outputs[at].clone()
    };
    assert!(of("layer list").contains("network"), "{}", of("layer list"));
    let token = of("admin.token");
    let kept = std::fs::read_to_string(person.pods[0].path("/data/server/admin.token"));
    assert!(!token.trim().is_empty() && token == kept.unwrap());
}

#[tokio::test]
async fn documented_installation_of_several_servers_ends_with_servers_that_share_a_database() {
    let (postgres, objects) = (Postgres::start(), ObjectStore::start().await);
    let mut person = Person::new().await;
    // The database and the bucket of the page, and where they are here.
    let password =
        percent_encoding::utf8_percent_encode(PASSWORD, percent_encoding::NON_ALPHANUMERIC);
    let database = format!("postgres:{password}@127.0.0.1:{}/postgres", postgres.port());
    person.places.push(("butler:PASSWORD@db.example.com/butler".to_owned(), database));
    let mut listed = String::new();
    for line in
        commands("docs/server-kubernetes.md", "### Several servers", "## Settings of the server")
    {
        listed = person.run(&line).await;
        // A person adds the login for the bucket to the file.
        if line.contains("generate server") {
            let text = std::fs::read_to_string(person.path("server.yaml")).unwrap();
            let login = [
                ("AWS_ACCESS_KEY_ID", &*objects.access_key),
                ("AWS_SECRET_ACCESS_KEY", &objects.secret_key),
                ("AWS_REGION", "us-east-1"),
                ("AWS_ENDPOINT_URL", objects.endpoint()),
                ("AWS_ALLOW_HTTP", "true"),
            ];
            let login = login.map(|(name, value)| {
                format!("            - name: {name}\n              value: \"{value}\"\n")
            });
            let text = text.replacen(
                "          env:\n",
                &format!("          env:\n{}", login.concat()),
                1,
            );
            let text = text.replace("s3://acme-terraform/", &format!("s3://{BUCKET}/"));
            std::fs::write(person.path("server.yaml"), text).unwrap();
        }
    }
    assert_eq!(person.pods.len(), 2);
    // The last command asks in the first pod.
    assert!(listed.contains("network"), "{listed}");
    // The token of the only user is in the shared access file, and no server has made another one.
    for pod in &person.pods {
        let file = "/etc/butler-runner/shared/ops.token";
        let words = ["butler-runner", "layer", "list", "--server-token-file", file];
        let listed = printed(&mut pod.command(&words)).await;
        assert!(listed.contains("network"), "{listed}");
        assert!(!pod.path("/data/server/admin.token").exists());
        assert!(!pod.path("/data/server/store.sqlite").exists());
    }
    let decider = "SELECT count(*) FROM butler_decider";
    eventually("a server that decides", || postgres.query(decider) == ["1"]).await;
}

#[tokio::test]
async fn documented_installation_of_custom_resources_starts_a_server_that_lists_them() {
    let mut person = Person::new().await;
    let wanted = json!({"url": "https://git.example.com/infra.git"});
    person.cluster.custom("repositories", "team-a", "infra", wanted);
    let layer = json!({"repository": "infra", "path": "network", "strategy": "plan-only"});
    person.cluster.custom("layers", "team-a", "network", layer);
    for line in commands("docs/custom-resources.md", "## Installation", "## Names") {
        person.run(&line).await;
    }
    person.run("kubectl -n butler-system rollout status deployment/butler-server").await;
    let listed =
        "kubectl -n butler-system exec deployment/butler-server -- butler-runner layer list";
    assert!(person.run(listed).await.contains("team-a.network"));
    assert_eq!(person.cluster.names("customresourcedefinitions").len(), 3);
}
