//! `generate azure-pipelines`: a pipeline with one job.

use askama::Template;

use super::container::Container;
use super::{Cloud, GenerateError, Options, Tokens, filters, text};

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
    identity: Option<String>,
    /// The shell that becomes the container.
    container: Option<String>,
}

/// A pipeline for Azure Pipelines.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn azure_pipelines(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{", "$(", "$["])?;
    // Who to be at Azure, the service connection says.
    let cloud = Cloud { azure: None, ..options.cloud.clone() };
    let elsewhere = Options { cloud, ..options.clone() };
    let steps = Steps {
        options,
        install: options.install_script("${AGENT_TEMPDIRECTORY:?}/butler-runner"),
        identity: elsewhere.identity_script(Tokens::ValuesInEmptied, "${AGENT_TEMPDIRECTORY:?}"),
        container: container(options).as_ref().map(Container::script),
    };
    let pipeline = Pipeline {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: elsewhere.needs(),
        variables: options.network_variables(),
        pool: options.labels.split_first(),
        steps: text(&steps),
    };
    Ok(text(&pipeline))
}

fn container(options: &Options) -> Option<Container> {
    let cloud = &options.cloud;
    let mut container = Container::new(options, "$AGENT_TEMPDIRECTORY")?;
    // The report, the summary, the cache and the tokens are below it.
    container.mount("$AGENT_TEMPDIRECTORY", "");
    container.hand_on(["TF_BUILD", "BUTLER_REPORT_DIR", "BUTLER_SUMMARY"]);
    container.hand_on(["BUTLER_CACHE_DIR", "BUTLER_RECOVERY_DIR"]);
    if cloud.aws.is_some() {
        container.hand_on(["AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_REGION"]);
        container.hand_on(["AWS_WEB_IDENTITY_TOKEN_FILE"]);
    }
    if cloud.gcp.is_some() {
        container.hand_on(["GOOGLE_APPLICATION_CREDENTIALS"]);
    }
    if cloud.azure.is_some() {
        container.hand_on(["ARM_USE_OIDC", "ARM_CLIENT_ID", "ARM_TENANT_ID"]);
        container.hand_on(["ARM_SUBSCRIPTION_ID", "ARM_ADO_PIPELINE_SERVICE_CONNECTION_ID"]);
        container.hand_on(["ARM_OIDC_AZURE_SERVICE_CONNECTION_ID"]);
        container.hand_on(["SYSTEM_ACCESSTOKEN", "SYSTEM_OIDCREQUESTURI"]);
    }
    Some(container)
}
