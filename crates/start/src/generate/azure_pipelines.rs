//! `generate azure-pipelines`: a pipeline with one job.

use askama::Template;

use super::container::Container;
use super::render::render_template;
use super::secret_names::SecretNames;
use super::{Cloud, GenerateError, Need, Options, Tokens, filters};

const TARGET: &str = "azure-pipelines";

#[derive(Template)]
#[template(path = "azure-pipelines.yml", escape = "none", syntax = "ci")]
struct Pipeline<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the job.
    variables: Vec<(&'static str, String)>,
    /// The pool's name, and the demands on its agents.
    pool: Option<(&'a String, &'a [String])>,
    /// The rendered steps, whose place in a deployment differs from the one in a job.
    steps: String,
}

#[derive(Template)]
#[template(path = "azure-pipelines-steps.yml", escape = "none", syntax = "ci")]
struct Steps<'a> {
    options: &'a Options,
    install: Option<String>,
    identity: Option<String>,
    /// The shell code that starts the container with `exec`.
    container: Option<String>,
    started: &'static str,
    /// Reports if a step fails before the runner starts.
    failure: String,
}

/// The address of the job's log, as shell text between double quotes.
const JOB: &str = "$SYSTEM_COLLECTIONURI$SYSTEM_TEAMPROJECT/_build/results?buildId=$BUILD_BUILDID";

/// Marks the runner as started, so that no later step reports a failure in its place.
const STARTED: &str = "echo \"##vso[task.setvariable variable=BUTLER_STAGE]started\"";

const SECRETS: SecretNames = SecretNames {
    allowed: is_variable,
    rule: "a variable of a pipeline consists of letters, digits, `.`, `_` and `-`",
};

/// A pipeline for Azure Pipelines.
///
/// # Errors
/// If the target does not support an option.
pub fn azure_pipelines(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{", "$(", "$["])?;
    options.check_secrets(TARGET, SECRETS)?;
    let instead = "a pipeline has a file of its own: make a pipeline of it in the same project";
    options.refuse_fragment(TARGET, instead)?;
    // The service connection has the identity for Azure.
    let cloud = Cloud { azure: None, ..options.cloud.clone() };
    let other_clouds = Options { cloud, ..options.clone() };
    let steps = Steps {
        options,
        install: options.install_script("${AGENT_TEMPDIRECTORY:?}/butler-runner"),
        identity: other_clouds.identity_script(Tokens::ValuesInEmptied, "${AGENT_TEMPDIRECTORY:?}"),
        container: container(options).as_ref().map(Container::script),
        started: STARTED,
        failure: options.failure_function(JOB),
    };
    let pipeline = Pipeline {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: other_clouds.needs_with_secrets(),
        variables: options.network_variables(),
        pool: options.labels.split_first(),
        steps: render_template(&steps),
    };
    Ok(render_template(&pipeline))
}

fn container(options: &Options) -> Option<Container> {
    let cloud = &options.cloud;
    let mut container = Container::new(options, "$AGENT_TEMPDIRECTORY")?;
    container.set_last_command(STARTED);
    // The directory contains the report, the summary, the cache and the tokens.
    container.mount("$AGENT_TEMPDIRECTORY", "");
    container.pass_variables(["TF_BUILD", "BUTLER_REPORT_DIR", "BUTLER_SUMMARY"]);
    container.pass_variables(["BUTLER_CACHE_DIR", "BUTLER_RECOVERY_DIR"]);
    if cloud.aws.is_some() {
        container.pass_variables(["AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_REGION"]);
        container.pass_variables(["AWS_WEB_IDENTITY_TOKEN_FILE"]);
    }
    if cloud.gcp.is_some() {
        container.pass_variables(["GOOGLE_APPLICATION_CREDENTIALS"]);
    }
    if cloud.azure.is_some() {
        container.pass_variables(["ARM_USE_OIDC", "ARM_CLIENT_ID", "ARM_TENANT_ID"]);
        container.pass_variables(["ARM_SUBSCRIPTION_ID", "ARM_ADO_PIPELINE_SERVICE_CONNECTION_ID"]);
        container.pass_variables(["ARM_OIDC_AZURE_SERVICE_CONNECTION_ID"]);
        container.pass_variables(["SYSTEM_ACCESSTOKEN", "SYSTEM_OIDCREQUESTURI"]);
    }
    Some(container)
}

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
