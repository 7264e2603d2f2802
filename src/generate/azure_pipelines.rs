//! `generate azure-pipelines`: a pipeline with one job.

use askama::Template;

use super::login::Tokens;
use super::{Cloud, GenerateError, Options, filters, text};

const TARGET: &str = "azure-pipelines";

#[derive(Template)]
#[template(path = "generate/azure-pipelines.yml", escape = "none", syntax = "ci")]
struct Pipeline<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<(&'static str, &'static str)>,
    /// Variables of the job.
    variables: Vec<(&'static str, String)>,
    /// The pool's name, and what its agents must have.
    pool: Option<(&'a String, &'a [String])>,
    /// The steps, which stand elsewhere in a deployment than in a job.
    steps: String,
}

#[derive(Template)]
#[template(path = "generate/azure-pipelines-steps.yml", escape = "none", syntax = "ci")]
struct Steps<'a> {
    options: &'a Options,
    install: Option<String>,
    login: Option<String>,
    image: Option<String>,
    /// Names of the variables that the container gets.
    handed_on: Vec<&'static str>,
}

/// A pipeline for Azure Pipelines.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn azure_pipelines(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{", "$(", "$["])?;
    // Who to be at Azure, the service connection says.
    let elsewhere = Cloud { azure: None, ..options.cloud.clone() };
    let steps = Steps {
        options,
        install: options.install_script("${AGENT_TEMPDIRECTORY:?}/butler-runner"),
        login: elsewhere
            .login_script("${AGENT_TEMPDIRECTORY:?}/butler-runner", Tokens::Text("${token:?}")),
        image: options.image(),
        handed_on: handed_on(options),
    };
    let mut needs = options.needs();
    needs.retain(|(name, _)| !name.starts_with("AZURE_"));
    let pipeline = Pipeline {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs,
        variables: options.network_variables(),
        pool: options.labels.split_first(),
        steps: steps.render().expect("writing to a string does not fail"),
    };
    Ok(text(&pipeline))
}

fn handed_on(options: &Options) -> Vec<&'static str> {
    let cloud = &options.cloud;
    let mut names = vec![
        "CI",
        "TF_BUILD",
        "BUTLER_ENDPOINT",
        "BUTLER_RUN_ID",
        "BUTLER_TOKEN",
        "BUTLER_REPORT_DIR",
        "BUTLER_SUMMARY",
        "BUTLER_CACHE_DIR",
        "BUTLER_RECOVERY_DIR",
    ];
    names.extend(options.network_variables().iter().map(|(name, _)| *name));
    if cloud.aws.is_some() {
        names.extend(["AWS_ROLE_ARN", "AWS_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE"]);
    }
    if cloud.gcp.is_some() {
        names.push("GOOGLE_APPLICATION_CREDENTIALS");
    }
    if cloud.azure.is_some() {
        names.extend(["ARM_USE_OIDC", "ARM_CLIENT_ID", "ARM_TENANT_ID", "ARM_SUBSCRIPTION_ID"]);
        names.extend(["ARM_ADO_PIPELINE_SERVICE_CONNECTION_ID"]);
        names.extend(["SYSTEM_ACCESSTOKEN", "SYSTEM_OIDCREQUESTURI"]);
    }
    names
}
