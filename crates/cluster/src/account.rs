//! The service account that clouds trust by its name. It is not deleted with a run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::MANAGED_BY;
use crate::options::{Identity, JobOptions};
use crate::variable::variable;

/// The account's name if the options do not set one.
const DEFAULT_NAME: &str = "butler-runner";

/// Pods with this label get a token for Entra (Azure Workload Identity).
const AZURE_USE: &str = "azure.workload.identity/use";

/// The name of the pod's service account; `None` for the namespace's default.
pub(crate) fn account_name(options: &JobOptions) -> Option<String> {
    let default = || options.identity.is_some().then(|| DEFAULT_NAME.to_owned());
    options.service_account.clone().or_else(default)
}

/// The account with the annotations that the clouds' webhooks read; `None` without a cloud identity.
pub(crate) fn service_account(options: &JobOptions) -> Option<ServiceAccount> {
    let Identity { aws, gcp, azure } = &options.identity;
    let mut annotations = BTreeMap::new();
    let mut annotate = |name: &str, value: &str| annotations.insert(name.into(), value.into());
    if let Some((role, _)) = aws {
        annotate("eks.amazonaws.com/role-arn", role);
    }
    if let Some(account) = gcp {
        annotate("iam.gke.io/gcp-service-account", account);
    }
    if let Some(azure) = azure {
        annotate("azure.workload.identity/client-id", &azure.client_id);
        annotate("azure.workload.identity/tenant-id", &azure.tenant_id);
    }
    options.identity.is_some().then(|| ServiceAccount {
        metadata: ObjectMeta {
            name: account_name(options),
            namespace: options.namespace.clone(),
            annotations: Some(annotations),
            labels: Some(BTreeMap::from([
                ("app.kubernetes.io/name".to_owned(), "butler-runner".to_owned()),
                ("app.kubernetes.io/managed-by".to_owned(), MANAGED_BY.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    })
}

/// The pod's label that Azure's webhook requires.
pub(crate) fn pod_label(identity: &Identity) -> Option<(String, String)> {
    identity.azure.is_some().then(|| (AZURE_USE.to_owned(), "true".to_owned()))
}

/// The variables that Terraform's providers need and the webhooks do not set.
pub(crate) fn provider_variables(identity: &Identity) -> Vec<EnvVar> {
    let mut variables = Vec::new();
    if let Some((_, Some(region))) = &identity.aws {
        variables.push(variable("AWS_REGION", region));
    }
    if let Some(azure) = &identity.azure {
        let mut add = |name: &str, value: &str| {
            variables.push(variable(name, value));
        };
        add("ARM_USE_AKS_WORKLOAD_IDENTITY", "true");
        add("ARM_CLIENT_ID", &azure.client_id);
        add("ARM_TENANT_ID", &azure.tenant_id);
        if let Some(subscription) = &azure.subscription_id {
            add("ARM_SUBSCRIPTION_ID", subscription);
        }
    }
    variables
}
