//! The settings of a workflow, project or job, and how the command line overrides them.

use std::collections::BTreeMap;

use url::Url;

use crate::trigger::credentials::CredentialReference;
use butler_base::error::visible;

use super::{ConfigError, Event};

/// The largest configuration file that is read, in bytes.
pub const LARGEST_CONFIG: u64 = 1024 * 1024;

/// Names of inputs that the runner itself sends.
const RESERVED: [&str; 7] = [
    "run_id",
    "callback_token",
    "butler_url",
    "RUN_ID",
    "CALLBACK_TOKEN",
    "BUTLER_ENDPOINT",
    "BUTLER_TOKEN",
];

/// Settings of the workflow, project or job that starts runs. None of them is secret: credentials are
/// references.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CiConfig {
    /// The CI system's id; not checked yet.
    pub provider: Option<String>,
    /// The CI system's address; GitHub and GitLab have a default.
    pub url: Option<Url>,
    /// `owner/name` of GitHub, the path or number of GitLab's project.
    pub repository: Option<String>,
    /// The workflow's file name or number.
    pub workflow_file: Option<String>,
    /// The branch or tag; the default is the repository's default branch.
    pub git_ref: Option<String>,
    /// The event by which GitHub starts the workflow.
    pub event: Option<Event>,
    /// The number or client id of the GitHub App that logs in.
    pub app_id: Option<String>,
    /// The App's installation; the default is the one that includes the repository.
    pub installation_id: Option<String>,
    /// Jenkins' job, with its folders: `team/infra/run`.
    pub job: Option<String>,
    /// The owner of Jenkins' API token.
    pub user: Option<String>,
    /// The reference to the credentials.
    pub credentials: Option<CredentialReference>,
    /// The reference to GitLab's access token, which reads pipelines.
    pub api_credentials: Option<CredentialReference>,
    /// Additional inputs of the job.
    pub inputs: BTreeMap<String, String>,
}

impl CiConfig {
    /// Merges two configurations; the values of `first` take precedence.
    #[must_use]
    pub fn overridden_by(self, first: Self) -> Self {
        let mut inputs = self.inputs;
        inputs.extend(first.inputs);
        Self {
            provider: first.provider.or(self.provider),
            url: first.url.or(self.url),
            repository: first.repository.or(self.repository),
            workflow_file: first.workflow_file.or(self.workflow_file),
            git_ref: first.git_ref.or(self.git_ref),
            event: first.event.or(self.event),
            app_id: first.app_id.or(self.app_id),
            installation_id: first.installation_id.or(self.installation_id),
            job: first.job.or(self.job),
            user: first.user.or(self.user),
            credentials: first.credentials.or(self.credentials),
            api_credentials: first.api_credentials.or(self.api_credentials),
            inputs,
        }
    }

    /// Checks that the configuration is not for another provider than `wanted`.
    ///
    /// # Errors
    /// If it names another provider.
    pub fn check_provider(&self, wanted: &'static str) -> Result<(), ConfigError> {
        match &self.provider {
            Some(given) if given != wanted => {
                let given = visible(given).take(60).collect();
                Err(ConfigError::OtherProvider { given, wanted })
            }
            _ => Ok(()),
        }
    }
}

/// Parses an address: `http` or `https`, without login, query and fragment. The path of the result ends in
/// `/`.
///
/// # Errors
/// If it is not such an address. The message does not show the text, which may contain a password.
pub fn parse_url(text: &str) -> Result<Url, ConfigError> {
    let problem = |problem: &str| value_error("url", problem);
    let mut url =
        Url::parse(text.trim()).map_err(|error| problem(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(problem("holds a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(problem("holds a query or a fragment"));
    }
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Parses `NAME=VALUE`.
///
/// # Errors
/// If the text does not have this form, or the runner sends an input of this name itself.
pub fn parse_input(text: &str) -> Result<(String, String), ConfigError> {
    let (name, text) =
        text.split_once('=').ok_or_else(|| value_error("inputs", "has an entry without `=`"))?;
    check_input_name(name)?;
    Ok((name.to_owned(), text.to_owned()))
}

pub(super) fn check_input_name(name: &str) -> Result<(), ConfigError> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if name.is_empty() || !name.chars().all(is_word) {
        return Err(value_error("inputs", "has a name that is not a word"));
    }
    if RESERVED.contains(&name) {
        return Err(value_error("inputs", &format!("has `{name}`, which the runner sends itself")));
    }
    Ok(())
}

pub(super) fn value_error(key: &'static str, problem: &str) -> ConfigError {
    ConfigError::Value { key, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_takes_precedence_over_the_file() {
        let file = CiConfig {
            repository: Some("a/b".to_owned()),
            job: Some("j".to_owned()),
            inputs: [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "1".to_owned())].into(),
            ..CiConfig::default()
        };
        let flags = CiConfig {
            repository: Some("c/d".to_owned()),
            inputs: [("b".to_owned(), "2".to_owned())].into(),
            ..CiConfig::default()
        };
        let config = file.overridden_by(flags);
        assert_eq!(config.repository.as_deref(), Some("c/d"));
        assert_eq!(config.job.as_deref(), Some("j"));
        assert_eq!((&*config.inputs["a"], &*config.inputs["b"]), ("1", "2"));
    }

    #[test]
    fn addresses_keep_their_path_and_end_in_a_slash() {
        assert_eq!(parse_url("https://a/jenkins").unwrap().as_str(), "https://a/jenkins/");
        assert_eq!(parse_url("https://a").unwrap().as_str(), "https://a/");
    }
}
