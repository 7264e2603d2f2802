//! Reads the providers from a module's `.terraform.lock.hcl`.
//!
//! Terraform writes the file itself, one item per line, so it is read line by line. An entry in
//! another format is skipped, and its package is downloaded as if there were no cache.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::package::Package;

/// The file's name.
pub(super) const LOCK_FILE: &str = ".terraform.lock.hcl";

/// A larger file is not read as a lock file.
const LARGEST: u64 = 4 * 1024 * 1024;

/// How checksums of unpacked packages begin. Those of archives (`zh:`) say nothing of them.
const UNPACKED: &str = "h1:";

/// A provider that a lock file names, in one version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Locked {
    /// Its package for this platform.
    pub(super) package: Package,
    /// The accepted checksums of unpacked packages, for all platforms. Never empty.
    pub(super) sums: Vec<String>,
}

/// The providers that the lock file of the module at `directory` names with a checksum of the
/// unpacked package, in the order of their packages. No file is one that names none.
pub(super) fn read(directory: &Path) -> Vec<Locked> {
    parse(&text(directory))
}

/// Whether the lock file of the module at `directory` is missing, or names a provider without a checksum of the unpacked
/// package.
pub(super) fn lacks_checksums(directory: &Path) -> bool {
    let text = text(directory);
    let providers =
        text.lines().filter(|line| line.trim_start().starts_with("provider \"")).count();
    providers == 0 || parse(&text).len() < providers
}

/// The text of the lock file; empty without one.
fn text(directory: &Path) -> String {
    let path = directory.join(LOCK_FILE);
    let mut text = String::new();
    // Not the target of a link in the repository, and not a pipe without a writer.
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return text;
    }
    match File::open(&path).and_then(|file| file.take(LARGEST).read_to_string(&mut text)) {
        Ok(_) => text,
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot read the lock file");
            String::new()
        }
    }
}

fn parse(text: &str) -> Vec<Locked> {
    let mut all = Vec::new();
    let (mut address, mut version, mut sums) = ("", "", Vec::new());
    for line in text.lines().map(str::trim) {
        let quoted = line.split('"').skip(1).step_by(2);
        match line.split([' ', '\t', '=', '"']).next() {
            Some("provider") => {
                (address, version, sums) = (line.split('"').nth(1).unwrap_or(""), "", Vec::new());
            }
            Some("version") => version = line.split('"').nth(1).unwrap_or(""),
            Some("}") => {
                if let Some(package) = Package::new(address, version).filter(|_| !sums.is_empty()) {
                    all.push(Locked { package, sums: std::mem::take(&mut sums) });
                }
                (address, version) = ("", "");
            }
            Some("#" | "//") => {}
            _ => sums.extend(quoted.filter(|it| it.starts_with(UNPACKED)).map(str::to_owned)),
        }
    }
    all.sort_by(|one, other| one.package.cmp(&other.package));
    all.dedup_by(|one, other| one.package == other.package);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# This file is maintained automatically by "terraform init".
provider "registry.terraform.io/hashicorp/random" {
  version     = "3.6.0"
  constraints = "~> 3.5, >= 3.1.0"
  hashes = [
    "h1:p6WG1IPHnqx1fnJVKNjv733FBaArIugqy58HRZnpPCk=",
    # "h1:not",
    "h1:R5Ucn26riKIEijcsiOMBR3uOAjuOMfI1x7XvH4P6B1w=",
    "zh:03360ed3ecd31e8c5dac9c95fe0858be50f3e9a0d0c654b5e504109c2159287d",
  ]
}

provider "registry.terraform.io/hashicorp/aws" {
  version = "5.31.0"
  hashes  = ["h1:ltxyuBWIy9cq0kIKDJH1jeWJy/y7XJLjS4QrsQK4plA=", "zh:0cdb9c2083bf0902442384f7309367791e4640581652dda456f2d6d7abf0de8d"]
}

provider "registry.terraform.io/hashicorp/null" {
  version = "3.2.2"
  hashes = [
    "zh:3248aae6a2198f3ec8394218d05bd5e42be59f43a3a7c0b71c66ec0df08b69e7",
  ]
}

provider "../../etc/passwd" {
  version = "1.0.0"
  hashes  = ["h1:x"]
}
"#;

    #[test]
    fn providers_with_a_checksum_of_the_unpacked_package_are_found() {
        let found: Vec<_> =
            parse(TEXT).into_iter().map(|it| (it.package.to_string(), it.sums)).collect();
        let sums = |sums: &[&str]| sums.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("aws 5.31.0", sums(&["h1:ltxyuBWIy9cq0kIKDJH1jeWJy/y7XJLjS4QrsQK4plA="])),
            (
                "random 3.6.0",
                sums(&[
                    "h1:p6WG1IPHnqx1fnJVKNjv733FBaArIugqy58HRZnpPCk=",
                    "h1:R5Ucn26riKIEijcsiOMBR3uOAjuOMfI1x7XvH4P6B1w=",
                ]),
            ),
        ];
        let expected =
            expected.map(|(name, sums)| (format!("registry.terraform.io/hashicorp/{name}"), sums));
        assert_eq!(found, expected);
        for broken in ["", "}", "provider", "provider \"a/b/c\" {\n}", "\"h1:x\"", "provider {\n}"]
        {
            assert_eq!(parse(broken), [], "{broken}");
        }
    }

    #[test]
    fn lock_file_lacks_checksums_if_one_provider_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert!(lacks_checksums(directory.path()), "no lock file");
        let complete =
            TEXT.split("provider \"registry.terraform.io/hashicorp/null").next().unwrap();
        for (text, expected) in
            [(TEXT, true), (complete, false), ("", true), ("# provider\n", true)]
        {
            std::fs::write(directory.path().join(LOCK_FILE), text).unwrap();
            assert_eq!(lacks_checksums(directory.path()), expected, "{text}");
        }
    }

    #[test]
    fn linked_lock_file_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("elsewhere"), TEXT).unwrap();
        std::os::unix::fs::symlink("elsewhere", directory.path().join(LOCK_FILE)).unwrap();
        assert_eq!(read(directory.path()), []);
        std::fs::remove_file(directory.path().join(LOCK_FILE)).unwrap();
        assert_eq!(read(directory.path()), []);
        std::fs::write(directory.path().join(LOCK_FILE), TEXT).unwrap();
        assert_eq!(read(directory.path()).len(), 2);
    }
}
