//! `generate github-actions`: a workflow.

use askama::Template;

use super::actions::{ACTIONS, Actions};
use super::container::Container;
use super::{GenerateError, Options, filters, text};

const TARGET: &str = "github-actions";

#[derive(Template)]
#[template(path = "generate/github-actions.yml", escape = "none", syntax = "ci")]
struct Workflow<'a> {
    own_version: &'static str,
    options: &'a Options,
    /// Variables and secrets of the repository that the workflow reads.
    needs: Vec<&'static str>,
    actions: Actions,
    /// How long its credentials for AWS have to hold, where that is longer than they do anyway.
    aws_seconds: Option<u64>,
    /// Whether the job gets tokens for other systems.
    oidc: bool,
    /// Variables of the whole job.
    variables: Vec<(&'static str, String)>,
    install: Option<String>,
    container: Option<String>,
}

/// A workflow for GitHub Actions.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn github_actions(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{"])?;
    check_labels(&options.labels)?;
    let (hours, instead) = if options.labels.is_empty() {
        (6, "a job on a machine of GitHub's ends after six hours: `--label` names one of yours")
    } else {
        (5 * 24, "GitHub ends each job after five days: let the module do less at a time")
    };
    options.check_timeout(TARGET, hours, instead)?;
    let workflow = Workflow {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: needs(options),
        actions: ACTIONS,
        aws_seconds: aws_seconds(options),
        oidc: !options.cloud.is_empty(),
        variables: options.network_variables(),
        install: options.install_script("${RUNNER_TEMP:?}/butler-runner"),
        container: container(options),
    };
    Ok(text(&workflow))
}

/// GitHub takes each label by itself and would wait for a machine that has this one.
fn check_labels(labels: &[String]) -> Result<(), GenerateError> {
    let is_list = |label: &String| label.starts_with('[') || label.contains(',');
    if labels.iter().any(is_list) {
        let instead = "give the option once for each label";
        return Err(GenerateError::Unsupported { target: TARGET, option: "--label", instead });
    }
    Ok(())
}

/// AWS gives no role to anybody for less than an hour by default, or for more than twelve.
fn aws_seconds(options: &Options) -> Option<u64> {
    let seconds = (options.timeout_minutes() * 60).min(12 * 3600);
    (seconds > 3600).then_some(seconds)
}

fn needs(options: &Options) -> Vec<&'static str> {
    let cloud = &options.cloud;
    let mut needs = Vec::new();
    let mut need = |is_needed: bool, text| needs.extend(is_needed.then_some(text));
    let unless_sent = options.endpoint.is_none();
    need(
        unless_sent,
        "secrets.BUTLER_REGISTRY_URL: the registry's address, unless the event brings it",
    );
    if let Some(aws) = &cloud.aws {
        need(
            aws.role.is_none(),
            "vars.AWS_ROLE_ARN: the role to take on, unless the event brings it",
        );
        need(aws.region.is_none(), "vars.AWS_REGION: its region, unless the event brings it");
    }
    if let Some(gcp) = &cloud.gcp {
        need(
            gcp.provider.is_none(),
            "vars.GCP_WORKLOAD_IDENTITY_PROVIDER: projects/.../providers/..., unless the event brings it",
        );
        need(
            gcp.service_account.is_none(),
            "vars.GCP_SERVICE_ACCOUNT: the account to be, unless the event brings it",
        );
    }
    if let Some(azure) = &cloud.azure {
        need(azure.client_id.is_none(), "vars.AZURE_CLIENT_ID: the application to be");
        need(azure.tenant_id.is_none(), "vars.AZURE_TENANT_ID: the directory that it is in");
        need(azure.subscription_id.is_none(), "vars.AZURE_SUBSCRIPTION_ID: the subscription");
    }
    needs
}

fn container(options: &Options) -> Option<String> {
    let cloud = &options.cloud;
    let mut container = Container::new(options, "${RUNNER_TEMP:?}")?;
    container.mount("$GITHUB_OUTPUT", "");
    container.mount("$GITHUB_STEP_SUMMARY", "");
    container.hand_on(["GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"]);
    container.hand_on(["GITHUB_TOKEN", "BUTLER_GIT_HOST"]);
    if options.cache {
        container.mount("$BUTLER_CACHE_DIR", "");
        container.mount("$BUTLER_RECOVERY_DIR", "");
        container.hand_on(["BUTLER_CACHE_DIR", "BUTLER_RECOVERY_DIR"]);
    }
    if cloud.aws.is_some() {
        container.hand_on(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]);
        container.hand_on(["AWS_DEFAULT_REGION", "AWS_REGION"]);
    }
    if cloud.gcp.is_some() {
        container.mount("$GOOGLE_APPLICATION_CREDENTIALS", ":ro");
        container.hand_on(["GOOGLE_APPLICATION_CREDENTIALS"]);
    }
    if cloud.azure.is_some() {
        container.hand_on([
            "ARM_USE_OIDC",
            "ARM_CLIENT_ID",
            "ARM_TENANT_ID",
            "ARM_SUBSCRIPTION_ID",
        ]);
    }
    if cloud.gcp.is_some() || cloud.azure.is_some() {
        container.hand_on(["ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"]);
    }
    Some(container.script())
}
