//! The file of users: `users: [{name, role, layers, token-sha256}]`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use butler_registry::TokenHash;
use fs_err as fs;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use serde_saphyr::{Location, Spanned};

use super::user::{Layers, Role, User};
use crate::config::ConfigError;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    users: Vec<Entry>,
}

/// A user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: Spanned<String>,
    role: Role,
    layers: Option<Spanned<Vec<String>>>,
    token_sha256: Spanned<String>,
}

/// A file of users, and whether it has changed since it was read.
#[derive(Debug)]
pub(super) struct AccessFile {
    path: PathBuf,
    /// Time of the last change and size, or `None` if the file did not exist.
    seen: Option<(SystemTime, u64)>,
}

impl AccessFile {
    /// The file, and its users.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<User>), Vec<ConfigError>> {
        // Looked at before the file is read: a change while it is read is seen the next time.
        let seen = look(path);
        Ok((Self { path: path.to_owned(), seen }, load(path)?))
    }

    /// The users if the file has changed, else `None`. Each change is read once, so that its errors
    /// are reported once.
    pub(super) fn changed(&mut self) -> Result<Option<Vec<User>>, Vec<ConfigError>> {
        let seen = look(&self.path);
        if seen == self.seen {
            return Ok(None);
        }
        self.seen = seen;
        load(&self.path).map(Some)
    }
}

fn look(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

fn load(path: &Path) -> Result<Vec<User>, Vec<ConfigError>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read the access file: {}", butler_base::error::chain(&error));
        vec![ConfigError { file: path.to_owned(), at: None, message }]
    })?;
    parse(path, &text)
}

/// Reads the text of a file.
///
/// # Errors
/// All that is wrong, in the order of lines.
fn parse(path: &Path, text: &str) -> Result<Vec<User>, Vec<ConfigError>> {
    let document: Document =
        serde_saphyr::from_str(text).map_err(|error| vec![ConfigError::parsing(path, &error)])?;
    let mut errors = Vec::new();
    let mut refuse = |place: Location, message: String| {
        let at = Some((place.line(), place.column()));
        errors.push(ConfigError { file: path.to_owned(), at, message });
    };
    let mut users: Vec<User> = Vec::new();
    for Entry { name, role, layers, token_sha256 } in document.users {
        if name.value.trim().is_empty() {
            refuse(name.referenced, "the name is empty".to_owned());
        }
        if users.iter().any(|user| user.name == name.value) {
            refuse(name.referenced, format!("there are two users with the name `{}`", name.value));
        }
        let globs = layers.as_ref().map(|it| it.value.iter().map(String::as_str));
        let layers = match globs.map(Layers::new).transpose() {
            Ok(limit) => limit,
            Err(error) => {
                refuse(
                    layers.as_ref().map_or(name.referenced, |it| it.referenced),
                    error.to_string(),
                );
                None
            }
        };
        let Some(token) = hash(&token_sha256.value) else {
            // The value is not shown: it may be the token itself.
            let message = "`token-sha256` must be the SHA-256 of the token: 64 hex digits; \
                           `butler-runner access token NAME --role ROLE` prints a new one";
            refuse(token_sha256.referenced, message.to_owned());
            continue;
        };
        if let Some(other) = users.iter().find(|user| user.token == token) {
            let message = format!("`{}` and `{}` have the same token", other.name, name.value);
            refuse(token_sha256.referenced, message);
        }
        users.push(User { name: name.value, role, layers, token });
    }
    if errors.is_empty() { Ok(users) } else { Err(errors) }
}

fn hash(text: &str) -> Option<TokenHash> {
    let deserializer = IntoDeserializer::<ValueError>::into_deserializer(text);
    TokenHash::deserialize(deserializer).ok()
}

#[cfg(test)]
#[path = "access_file_tests.rs"]
mod tests;
