//! Replaces the module's state backend with the run's.
//!
//! The clone only gets the backend's type. The settings contain credentials, so they are written to the private
//! directory. They are passed on unchecked: Terraform checks them. Only the s3 backend needs a translation,
//! because its names depend on the version. Settings are written in HCL's native syntax, in which every version
//! can escape a template in a string; in JSON that depends on the version.

use std::io::Write;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::s3;
use super::setting_versions::known_elsewhere;
use butler_base::platform::fs::OpenOptionsExt;
use butler_base::process::Environment;
use butler_base::secret::{PrivateDirectory, WipeError};
use butler_protocol::backend::{BackendKind, SettingsTranslation};
use butler_protocol::spec::{Backend, ToolRequest};
use butler_source::hcl::{self, JsonError, is_identifier};
use butler_source::module::{self, Module};

/// The override file's name, unless an override file of the module sorts after it.
const OVERRIDE_FILE: &str = "butler_runner_override.tf.json";

/// The file with the empty provider block.
const PROVIDER_FILE: &str = "butler_runner_azurerm.tf.json";

/// The file with the settings, in the private directory.
const CONFIG_FILE: &str = "backend.tfbackend";

/// Variables of the Azure provider. One of them is enough to expect a login.
const AZURE_CREDENTIALS: [&str; 5] =
    ["ARM_CLIENT_ID", "ARM_SUBSCRIPTION_ID", "ARM_TENANT_ID", "ARM_USE_OIDC", "ARM_USE_MSI"];

/// The files that were written for a backend.
#[derive(Debug, Eq, PartialEq)]
pub struct BackendFiles {
    /// The override file in the clone, which contains only the backend's type.
    pub override_file: PathBuf,
    /// The settings, outside the clone (mode 0600), for `-backend-config`.
    pub config_file: PathBuf,
}

/// Why a backend cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The type cannot be a backend's name.
    #[error("`{}` is not a type of a state backend", .0.escape_debug())]
    Kind(String),
    /// The type cannot be configured from outside of a module.
    #[error("{0}")]
    NotConfigurable(&'static str),
    /// The setting cannot be a setting's name.
    #[error("`{}` is not a setting of a state backend", .0.escape_debug())]
    Setting(String),
    /// The version of the tool does not know the setting.
    #[error(
        "{tool} does not know the setting `{name}` of the backend `{kind}`, which {known} and later know"
    )]
    Unknown {
        /// The backend.
        kind: String,
        /// The setting.
        name: String,
        /// The tool.
        tool: Box<ToolRequest>,
        /// The first tool that knows it.
        known: Box<ToolRequest>,
    },
    /// The setting's value cannot be written.
    #[error("cannot write the backend's setting `{name}`")]
    Value {
        /// The setting.
        name: String,
        /// The reason.
        #[source]
        source: JsonError,
    },
    /// A file cannot be written into the module's directory, or the directory cannot be read.
    #[error("cannot create `{}`", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The settings cannot be written.
    #[error("cannot write the backend's settings")]
    Config(#[from] WipeError),
}

impl butler_base::error::Advice for BackendError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Create { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                Some(
                    "the name belongs to the runner: remove the file from the repository"
                        .to_owned(),
                )
            }
            Self::Unknown { name, .. } => {
                Some(format!("leave `{name}` out, or use such a version"))
            }
            Self::Kind(_) => Some("a backend's type is a name such as `pg` or `s3`".to_owned()),
            _ => None,
        }
    }

    fn class(&self) -> Option<butler_base::error::FailureClass> {
        Some(butler_base::error::FailureClass::Configuration)
    }
}

/// Writes the override file into `directory` and the settings into `private`. Settings that are `null` are
/// left out.
///
/// # Errors
/// If the type is not the name of a backend, or if a file cannot be written.
pub fn write_backend(
    backend: &Backend,
    tool: &ToolRequest,
    directory: &Path,
    private: &PrivateDirectory,
) -> Result<BackendFiles, BackendError> {
    if !is_identifier(&backend.kind) {
        return Err(BackendError::Kind(backend.kind.clone()));
    }
    if let Some(why) = BackendKind::of(&backend.kind).why_not_configurable() {
        return Err(BackendError::NotConfigurable(why));
    }
    check_names(backend, tool)?;
    let settings = settings_as_hcl(backend, tool)?;
    let name = override_name(directory)
        .map_err(|source| BackendError::Create { path: directory.join(OVERRIDE_FILE), source })?;
    let config_file = private.write(CONFIG_FILE, settings.as_bytes())?;
    let content =
        serde_json::json!({ "terraform": { "backend": { (backend.kind.as_str()): {} } } });
    let override_file = create(&directory.join(name), &content)?;
    Ok(BackendFiles { override_file, config_file })
}

