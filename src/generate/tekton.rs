//! `generate tekton`: a task, its pipeline, and what an event makes of it. The job always runs in an
//! image.

use askama::Template;

use super::{GenerateError, IMAGE, Install, Options, Tokens, filters, text};

const TARGET: &str = "tekton";

#[derive(Template)]
#[template(path = "generate/tekton.yaml", escape = "none", syntax = "ci")]
struct Manifests<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<(&'static str, &'static str)>,
    /// Variables of the step.
    variables: Vec<(&'static str, String)>,
    image: String,
    script: String,
    /// The labels of the nodes on which the pod may run.
    selector: Vec<(&'a str, &'a str)>,
    /// Longer than the task has, so that it is the task that runs out of time.
    pipeline_minutes: u64,
}

#[derive(Template)]
#[template(path = "generate/tekton.sh", escape = "none", syntax = "ci")]
struct Script<'a> {
    options: &'a Options,
    identity: Option<String>,
}

/// Manifests for Tekton.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn tekton(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["$("])?;
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
    let script = Script { options, identity: options.identity_script(Tokens::Files, "$HOME") };
    let manifests = Manifests {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: options.needs(),
        variables: options.network_variables(),
        image: image.unwrap_or_else(|| format!("{IMAGE}:{}", options.version)),
        script: text(&script),
        selector,
        pipeline_minutes: options.timeout_minutes() + 5,
    };
    Ok(text(&manifests))
}
