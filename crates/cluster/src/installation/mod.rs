//! The installation of a server in a cluster, as one file for `kubectl apply`.

mod certificate;
mod command_job;
mod follower_token;
mod followers;
mod obsolete_roles;
mod one_server;
mod options;
mod resources;
mod role_names;
mod several_servers;

use openssl::error::ErrorStack;
use secrecy::ExposeSecret as _;

pub use certificate::ServerCertificate;
pub use command_job::{
    CommandJob, FOLLOWER_JOB_NAME, FOLLOWER_TOKEN_SECRET, InstalledServer, InstalledServerError,
};
pub use options::{
    FollowedKind, Installation, InstalledFollowers, InstalledResources, SharedStore,
};
pub use role_names::RoleNames;

use crate::yaml::scalar_text;

/// The file. `{{name}}` is replaced by a value; a line with nothing else disappears if the value is empty.
const TEMPLATE: &str = include_str!("template.yaml");

/// The configuration of a server that has none.
const NO_LAYERS: &str = "\
# Replace this by your repositories and layers:
# https://github.com/butlerdotdev/butler-runner/blob/main/docs/server-configuration.md
repositories: {}
layers: {}
";

impl Installation {
    /// A new certificate, valid from `today`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn certificate(&self, today: jiff::civil::Date) -> Result<ServerCertificate, ErrorStack> {
        ServerCertificate::new(&self.names(), today)
    }

    /// All objects as one file. It contains the private key of the certificate.
    #[must_use]
    pub fn to_yaml(&self, certificate: &ServerCertificate) -> String {
        let variable = |name: &str, value: &str| {
            format!("            - name: {name}\n              value: {}", scalar_text(value))
        };
        let ingress = |name: &String| {
            let name = scalar_text(name);
            format!(
                "        # The proxy for people.\n        - namespaceSelector:\n            matchLabels:\n              \
                 kubernetes.io/metadata.name: {name}"
            )
        };
        let pull_secrets = |name: &String| {
            format!("      imagePullSecrets:\n        - name: {}", scalar_text(name))
        };
        let optional = |value: Option<String>| value.unwrap_or_default();
        let mut values = match &self.shared {
            None => one_server::values(self),
            Some(shared) => several_servers::values(self, shared),
        };
        values.extend(followers::values(self, block));
        values.extend(follower_token::values(self));
        values.extend(resources::values(self));
        values.extend([
            ("namespace", scalar_text(&self.namespace)),
            ("job-namespace", scalar_text(&self.job_namespace)),
            ("image", scalar_text(&self.image)),
            ("pull-secrets", optional(self.pull_secret.as_ref().map(pull_secrets))),
            (
                "job-pull-secret",
                optional(
                    self.pull_secret.as_ref().map(|name| variable("BUTLER_JOB_PULL_SECRET", name)),
                ),
            ),
            (
                "public-url",
                optional(self.public_url.as_ref().map(|url| variable("BUTLER_PUBLIC_URL", url))),
            ),
            ("ingress-namespace", optional(self.ingress_namespace.as_ref().map(ingress))),
            ("egress-ports", egress_ports(&self.egress_ports)),
            ("obsolete-roles", obsolete_roles::comment(self)),
            ("config", block(self.config.as_deref().unwrap_or(NO_LAYERS))),
            ("not-after", certificate.not_after.to_string()),
            ("ca", indented(&certificate.ca)),
            ("certificate", indented(&certificate.certificate)),
            ("key", indented(certificate.key.expose_secret())),
        ]);
        filled(&values)
    }
}

/// The entries of a network policy for these ports.
fn egress_ports(ports: &[u16]) -> String {
    let ports = ports.iter().map(|port| format!("        - port: {port}\n          protocol: TCP"));
    ports.collect::<Vec<_>>().join("\n")
}

/// The template with these values.
fn filled(values: &[(&str, String)]) -> String {
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let mut rest = line;
        let mut written = String::new();
        while let Some((before, (name, after))) =
            rest.split_once("{{").and_then(|(before, it)| Some((before, it.split_once("}}")?)))
        {
            let value = values.iter().find(|(known, _)| *known == name);
            written.push_str(before);
            written.push_str(value.map_or("", |(_, value)| value));
            rest = after;
        }
        written.push_str(rest);
        if !written.is_empty() || line.is_empty() {
            text.push_str(&written);
            text.push('\n');
        }
    }
    text
}

