//! What differs between installations.

use secrecy::SecretString;
use serde_json::Value;

use super::command_job::service;
use crate::yaml::scalar_text;

/// The values of the template, by their names.
pub(super) type Values = Vec<(&'static str, String)>;

/// What several servers share.
#[derive(Clone, Debug)]
pub struct SharedStore {
    /// How many servers there are.
    pub replicas: u32,
    /// The Secret with the address of the PostgreSQL database (`url`), the users (`access.yaml`) and the key of saved
    /// plans (`plan.key`).
    pub secret: String,
    /// The port of the database, which the servers may connect to.
    pub database_port: u16,
    /// The object store for logs and plans.
    pub artifacts: Option<String>,
}

/// The followers of a server.
#[derive(Clone, Debug)]
pub struct InstalledFollowers {
    /// The registry, as YAML.
    pub registry: String,
    /// The namespace of the copies of their state.
    pub namespace: String,
    /// The names of the config maps with these copies.
    pub copies: Vec<String>,
    /// What their stages create and read.
    pub objects: Vec<FollowedKind>,
}

/// A kind of object that a stage creates or reads.
#[derive(Clone, Debug)]
pub struct FollowedKind {
    /// The namespace.
    pub namespace: String,
    /// The group and version, such as `batch/v1`.
    pub api_version: String,
    /// The kind, such as `Job`.
    pub kind: String,
    /// Whether it is created, and not only read.
    pub is_created: bool,
}

/// The custom resources that are part of the desired state of a server.
#[derive(Clone, Debug)]
pub struct InstalledResources {
    /// Their namespaces.
    pub namespaces: Vec<String>,
    /// Globs of the hosts of repositories that they can define.
    pub git_hosts: Vec<String>,
    /// The `CustomResourceDefinition`s of their kinds.
    pub definitions: Vec<Value>,
}

/// What differs between installations.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The namespace of the server.
    pub namespace: String,
    /// The namespace of its attempts.
    pub job_namespace: String,
    /// The image of both, with a tag or digest.
    pub image: String,
    /// A Secret in both namespaces with a login for the image's registry.
    pub pull_secret: Option<String>,
    /// The address under which people reach the server.
    pub public_url: Option<String>,
    /// The namespace of the proxy that hands requests of people on.
    pub ingress_namespace: Option<String>,
    /// What several servers share; `None` for one server, whose store is in its volume.
    pub shared: Option<SharedStore>,
    /// The size of the volume of a server, as a quantity.
    pub storage: String,
    /// The class of the volume; the default is that of the cluster.
    pub storage_class: Option<String>,
    /// The ports that the network policy of the server allows it to connect to, beside those of DNS and the database.
    pub egress_ports: Vec<u16>,
    /// The configuration of the server, as YAML.
    pub config: Option<String>,
    /// The followers of the registry.
    pub followers: Option<InstalledFollowers>,
    /// The token of the Jobs that ask the server about followers, if it can have some.
    pub follower_token: Option<SecretString>,
    /// Custom resources.
    pub resources: Option<InstalledResources>,
}

impl Installation {
    /// The names under which attempts and commands in the pod reach the server.
    pub(super) fn names(&self) -> Vec<String> {
        let service = service(&self.namespace);
        let pods =
            self.shared.as_ref().map(|_| format!("*.butler-server-pods.{}.svc", self.namespace));
        let local = ["localhost", "127.0.0.1"].map(str::to_owned);
        std::iter::once(service).chain(pods).chain(local).collect()
    }

    /// The specification of a volume claim.
    pub(super) fn claim(&self, depth: usize) -> String {
        let class = self.storage_class.as_ref();
        let class = class
            .map_or_else(String::new, |name| format!("storageClassName: {}\n", scalar_text(name)));
        let text = format!(
            "accessModes: [ReadWriteOnce]\n{class}resources:\n  requests:\n    storage: {}",
            scalar_text(&self.storage)
        );
        let indent = " ".repeat(depth);
        text.lines().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
    }
}
