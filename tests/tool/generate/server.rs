//! `generate server`: the installation of a server in a cluster.

use std::collections::BTreeSet;

use expect_test::expect_file;
use openssl::x509::X509;
use serde_json::Value;

use butler_testing::linters::{kubernetes_manifests, yaml};
use butler_testing::machine::Machine;
use butler_testing::project::project_path;

/// All options but the configuration.
const EVERYTHING: &[&str] = &[
    "--namespace",
    "terraform",
    "--job-namespace",
    "terraform-runs",
    "--image",
    "registry.example.com/tools/butler-runner",
    "--runner-version",
    "1.2.3",
    "--digest",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "--pull-secret",
    "registry-login",
    "--public-url",
    "https://butler.example.com",
    "--ingress-namespace",
    "ingress-nginx",
    "--storage",
    "50Gi",
    "--storage-class",
    "fast",
    "--egress-port",
    "443",
    "--egress-port",
    "16443",
];

/// Servers that share a database.
const SEVERAL: &[&str] = &[
    "--shared-secret",
    "butler-shared",
    "--replicas",
    "3",
    "--database-port",
    "6432",
    "--artifacts",
    "s3://acme-terraform/butler",
];

/// Custom resources of two namespaces.
const RESOURCES: &[&str] =
    &["--resources", "team-b", "--resources", "team-a", "--allowed-git-host", "*.example.com"];

fn printed(words: &[&str]) -> String {
    let words = [&["generate", "server"], words].concat();
    Machine::new().run(&words).expect_success().stdout
}

