//! The file, or standard output, to which a generated text is written.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::cli::output::{complain, print};
use crate::exit::Exit;
use butler_base::platform::fs::PermissionsExt;

/// The flags for the destination of a generated file.
#[derive(Args)]
pub(in crate::cli) struct Destination {
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// The users who may read the file.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(in crate::cli) enum Readers {
    /// All users who can read the repository.
    All,
    /// Only the owner, because a secret will be added to the file.
    Owner,
}

impl Destination {
    /// Writes `text` to the file or to standard output. Returns the exit code.
    pub(in crate::cli) fn write(&self, text: &str, readers: Readers) -> u8 {
        let Some(path) = &self.output else {
            return print(text.as_bytes());
        };
        if !self.force && path.symlink_metadata().is_ok() {
            let message = format!("`{}` exists already", path.display());
            complain(&message, Some("`--force` overwrites it"));
            return Exit::Usage.code();
        }
        match save(path, text, readers, self.force) {
            Ok(()) => Exit::Success.code(),
            Err(error) => {
                complain(&format!("{error:#}"), None);
                Exit::Failed.code()
            }
        }
    }
}

/// Writes a file completely or not at all. An overwritten file does not become readable for additional
/// users.
fn save(path: &Path, text: &str, readers: Readers, overwrite: bool) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let cannot = || format!("cannot write `{}`", path.display());
    fs_err::create_dir_all(parent).with_context(cannot)?;
    let before = overwrite.then(|| fs_err::metadata(path).ok()).flatten();
    let before = before.map_or(0o644, |file| file.permissions().mode() & 0o777);
    let mode = if readers == Readers::Owner { 0o600 } else { before | 0o200 };
    let permissions = std::fs::Permissions::from_mode(mode);
    let mut file = tempfile::Builder::new()
        .prefix(".butler-runner-")
        .permissions(permissions)
        .tempfile_in(parent)
        // Drops the name of the temporary file, which the user does not know.
        .map_err(|error| std::io::Error::from(error.kind()))
        .with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    file.as_file().sync_all().with_context(cannot)?;
    if overwrite {
        file.persist(path).map_err(|error| error.error).with_context(cannot)?;
    } else {
        file.persist_noclobber(path).map_err(|error| error.error).with_context(cannot)?;
    }
    Ok(())
}
