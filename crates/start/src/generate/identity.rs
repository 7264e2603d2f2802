//! The shell code that logs a job in to clouds with the tokens of its CI system (OIDC).
//!
//! No key is stored, and no third-party action or plugin gets the token: the clouds' libraries read it from
//! files with documented names.

use askama::Template;

use super::render::render_template;
use super::{Cloud, Need, Options, filters};

/// The content of `AWS_ID_TOKEN`, `GCP_ID_TOKEN` and `AZURE_ID_TOKEN`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tokens {
    /// The tokens. The CI system does not remove the job's temporary directory.
    Values,
    /// The tokens. The CI system removes the job's temporary directory.
    ValuesInEmptied,
    /// Paths of files with the tokens. The CI system removes or renews the files, so they are not copied.
    Files,
}

#[derive(Template)]
#[template(path = "identity.sh", escape = "none", syntax = "ci")]
struct Script<'a> {
    cloud: &'a Cloud,
    temporary: &'static str,
    /// Whether the tokens are already in files.
    in_files: bool,
    /// Whether to store the tokens in memory if possible.
    in_memory: bool,
}

impl Options {
    /// The script that logs the job in, for a POSIX shell; `None` without a cloud. `temporary` is a directory of
    /// the job, as shell text between double quotes.
    #[must_use]
    pub fn identity_script(&self, tokens: Tokens, temporary: &'static str) -> Option<String> {
        let script = Script {
            cloud: &self.cloud,
            temporary,
            in_files: tokens == Tokens::Files,
            in_memory: tokens == Tokens::Values,
        };
        (!self.cloud.is_empty()).then(|| render_template(&script))
    }

    /// The variables of the CI system that the script reads.
    #[must_use]
    pub fn identity_needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        let mut need = |is_given: bool, name, what| {
            if !is_given {
                needs.push(Need::new(name, what));
            }
        };
        if let Some(aws) = &self.cloud.aws {
            need(aws.role.is_some(), "AWS_ROLE_ARN", "the role to assume at AWS");
            need(aws.region.is_some(), "AWS_REGION", "the region at AWS");
        }
        if let Some(gcp) = &self.cloud.gcp {
            let provider = "the provider at Google Cloud: projects/.../providers/...";
            need(gcp.provider.is_some(), "GCP_WORKLOAD_IDENTITY_PROVIDER", provider);
            let account = "the service account at Google Cloud";
            need(gcp.service_account.is_some(), "GCP_SERVICE_ACCOUNT", account);
        }
        if let Some(azure) = &self.cloud.azure {
            need(
                azure.client_id.is_some(),
                "AZURE_CLIENT_ID",
                "the id of the application at Azure",
            );
            need(azure.tenant_id.is_some(), "AZURE_TENANT_ID", "the id of its directory");
            need(azure.subscription_id.is_some(), "AZURE_SUBSCRIPTION_ID", "the subscription");
        }
        needs
    }

    /// The variables that the script sets.
    #[must_use]
    pub fn identity_variables(&self) -> Vec<&'static str> {
        let Cloud { aws, gcp, azure } = &self.cloud;
        let mut names = Vec::new();
        if aws.is_some() {
            names.extend(["AWS_REGION", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"]);
            names.push("AWS_WEB_IDENTITY_TOKEN_FILE");
        }
        if gcp.is_some() {
            names.push("GOOGLE_APPLICATION_CREDENTIALS");
        }
        if azure.is_some() {
            names.extend(["ARM_USE_OIDC", "ARM_CLIENT_ID", "ARM_TENANT_ID", "ARM_SUBSCRIPTION_ID"]);
            names.push("ARM_OIDC_TOKEN_FILE_PATH");
        }
        names
    }
}
