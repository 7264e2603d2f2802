//! The CI configuration: `ci_config` (ADR-001, "CI Credential Resolution") and the options of the command
//! line, which take precedence.
//!
//! It is not secret: credentials are references.

mod error;
mod json;
mod words;

use std::collections::BTreeMap;

use url::Url;

use super::credentials::CredentialReference;
use butler_base::error::visible;

pub use error::ConfigError;
pub use words::{Event, ProviderName};

/// More than any configuration has; a file that is larger is another file.
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

/// Where runs are started and with what; nothing in it is secret.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CiConfig {
    /// The CI system's id, as it was given.
    pub provider: Option<String>,
    /// The CI system's address; GitHub and GitLab have one of their own.
    pub url: Option<Url>,
    /// `owner/name` of GitHub, the path or number of GitLab's project.
    pub repository: Option<String>,
    /// The workflow's file name or number.
    pub workflow_file: Option<String>,
    /// The branch or tag; the repository's default branch where none is given.
    pub git_ref: Option<String>,
    /// How GitHub starts it.
    pub event: Option<Event>,
    /// The App that logs in, its number or client id.
    pub app_id: Option<String>,
    /// Where the App is installed; looked up where it is not given.
    pub installation_id: Option<String>,
    /// Jenkins' job, with its folders: `team/infra/run`.
    pub job: Option<String>,
    /// Whose API token Jenkins gets.
    pub user: Option<String>,
    /// Where the credentials are.
    pub credentials: Option<CredentialReference>,
    /// Where GitLab's access token is, which reads pipelines.
    pub api_credentials: Option<CredentialReference>,
    /// What else the job is told.
    pub inputs: BTreeMap<String, String>,
}

impl CiConfig {
    /// The same with what `first` says before what is here.
    #[must_use]
    pub fn under(self, first: Self) -> Self {
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

    /// Makes sure that it is not about another provider than `wanted`.
    ///
    /// # Errors
    /// When it is.
    pub fn is_for(&self, wanted: &'static str) -> Result<(), ConfigError> {
        match &self.provider {
            Some(given) if given != wanted => {
                let given = visible(given).take(60).collect();
                Err(ConfigError::OtherProvider { given, wanted })
            }
            _ => Ok(()),
        }
    }
}

/// Reads an address: `http` or `https`, without login, query and fragment. Its path ends in `/`.
///
/// # Errors
/// When it cannot be one; the message shows nothing of it, which may be a password.
pub fn parse_url(text: &str) -> Result<Url, ConfigError> {
    let problem = |problem: &str| value("url", problem);
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

/// Reads `NAME=VALUE`.
///
/// # Errors
/// When it is nothing like that, or the runner sends a value of that name itself.
pub fn parse_input(text: &str) -> Result<(String, String), ConfigError> {
    let (name, text) =
        text.split_once('=').ok_or_else(|| value("inputs", "has an entry without `=`"))?;
    input_name(name)?;
    Ok((name.to_owned(), text.to_owned()))
}

fn input_name(name: &str) -> Result<(), ConfigError> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if name.is_empty() || !name.chars().all(is_word) {
        return Err(value("inputs", "has a name that is not a word"));
    }
    if RESERVED.contains(&name) {
        return Err(value("inputs", &format!("has `{name}`, which the runner sends itself")));
    }
    Ok(())
}

fn value(key: &'static str, problem: &str) -> ConfigError {
    ConfigError::Value { key, problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_comes_first() {
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
        let config = file.under(flags);
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
