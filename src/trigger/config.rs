//! Where runs are started: what `ci_config` says (ADR-001, "CI Credential Resolution"), with what the
//! command line says before it.
//!
//! Unknown keys are tolerated, because a registry may know more than this; each is named once, in case
//! it was meant to be one of these. A known key with a value that cannot be is an error with its name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use url::Url;

use super::credentials::CredentialReference;
use crate::error::{Advice, visible};

/// More than any configuration has; a file that is larger is another file.
pub const LARGEST_CONFIG: u64 = 1024 * 1024;

/// The keys, as the JSON has them.
const KEYS: [&str; 13] = [
    "provider",
    "url",
    "repository",
    "workflowFile",
    "ref",
    "event",
    "appId",
    "installationId",
    "job",
    "user",
    "credentials",
    "apiCredentials",
    "inputs",
];

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

/// A CI system that can be asked to start runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProviderName {
    /// GitHub Actions.
    GitHub,
    /// GitLab CI.
    GitLab,
    /// Jenkins.
    Jenkins,
}

impl ProviderName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GitHub, Self::GitLab, Self::Jenkins];

    /// What it is called in `ci_config` and on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::GitHub => "github-actions",
            Self::GitLab => "gitlab-ci",
            Self::Jenkins => "jenkins",
        }
    }

    /// What people call it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Jenkins => "Jenkins",
        }
    }
}

/// The event by which GitHub starts a workflow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Event {
    /// One workflow is named, and gets inputs.
    #[default]
    WorkflowDispatch,
    /// Every workflow that waits for `butler-run` starts, and gets a payload.
    RepositoryDispatch,
}

impl Event {
    /// What GitHub calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkflowDispatch => "workflow_dispatch",
            Self::RepositoryDispatch => "repository_dispatch",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::WorkflowDispatch, Self::RepositoryDispatch].into_iter().find(|it| it.name() == name)
    }
}

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

/// What is wrong with the description of the place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the CI configuration `{}`", path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no JSON object.
    #[error("the CI configuration is no JSON object")]
    Syntax(#[source] Option<serde_json::Error>),
    /// A value that cannot be.
    #[error("`{key}` of the CI configuration {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// What a provider cannot do without.
    #[error("{server} needs {what}")]
    Missing {
        /// The provider.
        server: &'static str,
        /// What is missing.
        what: &'static str,
        /// How to give it.
        how: &'static str,
    },
    /// It is about another provider.
    #[error("the CI configuration is for `{given}`, not for `{wanted}`")]
    OtherProvider {
        /// What it names.
        given: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// More than GitHub takes.
    #[error("{server} takes {most} values beside each other, and these are {given}")]
    TooMany {
        /// The provider.
        server: &'static str,
        /// Its limit.
        most: usize,
        /// How many there are.
        given: usize,
    },
}

impl Advice for ConfigError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { how, .. } => Some((*how).to_owned()),
            Self::OtherProvider { given, .. }
                if ProviderName::ALL.iter().any(|it| it.id() == given) =>
            {
                Some(format!("write `{given}` on the command line"))
            }
            Self::TooMany { .. } => Some("give fewer --input".to_owned()),
            Self::Read { .. }
            | Self::Syntax(_)
            | Self::Value { .. }
            | Self::OtherProvider { .. } => None,
        }
    }
}

impl CiConfig {
    /// Reads the JSON. Adds to `warnings` what is not known.
    ///
    /// # Errors
    /// When it is no object, or a key has a value that cannot be.
    pub fn parse(text: &[u8], warnings: &mut Vec<String>) -> Result<Self, ConfigError> {
        let object: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| ConfigError::Syntax(Some(error)))?;
        for key in object.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let near = KEYS.iter().find(|known| strsim::osa_distance(known, &plain(key)) <= 2);
            let near = near.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
            let key: String = visible(key).take(60).collect();
            warnings.push(format!("unknown key `{key}` in the CI configuration{near}"));
        }
        let reader = Fields(&object);
        Ok(Self {
            provider: reader.text("provider")?,
            url: reader.text("url")?.map(|text| parse_url(&text)).transpose()?,
            repository: reader.word("repository")?,
            workflow_file: reader.word("workflowFile")?,
            git_ref: reader.text("ref")?,
            event: reader
                .text("event")?
                .map(|text| {
                    Event::named(&text).ok_or_else(|| {
                        value("event", "is neither `workflow_dispatch` nor `repository_dispatch`")
                    })
                })
                .transpose()?,
            app_id: reader.word("appId")?,
            installation_id: reader.word("installationId")?,
            job: reader.text("job")?,
            user: reader.text("user")?,
            credentials: reader.credentials("credentials")?,
            api_credentials: reader.credentials("apiCredentials")?,
            inputs: reader.inputs()?,
        })
    }

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
        Url::parse(text.trim()).map_err(|error| problem(&format!("is no URL: {error}")))?;
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
        return Err(value("inputs", "has a name that is no word"));
    }
    if RESERVED.contains(&name) {
        return Err(value("inputs", &format!("has `{name}`, which the runner sends itself")));
    }
    Ok(())
}

