//! What names a state in each backend, as the backends themselves compute it (`backend_state.go` of each in
//! Terraform).
//!
//! Each function returns a label of the store and the parts that tell states apart there. Object names contain
//! the workspace in the same way as the backend writes it, so that a workspace of one configuration equals the
//! default workspace of another one if both use the same object.

use std::path::{Component, Path, PathBuf};

use super::connection_string::database;
use super::endpoint::{host, is_aws_host, public_url, server};
use super::known_settings::KnownSettings;
use crate::spec::RegistryHost;

const TERRAFORM_CLOUD: &str = "app.terraform.io";

pub(super) fn none(_: &KnownSettings, _: Option<&str>) -> Option<Vec<String>> {
    None
}

pub(super) fn local(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let path = match workspace {
        None => PathBuf::from(settings.required("path")?),
        Some(workspace) => Path::new(&settings.required("workspace_dir")?)
            .join(workspace)
            .join("terraform.tfstate"),
    };
    // A relative path starts from the module's directory, which is another one in each clone.
    if !path.is_absolute() {
        return None;
    }
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    Some(parts("local", [normal.to_str()?]))
}

pub(super) fn pg(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let database = database(&settings.required("conn_str")?)?;
    let schema = settings.with_default("schema_name", "terraform_remote_state")?;
    let table = settings.with_default("table_name", "states")?;
    Some(parts("pg", [&*database, &schema, &table, workspace.unwrap_or("default")]))
}

pub(super) fn http(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let address = public_url(&settings.required("address")?)?;
    only_default(workspace)?;
    Some(parts("http", [&*address]))
}

pub(super) fn s3(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let endpoints = settings.object("endpoints")?;
    let endpoint = if endpoints.is_given("s3") {
        endpoints.required("s3")?
    } else {
        settings.with_default("endpoint", "")?
    };
    // All regions of a partition share the names of buckets, so the region only tells the partition.
    let region = settings.with_default("region", "").unwrap_or_default();
    let store = match host(&endpoint) {
        Some(host) if !is_aws_host(&host) => server(&endpoint)?,
        Some(host) if host.rsplit('.').next() == Some("cn") => "aws-cn".to_owned(),
        Some(host) if host.contains(".us-gov-") => "aws-us-gov".to_owned(),
        None if !endpoint.is_empty() => return None,
        _ if region.starts_with("cn-") => "aws-cn".to_owned(),
        _ if region.starts_with("us-gov-") => "aws-us-gov".to_owned(),
        _ => "aws".to_owned(),
    };
    let bucket = settings.required("bucket")?;
    let key = settings.required("key")?;
    let key = key.trim_start_matches('/');
    let prefix = settings.with_default("workspace_key_prefix", "env:")?;
    let object = match workspace {
        None => key.to_owned(),
        Some(workspace) => join([&prefix, workspace, key]),
    };
    Some(parts("s3", [&*store, &bucket, &object]))
}

pub(super) fn gcs(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let endpoint = settings.with_default("storage_custom_endpoint", "storage.googleapis.com")?;
    // A private endpoint leads to the same buckets.
    let store = if host(&endpoint)?.ends_with(".googleapis.com") {
        "google".to_owned()
    } else {
        server(&endpoint)?
    };
    let bucket = settings.required("bucket")?;
    let file = format!("{}.tfstate", workspace.unwrap_or("default"));
    let object = join([&settings.with_default("prefix", "")?, &*file]);
    Some(parts("gcs", [&*store, &bucket, &object]))
}

pub(super) fn azurerm(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    // Names of storage accounts are unique in a cloud.
    let cloud = settings.with_default("environment", "public")?.to_ascii_lowercase();
    let account = settings.required("storage_account_name")?;
    let container = settings.required("container_name")?;
    let mut key = settings.required("key")?;
    if let Some(workspace) = workspace {
        key = format!("{key}env:{workspace}");
    }
    Some(parts("azurerm", [&*cloud, &account, &container, &key]))
}

