//! The schemas of what custom resources want: those of the entries of files, without what only the server's own
//! files can say, and with rules that the cluster checks.

use std::sync::LazyLock;

use butler_cluster::{ResourceKind, ResourceStatus};
use butler_follower::config::Follower;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::structural::{structural, with_resource_keys};
use crate::config::{LayerEntry, RepositoryEntry};

/// What layers of other people cannot say. `Trust` refuses it in any case.
const ONLY_OWN_LAYERS: [&str; 5] = ["after-plan", "formerly", "isolation", "job", "pass-env"];

static REPOSITORY: LazyLock<Value> = LazyLock::new(of::<RepositoryEntry>);
static LAYER: LazyLock<Value> = LazyLock::new(of::<LayerEntry>);
static FOLLOWER: LazyLock<Value> = LazyLock::new(|| structural(Follower::schema().as_value()));

fn repository() -> Value {
    let mut schema = REPOSITORY.clone();
    let properties = &mut schema["properties"];
    remove(&mut properties["credentials"], "token-env");
    properties["webhook"]["x-kubernetes-validations"] = json!([rule(
        "has(self.secretFile) != has(self.secret)",
        "a webhook has either `secret` or `secretFile`",
    )]);
    properties["url"]["description"] = json!("The address: `https://`, `http://` or `ssh://`.");
    properties["url"]["pattern"] = json!("^(https|http|ssh)://.");
    properties["credentials"]["x-kubernetes-validations"] = json!([
        rule(
            "[has(self.secret), has(self.tokenFile), has(self.username), has(self.sshKeyFile)].exists_one(it, it)",
            "credentials are `secret`, `tokenFile`, `username` with `passwordFile`, or `sshKeyFile` with `knownHosts`",
        ),
        rule(
            "has(self.username) == has(self.passwordFile)",
            "`username` and `passwordFile` belong together",
        ),
        rule(
            "has(self.sshKeyFile) == has(self.knownHosts)",
            "`sshKeyFile` and `knownHosts` belong together",
        ),
    ]);
    schema
}

fn layer() -> Value {
    let mut schema = LAYER.clone();
    for key in ONLY_OWN_LAYERS {
        remove(&mut schema, key);
    }
    remove(&mut schema["properties"]["module-credentials"], "token-env");
    remove(&mut schema["properties"]["secrets"]["additionalProperties"], "env");
    let properties = &mut schema["properties"];
    properties["repository"]["description"] =
        json!("The name of a `Repository` in the same namespace.");
    properties["after"]["description"] = json!(
        "Names of `Layer`s in the same namespace that must be applied first, at the same commit. An apply of one that \
         changed something plans this layer again."
    );
    schema["description"] = json!("A layer, or a set of layers.");
    schema["required"] = json!(["repository"]);
    schema["x-kubernetes-validations"] =
        json!([rule("has(self.path) != has(self.paths)", "a layer has either `path` or `paths`")]);
    schema
}

fn follower() -> Value {
    let mut schema = FOLLOWER.clone();
    remove(&mut schema, "id");
    let source = &mut schema["properties"]["source"]["properties"]["repository"];
    source["description"] = json!("The name of a `Repository` in the same namespace.");
    let adapters = &mut schema["properties"]["adapter"]["properties"];
    adapters["terraform"]["properties"]["layer"]["description"] =
        json!("The name of a `Layer` in the same namespace.");
    for adapter in ["github-actions", "gitlab-ci", "jenkins"] {
        remove(&mut adapters[adapter], "token-env");
    }
    remove(&mut adapters["gitlab-ci"], "api-token-env");
    let stages = &mut adapters["kubernetes"]["properties"]["stages"];
    // The cluster estimates what rules cost.
    stages["maxItems"] = json!(64);
    let stage = &mut stages["items"];
    stage["x-kubernetes-validations"] = json!([rule(
        "has(self.create) != has(self.observe)",
        "a stage has either `create` or `observe`"
    )]);
    stage["properties"]["observe"]["properties"]["namespace"]["description"] =
        json!("The namespace: only that of the follower.");
    // Manifests are objects.
    stage["properties"]["create"]["type"] = json!("object");
    schema
}

/// The structural schema of an entry of a file, with its keys.
pub(super) fn schema(kind: ResourceKind) -> &'static Value {
    match kind {
        ResourceKind::Repository => &REPOSITORY,
        ResourceKind::Layer => &LAYER,
        ResourceKind::Follower => &FOLLOWER,
    }
}

/// The `CustomResourceDefinition`s of the resources.
#[must_use]
pub fn definitions() -> Vec<Value> {
    let status = of::<ResourceStatus>();
    let offered = |kind| match kind {
        ResourceKind::Repository => repository(),
        ResourceKind::Layer => layer(),
        ResourceKind::Follower => follower(),
    };
    butler_cluster::definitions(|kind| with_resource_keys(&offered(kind)), &status)
}

fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    structural(settings.into_generator().into_root_schema_for::<T>().as_value())
}

fn remove(schema: &mut Value, key: &str) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove(key);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != key);
    }
}

fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}