fn value(key: &'static str, problem: &str) -> ConfigError {
    ConfigError::Value { key, problem: problem.to_owned() }
}

/// `workflow_file` as it is meant.
fn plain(key: &str) -> String {
    let mut words = key.split(['_', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut characters = word.chars();
        name.extend(characters.next().map(|it| it.to_ascii_uppercase()));
        name.push_str(characters.as_str());
        name
    })
}

/// Reads the fields of an object; `null` is as good as nothing.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn present(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Err(value(key, "is empty")),
            Some(Value::String(text)) if text.chars().any(char::is_control) => {
                Err(value(key, "holds a control character"))
            }
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(value(key, &format!("is {}, not a string", kind(other)))),
        }
    }

    /// A string, or a number as a string.
    fn word(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.present(key) {
            Some(Value::Number(number)) if number.is_u64() => Ok(Some(number.to_string())),
            _ => self.text(key),
        }
    }

    fn credentials(&self, key: &'static str) -> Result<Option<CredentialReference>, ConfigError> {
        let Some(found) = self.present(key) else { return Ok(None) };
        let object = found
            .as_object()
            .ok_or_else(|| value(key, &format!("is {}, not an object", kind(found))))?;
        let fields = Fields(object);
        let part = |name: &'static str| {
            fields.text(name).map_err(|error| match error {
                ConfigError::Value { problem, .. } => {
                    value(key, &format!("has a `{name}` that {problem}"))
                }
                other => other,
            })
        };
        let source = part("source")?;
        let reference = part("ref")?.ok_or_else(|| value(key, "has no `ref`"))?;
        CredentialReference::new(source.as_deref(), &reference, part("key")?)
            .map(Some)
            .map_err(|problem| value(key, &problem))
    }

    fn inputs(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let Some(found) = self.present("inputs") else { return Ok(BTreeMap::new()) };
        let object = found
            .as_object()
            .ok_or_else(|| value("inputs", &format!("is {}, not an object", kind(found))))?;
        let pair = |(name, given): (&String, &Value)| {
            input_name(name)?;
            let text = match given {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => given.to_string(),
                other => {
                    let problem = format!("has `{name}`, which is {}, not a string", kind(other));
                    return Err(value("inputs", &problem));
                }
            };
            Ok((name.clone(), text))
        };
        object.iter().map(pair).collect()
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(CiConfig, Vec<String>), String> {
        let mut warnings = Vec::new();
        let config = CiConfig::parse(text.as_bytes(), &mut warnings);
        config.map(|config| (config, warnings)).map_err(|error| crate::error::chain(&error))
    }

    #[test]
    fn what_the_registry_keeps_is_understood() {
        let (config, warnings) = parse(
            r#"{"provider": "github-actions", "repository": "org/infra", "workflowFile": "butler-run.yml",
            "credentials": {"source": "secret", "ref": "butler-system/github-app-key", "key": "private-key"},
            "appId": 12345, "inputs": {"operation": "plan", "count": 3}, "url": null}"#,
        )
        .unwrap();
        assert_eq!(config.repository.as_deref(), Some("org/infra"));
        assert_eq!(config.app_id.as_deref(), Some("12345"));
        assert_eq!(config.inputs["count"], "3");
        assert_eq!(
            config.credentials.unwrap().to_string(),
            "butler-system/github-app-key:private-key"
        );
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn unknown_keys_are_tolerated_and_wrong_values_are_named() {
        let (_, warnings) = parse(r#"{"workflow_file": "x", "later": {"a": 1}}"#).unwrap();
        assert_eq!(
            warnings,
            [
                "unknown key `later` in the CI configuration",
                "unknown key `workflow_file` in the CI configuration; did you mean `workflowFile`?",
            ]
        );
        for (text, message) in [
            ("[]", "no JSON object"),
            (r#"{"repository": true}"#, "`repository` of the CI configuration is a boolean"),
            (r#"{"job": ""}"#, "`job` of the CI configuration is empty"),
            (r#"{"event": "push"}"#, "`event` of the CI configuration is neither"),
            (
                r#"{"credentials": "ghp_hunter2"}"#,
                "`credentials` of the CI configuration is a string",
            ),
            (r#"{"credentials": {"key": "a"}}"#, "has no `ref`"),
            (r#"{"credentials": {"source": "vault", "ref": "a"}}"#, "`source`"),
            (r#"{"inputs": {"run_id": "7"}}"#, "`run_id`, which the runner sends itself"),
            (r#"{"inputs": {"a b": "7"}}"#, "no word"),
            (r#"{"url": "https://user:hunter2@example.com"}"#, "holds a user name or password"),
            (r#"{"url": "ftp://example.com"}"#, "neither http nor https"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

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
