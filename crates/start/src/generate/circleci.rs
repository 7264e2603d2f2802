//! `generate circleci`: a configuration with one workflow.

use askama::Template;

use super::render::render_template;
use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Tokens, filters};

const TARGET: &str = "circleci";

/// `CircleCI`'s image with curl, git and ssh.
const DEFAULT_IMAGE: &str = "cimg/base:current";

#[derive(Template)]
#[template(path = "circleci.yml", escape = "none", syntax = "ci")]
struct Configuration<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the job.
    variables: Vec<(&'static str, String)>,
    /// The requested resource class.
    class: Option<&'a str>,
    /// Whether the job runs on the user's own machine instead of in an image.
    machine: bool,
    image: String,
    /// Whether `image` is the runner's image.
    from_image: bool,
    install: Option<String>,
    identity: Option<String>,
    /// Reports if a step fails before the runner starts.
    failure: String,
    /// The time limit of the runner, in seconds.
    seconds: u64,
}

/// A configuration for `CircleCI`.
///
/// # Errors
/// If the target does not support an option.
pub fn circleci(options: &Options) -> Result<String, GenerateError> {
    options.check(TARGET, &["<<"])?;
    options.check_secrets(TARGET, SecretNames::VARIABLES)?;
    let [class] = options.labels.as_slice() else {
        return if options.labels.is_empty() {
            Ok(render(options, None))
        } else {
            Err(GenerateError::Unsupported {
                target: TARGET,
                option: "--label",
                instead: "a job has one resource class: give the option once",
            })
        };
    };
    Ok(render(options, Some(class)))
}

fn render(options: &Options, class: Option<&str>) -> String {
    let image = options.image();
    let configuration = Configuration {
        own_version: env!("CARGO_PKG_VERSION"),
        options,
        needs: options.needs_with_secrets(),
        variables: options.network_variables(),
        class,
        // Classes of self-hosted runners have a namespace.
        machine: image.is_none() && class.is_some_and(|class| class.contains('/')),
        from_image: image.is_some(),
        image: image.unwrap_or_else(|| DEFAULT_IMAGE.to_owned()),
        install: options.install_script("$PWD/butler-runner"),
        identity: options.identity_script(Tokens::Values, "$PWD"),
        failure: options.failure_function("$CIRCLE_BUILD_URL"),
        seconds: options.timeout_minutes() * 60,
    };
    render_template(&configuration)
}