/// The lines of a PEM below a key of an object.
fn indented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// A text as a block, which people can edit; quoted if a block would change it.
fn block(text: &str) -> String {
    let is_printable = |it: char| {
        it == '\n' || (!it.is_control() && !matches!(it, '\u{2028}'..='\u{2029}' | '\u{feff}'))
    };
    let is_block = text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.chars().all(is_printable);
    if !is_block {
        return scalar_text(text);
    }
    let lines = text
        .lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("    {line}") });
    format!("|\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation() -> Installation {
        Installation {
            namespace: "system".to_owned(),
            job_namespace: "attempts".to_owned(),
            image: "butler:1".to_owned(),
            pull_secret: Some("login".to_owned()),
            public_url: Some("https://butler.example.com".to_owned()),
            ingress_namespace: Some("ingress".to_owned()),
            storage: "10Gi".to_owned(),
            storage_class: Some("fast".to_owned()),
            egress_ports: vec![443, 3000],
            shared: None,
            config: None,
            followers: None,
            follower_token: None,
            resources: None,
        }
    }

    #[test]
    fn each_placeholder_of_the_template_has_a_value() {
        let installation = installation();
        let certificate = installation.certificate(jiff::civil::date(2026, 1, 31)).unwrap();
        assert_eq!(certificate.not_after, jiff::civil::date(2036, 1, 31));
        let text = installation.to_yaml(&certificate);
        assert!(!text.contains("{{") && !text.contains("}}"), "{text}");
        for value in ["login", "https://butler.example.com", "ingress", "fast", "2036-01-31"] {
            assert!(text.contains(value), "{value}");
        }
        let mut several = installation.clone();
        several.shared = Some(SharedStore {
            replicas: 3,
            secret: "shared".to_owned(),
            database_port: 6432,
            artifacts: Some("s3://bucket/prefix".to_owned()),
        });
        let text = several.to_yaml(&certificate);
        assert!(!text.contains("{{") && !text.contains("\n\n"), "{text}");
        for value in ["replicas: 3", "shared", "6432", "s3://bucket/prefix"] {
            assert!(text.contains(value), "{value}");
        }
        for port in [443, 3000] {
            assert!(text.contains(&format!("        - port: {port}\n          protocol: TCP\n")));
        }
        assert!(!text.contains("port: 22\n"), "{text}");
        let mut minimal = installation;
        (minimal.pull_secret, minimal.public_url) = (None, None);
        (minimal.ingress_namespace, minimal.storage_class) = (None, None);
        let text = minimal.to_yaml(&certificate);
        assert!(!text.contains("\n\n"), "an empty value leaves no empty line");
        assert!(!text.contains("storageClassName") && !text.contains("PULL_SECRET"), "{text}");
    }

    /// `kubectl apply` deletes nothing, so the file says how.
    #[test]
    fn roles_of_earlier_installations_are_named_with_the_command_that_deletes_them() {
        let object = |namespace: &str, kind: &str| FollowedKind {
            namespace: namespace.to_owned(),
            api_version: "tekton.dev/v1".to_owned(),
            kind: kind.to_owned(),
            is_created: true,
        };
        let followers = InstalledFollowers {
            registry: "followers: []\n".to_owned(),
            namespace: "ci".to_owned(),
            copies: vec!["butler-follower-web".to_owned()],
            objects: vec![
                object("web", "PipelineRun"),
                object("web", "Other"),
                object("a\nb", "B"),
            ],
        };
        let resources = InstalledResources {
            namespaces: vec!["team-a".to_owned()],
            git_hosts: Vec::new(),
            definitions: Vec::new(),
        };
        let printed = |followers, resources| {
            let installation = Installation { followers, resources, ..installation() };
            let certificate = installation.certificate(jiff::civil::date(2026, 1, 31)).unwrap();
            installation.to_yaml(&certificate)
        };
        let none = printed(None, None);
        let all = printed(Some(followers), Some(resources));
        let command =
            "#   kubectl delete role,rolebinding -A --field-selector 'metadata.name=butler";
        for (text, selectors) in [
            (&none, ["-followers-system'", "-resources-system'"]),
            (
                &all,
                [
                    "-followers-system,metadata.namespace!=ci,metadata.namespace!=web'",
                    "-resources-system,metadata.namespace!=team-a'",
                ],
            ),
        ] {
            let commands: Vec<_> = text.lines().filter(|line| line.starts_with(command)).collect();
            assert_eq!(commands, selectors.map(|selector| format!("{command}{selector}")));
        }
        // TaskRuns of the PipelineRuns are read too.
        let rule = "    resources: [taskruns]\n    verbs: [list]\n";
        assert_eq!((all.matches(rule).count(), none.matches(rule).count()), (1, 0), "{all}");
    }

    #[test]
    fn servers_answer_under_the_name_that_jobs_of_followers_use() {
        for shared in [
            None,
            Some(SharedStore {
                replicas: 2,
                secret: "shared".to_owned(),
                database_port: 5432,
                artifacts: None,
            }),
        ] {
            let installation = Installation {
                shared,
                follower_token: Some("breg_token".to_owned().into()),
                ..installation()
            };
            let certificate = installation.certificate(jiff::civil::date(2026, 1, 31)).unwrap();
            let text = installation.to_yaml(&certificate);
            let workloads = text.split("---\n").filter(|it| it.contains("containers:"));
            let workloads = workloads.map(|it| serde_saphyr::from_str(it).unwrap());
            let workloads: Vec<serde_json::Value> = workloads.collect();
            let [workload] = &workloads[..] else { panic!("{text}") };
            let server = InstalledServer::of(workload, "system").unwrap();
            let host = server.host();
            let variables = &workload["spec"]["template"]["spec"]["containers"][0]["env"];
            let value = |name: &str| {
                let mut all = variables.as_array().unwrap().iter();
                all.find(|it| it["name"] == name).map(|it| it["value"].clone())
            };
            // The server also answers under the host of its attempts.
            let is_host_of_attempts =
                value("BUTLER_ATTEMPT_URL").unwrap() == format!("https://{host}:7373");
            let is_allowed = value("BUTLER_ALLOWED_HOST").is_some_and(|it| it == *host);
            assert!(is_host_of_attempts || is_allowed, "{variables:#}");
            assert!(installation.names().contains(&host), "{host} is in the certificate");
        }
    }

    #[test]
    fn configuration_is_a_block_that_people_can_edit_if_that_changes_nothing() {
        assert_eq!(block("a: 1\n\nb: 2\n"), "|\n    a: 1\n\n    b: 2");
        for text in [" a: 1\n", "a: 1", "a: 1\n\n", "a: \"\u{7}\"\n", "\ta: 1\n", "a: \u{2028}\n"] {
            assert!(block(text).starts_with('"'), "{text:?}: {}", block(text));
        }
    }
}
