//! Which environment variables are credentials of providers and backends.
//!
//! They are often valid for an hour, and a plan waits for longer. What a plan would do does not depend on them.

/// Names of variables that hold credentials, as the documentation of providers, backends and tools has them. One that
/// ends with `*` is the beginning of names.
pub(super) const CREDENTIALS: [&str; 96] = [
    "ALIBABA_CLOUD_ACCESS_KEY_ID",
    "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
    "ALIBABA_CLOUD_SECURITY_TOKEN",
    "ALICLOUD_ACCESS_KEY",
    "ALICLOUD_SECRET_KEY",
    "ALICLOUD_SECURITY_TOKEN",
    "ARM_ACCESS_KEY",
    "ARM_CLIENT_CERTIFICATE",
    "ARM_CLIENT_CERTIFICATE_PASSWORD",
    "ARM_CLIENT_SECRET",
    "ARM_OIDC_REQUEST_TOKEN",
    "ARM_OIDC_TOKEN",
    "ARM_SAS_TOKEN",
    "ARTIFACTORY_ACCESS_TOKEN",
    "AUTH0_API_TOKEN",
    "AUTH0_CLIENT_SECRET",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "BITBUCKET_PASSWORD",
    "BOUNDARY_TOKEN",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "CONFLUENT_CLOUD_API_SECRET",
    "CONSUL_HTTP_TOKEN",
    "CONSUL_TOKEN",
    "DATABRICKS_CLIENT_SECRET",
    "DATABRICKS_TOKEN",
    "DATADOG_API_KEY",
    "DATADOG_APP_KEY",
    "DD_API_KEY",
    "DD_APP_KEY",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "DIGITALOCEAN_TOKEN",
    "DNSIMPLE_TOKEN",
    "DOPPLER_TOKEN",
    "EC_API_KEY",
    "EXOSCALE_API_SECRET",
    "FASTLY_API_KEY",
    "GCLOUD_KEYFILE_JSON",
    "GH_TOKEN",
    "GITEA_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "GOOGLE_BACKEND_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GRAFANA_AUTH",
    "HCLOUD_TOKEN",
    "HCP_CLIENT_SECRET",
    "IBMCLOUD_API_KEY",
    "IC_API_KEY",
    "JFROG_ACCESS_TOKEN",
    "KEYCLOAK_CLIENT_SECRET",
    "KEYCLOAK_PASSWORD",
    "KUBE_CLIENT_KEY_DATA",
    "KUBE_PASSWORD",
    "KUBE_TOKEN",
    "LINODE_TOKEN",
    "MONGODB_ATLAS_PRIVATE_KEY",
    "MYSQL_PASSWORD",
    "NETLIFY_TOKEN",
    "NEW_RELIC_API_KEY",
    "NOMAD_TOKEN",
    "NS1_APIKEY",
    "OKTA_API_TOKEN",
    "OPSGENIE_API_KEY",
    "OP_SERVICE_ACCOUNT_TOKEN",
    "OS_APPLICATION_CREDENTIAL_SECRET",
    "OS_PASSWORD",
    "OS_TOKEN",
    "OVH_APPLICATION_SECRET",
    "OVH_CONSUMER_KEY",
    "PAGERDUTY_TOKEN",
    "PGPASSWORD",
    "PROXMOX_VE_API_TOKEN",
    "PROXMOX_VE_PASSWORD",
    "RABBITMQ_PASSWORD",
    "SCW_ACCESS_KEY",
    "SCW_SECRET_KEY",
    "SENTRY_AUTH_TOKEN",
    "SNOWFLAKE_PASSWORD",
    "SNOWFLAKE_TOKEN",
    "SPACES_ACCESS_KEY_ID",
    "SPACES_SECRET_ACCESS_KEY",
    "TAILSCALE_API_KEY",
    "TFE_TOKEN",
    "TF_HTTP_PASSWORD",
    "TF_TOKEN_*",
    "VAULT_TOKEN",
    "VERCEL_API_TOKEN",
    "VSPHERE_PASSWORD",
    "YC_TOKEN",
];

/// Whether the environment variable holds credentials: one of [`CREDENTIALS`], or of `named`.
pub(super) fn is_credential(name: &str, named: &[&str]) -> bool {
    named.contains(&name)
        || CREDENTIALS.iter().any(|known| match known.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => *known == name,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_their_whole_name() {
        for name in ["AWS_SESSION_TOKEN", "TF_TOKEN_app_terraform_io", "ACME_LOGIN"] {
            assert!(is_credential(name, &["ACME_LOGIN"]), "{name}");
        }
        // Variables of the module, and what says where something is, are inputs of a plan.
        for name in
            ["TF_VAR_VAULT_TOKEN", "AWS_PROFILE", "AWS_REGION", "VAULT_ADDR", "ACME", "TF_LOG"]
        {
            assert!(!is_credential(name, &["ACME_LOGIN"]), "{name}");
        }
    }

    #[test]
    fn documentation_names_all_credentials() {
        let page = include_str!("../../../../docs/server-configuration.md");
        let list = page.split("## Credentials that may change").nth(1).unwrap_or_default();
        let list = list.split("\n## ").next().unwrap_or_default();
        let listed: Vec<&str> = list
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|it| it.contains('_') || *it == "PGPASSWORD")
            .collect();
        assert_eq!(listed, CREDENTIALS);
    }
}
