//! `generate circleci`: a configuration with one workflow.

use askama::Template;

use super::secret_names::SecretNames;
use super::{GenerateError, Need, Options, Tokens, filters, text};

const TARGET: &str = "circleci";

/// `CircleCI`'s own image: curl, git and ssh are in it.
const WITH_CURL: &str = "cimg/base:current";

#[derive(Template)]
#[template(path = "circleci.yml", escape = "none", syntax = "ci")]
struct Configuration<'a> {
    own_version: &'static str,
    options: &'a Options,
    needs: Vec<Need>,
    /// Variables of the job.
    variables: Vec<(&'static str, String)>,
    /// The resource class, where one is asked for.
    class: Option<&'a str>,
    /// Whether the job runs on a machine of the user's and not in an image.
    machine: bool,
    image: String,
    /// Whether that is the runner's image.
    from_image: bool,
    install: Option<String>,
    identity: Option<String>,
    /// Reports if a step fails before the runner starts.
    failure: String,
    /// When the runner is told to end.
    seconds: u64,
}

/// A configuration for `CircleCI`.
///
/// # Errors
/// When it cannot do what `options` ask for.
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
        // The classes of runners that are not CircleCI's have a namespace.
        machine: image.is_none() && class.is_some_and(|class| class.contains('/')),
        from_image: image.is_some(),
        image: image.unwrap_or_else(|| WITH_CURL.to_owned()),
        install: options.install_script("$PWD/butler-runner"),
        identity: options.identity_script(Tokens::Values, "$PWD"),
        failure: options.failure_function("$CIRCLE_BUILD_URL"),
        seconds: options.timeout_minutes() * 60,
    };
    text(&configuration)
}
