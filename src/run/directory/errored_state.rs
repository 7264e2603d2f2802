//! The file with a state that a tool could not store: its content, the place where the runner keeps it, and the command
//! that pushes it.
//!
//! A file that is empty, as after a full disk, is not a state. `OpenTofu` encrypts the file if the module has state
//! encryption, and `state push` reads plain text. Such a state is kept in a directory in which `state pull` decrypts it.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::decryption::prepare_decryption;
use super::kept_file::{copy_to, new_file};
use butler_base::platform::fs::{PermissionsExt, take_ownership};
use butler_base::trust::{make_private, open_regular};

/// The file in the module's directory for a state that Terraform could not store.
pub(in crate::run) const ERRORED_STATE: &str = "errored.tfstate";

/// The most bytes of a state that are read.
const MOST: u64 = 1 << 30;

/// The content of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::run) enum StateForm {
    /// A state as plain text.
    Plain,
    /// A state that `OpenTofu` has encrypted.
    Encrypted,
    /// A part of a state, which was cut off.
    Part,
}

impl StateForm {
    /// The content of the file; `None` if it does not exist or is empty. The target of a link is not a state of the
    /// run.
    pub(in crate::run) fn of_file(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok()?;
        if !found.is_file() || found.len() == 0 {
            return None;
        }
        Some(open_regular(path).map_or(Self::Part, |file| Self::of(BufReader::new(file))))
    }

    fn of(state: impl Read) -> Self {
        #[derive(Deserialize)]
        struct Header {
            version: Option<u64>,
            encryption_version: Option<String>,
        }
        match serde_json::from_reader::<_, Header>(state.take(MOST)) {
            Ok(Header { encryption_version: Some(version), .. }) if !version.is_empty() => {
                Self::Encrypted
            }
            Ok(Header { version: Some(_), .. }) => Self::Plain,
            _ => Self::Part,
        }
    }
}

/// The place of a state that could not be stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::run) enum KeptState {
    /// A file as plain text.
    Plain(PathBuf),
    /// A directory in which `state pull` decrypts the state.
    Decryptable(PathBuf),
    /// An encrypted file.
    Encrypted(PathBuf),
    /// A file with a part of a state.
    Part(PathBuf),
}

impl KeptState {
    /// The state in the file `path`, which stays there.
    pub(in crate::run) fn at(path: PathBuf, form: StateForm) -> Self {
        match form {
            StateForm::Plain => Self::Plain(path),
            StateForm::Encrypted => Self::Encrypted(path),
            StateForm::Part => Self::Part(path),
        }
    }

    /// Its file or directory.
    pub(in crate::run) fn path(&self) -> &Path {
        match self {
            Self::Plain(path)
            | Self::Decryptable(path)
            | Self::Encrypted(path)
            | Self::Part(path) => path,
        }
    }

    /// The next step of a user in the module, as the end of a sentence. `product` is the program, `file` its path as
    /// it is shown.
    pub(in crate::run) fn next_step(&self, product: &str, file: &Path) -> String {
        let file = shell_word(file);
        match self {
            Self::Plain(_) => format!("run `{product} state push {file}`"),
            Self::Decryptable(_) => {
                format!(
                    "it is encrypted: run `tofu -chdir={file} state pull | {product} state push -`"
                )
            }
            Self::Encrypted(_) => format!(
                "it is encrypted: put it as `terraform.tfstate` into a directory with the `encryption` blocks of the \
                 module, and push what `tofu state pull` prints there (`{product} state push -`)"
            ),
            Self::Part(_) => {
                "it is only a part of the state, because it was cut off: do not push it".to_owned()
            }
        }
    }
}

/// Moves the state that Terraform could not store from `module` to `recovery`. If that is not possible, renames it to a
/// file next to `run`, the run's directory, which needs no space on the disk. Returns where it is (mode 0600), if there
/// was a state.
///
/// # Errors
/// If both fail. The state is then still in the module.
pub(in crate::run) fn keep_errored_state(
    module: &Path,
    recovery: &Path,
    run: &Path,
) -> std::io::Result<Option<KeptState>> {
    let errored = module.join(ERRORED_STATE);
    let Some(form) = StateForm::of_file(&errored) else { return Ok(None) };
    if form == StateForm::Encrypted {
        match keep_encrypted(&errored, module, recovery) {
            Ok(kept) => return Ok(Some(kept)),
            Err(error) => tracing::warn!(%error, "cannot prepare the decryption of the state"),
        }
    }
    let kept = copy_state(&errored, recovery).or_else(|error| {
        tracing::warn!(%error, "cannot keep the state in the recovery directory");
        let sibling = run.with_extension(ERRORED_STATE);
        std::fs::rename(&errored, &sibling)?;
        // There, a module cannot replace it by a link.
        std::fs::set_permissions(&sibling, std::fs::Permissions::from_mode(0o600))?;
        take_ownership(&sibling)?;
        Ok::<_, std::io::Error>(sibling)
    });
    kept.map(|path| Some(KeptState::at(path, form)))
}

/// Copies an encrypted state of `module` to a directory in `recovery` in which it can be decrypted.
///
/// # Errors
/// If the directory cannot be written.
pub(in crate::run) fn keep_encrypted(
    errored: &Path,
    module: &Path,
    recovery: &Path,
) -> std::io::Result<KeptState> {
    make_private(recovery)?;
    let directory = tempfile::Builder::new().prefix("errored-").tempdir_in(recovery)?;
    prepare_decryption(directory.path(), module, errored)?;
    Ok(KeptState::Decryptable(directory.keep()))
}

/// Copies a state to a file with a unique name (0600) in `recovery` (0700).
fn copy_state(state: &Path, recovery: &Path) -> std::io::Result<PathBuf> {
    let mut kept = new_file(recovery, "errored-", ".tfstate")?;
    copy_to(state, kept.as_file_mut())?;
    let (_, path) = kept.keep().map_err(|error| error.error)?;
    Ok(path)
}

/// A path as a word of a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@%,:=".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_a_state_is_read_from_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(ERRORED_STATE);
        assert_eq!(StateForm::of_file(&file), None);
        for (content, form) in [
            ("", None),
            (r#"{"version": 4, "serial": 1, "resources": []}"#, Some(StateForm::Plain)),
            (
                r#"{"serial":1,"lineage":"a","meta":{},"encrypted_data":"eA==","encryption_version":"v0"}"#,
                Some(StateForm::Encrypted),
            ),
            (r#"{"version": 4, "serial": 1, "resou"#, Some(StateForm::Part)),
            ("{}", Some(StateForm::Part)),
            ("\0\0\0", Some(StateForm::Part)),
        ] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(StateForm::of_file(&file), form, "{content}");
        }
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(StateForm::of_file(&link), None);
    }

    #[test]
    fn next_step_is_a_command_that_fits_the_content() {
        let path = PathBuf::from("/r/it's/errored");
        for (kept, expected) in [
            (KeptState::Plain(path.clone()), r"run `terraform state push '/r/it'\''s/errored'`"),
            (
                KeptState::Decryptable(path.clone()),
                r"it is encrypted: run `tofu -chdir='/r/it'\''s/errored' state pull | terraform state push -`",
            ),
            (
                KeptState::Part(path.clone()),
                "it is only a part of the state, because it was cut off: do not push it",
            ),
        ] {
            assert_eq!(kept.next_step("terraform", kept.path()), expected);
        }
        let plain = KeptState::Plain("/r/errored-1.tfstate".into());
        let step = plain.next_step("tofu", plain.path());
        assert_eq!(step, "run `tofu state push /r/errored-1.tfstate`");
    }
}
