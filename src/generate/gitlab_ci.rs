//! `generate gitlab-ci`: a job for `.gitlab-ci.yml`.

use askama::Template;

use super::{GenerateError, Options, Tokens, filters, text};

const TARGET: &str = "gitlab-ci";

#[derive(Template)]
#[template(path = "generate/gitlab-ci.yml", escape = "none", syntax = "ci")]
struct Job<'a> {
    own_version: &'static str,
    options: &'a Options,
    /// CI/CD variables of the project that the job reads, each with what it is.
    needs: Vec<(&'static str, &'static str)>,
    variables: Vec<(&'static str, String)>,
    install: Option<String>,
    identity: Option<String>,
    image: Option<String>,
}

/// A job for GitLab CI.
///
/// # Errors
/// When it cannot do what `options` ask for.
pub fn gitlab_ci(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["$"])?;
    let mut needs = options.identity_needs();
    if options.endpoint.is_none() {
        needs.insert(
            0,
            (
                "BUTLER_REGISTRY_URL",
                "the registry's address, unless the trigger brings BUTLER_ENDPOINT",
            ),
        );
    }
    let job = Job {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs,
        variables: options.network_variables(),
        install: options.install_script("${CI_PROJECT_DIR:?}/.butler/bin"),
        identity: options.identity_script(Tokens::Values, "${CI_PROJECT_DIR:?}"),
        image: options.image(),
    };
    Ok(text(&job))
}
