//! `generate bitbucket-pipelines`: a custom pipeline.

use askama::Template;

use super::{GenerateError, Options, Tokens, filters, text};

const TARGET: &str = "bitbucket-pipelines";

/// Bitbucket's own image: curl, git and ssh are in it.
const WITH_CURL: &str = "atlassian/default-image:4";

#[derive(Template)]
#[template(path = "generate/bitbucket-pipelines.yml", escape = "none", syntax = "ci")]
struct Pipelines<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<(&'static str, &'static str)>,
    /// Variables of the step.
    variables: Vec<(&'static str, String)>,
    image: String,
    /// Whether that is the runner's image.
    from_image: bool,
    install: Option<String>,
    identity: Option<String>,
}

/// A custom pipeline for Bitbucket Pipelines.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn bitbucket_pipelines(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &[])?;
    let instead = "Bitbucket ends each step after twelve hours: let the module do less at a time";
    options.check_timeout(TARGET, 12, instead)?;
    let image = options.image();
    let pipelines = Pipelines {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: options.needs(),
        variables: options.network_variables(),
        from_image: image.is_some(),
        image: image.unwrap_or_else(|| WITH_CURL.to_owned()),
        install: options.install_script("${BITBUCKET_CLONE_DIR:?}/.butler-runner"),
        identity: options.identity_script(Tokens::Values, "${BITBUCKET_CLONE_DIR:?}"),
    };
    Ok(text(&pipelines))
}
