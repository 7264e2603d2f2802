//! `generate gitlab-ci`: a job for `.gitlab-ci.yml`.

use askama::Template;

use super::render::render_template;
use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Tokens, filters};

const TARGET: &str = "gitlab-ci";

#[derive(Template)]
#[template(path = "gitlab-ci.yml", escape = "none", syntax = "ci")]
struct Job<'a> {
    own_version: &'static str,
    options: &'a Options,
    /// CI/CD variables of the project that the job reads.
    needs: Vec<Need>,
    variables: Vec<(&'static str, String)>,
    install: Option<String>,
    identity: Option<String>,
    image: Option<String>,
    /// Reports if the job fails before the runner starts.
    failure: String,
}

/// A job for GitLab CI.
///
/// # Errors
/// If the target does not support an option.
pub fn gitlab_ci(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["$"])?;
    options.check_secrets(TARGET, SecretNames::VARIABLES)?;
    let mut needs = options.needs_with_secrets();
    if let Some(registry) = needs.iter_mut().find(|need| need.name == "BUTLER_REGISTRY_URL") {
        registry.what.push_str(", unless the trigger sets BUTLER_ENDPOINT");
    }
    let job = Job {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs,
        variables: options.network_variables(),
        install: options.install_script("${CI_PROJECT_DIR:?}/.butler/bin"),
        identity: options.identity_script(Tokens::Values, "${CI_PROJECT_DIR:?}"),
        image: options.image(),
        failure: options.failure_trap("$CI_JOB_URL"),
    };
    Ok(render_template(&job))
}
