//! `generate github-actions`: a workflow, and the action of this repository, which has the same steps for
//! workflows that users write.

use askama::Template;

use super::actions::{ACTIONS, Actions};
use super::container::Container;
use super::render::render_template;
use super::secret_names::SecretNames;
use super::{Aws, Cloud, Gcp, GenerateError, Need, Options, Secret, filters};

const TARGET: &str = "github-actions";

/// The address of the job's log, as shell text between double quotes.
const JOB: &str = "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID";

/// The directory for the binary, as shell text between double quotes.
const DIRECTORY: &str = "${RUNNER_TEMP:?}/butler-runner";

/// Marks the runner as started, so that no later step reports a failure in its place.
const STARTED: &str = "echo \"started=true\" >>\"$GITHUB_OUTPUT\"";

#[derive(Template)]
#[template(path = "github-actions.yml", escape = "none", syntax = "ci")]
struct Workflow<'a> {
    own_version: &'static str,
    options: &'a Options,
    /// Variables and secrets of the repository that the workflow reads.
    needs: Vec<Need>,
    actions: Actions,
    /// The lifetime of the credentials for AWS in seconds, if it must be longer than the default.
    aws_seconds: Option<u64>,
    /// Whether the job gets tokens for other systems.
    oidc: bool,
    /// Variables of the whole job.
    variables: Vec<(&'static str, String)>,
    mask: String,
    install: Option<String>,
    container: Option<String>,
    started: &'static str,
    /// An expression: the step that failed.
    stage: String,
    report: String,
}

#[derive(Template)]
#[template(path = "action.yml", escape = "none", syntax = "ci")]
struct Action {
    actions: Actions,
    /// Names of the step outputs.
    outputs: Vec<&'static str>,
    mask: String,
    install: String,
    started: &'static str,
    stage: String,
    report: String,
}

/// Masks the token of the event.
#[derive(Template)]
#[template(path = "github-mask.sh", escape = "none", syntax = "ci")]
struct Mask;

/// Reports with the token of the event.
#[derive(Template)]
#[template(path = "github-report.sh", escape = "none", syntax = "ci")]
struct Report {
    function: String,
}

