//! The version of an executable in the cache of any runner, from the record next to it.
//!
//! A container image contains such a cache and a link to its Terraform on PATH. The record has the
//! version, so the executable need not be started. The record is used only if root or this user
//! wrote it, and it does not prove that the executable is unchanged: only a lookup in its cache
//! does.

use std::path::Path;

use semver::Version;

use crate::tool::store::cache::RECORD;
use crate::tool::store::record::{self, Record};
use crate::tool::vendor::platform::Platform;
use butler_base::trust::inspect;
use butler_protocol::spec::Product;

/// The version of `product` at `path`, which may be a link. None if it is not in a cache, if another
/// user could have written the record, or if the executable was replaced.
pub(in crate::tool) fn recorded_version(path: &Path, product: Product) -> Option<Version> {
    let executable = std::fs::canonicalize(path).ok()?;
    let directory = executable.parent()?;
    let of_product = directory.parent()?;
    let names = (executable.file_name()?.to_str()?, of_product.file_name()?.to_str()?);
    if names != (&*product.file_name(), product.name()) {
        return None;
    }
    let version = directory.file_name()?.to_str()?.parse().ok()?;
    let record_file = directory.join(RECORD);
    for part in [of_product, directory, &record_file] {
        inspect(part).ok()??;
    }
    let metadata = inspect(&executable).ok()??;
    let record: Record = record::read(&record_file)?;
    let platform = Platform::current().ok()?.to_string();
    (record.platform == platform && record.identity.may_be_copied_to(&metadata)).then_some(version)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::tool::digest::Sha256Sum;
    use crate::tool::store::record::{Identity, Trusted};

    /// A cache with one version, as a layer of an image has it: another inode than was installed.
    fn cache(root: &Path) -> std::path::PathBuf {
        let directory = root.join("terraform/1.9.8");
        std::fs::create_dir_all(&directory).unwrap();
        let executable = directory.join("terraform");
        std::fs::write(&executable, "executable").unwrap();
        let metadata = executable.metadata().unwrap();
        let sum = || Sha256Sum::try_from("0".repeat(64)).unwrap();
        let record = Record {
            platform: Platform::current().unwrap().to_string(),
            executable_sha256: sum(),
            archive_sha256: sum(),
            archive_url: "https://releases.example.com/".to_owned(),
            signer: Trusted::Unsigned,
            installed_at: "2026-01-01T00:00:00Z".to_owned(),
            identity: Identity::from(&metadata).invalidated(),
        };
        record::write(&directory.join(RECORD), &record).unwrap();
        executable
    }

    #[test]
    fn version_of_an_installed_executable_is_read_from_its_record() {
        let root = tempfile::tempdir().unwrap();
        let executable = cache(root.path());
        let link = root.path().join("link");
        symlink(&executable, &link).unwrap();
        let version = |path: &Path| {
            recorded_version(path, Product::Terraform).map(|version| version.to_string())
        };
        assert_eq!(version(&executable).as_deref(), Some("1.9.8"));
        assert_eq!(version(&link).as_deref(), Some("1.9.8"));
        assert_eq!(recorded_version(&executable, Product::OpenTofu), None);

        let file = std::fs::File::options().write(true).open(&executable).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
        assert_eq!(version(&executable), None, "it was exchanged");
        let executable = cache(root.path());
        std::fs::write(&executable, "another executable").unwrap();
        assert_eq!(version(&executable), None, "it was exchanged");
    }

    #[test]
    fn record_that_others_can_write_to_is_ignored() {
        let root = tempfile::tempdir().unwrap();
        let executable = cache(root.path());
        for (part, mode) in [(RECORD, 0o666), ("terraform", 0o777), (".", 0o777)] {
            let path = executable.with_file_name(part);
            let before = path.metadata().unwrap().permissions();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(recorded_version(&executable, Product::Terraform), None, "{part}");
            std::fs::set_permissions(&path, before).unwrap();
        }
        assert!(recorded_version(&executable, Product::Terraform).is_some());
    }
}
