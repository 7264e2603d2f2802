//! `generate bitbucket-pipelines`: a custom pipeline.

use askama::Template;

use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Tokens, filters, text};

const TARGET: &str = "bitbucket-pipelines";

/// Bitbucket's own image: curl, git and ssh are in it.
const WITH_CURL: &str = "atlassian/default-image:4";

#[derive(Template)]
#[template(path = "bitbucket-pipelines.yml", escape = "none", syntax = "ci")]
struct Pipelines<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the step.
    variables: Vec<(&'static str, String)>,
    image: String,
    /// Whether that is the runner's image.
    from_image: bool,
    install: Option<String>,
    identity: Option<String>,
    /// Reports if the step fails before the runner starts.
    failure: String,
}

/// Where the step's log is, as text of a shell between double quotes.
const JOB: &str =
    "https://bitbucket.org/$BITBUCKET_REPO_FULL_NAME/pipelines/results/$BITBUCKET_BUILD_NUMBER";

/// A custom pipeline for Bitbucket Pipelines.
///
/// # Errors
/// When it cannot do what `options` ask for.
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
        image: image.unwrap_or_else(|| WITH_CURL.to_owned()),
        install: options.install_script("${BITBUCKET_CLONE_DIR:?}/.butler-runner"),
        identity: options.identity_script(Tokens::Values, "${BITBUCKET_CLONE_DIR:?}"),
        failure: options.failure_trap(JOB),
    };
    let text = text(&pipelines);
    Ok(if options.fragment { indented_comments(&text) } else { text })
}

/// The comments at the head where the lines below them stand.
fn indented_comments(text: &str) -> String {
    text.lines().fold(String::new(), |fragment, line| {
        let margin = if line.starts_with('#') { "    " } else { "" };
        fragment + margin + line + "\n"
    })
}
