//! The callback token: where it comes from and whether it can be sent. No message ever shows it.

use std::io::Read;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use zeroize::Zeroizing;

use super::setting::{TOKEN, TOKEN_FILE};
use super::{Arguments, Environment, Setting, SettingsError};

/// What a callback token starts with.
const CALLBACK: &str = "brce_";

/// What a registry token starts with; callback endpoints refuse it.
const REGISTRY: &str = "breg_";

/// More than any token has; a file that is larger is another file.
const LONGEST: u64 = 64 * 1024;

/// Finds the token, and adds to `warnings` what looks like a mistake.
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
            (&TOKEN, own(token.as_encoded_bytes()))
        }
        (None, Some(file)) => (&TOKEN_FILE, read(Path::new(file))?),
        (None, None) => {
            let variable = |setting: &Setting| environment.value(setting.variables[0]);
            if let Some(token) = variable(&TOKEN) {
                (&TOKEN, own(token.as_encoded_bytes()))
            } else if let Some(file) = variable(&TOKEN_FILE) {
                (&TOKEN_FILE, read(Path::new(file))?)
            } else {
                return Err(SettingsError::Missing { setting: &TOKEN });
            }
        }
    };
    check(&text, setting, warnings)
}

fn own(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(bytes.to_vec())
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, SettingsError> {
    let problem =
        |source| SettingsError::Path { setting: &TOKEN_FILE, path: PathBuf::from(path), source };
    let file = std::fs::File::open(path).map_err(problem)?;
    // Read into one allocation: growing would leave copies behind that are not zeroed.
    let mut text = Zeroizing::new(Vec::with_capacity(usize::try_from(LONGEST).unwrap_or(0) + 2));
    file.take(LONGEST + 1).read_to_end(&mut text).map_err(problem)?;
    if text.len() as u64 > LONGEST {
        let problem = format!("`{}` is too large for a token", path.display());
        return Err(SettingsError::Impossible { setting: &TOKEN_FILE, problem });
    }
    Ok(text)
}

fn check(
    text: &[u8],
    setting: &'static Setting,
    warnings: &mut Vec<String>,
) -> Result<SecretString, SettingsError> {
    let impossible =
        |problem: &str| Err(SettingsError::Impossible { setting, problem: problem.to_owned() });
    let end =
        text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    let Some(token) = std::str::from_utf8(&text[..end])
        .ok()
        .filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()))
    else {
        return impossible("the token holds white space, control or non-ASCII characters");
    };
    if token.is_empty() {
        return impossible("the token is empty");
    }
    if token.starts_with(REGISTRY) {
        return impossible(
            "`breg_` tokens cannot be used for runs; a callback token starts with `brce_`",
        );
    }
    if !token.starts_with(CALLBACK) {
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
    fn token_in_an_argument_and_a_strange_prefix_are_warned_about() {
        let (token, warnings) = resolve(&Arguments::default().with(&TOKEN, "opaque"), &[]).unwrap();
        assert_eq!((token.as_str(), warnings.len()), ("opaque", 2));
        assert!(warnings.iter().all(|warning| !warning.contains("opaque")));
    }

    #[test]
    fn token_that_cannot_be_is_refused_without_showing_it() {
        for bad in ["breg_hunter2", "brce_hun\nter2", "brce_hunter2 ", "brce_hünter2", "\n"] {
            let error = resolve(&Arguments::default(), &[("BUTLER_TOKEN", bad)]).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains("--token, BUTLER_TOKEN"), "{text}");
            assert!(!text.contains("nter2"), "{text}");
        }
    }

    #[test]
    fn file_that_cannot_be_read_is_named() {
        let arguments = Arguments::default().with(&TOKEN_FILE, "/proc/nonexistent/token");
        let error = resolve(&arguments, &[]).unwrap_err();
        assert_eq!(
            butler_base::error::chain(&error),
            "cannot use `/proc/nonexistent/token` (--token-file, BUTLER_TOKEN_FILE): No such file or directory (os error 2)"
        );
    }

    #[test]
    fn token_twice_on_the_command_line_is_a_conflict() {
        let arguments = Arguments::default().with(&TOKEN, "brce_a").with(&TOKEN_FILE, "b");
        assert!(matches!(resolve(&arguments, &[]), Err(SettingsError::Conflict { .. })));
    }
}
