//! Detects the package manager that installed the executable, and how to update it there.

use std::fmt;
use std::path::Path;

/// The package manager, or other program, that installed the executable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Installer {
    /// Homebrew, on macOS or Linux.
    Homebrew,
    /// Nix.
    Nix,
    /// `cargo install`.
    Cargo,
    /// A package of dpkg.
    Dpkg(String),
    /// A package of rpm.
    Rpm(String),
    /// Another program or an administrator; the text is the reason in `BUTLER_NO_SELF_UPDATE`.
    Other(String),
}

/// A query of a package manager: its program, the arguments before the path, and the installer if
/// the program succeeds and prints the name of a package.
pub(super) type PackageQuery = (&'static str, &'static [&'static str], fn(String) -> Installer);

/// The package managers that do not show in the path.
pub(super) const PACKAGE_QUERIES: [PackageQuery; 2] = [
    ("dpkg-query", &["--search"], Installer::Dpkg),
    ("rpm", &["--query", "--queryformat", "%{NAME}", "--file"], Installer::Rpm),
];

/// The installer of `executable` by its path and the files of `cargo` next to it.
pub(super) fn installer_by_path(executable: &Path) -> Option<Installer> {
    let has = |name: &str| executable.components().any(|part| part.as_os_str() == name);
    if has("Cellar") || has(".linuxbrew") || has("linuxbrew") {
        return Some(Installer::Homebrew);
    }
    if executable.starts_with("/nix/store") || executable.starts_with("/gnu/store") {
        return Some(Installer::Nix);
    }
    // Cargo lists the packages of `bin` in this file.
    let bin = executable.parent().filter(|parent| parent.ends_with("bin"))?;
    let record = std::fs::read_to_string(bin.parent()?.join(".crates.toml")).ok()?;
    record.contains("\"butler-runner ").then_some(Installer::Cargo)
}

impl Installer {
    /// How to update the executable instead.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Homebrew => "`brew upgrade butler-runner` updates it".to_owned(),
            Self::Nix => "update it in your Nix configuration".to_owned(),
            Self::Cargo => "`cargo install` updates it".to_owned(),
            Self::Dpkg(package) => format!("`apt-get install --only-upgrade {package}` updates it"),
            Self::Rpm(package) => format!("`dnf upgrade {package}` updates it"),
            Self::Other(reason) => reason.clone(),
        }
    }
}

impl fmt::Display for Installer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Homebrew => formatter.write_str("was installed by Homebrew"),
            Self::Nix => formatter.write_str("was installed by Nix"),
            Self::Cargo => formatter.write_str("was installed by cargo"),
            Self::Dpkg(package) | Self::Rpm(package) => {
                write!(formatter, "belongs to the package `{package}`")
            }
            Self::Other(_) => formatter.write_str("must not be replaced (BUTLER_NO_SELF_UPDATE)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homebrew_and_nix_are_recognised_by_the_path() {
        for (path, expected) in [
            (
                "/opt/homebrew/Cellar/butler-runner/0.2.0/bin/butler-runner",
                Some(Installer::Homebrew),
            ),
            ("/usr/local/Cellar/butler-runner/0.2.0/bin/butler-runner", Some(Installer::Homebrew)),
            ("/home/linuxbrew/.linuxbrew/bin/butler-runner", Some(Installer::Homebrew)),
            ("/nix/store/abc-butler-runner-0.2.0/bin/butler-runner", Some(Installer::Nix)),
            ("/nonexistent/bin/butler-runner", None),
        ] {
            assert_eq!(installer_by_path(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn cargo_is_recognised_by_its_list_of_packages() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let executable = bin.join("butler-runner");
        let record = root.path().join(".crates.toml");
        std::fs::write(&record, "[v1]\n\"ripgrep 1.0.0 (registry)\" = [\"rg\"]\n").unwrap();
        assert_eq!(installer_by_path(&executable), None);
        let line = "[v1]\n\"butler-runner 0.2.0 (git)\" = [\"butler-runner\"]\n";
        std::fs::write(&record, line).unwrap();
        assert_eq!(installer_by_path(&executable), Some(Installer::Cargo));
    }
}
