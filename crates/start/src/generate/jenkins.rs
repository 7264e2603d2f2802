//! `generate jenkins`: a declarative pipeline.

use askama::Template;

use super::container::Container;
use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Secret, Tokens, filters, text};

const TARGET: &str = "jenkins";

/// A directory of the build's own on the agent, beside the workspace.
const TEMPORARY: &str = "${WORKSPACE_TMP:?}";

#[derive(Template)]
#[template(path = "Jenkinsfile", escape = "none", syntax = "ci")]
struct Pipeline<'a> {
    own_version: &'static str,
    options: &'a Options,
    /// Credentials and variables that the pipeline reads, each with what it is.
    needs: Vec<Need>,
    variables: Vec<(&'static str, String)>,
    /// Variables that hold the path of a token, and the credential that it is.
    tokens: Vec<(&'static str, &'static str)>,
    /// On which agents it runs: an expression.
    label: String,
    /// Whether the step makes files that are of no use after it.
    leaves_files: bool,
    script: String,
}

/// What the shell of the one step does.
#[derive(Template)]
#[template(path = "jenkins.sh", escape = "none", syntax = "ci")]
struct Script<'a> {
    options: &'a Options,
    install: Option<String>,
    identity: Option<String>,
    container: Option<String>,
    /// Reports if the step fails before the runner starts.
    failure: String,
}

/// A credential can have any name.
const SECRETS: SecretNames = SecretNames { allowed: |_| true, rule: "" };

/// A declarative pipeline for Jenkins.
///
/// # Errors
/// When it cannot do what `options` ask for.
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
    for (is_asked, variable, credential, name) in [
        (cloud.aws.is_some(), "AWS_ID_TOKEN", "butler-aws", "credential `butler-aws`"),
        (cloud.gcp.is_some(), "GCP_ID_TOKEN", "butler-gcp", "credential `butler-gcp`"),
        (cloud.azure.is_some(), "AZURE_ID_TOKEN", "butler-azure", "credential `butler-azure`"),
    ] {
        if is_asked {
            tokens.push((variable, credential));
            let what = "an id token as file, of the OpenID Connect Provider plugin";
            needs.push(Need::new(name, what));
        }
    }
    needs.extend(options.identity_needs());
    needs.extend(options.secrets.iter().map(|Secret { variable, name }| {
        let what = format!("secret text, which runs get as {variable}");
        Need::new(format!("credential `{name}`"), what)
    }));
    let script = Script {
        options,
        install: options.install_script("${WORKSPACE_TMP:?}/butler-runner"),
        identity: options.identity_script(Tokens::Files, TEMPORARY),
        container: container(options),
        failure: options.failure_trap("${BUILD_URL:-Jenkins}"),
    };
    let pipeline = Pipeline {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs,
        variables: options.network_variables(),
        tokens,
        label: label(&options.labels),
        leaves_files: !cloud.is_empty() || script.container.is_some(),
        script: text(&script),
    };
    Ok(text(&pipeline))
}

/// What fits all of `labels`. One with a space in it is an agent's name, unless it is an expression.
fn label(labels: &[String]) -> String {
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
    container.hand_on(["JENKINS_URL", "BUTLER_CACHE_DIR", "BUTLER_RECOVERY_DIR"]);
    container.hand_on(["BUTLER_REPORT_DIR", "BUTLER_REPORT"]);
    if !options.cache {
        container.mount("$BUTLER_CACHE_DIR", "");
    }
    if cloud.gcp.is_some() {
        container.mount("$identity", ":ro");
    }
    for (is_asked, file) in [
        (cloud.aws.is_some(), "$AWS_ID_TOKEN"),
        (cloud.gcp.is_some(), "$GCP_ID_TOKEN"),
        (cloud.azure.is_some(), "$AZURE_ID_TOKEN"),
    ] {
        if is_asked {
            container.mount(file, ":ro");
        }
    }
    container.hand_on(options.identity_variables());
    Some(container.script())
}
