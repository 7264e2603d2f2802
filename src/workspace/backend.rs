//! Puts the run's state backend in the place of the module's.
//!
//! The clone only ever gets the backend's type; its settings, which hold credentials, go to the
//! private directory. They are passed on as they are: what Terraform makes of a `schema_name` or a
//! `key` is the registry's business. Only what an s3 backend of another version calls by another
//! name is translated. Settings are written in HCL's native syntax, where a string can be kept from
//! being a template in every version; in JSON that depends on the version.

use std::io::Write;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::s3;
use butler_base::platform::fs::OpenOptionsExt;
use butler_base::process::Environment;
use butler_base::secret::{PrivateDirectory, WipeError};
use butler_protocol::spec::{Backend, ToolRequest};
use butler_source::hcl::{self, JsonError, is_identifier};
use butler_source::module::{self, Module};

/// The override file's name, unless the module's own override files ask for another.
const OVERRIDE_FILE: &str = "butler_runner_override.tf.json";

/// The file with the empty provider block.
const PROVIDER_FILE: &str = "butler_runner_azurerm.tf.json";

/// The settings' file in the private directory.
const CONFIG_FILE: &str = "backend.tfbackend";

/// Any of these means that there are Azure credentials.
const AZURE_CREDENTIALS: [&str; 5] =
    ["ARM_CLIENT_ID", "ARM_SUBSCRIPTION_ID", "ARM_TENANT_ID", "ARM_USE_OIDC", "ARM_USE_MSI"];

/// Settings that are blocks, by backend: an attribute of that name would be refused.
const BLOCKS: [(&str, &str); 4] = [
    ("cos", "assume_role"),
    ("kubernetes", "exec"),
    ("oss", "assume_role"),
    ("remote", "workspaces"),
];

/// What was written for a backend.
#[derive(Debug, Eq, PartialEq)]
pub struct BackendFiles {
    /// The override file in the clone: the backend's type and nothing else.
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
    /// The setting cannot be a setting's name.
    #[error("`{}` is not a setting of a state backend", .0.escape_debug())]
    Setting(String),
    /// The setting's value cannot be written.
    #[error("cannot write the backend's setting `{name}`")]
    Value {
        /// The setting.
        name: String,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// A file cannot be written into the module's directory, or the directory cannot be read.
    #[error("cannot create `{}`", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
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
            Self::Kind(_) => Some("a backend's type is a name such as `pg` or `s3`".to_owned()),
            _ => None,
        }
    }
}

/// Writes the override file into `directory` and the settings into `private`. A setting that is
/// `null` is left out.
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
    let settings = settings(backend, tool)?;
    let name = override_name(directory)
        .map_err(|source| BackendError::Create { path: directory.join(OVERRIDE_FILE), source })?;
    let config_file = private.write(CONFIG_FILE, settings.as_bytes())?;
    let content =
        serde_json::json!({ "terraform": { "backend": { (backend.kind.as_str()): {} } } });
    let override_file = create(&directory.join(name), &content)?;
    Ok(BackendFiles { override_file, config_file })
}

/// Gives a module that uses azurerm without a provider block an empty one with `features {}`,
/// where the environment has Azure credentials. Returns the file that was written.
///
/// # Errors
/// When the file cannot be written.
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

/// The settings in HCL's native syntax.
fn settings(backend: &Backend, tool: &ToolRequest) -> Result<Zeroizing<String>, BackendError> {
    let given: Vec<_> = backend.config.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let translated;
    let settings = if backend.kind == "s3" {
        translated = s3::translate(&given, &tool.version);
        translated.iter().map(|(name, value)| (name.as_str(), value)).collect()
    } else {
        given
    };
    let size: usize =
        settings.iter().map(|(name, value)| name.len() + value.expose_secret().len()).sum();
    // Escapes make it longer; a buffer that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(6 * size + 16 * settings.len()));
    for (name, value) in settings {
        if !is_identifier(name) {
            return Err(BackendError::Setting(name.to_owned()));
        }
        append_setting(&backend.kind, name, value, &mut text)
            .map_err(|source| BackendError::Value { name: name.to_owned(), source })?;
    }
    Ok(text)
}

fn append_setting(
    kind: &str,
    name: &str,
    value: &SecretString,
    text: &mut String,
) -> Result<(), JsonError> {
    let json = value.expose_secret().trim();
    if json == "null" {
        return Ok(());
    }
    if BLOCKS.contains(&(kind, name)) {
        return hcl::append_blocks(name, json, text);
    }
    text.push_str(name);
    text.push_str(" = ");
    hcl::append_json(json, text)?;
    text.push('\n');
    Ok(())
}

/// A name that no file has and that comes after every other override file's, because of several
/// backend blocks Terraform takes the last.
fn override_name(directory: &Path) -> std::io::Result<String> {
    let last = module::override_files(directory)?.into_iter().max();
    Ok(match last {
        Some(last) if last.as_str() >= OVERRIDE_FILE => {
            // `_` comes after the `.` that follows the stem in the other file's name.
            let stem = last.split_once(".t").map_or(last.as_str(), |(stem, _)| stem);
            format!("{stem}_{OVERRIDE_FILE}")
        }
        _ => OVERRIDE_FILE.to_owned(),
    })
}

/// Creates the file; never follows a link that the repository has put there.
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
        // The test looks at it after this function.
        std::mem::forget(private);
        Ok(files)
    }

    #[test]
    fn clone_gets_the_type_and_nothing_else() {
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
    fn override_file_comes_after_the_modules_own() {
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
    fn what_is_no_name_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for kind in ["", "p g", "pg\"", "../pg"] {
            let result = write(&backend(kind, &[]), directory.path());
            assert!(matches!(result, Err(BackendError::Kind(_))), "{kind}");
        }
        let result = write(&backend("pg", &[("a = 1\nb", "1")]), directory.path());
        assert!(matches!(result, Err(BackendError::Setting(_))));
        let result = write(&backend("pg", &[("a", "1\nb = 2")]), directory.path());
        assert!(matches!(result, Err(BackendError::Value { .. })));
        assert!(!directory.path().join(OVERRIDE_FILE).exists());
    }

    #[test]
    fn settings_that_are_blocks_are_written_as_blocks() {
        let remote = backend("remote", &[("workspaces", r#"[{"name": "a"}]"#)]);
        let tool = "1.11.4".parse().unwrap();
        assert_eq!(*settings(&remote, &tool).unwrap(), "workspaces {\nname = \"a\"\n}\n");
        let other = backend("gcs", &[("workspaces", r#"[{"name": "a"}]"#)]);
        assert_eq!(*settings(&other, &tool).unwrap(), "workspaces = [{\"name\"=\"a\",},]\n");
    }

    #[test]
    fn azurerm_gets_features_where_there_are_credentials() {
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
