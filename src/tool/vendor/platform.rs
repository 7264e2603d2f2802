//! The operating system and processor that a tool is wanted for, in the vendors' words.

use std::fmt;
use std::str::FromStr;

/// An operating system and a processor architecture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Platform {
    /// The operating system.
    pub(in crate::tool) system: &'static str,
    /// The processor architecture.
    pub(in crate::tool) architecture: &'static str,
}

/// Tools are not released for this platform.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("no tool is released for `{system}` on `{architecture}`")]
pub struct UnknownPlatform {
    /// The operating system, as Rust calls it.
    pub system: String,
    /// The architecture, as Rust calls it.
    pub architecture: String,
}

impl Platform {
    /// The platform that the runner itself was built for.
    ///
    /// # Errors
    /// When no tool is released for it.
    pub fn current() -> Result<Self, UnknownPlatform> {
        Self::named(std::env::consts::OS, std::env::consts::ARCH)
    }

    fn named(system: &str, architecture: &str) -> Result<Self, UnknownPlatform> {
        let unknown =
            || UnknownPlatform { system: system.to_owned(), architecture: architecture.to_owned() };
        Ok(Self {
            system: match system {
                "linux" => "linux",
                "macos" => "darwin",
                "windows" => "windows",
                "freebsd" => "freebsd",
                _ => return Err(unknown()),
            },
            architecture: match architecture {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                "x86" => "386",
                "arm" => "arm",
                _ => return Err(unknown()),
            },
        })
    }
}

/// The operating systems and architectures in the vendors' words.
const SYSTEMS: [&str; 4] = ["linux", "darwin", "windows", "freebsd"];
const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "386", "arm"];

impl FromStr for Platform {
    type Err = UnknownPlatform;

    /// Reads it as archive names have it: `linux_arm64`.
    fn from_str(text: &str) -> Result<Self, UnknownPlatform> {
        let (system, architecture) = text.split_once('_').unwrap_or((text, ""));
        let known =
            |names: [&'static str; 4], wanted: &str| names.into_iter().find(|name| *name == wanted);
        match (known(SYSTEMS, system), known(ARCHITECTURES, architecture)) {
            (Some(system), Some(architecture)) => Ok(Self { system, architecture }),
            _ => Err(UnknownPlatform {
                system: system.to_owned(),
                architecture: architecture.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}", self.system, self.architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_named_as_in_archive_names() {
        assert_eq!(Platform::named("macos", "aarch64").unwrap().to_string(), "darwin_arm64");
        assert_eq!(Platform::named("linux", "x86_64").unwrap().to_string(), "linux_amd64");
        let platform: Platform = "linux_arm64".parse().unwrap();
        assert_eq!(platform.to_string(), "linux_arm64");
        assert!("linux".parse::<Platform>().is_err() && "linux_s390x".parse::<Platform>().is_err());
        assert!(Platform::named("linux", "s390x").unwrap_err().to_string().contains("s390x"));
    }
}