/// The text without what differs each time: a token, keys, certificates and the day on which they end.
fn stable(text: &str) -> String {
    let mut kept = Vec::new();
    let mut is_pem = false;
    for line in text.lines() {
        if line.contains("-----BEGIN") {
            is_pem = true;
            kept.push("    PEM".to_owned());
        }
        if !is_pem {
            kept.push(line.to_owned());
        }
        is_pem = is_pem && !line.contains("-----END");
    }
    let text = kept.join("\n") + "\n";
    let text = match text.split_once("token: breg_") {
        Some((before, after)) => format!("{before}token: TOKEN{}", &after[64..]),
        None => text,
    };
    let day = text.split("valid until ").nth(1).unwrap()[..10].to_owned();
    text.replace(&day, "DAY").replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

/// The object of this kind with this name.
fn object(text: &str, kind: &str, name: &str) -> Value {
    let mut objects = yaml(text).into_iter();
    let is_it = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == name;
    objects.find(is_it).unwrap_or_else(|| panic!("{kind} {name}"))
}

#[test]
fn installation_is_valid_and_reproducible_but_for_its_certificate() {
    let registry = project_path("tests/data/followers/registry.yaml");
    let registry = registry.to_str().unwrap().to_owned();
    let mut texts = Vec::new();
    for (words, file) in [
        (&[][..], expect_file!["../../data/kubernetes/server.yaml"]),
        (EVERYTHING, expect_file!["../../data/kubernetes/server-everything.yaml"]),
        (SEVERAL, expect_file!["../../data/kubernetes/several-servers.yaml"]),
        (&["--followers", &registry], expect_file!["../../data/kubernetes/server-followers.yaml"]),
        (RESOURCES, expect_file!["../../data/kubernetes/server-resources.yaml"]),
    ] {
        let text = printed(words);
        file.assert_eq(&stable(&text));
        assert_eq!(stable(&text), stable(&printed(words)));
        texts.push(text);
    }
    kubernetes_manifests(&texts).unwrap();
}

#[test]
fn certificate_is_for_the_service_and_for_commands_in_the_pod() {
    let text = printed(&["--namespace", "terraform"]);
    let secret = object(&text, "Secret", "butler-server-tls");
    let pem = |key: &str| secret["stringData"][key].as_str().unwrap().as_bytes().to_owned();
    let (certificate, authority) =
        (X509::from_pem(&pem("tls.crt")).unwrap(), X509::from_pem(&pem("ca.crt")).unwrap());
    assert!(certificate.verify(&authority.public_key().unwrap()).unwrap());
    let names = certificate.subject_alt_names().unwrap();
    let names: BTreeSet<_> = names.iter().filter_map(|it| it.dnsname()).collect();
    assert_eq!(names, ["butler-server.terraform.svc", "localhost"].into());
    let key = openssl::pkey::PKey::private_key_from_pem(&pem("tls.key")).unwrap();
    assert!(certificate.public_key().unwrap().public_eq(&key));
    // Attempts trust the same authority, and get no key.
    let trusted = object(&text, "ConfigMap", "butler-ca");
    assert_eq!(trusted["data"]["ca.crt"], secret["stringData"]["ca.crt"]);
    assert_eq!(text.matches("PRIVATE KEY").count(), 2, "BEGIN and END");
}

#[test]
fn file_is_private_and_has_the_configuration_if_a_server_accepts_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let machine = Machine::new();
    let (config, output) = (machine.path("butler.yaml"), machine.path("server.yaml"));
    let text = "# Ours\nrepositories:\n  infra: {url: 'https://git.example.com/infra.git'}\n\nlayers:\n  a: \
                {repository: infra, path: a}\n";
    std::fs::write(&config, text).unwrap();
    let (config, file) = (config.to_str().unwrap(), output.to_str().unwrap());
    let words = ["generate", "server", "--config", config, "--output", file];
    machine.run(&words).expect_success();
    assert_eq!(output.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let written = std::fs::read_to_string(&output).unwrap();
    let found = object(&written, "ConfigMap", "butler-config");
    assert_eq!(found["data"]["butler.yaml"], text);
    assert!(written.contains("\n    # Ours\n"), "people can edit it: {written}");

    std::fs::write(config, text.replace("path: a", "pth: a")).unwrap();
    let refused = machine.run(&[&words[..], &["--force"]].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("did you mean `path`?"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), written);
}

#[test]
fn server_starts_without_a_configuration_of_its_own() {
    let machine = Machine::new();
    let found = object(&printed(&[]), "ConfigMap", "butler-config");
    let config = machine.path("butler.yaml");
    std::fs::write(&config, found["data"]["butler.yaml"].as_str().unwrap()).unwrap();
    machine.run(&["config", "check", config.to_str().unwrap()]).expect_success();
}

#[test]
fn each_of_several_servers_has_a_name_that_its_certificate_and_its_attempts_know() {
    let text = printed(SEVERAL);
    let set = object(&text, "StatefulSet", "butler-server");
    let env = set["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
    let place = |name: &str| env.iter().position(|it| it["name"] == name).unwrap();
    let url = env[place("BUTLER_ATTEMPT_URL")]["value"].as_str().unwrap().to_owned();
    assert_eq!(url, "https://$(POD_NAME).butler-server-pods.butler-system.svc:7373");
    // Only earlier variables are replaced in later ones.
    assert!(place("POD_NAME") < place("BUTLER_ATTEMPT_URL"));
    assert_eq!(set["spec"]["serviceName"], "butler-server-pods");
    let pem = object(&text, "Secret", "butler-server-tls")["stringData"]["tls.crt"].clone();
    let certificate = X509::from_pem(pem.as_str().unwrap().as_bytes()).unwrap();
    let names = certificate.subject_alt_names().unwrap();
    let is_any = |name: &str| names.iter().any(|it| it.dnsname() == Some(name));
    assert!(is_any("*.butler-server-pods.butler-system.svc"), "{names:?}");
    // The password of the database is in no printed object.
    assert_eq!(env[place("BUTLER_STORE")]["valueFrom"]["secretKeyRef"]["name"], "butler-shared");
}

/// The settings are those that a server has, and the pod is restricted.
#[test]
fn pod_of_the_server_is_restricted_and_has_known_settings() {
    for words in [&[][..], EVERYTHING, SEVERAL] {
        let text = printed(words);
        let is_workload =
            |it: &Value| ["Deployment", "StatefulSet"].iter().any(|kind| it["kind"] == *kind);
        let workload = yaml(&text).into_iter().find(is_workload).unwrap();
        let pod = &workload["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let container = &pod["containers"][0];
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
        assert!(context["capabilities"]["add"].is_null());
        let known: BTreeSet<_> = butler_runner::settings::SERVER_SETTINGS
            .iter()
            .chain(butler_runner::settings::SETTINGS)
            .flat_map(|setting| setting.variables)
            .chain(&["HOME", "POD_NAME"])
            .copied()
            .collect();
        for variable in container["env"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            assert!(known.contains(name), "{name}");
        }
        let mounts = container["volumeMounts"].as_array().unwrap().iter();
        let mounted: BTreeSet<_> = mounts.map(|it| it["name"].as_str().unwrap()).collect();
        let volumes = pod["volumes"].as_array().unwrap().iter();
        let mut volumes: BTreeSet<_> = volumes.map(|it| it["name"].as_str().unwrap()).collect();
        if workload["kind"] == "StatefulSet" {
            let claim = &workload["spec"]["volumeClaimTemplates"][0];
            volumes.insert(claim["metadata"]["name"].as_str().unwrap());
        }
        assert_eq!(mounted, volumes);
    }
}

#[test]
fn namespaces_with_secrets_of_the_server_cannot_have_custom_resources() {
    for own in ["butler-system", "butler-attempts"] {
        let run = Machine::new().run(&["generate", "server", "--resources", own]);
        assert_eq!(run.code, Some(2));
        let stderr = run.stderr;
        assert!(stderr.contains(&format!("the namespace `{own}` of --resources")), "{stderr}");
    }
}

#[test]
fn examples_of_custom_resources_fit_the_definitions() {
    let text = printed(RESOURCES);
    let page = std::fs::read_to_string(project_path("docs/custom-resources.md")).unwrap();
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let validator = |kind: &Value| {
        let objects = yaml(&text).into_iter();
        let is_it = |it: &Value| {
            it["kind"] == "CustomResourceDefinition" && it["spec"]["names"]["kind"] == *kind
        };
        let definition = objects.into_iter().find(is_it).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        jsonschema::validator_for(schema).unwrap()
    };
    for mut example in yaml(example) {
        let validator = validator(&example["kind"]);
        if let Err(error) = validator.validate(&example) {
            panic!("{example}: {error}");
        }
        for (pointer, value) in
            [("/spec", Value::Null), ("/spec/paths", 1.into()), ("/spec/url", "file:///a".into())]
        {
            let Some(field) = example.pointer_mut(pointer) else { continue };
            let right = std::mem::replace(field, value);
            assert!(!validator.is_valid(&example), "{pointer}");
            *example.pointer_mut(pointer).unwrap() = right;
        }
    }
}
