//! `generate jenkins`: a declarative pipeline.

use askama::Template;

use super::container::Container;
use super::render::render_template;
use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Secret, Tokens, filters};

const TARGET: &str = "jenkins";

/// The build's temporary directory on the agent, next to the workspace.
const TEMPORARY: &str = "${WORKSPACE_TMP:?}";

#[derive(Template)]
#[template(path = "Jenkinsfile", escape = "none", syntax = "ci")]
struct Pipeline<'a> {
    own_version: &'static str,
    options: &'a Options,
    /// Credentials and variables that the pipeline reads.
    needs: Vec<Need>,
    variables: Vec<(&'static str, String)>,
    /// Variables with the path of a token, and the credential that provides it.
    tokens: Vec<(&'static str, &'static str)>,
    /// The expression that selects agents.
    label: String,
    /// Whether the step creates temporary files.
    leaves_files: bool,
    /// Whether the step needs credentials other than the address of the registry.
    has_credentials: bool,
    script: String,
    /// Reports a build that ends before the step, because a credential is missing.
    report: Option<String>,
}

/// The report of a build that ends before the step.
#[derive(Template)]
#[template(path = "jenkins-report.sh", escape = "none", syntax = "ci")]
struct Report {
    function: String,
}

/// The address of the build, as shell text between double quotes.
const BUILD: &str = "${BUILD_URL:-Jenkins}";

/// The script of the only step.
#[derive(Template)]
#[template(path = "jenkins.sh", escape = "none", syntax = "ci")]
struct Script<'a> {
    options: &'a Options,
    install: Option<String>,
    identity: Option<String>,
    container: Option<String>,
    has_credentials: bool,
    /// Reports if the step fails before the runner starts.
    failure: String,
}

/// Credentials can have any name.
const SECRETS: SecretNames = SecretNames { allowed: |_| true, rule: "" };

/// A declarative pipeline for Jenkins.
///
/// # Errors
/// If the target does not support an option.
pub fn jenkins(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &[])?;
    options.check_secrets(TARGET, SECRETS)?;
    let instead = "a Jenkinsfile is a whole pipeline: make a job of it, which another starts with the step `build`";
    options.refuse_fragment(TARGET, instead)?;
    let mut needs = Vec::new();
    if options.endpoint.is_none() {
        let what = "the registry's address, as secret text";
        needs.push(Need::new("credential `butler-registry-url`", what));
    }
    let mut tokens = Vec::new();
    let cloud = &options.cloud;
    for (is_requested, variable, credential, name) in [
        (cloud.aws.is_some(), "AWS_ID_TOKEN", "butler-aws", "credential `butler-aws`"),
        (cloud.gcp.is_some(), "GCP_ID_TOKEN", "butler-gcp", "credential `butler-gcp`"),
        (cloud.azure.is_some(), "AZURE_ID_TOKEN", "butler-azure", "credential `butler-azure`"),
    ] {
        if is_requested {
            tokens.push((variable, credential));
            let what = "an id token as file, of the OpenID Connect Provider plugin";
            needs.push(Need::new(name, what));
        }
    }
    needs.extend(options.identity_needs());
    needs.extend(options.secrets.iter().map(|Secret { variable, name }| {
        let what = format!("secret text, in the variable {variable}");
        Need::new(format!("credential `{name}`"), what)
    }));
    let script = Script {
        options,
        install: options.install_script("${WORKSPACE_TMP:?}/butler-runner"),
        identity: options.identity_script(Tokens::Files, TEMPORARY),
        container: container(options),
        has_credentials: !tokens.is_empty() || !options.secrets.is_empty(),
        failure: options.failure_trap(BUILD),
    };
    let report = || render_template(&Report { function: options.failure_function(BUILD) });
    let pipeline = Pipeline {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs,
        variables: options.network_variables(),
        tokens,
        label: label_expression(&options.labels),
        leaves_files: !cloud.is_empty() || script.container.is_some(),
        has_credentials: script.has_credentials,
        report: script.has_credentials.then(report),
        script: render_template(&script),
    };
    Ok(render_template(&pipeline))
}

/// The expression that requires all of `labels`. A label with a space is the name of an agent, unless it is an
/// expression.
fn label_expression(labels: &[String]) -> String {
    let is_expression =
        |label: &str| ["&&", "||", "!", "->", "(", "\""].map(|it| label.contains(it));
    let atom = |label: &String| {
        let is_name = label.contains(' ') && !is_expression(label).contains(&true);
        if is_name { format!("\"{label}\"") } else { label.clone() }
    };
    labels.iter().map(atom).collect::<Vec<_>>().join(" && ")
}

fn container(options: &Options) -> Option<String> {
    let cloud = &options.cloud;
    let mut container = Container::new(options, TEMPORARY)?;
    container.mount("$WORKSPACE/.butler", "");
    container.pass_variables(["JENKINS_URL", "BUTLER_CACHE_DIR", "BUTLER_RECOVERY_DIR"]);
    container.pass_variables(["BUTLER_REPORT_DIR", "BUTLER_REPORT"]);
    if !options.cache {
        container.mount("$BUTLER_CACHE_DIR", "");
    }
    if cloud.gcp.is_some() {
        container.mount("$identity", ":ro");
    }
    for (is_requested, file) in [
        (cloud.aws.is_some(), "$AWS_ID_TOKEN"),
        (cloud.gcp.is_some(), "$GCP_ID_TOKEN"),
        (cloud.azure.is_some(), "$AZURE_ID_TOKEN"),
    ] {
        if is_requested {
            container.mount(file, ":ro");
        }
    }
    container.pass_variables(options.identity_variables());
    Some(container.script())
}
