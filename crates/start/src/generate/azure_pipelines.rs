//! `generate azure-pipelines`: a pipeline with one job.

use askama::Template;

use super::container::Container;
use super::secret_names::SecretNames;
use super::{Cloud, GenerateError, Need, Options, Tokens, filters, text};

const TARGET: &str = "azure-pipelines";

#[derive(Template)]
#[template(path = "azure-pipelines.yml", escape = "none", syntax = "ci")]
struct Pipeline<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the job.
    variables: Vec<(&'static str, String)>,
    /// The pool's name, and what its agents must have.
    pool: Option<(&'a String, &'a [String])>,
    /// The steps, which stand elsewhere in a deployment than in a job.
    steps: String,
}

#[derive(Template)]
#[template(path = "azure-pipelines-steps.yml", escape = "none", syntax = "ci")]
struct Steps<'a> {
    options: &'a Options,
    install: Option<String>,
    identity: Option<String>,
    /// The shell that becomes the container.
    container: Option<String>,
    started: &'static str,
    /// Reports if a step fails before the runner starts.
    failure: String,
}

/// Where the job's log is, as text of a shell between double quotes.
const JOB: &str = "$SYSTEM_COLLECTIONURI$SYSTEM_TEAMPROJECT/_build/results?buildId=$BUILD_BUILDID";

/// What says that the runner has taken over, so that no later step reports in its place.
const STARTED: &str = "echo \"##vso[task.setvariable variable=BUTLER_STAGE]started\"";

const SECRETS: SecretNames = SecretNames {
    allowed: is_variable,
    rule: "a variable of a pipeline consists of letters, digits, `.`, `_` and `-`",
};

/// A pipeline for Azure Pipelines.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn azure_pipelines(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{", "$(", "$["])?;
    options.check_secrets(TARGET, SECRETS)?;
    let instead = "a pipeline has a file of its own: make a pipeline of it in the same project";
    options.refuse_fragment(TARGET, instead)?;
    // Who to be at Azure, the service connection says.
    let cloud = Cloud { azure: None, ..options.cloud.clone() };
    let elsewhere = Options { cloud, ..options.clone() };
    let steps = Steps {
        options,
        install: options.install_script("${AGENT_TEMPDIRECTORY:?}/butler-runner"),
        identity: elsewhere.identity_script(Tokens::ValuesInEmptied, "${AGENT_TEMPDIRECTORY:?}"),
        container: container(options).as_ref().map(Container::script),
        started: STARTED,
        failure: options.failure_function(JOB),
    };
    let pipeline = Pipeline {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: elsewhere.needs_with_secrets(),
        variables: options.network_variables(),
        pool: options.labels.split_first(),
        steps: text(&steps),
    };
    Ok(text(&pipeline))
}

fn container(options: &Options) -> Option<Container> {
    let cloud = &options.cloud;
    let mut container = Container::new(options, "$AGENT_TEMPDIRECTORY")?;
    container.announce(STARTED);
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

fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
