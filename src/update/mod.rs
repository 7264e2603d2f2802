//! Replaces this executable by a released one, for `self update`.
//!
//! The new executable replaces the old one only if its archive has the published checksum, its
//! attestation is verified (if that was requested), and it starts and prints the wanted version.
//! The replacement is one rename: other processes start the old or the new executable. An
//! executable that a package manager installed is not replaced (`installer`).

mod installer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;
use url::Url;

use crate::tool::{RunnerArchive, RunnerReleaseError, ToolOptions, fetch_runner, newest_runner};
use butler_base::blocking::blocking;
use butler_base::cancel::Stop;
use butler_base::error::{Advice, chain};
use butler_base::platform::REPLACES_RUNNING;
use butler_base::platform::fs::{AccessFlags, PermissionsExt, access, sync_directory};
use butler_base::process::{Command, Discard, Environment, Grace, Output, supervise};
pub use installer::Installer;
use installer::{QUESTIONS, by_path};

/// How long `-V` of the new executable, a package manager or `gh` may take.
const LONGEST_ANSWER: Duration = Duration::from_mins(1);

/// The largest accepted output of any of them.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// The repository whose workflow attests the releases.
const REPOSITORY: &str = "butlerdotdev/butler-runner";

/// A self-update to run.
#[derive(Debug)]
pub struct Update {
    /// Where releases are, by https.
    pub releases: Url,
    /// The wanted version; `None` for the newest.
    pub version: Option<Version>,
    /// Whether `gh` must verify that the project's own workflow built it.
    pub attestation: bool,
    /// Only report, and replace nothing.
    pub dry_run: bool,
    /// The executable to replace.
    pub executable: PathBuf,
    /// The reason from `BUTLER_NO_SELF_UPDATE`, if it is set.
    pub forbidden: Option<String>,
    /// The environment of package managers, `gh` and the new executable.
    pub environment: Environment,
}

/// The result of a self-update.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Updated {
    /// Nothing: it is this version, or a newer one than the newest release.
    Not,
    /// The executable was replaced, or would be.
    Replaced,
}

/// Why the executable was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Something else installed it and has to update it.
    #[error("`{}` {installer}", executable.display())]
    Managed {
        /// The executable.
        executable: PathBuf,
        /// What installed it.
        installer: Installer,
    },
    /// The system does not let a running executable be replaced.
    #[error("this system does not allow replacing a running executable")]
    System,
    /// This user may not replace it.
    #[error("this user cannot replace `{}`", executable.display())]
    ReadOnly {
        /// The executable.
        executable: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The release cannot be fetched.
    #[error(transparent)]
    Release(#[from] RunnerReleaseError),
    /// `gh`, which verifies the attestation, is not on PATH.
    #[error("cannot verify the attestation: `gh` is not on PATH")]
    NoVerifier,
    /// The attestation of the archive cannot be verified.
    #[error("cannot verify that the project built butler-runner {version}: {said}")]
    Unproved {
        /// The release.
        version: Version,
        /// What `gh` said.
        said: String,
    },
    /// The new executable does not run here, or is another one.
    #[error("the executable of butler-runner {version} {problem}")]
    Broken {
        /// The release.
        version: Version,
        /// What it does instead.
        problem: String,
    },
    /// The new executable cannot be written, or not be put in place.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
}

impl Advice for UpdateError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Managed { installer, .. } => installer.advice(),
            Self::ReadOnly { .. } => {
                "run this as a user with write access to it, or install into another directory: install.sh --to DIRECTORY"
                    .to_owned()
            }
            Self::System => "install the new release in its place: docs/packages.md".to_owned(),
            Self::Release(error) => return error.advice(),
            Self::NoVerifier => "install it from https://cli.github.com, or leave out --attestation".to_owned(),
            Self::Unproved { .. } | Self::Broken { .. } => "nothing was replaced".to_owned(),
            Self::Write { .. } => "nothing was replaced; check the free disk space".to_owned(),
        })
    }
}

