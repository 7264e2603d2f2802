//! Reads and checks the callback token. No message contains it.

use std::io::Read;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::setting::{TOKEN, TOKEN_FILE};
use super::{Arguments, Environment, Setting, SettingsError};

/// The prefix of callback tokens.
const CALLBACK_PREFIX: &str = "brce_";

/// The prefix of registry tokens, which callback endpoints refuse.
const REGISTRY_PREFIX: &str = "breg_";

/// Larger than any token, in bytes. A larger file is not a token file.
const MAX_SIZE: u64 = 64 * 1024;

/// Reads the token from a flag, a variable or a file. Adds a warning for each probable mistake.
pub(super) fn token(
    arguments: &Arguments,
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Result<SecretString, SettingsError> {
    let (setting, text) = match (arguments.value(&TOKEN), arguments.value(&TOKEN_FILE)) {
        (Some(_), Some(_)) => {
            return Err(SettingsError::Conflict { first: &TOKEN, second: &TOKEN_FILE });
        }
        (Some(token), None) => {
            warnings.push(
                "the token is visible in the process list; use BUTLER_TOKEN or --token-file"
                    .to_owned(),
            );
            (&TOKEN, token.as_encoded_bytes().to_vec())
        }
        (None, Some(file)) => (&TOKEN_FILE, read_file(Path::new(file))?),
        (None, None) => {
            let variable = |setting: &Setting| environment.value(setting.variables[0]);
            if let Some(token) = variable(&TOKEN) {
                (&TOKEN, token.as_encoded_bytes().to_vec())
            } else if let Some(file) = variable(&TOKEN_FILE) {
                (&TOKEN_FILE, read_file(Path::new(file))?)
            } else {
                return Err(SettingsError::Missing { setting: &TOKEN });
            }
        }
    };
    check(&text, setting, warnings)
}

fn read_file(path: &Path) -> Result<Vec<u8>, SettingsError> {
    let problem =
        |source| SettingsError::Path { setting: &TOKEN_FILE, path: PathBuf::from(path), source };
    let file = std::fs::File::open(path).map_err(problem)?;
    let mut text = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut text).map_err(problem)?;
    if text.len() as u64 > MAX_SIZE {
        let problem = format!("`{}` is too large for a token", path.display());
        return Err(SettingsError::Unusable { setting: &TOKEN_FILE, problem });
    }
    Ok(text)
}

fn check(
    text: &[u8],
    setting: &'static Setting,
    warnings: &mut Vec<String>,
) -> Result<SecretString, SettingsError> {
    let unusable =
        |problem: &str| Err(SettingsError::Unusable { setting, problem: problem.to_owned() });
    let end =
        text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    let Some(token) = std::str::from_utf8(&text[..end])
        .ok()
        .filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()))
    else {
        return unusable("the token holds white space, control or non-ASCII characters");
    };
    if token.is_empty() {
        return unusable("the token is empty");
    }
    if token.starts_with(REGISTRY_PREFIX) {
        return unusable(
            "`breg_` tokens cannot be used for runs; a callback token starts with `brce_`",
        );
    }
    if !token.starts_with(CALLBACK_PREFIX) {
        warnings.push("the token does not start with `brce_` as callback tokens do".to_owned());
    }
    Ok(SecretString::from(token))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use secrecy::ExposeSecret;

    use super::*;

    fn resolve(
        arguments: &Arguments,
        variables: &[(&str, &str)],
    ) -> Result<(String, Vec<String>), SettingsError> {
        let variables: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut warnings = Vec::new();
        token(arguments, &Environment::new(variables, PathBuf::new()), &mut warnings)
            .map(|token| (token.expose_secret().to_owned(), warnings))
    }

    #[test]
    fn file_on_the_command_line_wins_over_the_variable_with_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "brce_file\r\n\n").unwrap();
        let arguments = Arguments::default().with(&TOKEN_FILE, &file);
        let (token, warnings) = resolve(&arguments, &[("BUTLER_TOKEN", "brce_variable")]).unwrap();
        assert_eq!((token.as_str(), warnings.len()), ("brce_file", 0));
        let file = file.to_str().unwrap();
        let (token, _) = resolve(
            &Arguments::default(),
            &[("BUTLER_TOKEN", "brce_variable"), ("BUTLER_TOKEN_FILE", file)],
        )
        .unwrap();
        assert_eq!(token, "brce_variable");
    }

    #[test]
    fn token_in_an_argument_and_unknown_prefix_lead_to_warnings() {
        let (token, warnings) = resolve(&Arguments::default().with(&TOKEN, "opaque"), &[]).unwrap();
        assert_eq!((token.as_str(), warnings.len()), ("opaque", 2));
        assert!(warnings.iter().all(|warning| !warning.contains("opaque")));
    }

    #[test]
    fn message_about_an_unusable_token_does_not_contain_it() {
        for bad in ["breg_hunter2", "brce_hun\nter2", "brce_hunter2 ", "brce_hünter2", "\n"] {
            let error = resolve(&Arguments::default(), &[("BUTLER_TOKEN", bad)]).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains("--token, BUTLER_TOKEN"), "{text}");
            assert!(!text.contains("nter2"), "{text}");
        }
    }

    #[test]
    fn unreadable_token_file_is_named() {
        let arguments = Arguments::default().with(&TOKEN_FILE, "/proc/nonexistent/token");
        let error = resolve(&arguments, &[]).unwrap_err();
        assert_eq!(
            butler_base::error::chain(&error),
            "cannot use `/proc/nonexistent/token` (--token-file, BUTLER_TOKEN_FILE): No such file or directory (os error 2)"
        );
    }

    #[test]
    fn two_tokens_on_the_command_line_are_a_conflict() {
        let arguments = Arguments::default().with(&TOKEN, "brce_a").with(&TOKEN_FILE, "b");
        assert!(matches!(resolve(&arguments, &[]), Err(SettingsError::Conflict { .. })));
    }
}