/// A workflow for GitHub Actions.
///
/// # Errors
/// If the target does not support an option.
pub fn github_actions(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{"])?;
    options.check_secrets(TARGET, SecretNames::VARIABLES)?;
    options.refuse_fragment(
        TARGET,
        "a workflow has a file of its own; a job of another one uses butlerdotdev/butler-runner as a step",
    )?;
    check_labels(&options.labels)?;
    let (hours, instead) = if options.labels.is_empty() {
        (6, "a job on a machine of GitHub's ends after six hours: `--label` names one of yours")
    } else {
        (5 * 24, "GitHub ends each job after five days: split the module into smaller ones")
    };
    options.check_timeout(TARGET, hours, instead)?;
    let install = options.install_script(DIRECTORY);
    let workflow = Workflow {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: needs(options),
        actions: ACTIONS,
        aws_seconds: aws_seconds(options),
        oidc: !options.cloud.is_empty(),
        variables: options.network_variables(),
        mask: render_template(&Mask),
        stage: stage_expression(&options.cloud, options.cache, install.is_some()),
        install,
        container: container(options),
        started: STARTED,
        report: render_template(&Report { function: options.failure_function(JOB) }),
    };
    Ok(render_template(&workflow))
}

/// The file `action.yml` of this repository. `outputs` are the names of the step outputs.
#[must_use]
pub fn action(outputs: Vec<&'static str>) -> String {
    let (aws, gcp) = (Some(Aws::default()), Some(Gcp::default()));
    let options = Options { cloud: Cloud { aws, gcp, azure: None }, ..Options::default() };
    render_template(&Action {
        actions: ACTIONS,
        outputs,
        mask: render_template(&Mask),
        install: options.install_script(DIRECTORY).unwrap_or_default(),
        started: STARTED,
        stage: stage_expression(&options.cloud, false, true),
        report: render_template(&Report { function: options.failure_function(JOB) }),
    })
}

/// An expression for the name of the stage in which the job failed, by the outcomes of its steps.
fn stage_expression(cloud: &Cloud, cache: bool, install: bool) -> String {
    let steps = [
        (true, "mask", "masking the callback token"),
        (cache, "kept", "restoring the cache"),
        (cloud.aws.is_some(), "aws", "logging in to AWS"),
        (cloud.gcp.is_some(), "gcp", "logging in to Google Cloud"),
        (install, "install", "installing butler-runner"),
        (true, "execute", "starting butler-runner"),
    ];
    let cases = steps.into_iter().filter(|(is_used, ..)| *is_used);
    let cases =
        cases.map(|(_, id, doing)| format!("steps.{id}.outcome == 'failure' && '{doing}' || "));
    cases.collect::<String>() + "'being cancelled'"
}

/// Refuses a list of labels in one option: GitHub would take it as one label and wait for a machine with it.
fn check_labels(labels: &[String]) -> Result<(), GenerateError> {
    let is_list = |label: &String| label.starts_with('[') || label.contains(',');
    if labels.iter().any(is_list) {
        let instead = "give the option once for each label";
        return Err(GenerateError::Unsupported { target: TARGET, option: "--label", instead });
    }
    Ok(())
}

/// AWS limits a role's session to one hour by default and to twelve hours at most.
fn aws_seconds(options: &Options) -> Option<u64> {
    let seconds = (options.timeout_minutes() * 60).min(12 * 3600);
    (seconds > 3600).then_some(seconds)
}

fn needs(options: &Options) -> Vec<Need> {
    let cloud = &options.cloud;
    let mut needs = Vec::new();
    let mut need = |is_needed: bool, name, what| {
        needs.extend(is_needed.then(|| Need::new(name, what)));
    };
    let unless_sent = "the registry's address, unless the event contains it";
    need(options.endpoint.is_none(), "secrets.BUTLER_REGISTRY_URL", unless_sent);
    if let Some(aws) = &cloud.aws {
        let role = "the role to assume if the event does not name a cloud; without one the job does not log in";
        need(aws.role.is_none(), "vars.AWS_ROLE_ARN", role);
        let region = "the region, unless the event contains it [default: us-east-1]";
        need(aws.region.is_none(), "vars.AWS_REGION", region);
    }
    if let Some(gcp) = &cloud.gcp {
        let provider = "projects/.../providers/... if the event does not name a cloud; without one the job does not log in";
        need(gcp.provider.is_none(), "vars.GCP_WORKLOAD_IDENTITY_PROVIDER", provider);
        let account = "the service account, unless the event contains it";
        need(gcp.service_account.is_none(), "vars.GCP_SERVICE_ACCOUNT", account);
        let project = "the project, unless the event contains it [default: the account's]";
        need(true, "vars.GCP_PROJECT_ID", project);
    }
    if let Some(azure) = &cloud.azure {
        need(azure.client_id.is_none(), "vars.AZURE_CLIENT_ID", "the id of the application");
        need(azure.tenant_id.is_none(), "vars.AZURE_TENANT_ID", "the id of its directory");
        need(azure.subscription_id.is_none(), "vars.AZURE_SUBSCRIPTION_ID", "the subscription");
    }
    let secret =
        |secret: &Secret| Need::new(format!("secrets.{}", secret.name), secret.description());
    needs.extend(options.secrets.iter().map(secret));
    needs
}

fn container(options: &Options) -> Option<String> {
    let cloud = &options.cloud;
    let mut container = Container::new(options, "${RUNNER_TEMP:?}")?;
    container.set_last_command(STARTED);
    container.mount("$GITHUB_OUTPUT", "");
    container.mount("$GITHUB_STEP_SUMMARY", "");
    container.mount("$BUTLER_REPORT_DIR", "");
    container.pass_variables(["GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"]);
    container.pass_variables([
        "GITHUB_TOKEN",
        "BUTLER_GIT_HOST",
        "BUTLER_REPORT_DIR",
        "BUTLER_REPORT",
    ]);
    if options.cache {
        container.mount("$BUTLER_CACHE_DIR", "");
        container.mount("$BUTLER_RECOVERY_DIR", "");
        container.pass_variables(["BUTLER_CACHE_DIR", "BUTLER_RECOVERY_DIR"]);
    }
    if cloud.aws.is_some() {
        container.pass_variables([
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        ]);
        container.pass_variables(["AWS_DEFAULT_REGION", "AWS_REGION"]);
    }
    if cloud.gcp.is_some() {
        container.pass_file("GOOGLE_APPLICATION_CREDENTIALS");
        container.pass_variables(["GOOGLE_CLOUD_PROJECT"]);
    }
    if cloud.azure.is_some() {
        container.pass_variables([
            "ARM_USE_OIDC",
            "ARM_CLIENT_ID",
            "ARM_TENANT_ID",
            "ARM_SUBSCRIPTION_ID",
        ]);
    }
    if cloud.gcp.is_some() || cloud.azure.is_some() {
        container
            .pass_variables(["ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"]);
    }
    Some(container.script())
}
