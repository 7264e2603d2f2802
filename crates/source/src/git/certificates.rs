//! Lets the tools of a run trust the certificates that the runner trusts.
//!
//! They take one file only, instead of the system's certificates: programs in Go from `SSL_CERT_FILE`, git from its own
//! settings.

use std::io::Read;
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

/// The largest file that is read, in bytes. That of a system has a quarter of a megabyte.
const MOST_READ: u64 = 16 << 20;

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

/// Writes the certificates of both files. If the system has none, only the additional ones are trusted. Nothing else of
/// the files is written: a run can name any file in `SSL_CERT_FILE`, and its module could read the copy.
fn add(
    bundle: &Path,
    system: Option<&Path>,
    name: &str,
    private: &PrivateDirectory,
) -> Result<PathBuf, SourceError> {
    let mut certificates = system.and_then(|file| read_certificates(file).ok()).unwrap_or_default();
    let additional = read_certificates(bundle);
    certificates.push_str(&additional.map_err(|error| file_error("read", bundle, error))?);
    write(private, name, certificates.as_bytes())
}

/// The certificates in a file in PEM, without everything around them. Keys are left out.
fn read_certificates(path: &Path) -> std::io::Result<String> {
    // Not a pipe or a device, whose end may never come.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MOST_READ).read_to_end(&mut content)?;
    let (mut certificates, mut block) = (String::new(), None);
    for line in String::from_utf8_lossy(&content).lines().map(str::trim_end) {
        let is_mark = |begin: &str| line.starts_with(begin) && line.ends_with("CERTIFICATE-----");
        if is_mark("-----BEGIN ") {
            block = Some(String::new());
        }
        if let Some(block) = &mut block {
            block.push_str(line);
            block.push('\n');
        }
        // A block without an end could have anything after its first line.
        if is_mark("-----END ") {
            certificates.push_str(&block.take().unwrap_or_default());
        }
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this certificate, a key, and other text.
    fn file_with(name: &str) -> String {
        format!(
            "# {name}\n-----BEGIN PRIVATE KEY-----\nkey\n-----END PRIVATE KEY-----\n{}root:x:0\n",
            certificate(name)
        )
    }

    fn certificate(name: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
    }

    /// The certificates that Go and git trust with these variables of the child, and `SSL_CERT_FILE` of the runner. Each
    /// value is the name of the certificate in the file.
    fn shared(of_child: &[(&str, &str)], of_runner: Option<&str>) -> [String; 2] {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, file_with(name)).unwrap();
            path
        };
        let ca_bundle = Some(write("ADDITIONAL"));
        let mut environment = GitEnvironment { ca_bundle, ..GitEnvironment::default() };
        if let Some(name) = of_runner {
            environment.variables.set("SSL_CERT_FILE", write(name));
        }
        let mut child = Environment::default();
        for (variable, name) in of_child {
            child.set(*variable, write(name));
        }
        let private = PrivateDirectory::create(directory.path(), "run-").unwrap();
        share_certificates(&environment, &private, &mut child).unwrap();
        let read = |name: &str| std::fs::read_to_string(child.value(name).unwrap()).unwrap();
        let is_set = child.value("GIT_SSL_CAINFO").is_some();
        assert_eq!(child.value("GIT_CONFIG_COUNT").is_none(), is_set);
        if !is_set {
            assert_eq!(child.value("GIT_CONFIG_KEY_0").unwrap(), "http.sslCAInfo");
        }
        [read("SSL_CERT_FILE"), read(if is_set { "GIT_SSL_CAINFO" } else { "GIT_CONFIG_VALUE_0" })]
    }

    #[test]
    fn bundle_is_added_to_the_certificates_that_each_program_trusts() {
        let with = |name: &str| certificate(name) + &certificate("ADDITIONAL");
        let both = |name: &str| [with(name), with(name)];
        assert_eq!(shared(&[], Some("SYSTEM")), both("SYSTEM"));
        assert_eq!(shared(&[("SSL_CERT_FILE", "OWN")], Some("SYSTEM")), both("OWN"));
        let of_git = shared(&[("GIT_SSL_CAINFO", "GIT")], Some("SYSTEM"));
        assert_eq!(of_git, [with("SYSTEM"), with("GIT")]);
        let own = shared(&[("GIT_SSL_CAINFO", "GIT"), ("SSL_CERT_FILE", "OWN")], None);
        assert_eq!(own, [with("OWN"), with("GIT")]);
    }

    #[test]
    fn only_certificates_are_read_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let read = |content: &str| {
            std::fs::write(&path, content).unwrap();
            read_certificates(&path).unwrap()
        };
        for other in [
            "root:$6$hash:19000:0\n",
            "",
            "-----BEGIN RSA PRIVATE KEY-----\nkey\n",
            "-----BEGIN CERTIFICATE-----\nroot:$6$hash:19000:0\n",
            "key\n-----END CERTIFICATE-----\n",
            "{\"token\": \"x\"}",
        ] {
            assert_eq!(read(other), "", "{other}");
        }
        let trusted = "-----BEGIN TRUSTED CERTIFICATE-----\na\n-----END TRUSTED CERTIFICATE-----\n";
        assert_eq!(read(&format!("x\n{trusted}key\n")), trusted);
        assert_eq!(read(&trusted.replace('\n', "\r\n")), trusted);
        assert!(read_certificates(directory.path()).is_err());
        assert!(read_certificates("/dev/zero".as_ref()).is_err());
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
