//! The shell that logs a job in to the clouds with a token of the CI system's (OIDC): files and
//! variables that the SDKs of the clouds read themselves, so that nothing else has to be installed.

use askama::Template;

use super::{Cloud, filters};

/// Where the shell finds the tokens. All are texts of a shell between double quotes.
#[derive(Clone, Copy)]
pub(super) enum Tokens {
    /// In this text; it is for all clouds.
    Text(&'static str),
    /// In files that are there already, and renewed where they are: one a cloud.
    Files(Files),
}

/// A file with a token for each cloud.
#[derive(Clone, Copy)]
pub(super) struct Files {
    pub(super) aws: &'static str,
    pub(super) gcp: &'static str,
    pub(super) azure: &'static str,
}

#[derive(Template)]
#[template(path = "generate/login.sh", escape = "none", syntax = "ci")]
struct Script<'a> {
    cloud: &'a Cloud,
    token: Option<&'static str>,
    files: Files,
    directory: &'static str,
}

impl Cloud {
    /// The script that logs in, and keeps what it needs for that in `directory`, a text of a shell
    /// between double quotes; nothing where the job logs in to no cloud.
    pub(super) fn login_script(&self, directory: &'static str, tokens: Tokens) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        const WRITTEN: &str = "$identity/token";
        let (token, files) = match tokens {
            Tokens::Text(text) => {
                (Some(text), Files { aws: WRITTEN, gcp: WRITTEN, azure: WRITTEN })
            }
            Tokens::Files(files) => (None, files),
        };
        let script = Script { cloud: self, token, files, directory };
        Some(script.render().expect("writing to a string does not fail"))
    }

    /// The variables of the CI system's that the login reads, each with what it is.
    pub(super) fn variables(&self) -> Vec<(&'static str, &'static str)> {
        let mut variables = Vec::new();
        let mut add =
            |is_missing: bool, name, what| variables.extend(is_missing.then_some((name, what)));
        if let Some(aws) = &self.aws {
            add(aws.role.is_none(), "AWS_ROLE_ARN", "the role to take on at AWS");
            add(aws.region.is_none(), "AWS_REGION", "its region");
        }
        if let Some(gcp) = &self.gcp {
            let provider = gcp.provider.is_none();
            add(provider, "GCP_WORKLOAD_IDENTITY_PROVIDER", "projects/.../providers/...");
            add(gcp.service_account.is_none(), "GCP_SERVICE_ACCOUNT", "the account to be there");
        }
        if let Some(azure) = &self.azure {
            add(azure.client_id.is_none(), "AZURE_CLIENT_ID", "the application to be at Azure");
            add(azure.tenant_id.is_none(), "AZURE_TENANT_ID", "the directory that it is in");
            add(azure.subscription_id.is_none(), "AZURE_SUBSCRIPTION_ID", "the subscription");
        }
        variables
    }
}