impl Update {
    /// Does it; `current` is the version of this executable. `progress` gets a line for each step
    /// that takes time. Returns what was done, and the version that was meant.
    ///
    /// # Errors
    /// When the executable was not replaced, but had to be.
    pub async fn run(
        self,
        current: &Version,
        options: &ToolOptions,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<(Updated, Version), UpdateError> {
        let executable = std::fs::canonicalize(&self.executable)
            .map_err(|source| UpdateError::Write { path: self.executable.clone(), source })?;
        if !REPLACES_RUNNING {
            return Err(UpdateError::System);
        }
        if let Some(installer) = self.installer_of(&executable).await {
            return Err(UpdateError::Managed { executable, installer });
        }
        let directory = executable.parent().unwrap_or(Path::new("/")).to_owned();
        if let Err(error) = access(&directory, AccessFlags::W_OK) {
            return Err(UpdateError::ReadOnly { executable, source: error });
        }
        let version = match &self.version {
            Some(version) => version.clone(),
            None => newest_runner(&self.releases, options).await?,
        };
        let is_newer = version > *current;
        // An older one only where it was asked for.
        if version == *current || (self.version.is_none() && !is_newer) {
            return Ok((Updated::Not, version));
        }
        if self.dry_run {
            return Ok((Updated::Replaced, version));
        }
        let mut archive =
            fetch_runner(&self.releases, &version, &directory, options, progress).await?;
        if self.attestation {
            progress("verifying the attestation");
            archive = self.prove(archive, &version).await?;
        }
        self.replace(archive, &executable, &directory, &version).await?;
        Ok((Updated::Replaced, version))
    }

    /// What installed `executable` and updates it, if anything is known of that.
    async fn installer_of(&self, executable: &Path) -> Option<Installer> {
        if let Some(reason) = &self.forbidden {
            return Some(Installer::Other(reason.clone()));
        }
        if let Some(installer) = by_path(executable) {
            return Some(installer);
        }
        for (program, arguments, installer) in QUESTIONS {
            let mut arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
            arguments.push(executable.as_os_str().to_owned());
            if let Some(program) = self.on_path(program)
                && let Ok((true, said)) = self.ask(program, arguments).await
            {
                let package = said.split([':', '\n']).next().unwrap_or_default();
                return Some(installer(package.to_owned()));
            }
        }
        None
    }

    /// Has `gh` verify the attestation of the archive.
    async fn prove(
        &self,
        archive: RunnerArchive,
        version: &Version,
    ) -> Result<RunnerArchive, UpdateError> {
        let verifier = self.on_path("gh").ok_or(UpdateError::NoVerifier)?;
        let copying = blocking(move |_| {
            let mut archive = archive;
            let mut file = tempfile::NamedTempFile::with_suffix(".tar.gz")
                .map_err(|source| UpdateError::Write { path: std::env::temp_dir(), source })?;
            archive.copy(&mut file)?;
            Ok::<_, UpdateError>((archive, file))
        });
        let (archive, file) = copying.await?;
        let mut arguments: Vec<OsString> = ["attestation", "verify"].map(Into::into).into();
        arguments.push(file.path().as_os_str().to_owned());
        arguments.extend(["--repo", REPOSITORY].map(Into::into));
        let unproved = |said| UpdateError::Unproved { version: version.clone(), said };
        match self.ask(verifier, arguments).await {
            Ok((true, _)) => Ok(archive),
            Ok((false, _)) => Err(unproved("`gh attestation verify` fails".to_owned())),
            Err(said) => Err(unproved(said)),
        }
    }

    /// Unpacks the new executable next to the old one, starts it to check its version, and renames
    /// it.
    async fn replace(
        &self,
        archive: RunnerArchive,
        executable: &Path,
        directory: &Path,
        version: &Version,
    ) -> Result<(), UpdateError> {
        let (beside, like) = (directory.to_owned(), executable.to_owned());
        let unpacking = blocking(move |_| {
            let wrong = |source| UpdateError::Write { path: beside.clone(), source };
            let mut file = tempfile::Builder::new()
                .prefix(".butler-runner.")
                .tempfile_in(&beside)
                .map_err(wrong)?;
            archive.unpack(&mut file)?;
            let mode = std::fs::metadata(&like).map_err(wrong)?.permissions().mode();
            let mode = std::fs::Permissions::from_mode(mode | 0o500);
            let done = file.as_file().set_permissions(mode);
            done.and_then(|()| file.as_file().sync_all()).map_err(wrong)?;
            // Closed, because a file that is open for writing cannot be started.
            Ok::<_, UpdateError>(file.into_temp_path())
        });
        let new = unpacking.await?;
        let broken = |problem| UpdateError::Broken { version: version.clone(), problem };
        let said = match self.ask(new.to_path_buf(), vec!["-V".into()]).await {
            Ok((true, said)) => said,
            Ok((false, _)) => return Err(broken("does not run on this machine".to_owned())),
            Err(problem) => {
                return Err(broken(format!("does not run on this machine: {problem}")));
            }
        };
        let said = said.trim();
        if said != format!("butler-runner {version}") {
            return Err(broken(format!("reports that it is `{}`", shown(said))));
        }
        new.persist(executable).map_err(|error| UpdateError::Write {
            path: executable.to_owned(),
            source: error.error,
        })?;
        sync_directory(directory)
            .map_err(|source| UpdateError::Write { path: directory.to_owned(), source })
    }

    fn on_path(&self, name: &str) -> Option<PathBuf> {
        let mut places = std::env::split_paths(self.environment.value("PATH")?);
        places.find_map(|place| {
            let path = place.join(name);
            (path.is_file() && access(&path, AccessFlags::X_OK).is_ok()).then_some(path)
        })
    }

    /// Runs a program; returns whether it succeeded, and its output.
    async fn ask(
        &self,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<(bool, String), String> {
        let command = Command {
            program,
            arguments,
            environment: self.environment.clone(),
            output: Output::Memory(LARGEST_ANSWER),
            ..Command::default()
        };
        let grace = Grace { normal: Duration::ZERO, urgent: Duration::ZERO };
        let stop = Stop::new();
        let answer = supervise(&command, &Discard, &stop, grace);
        match tokio::time::timeout(LONGEST_ANSWER, answer).await {
            Ok(Ok(exit)) => {
                Ok((exit.status.success(), String::from_utf8_lossy(&exit.output).into_owned()))
            }
            Ok(Err(error)) => Err(chain(&error)),
            Err(_) => Err("it did not exit in time".to_owned()),
        }
    }
}

/// The beginning of what a program said, on one line.
fn shown(said: &str) -> String {
    butler_base::error::visible(said).take(80).collect()
}
