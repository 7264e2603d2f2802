//! Fetches, verifies and checks a released executable, and replaces this one by it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;
use url::Url;

use super::error::UpdateError;
use super::installer::{Installer, PACKAGE_QUERIES, installer_by_path};
use crate::tool::{RunnerArchive, ToolOptions, fetch_runner, newest_runner};
use butler_base::blocking::blocking;
use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_base::platform::REPLACES_RUNNING;
use butler_base::platform::fs::{AccessFlags, PermissionsExt, access, sync_directory};
use butler_base::process::{Command, Discard, Environment, Grace, Output, supervise};

/// How long `-V` of the new executable, a package manager or `gh` may take.
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(1);

/// The largest accepted output of these programs, in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;

/// The repository whose workflow attests the releases.
const REPOSITORY: &str = "butlerdotdev/butler-runner";

/// A self-update to run.
#[derive(Debug)]
pub struct Update {
    /// The https URL of the releases.
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
pub enum UpdateResult {
    /// The executable has this version already, or is newer than the newest release.
    UpToDate,
    /// The executable was replaced, or would be.
    Replaced,
}

impl Update {
    /// Replaces the executable, whose version is `current`. `progress` gets a line for each step that
    /// takes time. Returns the result and the version that was chosen.
    ///
    /// # Errors
    /// When the executable must be replaced, but was not.
    pub async fn run(
        self,
        current: &Version,
        options: &ToolOptions,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<(UpdateResult, Version), UpdateError> {
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
        // An older version is installed only if the user named it.
        if version == *current || (self.version.is_none() && !is_newer) {
            return Ok((UpdateResult::UpToDate, version));
        }
        if self.dry_run {
            return Ok((UpdateResult::Replaced, version));
        }
        let mut archive =
            fetch_runner(&self.releases, &version, &directory, options, progress).await?;
        if self.attestation {
            progress("verifying the attestation");
            archive = self.verify_attestation(archive, &version).await?;
        }
        self.replace(archive, &executable, &directory, &version).await?;
        Ok((UpdateResult::Replaced, version))
    }

    /// The package manager that installed `executable`, if one did.
    async fn installer_of(&self, executable: &Path) -> Option<Installer> {
        if let Some(reason) = &self.forbidden {
            return Some(Installer::Other(reason.clone()));
        }
        if let Some(installer) = installer_by_path(executable) {
            return Some(installer);
        }
        for (program, arguments, installer) in PACKAGE_QUERIES {
            let mut arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
            arguments.push(executable.as_os_str().to_owned());
            if let Some(program) = self.on_path(program)
                && let Ok((true, output)) = self.run_program(program, arguments).await
            {
                let package = output.split([':', '\n']).next().unwrap_or_default();
                return Some(installer(package.to_owned()));
            }
        }
        None
    }

    /// Has `gh` verify the attestation of the archive.
    async fn verify_attestation(
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
        let not_attested = |problem| UpdateError::NotAttested { version: version.clone(), problem };
        match self.run_program(verifier, arguments).await {
            Ok((true, _)) => Ok(archive),
            Ok((false, _)) => Err(not_attested("`gh attestation verify` fails".to_owned())),
            Err(problem) => Err(not_attested(problem)),
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
            let write_error = |source| UpdateError::Write { path: beside.clone(), source };
            let mut file = tempfile::Builder::new()
                .prefix(".butler-runner.")
                .tempfile_in(&beside)
                .map_err(write_error)?;
            archive.unpack(&mut file)?;
            let mode = std::fs::metadata(&like).map_err(write_error)?.permissions().mode();
            let mode = std::fs::Permissions::from_mode(mode | 0o500);
            let done = file.as_file().set_permissions(mode);
            done.and_then(|()| file.as_file().sync_all()).map_err(write_error)?;
            // Closed, because a file that is open for writing cannot be started.
            Ok::<_, UpdateError>(file.into_temp_path())
        });
        let new = unpacking.await?;
        let broken = |problem| UpdateError::Broken { version: version.clone(), problem };
        let output = match self.run_program(new.to_path_buf(), vec!["-V".into()]).await {
            Ok((true, output)) => output,
            Ok((false, _)) => return Err(broken("does not run on this machine".to_owned())),
            Err(problem) => {
                return Err(broken(format!("does not run on this machine: {problem}")));
            }
        };
        let output = output.trim();
        if output != format!("butler-runner {version}") {
            return Err(broken(format!("reports that it is `{}`", first_line(output))));
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
    async fn run_program(
        &self,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<(bool, String), String> {
        let command = Command {
            program,
            arguments,
            environment: self.environment.clone(),
            output: Output::Memory(MAX_OUTPUT),
            ..Command::default()
        };
        let grace = Grace { normal: Duration::ZERO, urgent: Duration::ZERO };
        let stop = Stop::new();
        let ended = supervise(&command, &Discard, &stop, grace);
        match tokio::time::timeout(PROGRAM_TIMEOUT, ended).await {
            Ok(Ok(exit)) => {
                Ok((exit.status.success(), String::from_utf8_lossy(&exit.output).into_owned()))
            }
            Ok(Err(error)) => Err(chain(&error)),
            Err(_) => Err("it did not exit in time".to_owned()),
        }
    }
}

/// The beginning of the output of a program, on one line.
fn first_line(output: &str) -> String {
    butler_base::error::visible(output).take(80).collect()
}
