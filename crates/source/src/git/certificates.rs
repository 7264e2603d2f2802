//! Lets the tools of a run trust the certificates that the runner trusts.
//!
//! They take one file only, instead of the system's certificates: programs in Go from `SSL_CERT_FILE`, git from its own
//! settings.

use std::path::{Path, PathBuf};

use super::environment::GitEnvironment;
use super::failure::SourceError;
use super::share::{add_settings, file_error, write};
use butler_base::process::Environment;
use butler_base::secret::PrivateDirectory;

/// The certificates of the system and of `--ca-bundle`.
const BUNDLE_FILE: &str = "ca-bundle.pem";

/// Those of `GIT_SSL_CAINFO` and of `--ca-bundle`.
const GIT_BUNDLE_FILE: &str = "git-ca-bundle.pem";

/// Adds the certificates of `--ca-bundle`, if there is one, to those that Terraform, its providers and git trust: files in
/// `private`, variables in `child`. `SSL_CERT_FILE` and `GIT_SSL_CAINFO` of `child` replace the system's certificates.
///
/// # Errors
/// When a file cannot be read or written.
pub fn share_certificates(
    environment: &GitEnvironment,
    private: &PrivateDirectory,
    child: &mut Environment,
) -> Result<(), SourceError> {
    let Some(bundle) = &environment.ca_bundle else { return Ok(()) };
    let file = |name: &str| child.value(name).map(PathBuf::from);
    let (own, of_git) = (file("SSL_CERT_FILE"), file("GIT_SSL_CAINFO"));
    let system = own.filter(|file| file.exists()).or_else(|| environment.certificates());
    let file = add(bundle, system.as_deref(), BUNDLE_FILE, private)?;
    // The variable takes precedence over the setting. The setting keeps the user's own settings for single hosts.
    if let Some(of_git) = of_git {
        child.set("GIT_SSL_CAINFO", add(bundle, Some(&of_git), GIT_BUNDLE_FILE, private)?);
    } else {
        let file = file.as_os_str().as_encoded_bytes().to_vec();
        add_settings(vec![("http.sslCAInfo".to_owned(), file)], child);
    }
    child.set("SSL_CERT_FILE", file);
    Ok(())
}

/// Writes the certificates of both files. If the system has none, only the additional ones are trusted.
fn add(
    bundle: &Path,
    system: Option<&Path>,
    name: &str,
    private: &PrivateDirectory,
) -> Result<PathBuf, SourceError> {
    let mut certificates = system.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
    certificates.push(b'\n');
    let additional = std::fs::read(bundle).map_err(|error| file_error("read", bundle, error))?;
    certificates.extend_from_slice(&additional);
    write(private, name, &certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The certificates that Go and git trust, and the child's settings for git, after its variables and those of the runner.
    fn shared(of_child: &[(&str, &str)], of_runner: Option<&str>) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        let write = |content: &str| {
            let path = directory.path().join(content);
            std::fs::write(&path, content).unwrap();
            path
        };
        let ca_bundle = Some(write("ADDITIONAL"));
        let mut environment = GitEnvironment { ca_bundle, ..GitEnvironment::default() };
        if let Some(content) = of_runner {
            environment.variables.set("SSL_CERT_FILE", write(content));
        }
        let mut child = Environment::default();
        for (name, content) in of_child {
            child.set(*name, write(content));
        }
        let private = PrivateDirectory::create(directory.path(), "run-").unwrap();
        share_certificates(&environment, &private, &mut child).unwrap();
        let read = |name: &str| std::fs::read_to_string(child.value(name).unwrap()).unwrap();
        let is_set = child.value("GIT_SSL_CAINFO").is_some();
        assert_eq!(child.value("GIT_CONFIG_COUNT").is_none(), is_set);
        if !is_set {
            assert_eq!(child.value("GIT_CONFIG_KEY_0").unwrap(), "http.sslCAInfo");
        }
        (read("SSL_CERT_FILE"), read(if is_set { "GIT_SSL_CAINFO" } else { "GIT_CONFIG_VALUE_0" }))
    }

    #[test]
    fn bundle_is_added_to_the_certificates_that_each_program_trusts() {
        let both = |text: &str| (format!("{text}\nADDITIONAL"), format!("{text}\nADDITIONAL"));
        assert_eq!(shared(&[], Some("SYSTEM")), both("SYSTEM"));
        assert_eq!(shared(&[("SSL_CERT_FILE", "OWN")], Some("SYSTEM")), both("OWN"));
        let (go, git) = shared(&[("GIT_SSL_CAINFO", "GIT")], Some("SYSTEM"));
        assert_eq!((go.as_str(), git.as_str()), ("SYSTEM\nADDITIONAL", "GIT\nADDITIONAL"));
        let (go, git) = shared(&[("GIT_SSL_CAINFO", "GIT"), ("SSL_CERT_FILE", "OWN")], None);
        assert_eq!((go.as_str(), git.as_str()), ("OWN\nADDITIONAL", "GIT\nADDITIONAL"));
    }

    #[test]
    fn nothing_is_changed_without_a_bundle() {
        let directory = tempfile::tempdir().unwrap();
        let private = PrivateDirectory::create(directory.path(), "run-").unwrap();
        let mut child = Environment::default();
        share_certificates(&GitEnvironment::default(), &private, &mut child).unwrap();
        assert_eq!(child.iter().count(), 0);
    }
}
