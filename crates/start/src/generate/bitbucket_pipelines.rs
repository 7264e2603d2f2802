//! `generate bitbucket-pipelines`: a custom pipeline.

use askama::Template;

use super::render::render_template;
use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Tokens, filters};

const TARGET: &str = "bitbucket-pipelines";

/// Bitbucket's image with curl, git and ssh.
const DEFAULT_IMAGE: &str = "atlassian/default-image:4";

#[derive(Template)]
#[template(path = "bitbucket-pipelines.yml", escape = "none", syntax = "ci")]
struct Pipelines<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the step.
    variables: Vec<(&'static str, String)>,
    image: String,
    /// Whether `image` is the runner's image.
    from_image: bool,
    install: Option<String>,
    identity: Option<String>,
    /// Reports if the step fails before the runner starts.
    failure: String,
}

/// The address of the step's log, as shell text between double quotes.
const JOB: &str =
    "https://bitbucket.org/$BITBUCKET_REPO_FULL_NAME/pipelines/results/$BITBUCKET_BUILD_NUMBER";

/// A custom pipeline for Bitbucket Pipelines.
///
/// # Errors
/// If the target does not support an option.
pub fn bitbucket_pipelines(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &[])?;
    options.check_secrets(TARGET, SecretNames::VARIABLES)?;
    let instead = "Bitbucket ends each step after twelve hours: split the module into smaller ones";
    options.check_timeout(TARGET, 12, instead)?;
    let image = options.image();
    let pipelines = Pipelines {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: options.needs_with_secrets(),
        variables: options.network_variables(),
        from_image: image.is_some(),
        image: image.unwrap_or_else(|| DEFAULT_IMAGE.to_owned()),
        install: options.install_script("${BITBUCKET_CLONE_DIR:?}/.butler-runner"),
        identity: options.identity_script(Tokens::Values, "${BITBUCKET_CLONE_DIR:?}"),
        failure: options.failure_trap(JOB),
    };
    let text = render_template(&pipelines);
    Ok(if options.fragment { indent_comments(&text) } else { text })
}

/// Indents the comments of a fragment like the lines below them.
fn indent_comments(text: &str) -> String {
    text.lines().fold(String::new(), |fragment, line| {
        let margin = if line.starts_with('#') { "    " } else { "" };
        fragment + margin + line + "\n"
    })
}
