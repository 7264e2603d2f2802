//! `generate github-actions`: a workflow.

use askama::Template;

use super::{GenerateError, Options, filters};

const TARGET: &str = "github-actions";

#[derive(Template)]
#[template(path = "generate/github-actions.yml", escape = "none")]
struct Workflow<'a> {
    options: &'a Options,
    install: Option<String>,
}

/// A workflow for GitHub Actions.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn github_actions(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["${{"])?;
    let install = options.install_script("${RUNNER_TEMP:?}/butler-runner");
    let workflow = Workflow { options, install };
    Ok(workflow.render().expect("writing to a string does not fail"))
}
