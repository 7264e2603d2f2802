//! Settings for Terraform, from a settings file (`--settings`) or a run's `terraformSettings`.
//!
//! [`TerraformSettings`] is the parsed document: credentials are references, and a missing section is
//! `None`, so that another source can provide it. [`TerraformSetup`] is the result for a run, with every
//! reference resolved.

use std::ffi::OsString;
use std::path::PathBuf;

use secrecy::SecretString;

use super::secret_reference::SecretReference;

/// The settings of one source; a missing section is `None`.
#[derive(Debug, Default)]
pub struct TerraformSettings {
    /// `terraformrc`: sources of providers, and credentials.
    pub cli_config: Option<CliConfig<SecretReference>>,
    /// `backend`: the state backend.
    pub backend: Option<BackendSettings>,
    /// `env`: variables that are not secret, in the order in which they were written.
    pub environment: Option<Vec<(String, String)>>,
    /// `logging`: Terraform's own log.
    pub logging: Option<LoggingSettings>,
    /// `afterPlan`: the program that judges each plan.
    pub after_plan: Option<AfterPlan>,
}

/// A program that judges each plan before it is applied (`--after-plan`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AfterPlan {
    /// Its path, or a name to search in `PATH`.
    pub program: PathBuf,
    /// Its arguments. No shell reads them.
    pub arguments: Vec<String>,
    /// Names of further variables in its environment.
    pub environment: Vec<String>,
}

/// The content of Terraform's CLI configuration file.
#[derive(Debug, Default)]
pub struct CliConfig<Token> {
    /// The sources of providers; empty to use Terraform's default.
    pub installation: Vec<InstallationMethod>,
    /// Tokens by host.
    pub credentials: Vec<(RegistryHost, Token)>,
}

/// One way to install providers.
#[derive(Debug, Eq, PartialEq)]
pub struct InstallationMethod {
    /// The source of the providers.
    pub source: ProviderSource,
    /// Patterns of the included providers; `None` for all.
    pub include: Option<Vec<String>>,
    /// Patterns of the excluded providers.
    pub exclude: Option<Vec<String>>,
}

/// A source of providers.
#[derive(Debug, Eq, PartialEq)]
pub enum ProviderSource {
    /// A mirror on the network: an `https` URL that ends in `/`.
    NetworkMirror(String),
    /// A directory, by its absolute path.
    FilesystemMirror(String),
    /// The registries that the providers name.
    Direct,
}

/// A host that has credentials, as Terraform compares them: `app.terraform.io`, `localhost:8443`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RegistryHost(String);

impl RegistryHost {
    /// The prefix of variables with credentials.
    const VARIABLE: &str = "TF_TOKEN_";

    /// Reads a host with or without a port; `None` if the text is not a host.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse::<u16>().ok()?)),
            None => (text, None),
        };
        let name = match url::Host::parse(name).ok()? {
            url::Host::Domain(name) => name,
            url::Host::Ipv4(address) => address.to_string(),
            // Terraform has no syntax for an IPv6 address here.
            url::Host::Ipv6(_) => return None,
        };
        Some(Self(match port.filter(|port| *port != 443) {
            Some(port) => format!("{name}:{port}"),
            None => name,
        }))
    }

    /// The host whose token Terraform finds in the variable `name`, if that is such a variable:
    /// `TF_TOKEN_my__registry_example_com` is for `my-registry.example.com`.
    #[must_use]
    pub fn of_variable(name: &str) -> Option<Self> {
        let host = name.strip_prefix(Self::VARIABLE)?;
        Self::parse(&host.replace("__", "-").replace('_', "."))
    }

    /// The host as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A state backend whose secrets are not resolved yet.
#[derive(Debug)]
pub struct BackendSettings {
    /// Terraform's name of the backend type.
    pub kind: String,
    /// Its settings by Terraform's names, in the order in which they were written.
    pub config: Vec<(String, BackendValue)>,
}

/// The value of a setting of a backend.
#[derive(Debug)]
pub enum BackendValue {
    /// The value itself, as JSON text.
    Json(SecretString),
    /// A reference, which is resolved when the run starts.
    Reference(SecretReference),
}

/// Terraform's own log.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct LoggingSettings {
    /// The level in capitals, as in `TF_LOG`.
    pub level: Option<String>,
    /// The file for the log, instead of standard error.
    pub path: Option<PathBuf>,
}

/// The settings for Terraform that are applied to a run, except for its backend and its environment.
#[derive(Debug, Default)]
pub struct TerraformSetup {
    /// The CLI configuration; `None` to use the user's own.
    pub cli_config: Option<CliConfig<SecretString>>,
    /// An absolute path for `TF_LOG_PATH`.
    pub log_path: Option<PathBuf>,
    /// The program that judges each plan, by its absolute path.
    pub after_plan: Option<AfterPlan>,
    /// Variables of the job's environment that are removed for Terraform, because they would win over these settings.
    pub overruled: Vec<OsString>,
    /// Resolved secrets, with the names of their settings.
    pub secrets: Vec<(String, SecretString)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_the_same_in_all_spellings() {
        for (text, expected) in [
            ("app.terraform.io", Some("app.terraform.io")),
            ("App.Terraform.IO:443", Some("app.terraform.io")),
            ("localhost:8443", Some("localhost:8443")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("https://app.terraform.io", None),
            ("a b", None),
            ("", None),
            ("host:port", None),
            ("127.0.0.1:8443", Some("127.0.0.1:8443")),
            ("[::1]", None),
        ] {
            let host = RegistryHost::parse(text);
            assert_eq!(host.as_ref().map(RegistryHost::as_str), expected, "{text}");
        }
    }

    #[test]
    fn host_is_part_of_the_name_of_a_token_variable() {
        for (name, expected) in [
            ("TF_TOKEN_app_terraform_io", Some("app.terraform.io")),
            ("TF_TOKEN_my__registry_example_com", Some("my-registry.example.com")),
            ("TF_TOKEN_app.terraform.io", Some("app.terraform.io")),
            ("TF_TOKENS", None),
            ("TF_TOKEN_", None),
        ] {
            let host = RegistryHost::of_variable(name);
            assert_eq!(host.as_ref().map(RegistryHost::as_str), expected, "{name}");
        }
    }
}