pub(super) fn consul(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let address = settings.required("address")?;
    // Without a scheme it is `scheme`, whose default port would be another one.
    let scheme = settings.with_default("scheme", "http")?;
    let server = if address.contains("://") {
        server(&address)?
    } else {
        server(&format!("{scheme}://{address}"))?
    };
    let datacenter = settings.with_default("datacenter", "")?;
    let mut path = settings.required("path")?;
    if let Some(workspace) = workspace {
        path = format!("{path}-env:{workspace}");
    }
    Some(parts("consul", [&*server, &datacenter, path.trim_start_matches('/')]))
}

pub(super) fn kubernetes(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let cluster = cluster(settings)?;
    let namespace = settings.with_default("namespace", "default")?;
    let suffix = settings.required("secret_suffix")?;
    let secret = format!("tfstate-{}-{suffix}", workspace.unwrap_or("default"));
    Some(parts("kubernetes", [&*cluster, &namespace, &secret]))
}

/// The cluster by its address, or by the file and the context that lead to it.
fn cluster(settings: &KnownSettings) -> Option<String> {
    if settings.is_given("host") {
        return server(&settings.required("host")?);
    }
    let files = if settings.is_given("config_paths") {
        settings.texts("config_paths")?
    } else if settings.is_given("config_path") {
        settings.texts("config_path")?
    } else if settings.required("in_cluster_config")? == "true" {
        return Some("in-cluster".to_owned());
    } else {
        return None;
    };
    let context = settings.with_default("config_context", "")?;
    let cluster = settings.with_default("config_context_cluster", "")?;
    Some(format!("{}#{context}#{cluster}", files.join(":")))
}

/// `remote` and `cloud` lead to the same workspaces.
pub(super) fn remote(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let host = RegistryHost::parse(&settings.with_default("hostname", TERRAFORM_CLOUD)?)?;
    let organization = settings.required("organization")?;
    let workspaces = settings.object("workspaces")?;
    let name = if workspaces.is_given("name") {
        only_default(workspace)?;
        workspaces.required("name")?
    } else {
        // With a prefix or tags there is no default workspace.
        format!("{}{}", workspaces.with_default("prefix", "")?, workspace?)
    };
    Some(parts("remote", [host.as_str(), &organization, &name]))
}

pub(super) fn oss(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    // Names of buckets are unique at Alibaba Cloud, at all endpoints.
    let bucket = settings.required("bucket")?;
    let prefix = settings.with_default("prefix", "env:")?;
    let key = settings.with_default("key", "terraform.tfstate")?;
    let object = join([&prefix, workspace.unwrap_or_default(), &*key]);
    Some(parts("oss", [&*bucket, &object]))
}

pub(super) fn cos(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let region = settings.required("region")?;
    let bucket = settings.required("bucket")?;
    let prefix = settings.with_default("prefix", "")?;
    let key = settings.with_default("key", "terraform.tfstate")?;
    let object = join([&prefix, workspace.unwrap_or_default(), &*key]);
    Some(parts("cos", [&*region, &bucket, &object]))
}

pub(super) fn oci(settings: &KnownSettings, workspace: Option<&str>) -> Option<Vec<String>> {
    let region = settings.required("region")?;
    let namespace = settings.required("namespace")?;
    let bucket = settings.required("bucket")?;
    let key = settings.with_default("key", "terraform.tfstate")?;
    let prefix = settings.with_default("workspace_key_prefix", "env:")?;
    let object = match workspace {
        None => key,
        Some(workspace) => join([&prefix, workspace, &*key]),
    };
    Some(parts("oci", [&*region, &namespace, &bucket, &object]))
}

fn parts<const N: usize>(store: &str, parts: [&str; N]) -> Vec<String> {
    [store].into_iter().chain(parts).map(str::to_owned).collect()
}

/// A backend with one state has no other workspace.
fn only_default(workspace: Option<&str>) -> Option<()> {
    workspace.is_none().then_some(())
}

/// The name of an object below prefixes: like Go's `path.Join`, but never with a slash at the beginning.
fn join<const N: usize>(names: [&str; N]) -> String {
    let mut joined: Vec<&str> = Vec::new();
    for name in names.iter().flat_map(|name| name.split('/')) {
        match name {
            "" | "." => {}
            ".." => drop(joined.pop()),
            name => joined.push(name),
        }
    }
    joined.join("/")
}
