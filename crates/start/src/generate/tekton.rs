//! `generate tekton`: a task, its pipeline, and a template for triggers. The job always runs in an image.

use askama::Template;

use super::render::render_template;
use super::secret_names::SecretNames;
use super::{GenerateError, IMAGE, Install, Need, Options, Secret, Tokens, filters};

const TARGET: &str = "tekton";

#[derive(Template)]
#[template(path = "tekton.yaml", escape = "none", syntax = "ci")]
struct Manifests<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the step.
    variables: Vec<(&'static str, String)>,
    /// Secret variables, each with the Secret and its key.
    secrets: Vec<(&'a str, &'a str, &'a str)>,
    image: String,
    script: String,
    /// Labels of the nodes on which the pod may run.
    selector: Vec<(&'a str, &'a str)>,
    /// The pipeline's time limit. It is longer than the task's, so that the task times out first.
    pipeline_minutes: u64,
}

#[derive(Template)]
#[template(path = "tekton.sh", escape = "none", syntax = "ci")]
struct Script<'a> {
    options: &'a Options,
    identity: Option<String>,
    /// Reports if the step fails before the runner starts.
    failure: String,
}

/// The default Secret for secrets of runs.
const DEFAULT_SECRET: &str = "butler-runner";

/// The name of the step's log, as shell text between double quotes.
const JOB: &str = "TaskRun $(context.taskRun.namespace)/$(context.taskRun.name)";

const SECRETS: SecretNames = SecretNames {
    allowed: is_key,
    rule: "it is the key in the Secret `butler-runner`, or SECRET/KEY: letters, digits, `-`, `_` and `.`",
};

/// Manifests for Tekton.
///
/// # Errors
/// If the target does not support an option.
pub fn tekton(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["$("])?;
    options.check_secrets(TARGET, SECRETS)?;
    options.refuse_fragment(TARGET, "its objects are applied beside those that are there")?;
    let unsupported =
        |option, instead| Err(GenerateError::Unsupported { target: TARGET, option, instead });
    if options.gate.is_some() {
        return unsupported("--gate", "Tekton has no approvals: let the registry ask for one");
    }
    let image = match &options.install {
        Install::Image { .. } => options.image(),
        Install::Binary { sha256, releases: None } if sha256.is_empty() => None,
        Install::Binary { sha256, .. } => {
            let option = if sha256.is_empty() { "--releases" } else { "--checksum" };
            return unsupported(
                option,
                "a step is an image: name it with `--image` and `--digest`",
            );
        }
    };
    let selector: Option<Vec<_>> =
        options.labels.iter().map(|label| label.split_once('=')).collect();
    let Some(selector) = selector else {
        return unsupported("--label", "pods are placed by labels of nodes: `--label key=value`");
    };
    let script = Script {
        options,
        identity: options.identity_script(Tokens::Files, "$HOME"),
        failure: options.failure_trap(JOB),
    };
    let manifests = Manifests {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: options.needs(),
        variables: options.network_variables(),
        secrets: options.secrets.iter().map(secret_key).collect(),
        image: image.unwrap_or_else(|| format!("{IMAGE}:{}", options.version)),
        script: render_template(&script),
        selector,
        pipeline_minutes: options.timeout_minutes() + 5,
    };
    Ok(render_template(&manifests))
}

/// The variable of a secret, the Secret and its key.
fn secret_key(secret: &Secret) -> (&str, &str, &str) {
    let (name, key) = secret.name.split_once('/').unwrap_or((DEFAULT_SECRET, &secret.name));
    (&secret.variable, name, key)
}

fn is_key(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    name.split('/').count() <= 2 && name.split('/').all(is_part)
}
