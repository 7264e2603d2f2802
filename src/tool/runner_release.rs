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

/// The largest accepted archive and executable, in bytes. The executable has 24 MB.
const MAX_ARCHIVE: u64 = 200 * 1024 * 1024;
const MAX_EXECUTABLE: u64 = 400 * 1024 * 1024;

/// The largest accepted `SHA256SUMS`, in bytes.
const MAX_CHECKSUM_FILE: u64 = 1024 * 1024;

/// The name of the executable in an archive.
const EXECUTABLE: &str = "butler-runner";

/// A release of the runner cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum RunnerReleaseError {
    /// A file cannot be fetched.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The site does not redirect to the newest release.
    #[error("`{url}` does not redirect to a release")]
    NewestUnknown {
        /// The URL.
        url: String,
    },
    /// The runner is not released for this platform.
    #[error(transparent)]
    Platform(#[from] UnknownPlatform),
    /// The checksum file is malformed.
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
    /// The archive does not have the published checksum.
    #[error("`{url}` is not what was published: its SHA-256 is {actual}, not {expected}")]
    Checksum {
        /// The archive.
        url: String,
        /// The published checksum.
        expected: Sha256Sum,
        /// The checksum of the download.
        actual: Sha256Sum,
    },
    /// The archive does not contain the executable.
    #[error("the archive of butler-runner {version} does not contain the file `butler-runner`")]
    NoExecutable {
        /// The release.
        version: Version,
    },
    /// The executable cannot be extracted or written.
    #[error("cannot unpack butler-runner {version}")]
    Unpack {
        /// The release.
        version: Version,
        /// The error.
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

/// An archive with the published checksum.
#[derive(Debug)]
pub struct RunnerArchive {
    version: Version,
    file: File,
}

/// The newest release, to which `latest` below `releases` redirects. It is never a prerelease.
///
/// # Errors
/// When the site does not respond, or does not redirect to a release.
pub async fn newest_runner(
    releases: &Url,
    options: &ToolOptions,
) -> Result<Version, RunnerReleaseError> {
    let url = append_path(releases, "latest");
    let (at, _) = Fetcher::anonymous(options).follow_redirects(&url).await?;
    let tag = at.path_segments().and_then(|mut segments| segments.next_back());
    let version = tag.and_then(|tag| tag.strip_prefix('v')?.parse().ok());
    version.ok_or_else(|| RunnerReleaseError::NewestUnknown { url: redacted(&url) })
}

/// Downloads the archive of `version` into an unnamed file in `directory`. `progress` gets a line
/// for each step that takes time.
///
/// # Errors
/// When it cannot be fetched, or does not have the checksum in `SHA256SUMS`.
pub async fn fetch_runner(
    releases: &Url,
    version: &Version,
    directory: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<RunnerArchive, RunnerReleaseError> {
    let archive = format!("butler-runner_{}.tar.gz", Platform::current()?);
    let release = append_path(releases, &format!("download/v{version}"));
    let fetcher = Fetcher::anonymous(options);
    let sums = fetcher.fetch_small(&append_path(&release, "SHA256SUMS"), MAX_CHECKSUM_FILE).await?;
    let Some(expected) = Checksums::parse(&sums)?.of(&archive) else {
        return Err(RunnerReleaseError::NotReleased { version: version.clone(), archive });
    };
    let url = append_path(&release, &archive);
    progress(&format!("downloading {}", redacted(&url)));
    let watch = Watch::new(options.meter.as_ref(), progress);
    let (file, actual) = fetcher.fetch_large(&url, MAX_ARCHIVE, directory, watch).await?;
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
        copied.map(drop).map_err(|source| self.unpack_error(source))
    }

    /// Writes the executable in the archive to `to`.
    ///
    /// # Errors
    /// When it is missing, or cannot be read or written.
    pub fn unpack(mut self, to: &mut impl Write) -> Result<(), RunnerReleaseError> {
        self.file.rewind().map_err(|source| self.unpack_error(source))?;
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&self.file));
        let entries = archive.entries().map_err(|source| self.unpack_error(source))?;
        for entry in entries {
            let entry = entry.map_err(|source| self.unpack_error(source))?;
            let is_plain = entry.header().entry_type().is_file();
            if is_plain && entry.path_bytes().as_ref() == EXECUTABLE.as_bytes() {
                let size = entry.size();
                let copied = std::io::copy(&mut entry.take(MAX_EXECUTABLE), to);
                return match copied {
                    Ok(written) if written == size => Ok(()),
                    Ok(_) => Err(self.unpack_error(std::io::ErrorKind::UnexpectedEof.into())),
                    Err(source) => Err(self.unpack_error(source)),
                };
            }
        }
        Err(RunnerReleaseError::NoExecutable { version: self.version.clone() })
    }

    fn unpack_error(&self, source: std::io::Error) -> RunnerReleaseError {
        RunnerReleaseError::Unpack { version: self.version.clone(), source }
    }
}

/// Appends `name` to the path of `url`, which may end in a slash.
fn append_path(url: &Url, name: &str) -> Url {
    let mut appended = url.clone();
    let path = format!("{}/{name}", url.path().trim_end_matches('/'));
    appended.set_path(&path);
    appended
}
