//! The releases of the runner itself: finds the newest one and fetches its executable.
//!
//! A release has an archive for each platform and one `SHA256SUMS`, all fetched over TLS from one
//! site. No key signs that list, so it proves that the site published the archive, but not who
//! built it. The attestation proves that; `update` verifies it with `gh`.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use semver::Version;
use url::Url;

use crate::tool::digest::Sha256Sum;
use crate::tool::fetch::download::{DownloadError, Fetcher};
use crate::tool::fetch::login::redacted;
use crate::tool::fetch::transfer::Watch;
use crate::tool::options::ToolOptions;
use crate::tool::vendor::checksums::{Checksums, ChecksumsError};
use crate::tool::vendor::platform::{Platform, UnknownPlatform};
use butler_base::error::Advice;

/// The executable has 24 MB; nothing that is larger than this is an archive of it.
const LARGEST_ARCHIVE: u64 = 200 * 1024 * 1024;
const LARGEST_EXECUTABLE: u64 = 400 * 1024 * 1024;

/// A list of a handful of archives.
const LARGEST_LIST: u64 = 1024 * 1024;

/// What the executable is called in an archive.
const EXECUTABLE: &str = "butler-runner";

/// A release of the runner cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum RunnerReleaseError {
    /// Something could not be fetched.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The site does not say which release is the newest.
    #[error("`{url}` does not redirect to a release")]
    NewestUnknown {
        /// What was asked.
        url: String,
    },
    /// The runner is not released for this platform.
    #[error(transparent)]
    Platform(#[from] UnknownPlatform),
    /// The list of checksums has no right shape.
    #[error(transparent)]
    Checksums(#[from] ChecksumsError),
    /// The release is not for this platform.
    #[error("the checksum file of butler-runner {version} does not name `{archive}`")]
    NotReleased {
        /// The release.
        version: Version,
        /// The archive that it would be in.
        archive: String,
    },
    /// The archive was changed on the way, or is another one.
    #[error("`{url}` is not what was published: its SHA-256 is {actual}, not {expected}")]
    Checksum {
        /// The archive.
        url: String,
        /// What the list says.
        expected: Sha256Sum,
        /// What was downloaded.
        actual: Sha256Sum,
    },
    /// The archive does not hold the executable.
    #[error("the archive of butler-runner {version} does not contain the file `butler-runner`")]
    NoExecutable {
        /// The release.
        version: Version,
    },
    /// The executable cannot be read out of the archive, or not be written.
    #[error("cannot unpack butler-runner {version}")]
    Unpack {
        /// The release.
        version: Version,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
}

impl Advice for RunnerReleaseError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Download(DownloadError::NotFound { .. }) => {
                "check that this version was released, for this platform".to_owned()
            }
            Self::Download(error) => return error.advice(),
            Self::NewestUnknown { .. } => {
                "name the version: `butler-runner self update X.Y.Z`".to_owned()
            }
            Self::Platform(_) | Self::NotReleased { .. } => {
                "build it from source for this platform".to_owned()
            }
            Self::Checksums(_) | Self::Checksum { .. } | Self::NoExecutable { .. } => {
                "nothing was replaced; check whether a proxy modifies downloads".to_owned()
            }
            Self::Unpack { .. } => "nothing was replaced; check the free disk space".to_owned(),
        })
    }
}

/// An archive whose sum is the published one.
#[derive(Debug)]
pub struct RunnerArchive {
    version: Version,
    file: File,
}

/// The newest release below `releases`, as the site's `latest` leads to it. It is never a prerelease.
///
/// # Errors
/// When the site cannot be asked, or does not lead to a release.
pub async fn newest_runner(
    releases: &Url,
    options: &ToolOptions,
) -> Result<Version, RunnerReleaseError> {
    let url = below(releases, "latest");
    let (at, _) = Fetcher::anonymous(options).follow_redirects(&url).await?;
    let tag = at.path_segments().and_then(|mut segments| segments.next_back());
    let version = tag.and_then(|tag| tag.strip_prefix('v')?.parse().ok());
    version.ok_or_else(|| RunnerReleaseError::NewestUnknown { url: redacted(&url) })
}

/// Downloads the archive of `version` into an unnamed file in `directory`. `progress` gets a line
/// for each step that takes time.
///
/// # Errors
/// When it cannot be fetched, or is not what the release's `SHA256SUMS` says.
pub async fn fetch_runner(
    releases: &Url,
    version: &Version,
    directory: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<RunnerArchive, RunnerReleaseError> {
    let archive = format!("butler-runner_{}.tar.gz", Platform::current()?);
    let release = below(releases, &format!("download/v{version}"));
    let fetcher = Fetcher::anonymous(options);
    let sums = fetcher.fetch_small(&below(&release, "SHA256SUMS"), LARGEST_LIST).await?;
    let Some(expected) = Checksums::parse(&sums)?.of(&archive) else {
        return Err(RunnerReleaseError::NotReleased { version: version.clone(), archive });
    };
    let url = below(&release, &archive);
    progress(&format!("downloading {}", redacted(&url)));
    let watch = Watch::new(options.meter.as_ref(), progress);
    let (file, actual) = fetcher.fetch_large(&url, LARGEST_ARCHIVE, directory, watch).await?;
    if actual != expected {
        return Err(RunnerReleaseError::Checksum { url: redacted(&url), expected, actual });
    }
    Ok(RunnerArchive { version: version.clone(), file })
}

impl RunnerArchive {
    /// Copies the archive to `to`.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn copy(&mut self, to: &mut impl Write) -> Result<(), RunnerReleaseError> {
        let copied = self.file.rewind().and_then(|()| std::io::copy(&mut self.file, to));
        copied.map(drop).map_err(|source| self.broken(source))
    }

    /// Writes the executable that is in it to `to`.
    ///
    /// # Errors
    /// When it is missing, or cannot be read or written.
    pub fn unpack(mut self, to: &mut impl Write) -> Result<(), RunnerReleaseError> {
        self.file.rewind().map_err(|source| self.broken(source))?;
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&self.file));
        let entries = archive.entries().map_err(|source| self.broken(source))?;
        for entry in entries {
            let entry = entry.map_err(|source| self.broken(source))?;
            let is_plain = entry.header().entry_type().is_file();
            if is_plain && entry.path_bytes().as_ref() == EXECUTABLE.as_bytes() {
                let size = entry.size();
                let copied = std::io::copy(&mut entry.take(LARGEST_EXECUTABLE), to);
                return match copied {
                    Ok(written) if written == size => Ok(()),
                    Ok(_) => Err(self.broken(std::io::ErrorKind::UnexpectedEof.into())),
                    Err(source) => Err(self.broken(source)),
                };
            }
        }
        Err(RunnerReleaseError::NoExecutable { version: self.version.clone() })
    }

    fn broken(&self, source: std::io::Error) -> RunnerReleaseError {
        RunnerReleaseError::Unpack { version: self.version.clone(), source }
    }
}

/// `name` below `url`, whether or not that ends in a slash.
fn below(url: &Url, name: &str) -> Url {
    let mut below = url.clone();
    let path = format!("{}/{name}", url.path().trim_end_matches('/'));
    below.set_path(&path);
    below
}