/// Adds an empty provider block with `features {}` to a module that uses azurerm without one, if the environment
/// has Azure credentials. Returns the file that was written.
///
/// # Errors
/// If the file cannot be written.
pub fn write_provider_features(
    module: &Module,
    environment: &Environment,
    directory: &Path,
) -> Result<Option<PathBuf>, BackendError> {
    let given = |name| environment.value(name).is_some_and(|value| !value.is_empty());
    if !module.lacks_azurerm_provider || !AZURE_CREDENTIALS.into_iter().any(given) {
        return Ok(None);
    }
    let content = serde_json::json!({ "provider": { "azurerm": { "features": {} } } });
    create(&directory.join(PROVIDER_FILE), &content).map(Some)
}

/// Refuses settings that `tool` does not know, before it downloads anything.
fn check_names(backend: &Backend, tool: &ToolRequest) -> Result<(), BackendError> {
    let given = backend.config.iter().filter(|(_, value)| value.expose_secret().trim() != "null");
    for (name, _) in given {
        if let Some(known) = known_elsewhere(&backend.kind, name, tool) {
            return Err(BackendError::Unknown {
                kind: backend.kind.clone(),
                name: name.clone(),
                tool: Box::new(tool.clone()),
                known: Box::new(known),
            });
        }
    }
    Ok(())
}

/// The settings in HCL's native syntax.
fn settings_as_hcl(backend: &Backend, tool: &ToolRequest) -> Result<String, BackendError> {
    let kind = BackendKind::of(&backend.kind);
    let given: Vec<_> = backend.config.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let translated;
    let settings = match kind.translation {
        SettingsTranslation::S3 => {
            translated = s3::translate(&given, &tool.version);
            translated.iter().map(|(name, value)| (name.as_str(), value)).collect()
        }
        SettingsTranslation::Unchanged => given,
    };
    let mut text = String::new();
    for (name, value) in settings {
        if !is_identifier(name) {
            return Err(BackendError::Setting(name.to_owned()));
        }
        append_setting(kind, name, value, &mut text)
            .map_err(|source| BackendError::Value { name: name.to_owned(), source })?;
    }
    Ok(text)
}

fn append_setting(
    kind: &BackendKind,
    name: &str,
    value: &SecretString,
    text: &mut String,
) -> Result<(), JsonError> {
    let json = value.expose_secret().trim();
    if json == "null" {
        return Ok(());
    }
    if kind.blocks.contains(&name) {
        return hcl::append_blocks(name, json, text);
    }
    text.push_str(name);
    text.push_str(" = ");
    hcl::append_json(json, text)?;
    text.push('\n');
    Ok(())
}

/// A name that no file has and that sorts after every other override file: of several backend blocks, Terraform
/// uses the last one.
fn override_name(directory: &Path) -> std::io::Result<String> {
    let last = module::override_files(directory)?.into_iter().max();
    Ok(match last {
        Some(last) if last.as_str() >= OVERRIDE_FILE => {
            // `_` sorts after the `.` that follows the stem in the other file's name.
            let stem = last.split_once(".t").map_or(last.as_str(), |(stem, _)| stem);
            format!("{stem}_{OVERRIDE_FILE}")
        }
        _ => OVERRIDE_FILE.to_owned(),
    })
}

