//! Settings for Terraform: a settings file (`--settings`), and `terraformSettings` of a run.
//!
//! Both have the same format and are read by the same code: a tree with line numbers, then settings, then their
//! precedence. An unknown key is an error in a file, which people write, and a warning in a run, which a newer registry
//! can have written. References are resolved last, and only those that are used.

mod backend;
mod decode;
mod document;
mod error;
mod names;
mod precedence;

use std::io::Read;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use butler_protocol::spec::TerraformSettings;
use decode::{Decoded, decode};

pub use decode::LOG_LEVELS;
pub use error::{Problem, TerraformSettingsError};
pub use names::{KEYS, ONE_WORD, terraform_name};
pub use precedence::{SettingsContext, apply_terraform_settings};

/// The largest settings, in bytes.
const MAX_SIZE: u64 = 1024 * 1024;

/// Reads a settings file, YAML or JSON.
///
/// # Errors
/// If it cannot be read, is larger than 1 MiB, or contains an unknown key or a value that is not valid.
pub fn read_settings_file(path: &Path) -> Result<TerraformSettings, TerraformSettingsError> {
    let failed = |source| TerraformSettingsError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(TerraformSettingsError::TooLarge(path.to_owned()));
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| TerraformSettingsError::Encoding(path.to_owned()))?;
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    let refuse = |problems| TerraformSettingsError::File { path: path.to_owned(), problems };
    let root = document::read(text.trim_start_matches('\u{feff}'), is_json)
        .map_err(|problem| refuse(vec![problem]))?;
    let Decoded { settings, wrong, unknown } = decode(root);
    let mut problems = [wrong, unknown].concat();
    if problems.is_empty() {
        return Ok(settings);
    }
    problems.sort_by_key(|problem| problem.line);
    Err(refuse(problems))
}

/// Reads a run's `terraformSettings`. The second value contains the warnings.
///
/// # Errors
/// If the value of a known key is not valid.
pub fn parse_run_settings(
    json: &SecretString,
) -> Result<(TerraformSettings, Vec<String>), TerraformSettingsError> {
    if json.expose_secret().len() as u64 > MAX_SIZE {
        return Err(TerraformSettingsError::RunTooLarge);
    }
    let refuse = |problem| TerraformSettingsError::Run(vec![problem]);
    let root = document::read(json.expose_secret(), true).map_err(refuse)?;
    let Decoded { settings, wrong, unknown } = decode(root);
    if !wrong.is_empty() {
        return Err(TerraformSettingsError::Run(wrong));
    }
    let texts = error::first(unknown.into_iter().map(|problem| problem.text));
    let ignored = |text| format!("`terraformSettings` of the run: {text}");
    Ok((settings, texts.into_iter().map(ignored).collect()))
}