/// Creates the file. Never follows a link of that name in the repository.
fn create(path: &Path, content: &serde_json::Value) -> Result<PathBuf, BackendError> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content.to_string().as_bytes()))
        .map_err(|source| BackendError::Create { path: path.to_owned(), source })?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn backend(kind: &str, config: &[(&str, &str)]) -> Backend {
        Backend {
            kind: kind.to_owned(),
            config: config
                .iter()
                .map(|(name, json)| ((*name).to_owned(), (*json).into()))
                .collect(),
        }
    }

    fn write(backend: &Backend, directory: &Path) -> Result<BackendFiles, BackendError> {
        let private = PrivateDirectory::create(directory, "private-").unwrap();
        let files = write_backend(backend, &"1.11.4".parse().unwrap(), directory, &private)?;
        // The test reads the files after this function.
        std::mem::forget(private);
        Ok(files)
    }

    #[test]
    fn clone_contains_only_the_type_of_the_backend() {
        let directory = tempfile::tempdir().unwrap();
        let pg = backend(
            "pg",
            &[
                ("conn_str", r#""postgres://u:${pw}@h/db""#),
                ("schema_name", r#""Team-A/x""#),
                ("skip_index_creation", "null"),
            ],
        );
        let files = write(&pg, directory.path()).unwrap();
        assert_eq!(files.override_file, directory.path().join(OVERRIDE_FILE));
        let content = std::fs::read_to_string(&files.override_file).unwrap();
        assert_eq!(content, r#"{"terraform":{"backend":{"pg":{}}}}"#);
        let settings = std::fs::read_to_string(&files.config_file).unwrap();
        assert_eq!(
            settings,
            "conn_str = \"postgres://u:$${pw}@h/db\"\nschema_name = \"Team-A/x\"\n"
        );
        let mode = std::fs::metadata(&files.config_file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn override_file_sorts_after_those_of_the_module() {
        for (own, expected) in [
            ("a_override.tf", OVERRIDE_FILE),
            ("override.tf", "override_butler_runner_override.tf.json"),
            ("z_override.tf.json", "z_override_butler_runner_override.tf.json"),
            ("\u{e9}_override.tofu", "\u{e9}_override_butler_runner_override.tf.json"),
            (OVERRIDE_FILE, "butler_runner_override_butler_runner_override.tf.json"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(own), "{}").unwrap();
            let files = write(&backend("local", &[]), directory.path()).unwrap();
            assert_eq!(files.override_file, directory.path().join(expected));
            assert!(files.override_file.file_name().unwrap().as_encoded_bytes() > own.as_bytes());
        }
    }

    #[test]
    fn link_in_the_repository_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        for name in [OVERRIDE_FILE, PROVIDER_FILE] {
            std::os::unix::fs::symlink(&target, directory.path().join(name)).unwrap();
        }
        write(&backend("local", &[]), directory.path()).unwrap();
        let module = Module { lacks_azurerm_provider: true, ..Module::default() };
        let azure = [("ARM_USE_MSI".into(), "true".into())].into_iter().collect();
        let result = write_provider_features(&module, &azure, directory.path());
        assert!(matches!(result, Err(BackendError::Create { .. })));
        assert!(!target.exists());
    }

    #[test]
    fn type_or_setting_that_is_not_an_identifier_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for kind in ["", "p g", "pg\"", "../pg"] {
            let result = write(&backend(kind, &[]), directory.path());
            assert!(matches!(result, Err(BackendError::Kind(_))), "{kind}");
        }
        let result = write(&backend("cloud", &[]), directory.path());
        assert!(result.unwrap_err().to_string().contains("use `remote`"));
        let result = write(&backend("pg", &[("a = 1\nb", "1")]), directory.path());
        assert!(matches!(result, Err(BackendError::Setting(_))));
        let result = write(&backend("pg", &[("a", "1\nb = 2")]), directory.path());
        assert!(matches!(result, Err(BackendError::Value { .. })));
        assert!(!directory.path().join(OVERRIDE_FILE).exists());
    }

    #[test]
    fn setting_that_the_version_does_not_know_is_refused_with_the_first_one_that_does() {
        let directory = tempfile::tempdir().unwrap();
        let private = PrivateDirectory::create(directory.path(), "private-").unwrap();
        let refused = |value| {
            let s3 = backend("s3", &[("use_lockfile", value)]);
            let tool = "1.9.8".parse().unwrap();
            write_backend(&s3, &tool, directory.path(), &private).map_err(|error| error.to_string())
        };
        assert_eq!(
            refused("true").unwrap_err(),
            "terraform 1.9.8 does not know the setting `use_lockfile` of the backend `s3`, which terraform 1.10.0 and \
             later know"
        );
        assert!(refused("null").is_ok());
    }

    #[test]
    fn settings_that_are_blocks_are_written_as_blocks() {
        let remote = backend("remote", &[("workspaces", r#"[{"name": "a"}]"#)]);
        let tool = "1.11.4".parse().unwrap();
        assert_eq!(settings_as_hcl(&remote, &tool).unwrap(), "workspaces {\nname = \"a\"\n}\n");
        let other = backend("gcs", &[("workspaces", r#"[{"name": "a"}]"#)]);
        assert_eq!(settings_as_hcl(&other, &tool).unwrap(), "workspaces = [{\"name\"=\"a\",},]\n");
    }

    #[test]
    fn azurerm_gets_features_if_there_are_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let lacking = Module { lacks_azurerm_provider: true, ..Module::default() };
        let azure: Environment = [("ARM_CLIENT_ID".into(), "id".into())].into_iter().collect();
        let write = |module: &Module, environment: &Environment| {
            write_provider_features(module, environment, directory.path()).unwrap()
        };
        assert_eq!(write(&lacking, &Environment::default()), None);
        assert_eq!(write(&Module::default(), &azure), None);
        let path = write(&lacking, &azure).unwrap();
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            r#"{"provider":{"azurerm":{"features":{}}}}"#
        );
        assert!(!Module::read(directory.path()).unwrap().lacks_azurerm_provider);
    }
}
