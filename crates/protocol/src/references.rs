//! Resolves references to secrets.
//!
//! A reference is resolved on the machine of the job, never by the registry: in the environment, then in mounted secrets.
//! A value that only *looks* like a reference is not shown, unless it has a form that secrets do not have:
//! `namespace/name:key`, or a readable name such as `DB_PASSWORD`.

mod form;
mod other_systems;
mod words;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::spec::{SecretReference, SensitiveValues};
use form::{Form, Parts, form};
use words::{is_dns_label, is_part};

/// The largest secret in a file, in bytes. Kubernetes does not allow larger ones.
const MAX_SECRET_SIZE: u64 = 1024 * 1024;

/// A longer text can be a secret, so it is not shown as a name.
const MAX_SHOWN_LENGTH: usize = 30;

/// The prefix of Terraform's environment variables for input variables.
pub const INPUT_PREFIX: &str = "TF_VAR_";

/// The prefix of the runner's own settings and tokens. A module must not read them as secrets.
const RESERVED_PREFIX: &str = "BUTLER_";

/// The hint for a secret with a reserved name.
const RESERVED_NAME: &str = "call it something else (`BUTLER_*` is reserved)";

/// The sources of secrets.
#[derive(Clone, Default)]
pub struct SecretSources {
    /// The runner's own environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Mounted secrets: `<dir>/<namespace>/<name>/<key>` and `<dir>/<name>/<key>`.
    pub directory: Option<PathBuf>,
    /// Whether sensitive values can be references.
    pub values: SensitiveValues,
}

/// Errors of resolving a reference; a missing secret is not one of them.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// A part is not a valid name of a secret and must not become part of a path.
    #[error("a part of the reference cannot be the name of a secret")]
    Part,
    /// The environment variable is not UTF-8.
    #[error("the environment variable `{0}` is not UTF-8")]
    Environment(String),
    /// The mounted file cannot be read.
    #[error("cannot read the mounted secret `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// The secret that a value refers to.
#[derive(Debug, Eq, PartialEq)]
pub struct Lookup {
    /// The reference; `None` if the secret is only searched by the variable's name.
    pub reference: Option<SecretReference>,
    /// Whether messages may contain the reference. A guessed one can be the secret itself.
    pub showable: bool,
}

impl Lookup {
    fn of_name(name: &str) -> Self {
        Parts { namespace: None, name, key: None, showable: true }.lookup()
    }
}

impl Parts<'_> {
    fn lookup(&self) -> Lookup {
        let reference = SecretReference {
            namespace: self.namespace.map(str::to_owned),
            name: self.name.to_owned(),
            key: self.key.map(str::to_owned),
        };
        Lookup { reference: Some(reference), showable: self.showable }
    }
}

/// The meaning of a sensitive value of a run, guessed from its form and the environment.
#[derive(Debug, Eq, PartialEq)]
pub enum Guess {
    /// A reference. Its secret must exist.
    Reference(Lookup),
    /// A reference if its secret exists, else the secret itself.
    Either(Lookup),
    /// A reference of another system, which the runner cannot read.
    Unreadable,
    /// The secret itself.
    Secret,
}

impl SecretSources {
    /// Decides whether the sensitive value `text` of a module variable is a reference or a secret.
    #[must_use]
    pub fn guess(&self, text: &str) -> Guess {
        // A name that was copied with a space or a newline is still a name.
        let text = text.trim();
        if self.is_set(text) {
            return Guess::Reference(Lookup::of_name(text));
        }
        match form(text) {
            Form::Reference(parts) | Form::Name(parts) => Guess::Reference(parts.lookup()),
            Form::Likely(parts) => Guess::Either(parts.lookup()),
            Form::Word => {
                let word = Parts { namespace: None, name: text, key: None, showable: false };
                let Lookup { reference, showable } = word.lookup();
                Guess::Either(Lookup { reference: reference.filter(|_| is_part(text)), showable })
            }
            Form::Unreadable => Guess::Unreadable,
            Form::Secret => Guess::Secret,
        }
    }

    /// Decides the same for the sensitive value `text` of an environment variable. Most such values are real secrets
    /// that cloud integrations send: a secret must exist only for a value that names a key or an existing variable.
    #[must_use]
    pub fn guess_ambient(&self, text: &str) -> Guess {
        let text = text.trim();
        match form(text) {
            _ if self.is_set(text) => Guess::Reference(Lookup::of_name(text)),
            Form::Reference(parts) if parts.key.is_some() => Guess::Reference(parts.lookup()),
            Form::Reference(parts) | Form::Name(parts) | Form::Likely(parts) => {
                Guess::Either(parts.lookup())
            }
            Form::Unreadable => Guess::Either(Lookup { reference: None, showable: false }),
            Form::Word | Form::Secret => Guess::Secret,
        }
    }

    /// Whether the job has a variable of that name, even an empty one: CI systems set empty variables for missing
    /// secrets.
    fn is_set(&self, name: &str) -> bool {
        !name.starts_with(RESERVED_PREFIX) && self.environment.contains_key(OsStr::new(name))
    }

    /// Searches the secret of the variable `name`: `TF_VAR_<name>`, an environment variable with the name of the CI secret,
    /// a mounted file. A reference without a key means the key with the variable's name. An empty environment variable is
    /// ignored, because CI systems set those for missing secrets.
    ///
    /// # Errors
    /// If the reference is not a valid name of a secret, or if the secret cannot be read.
    pub fn find(
        &self,
        name: &str,
        lookup: &Lookup,
    ) -> Result<Option<SecretString>, ReferenceError> {
        if let Some(reference) = &lookup.reference
            && !parts(reference).all(is_part)
        {
            return Err(ReferenceError::Part);
        }
        if let Some(value) = self.environment_value(&input_variable(name))? {
            return Ok(Some(value));
        }
        let Some(reference) = &lookup.reference else {
            return Ok(None);
        };
        if let Some(secret) = ci_secret(reference)
            && let Some(value) = self.environment_value(secret)?
        {
            return Ok(Some(value));
        }
        let mut reference = reference.clone();
        if reference.key.is_none() {
            let variable = name.strip_prefix(INPUT_PREFIX).unwrap_or(name);
            reference.key = Some(variable.to_owned()).filter(|key| is_part(key));
            if !lookup.showable {
                // The name may be the secret itself, and an error would show its path.
                return Ok(self.mounted(&reference).unwrap_or_default());
            }
        }
        self.mounted(&reference)
    }

    /// The secret of a mounted file.
    fn mounted(&self, reference: &SecretReference) -> Result<Option<SecretString>, ReferenceError> {
        for path in self.directory.iter().flat_map(|directory| paths(directory, reference)) {
            if let Some(value) = read_secret(&path)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Searches the secret of a reference in settings for Terraform: a mounted file, an environment variable with the
    /// secret's name, one with all parts in capitals if there are several. A single part is not converted to capitals,
    /// because it can be an ordinary word: `home` is not `HOME`.
    ///
    /// # Errors
    /// If the reference is not a valid name of a secret, or if the secret cannot be read.
    pub fn find_referred(
        &self,
        reference: &SecretReference,
    ) -> Result<Option<SecretString>, ReferenceError> {
        if !parts(reference).all(is_part) {
            return Err(ReferenceError::Part);
        }
        if let Some(value) = self.mounted(reference)? {
            return Ok(Some(value));
        }
        let name = ci_secret(reference).map(str::to_owned);
        for name in name.into_iter().chain(in_capitals(reference)) {
            if let Some(value) = self.environment_value(&name)? {
                return Ok(Some(without_newline(value.expose_secret()).into()));
            }
        }
        Ok(None)
    }

    /// How the user can supply a secret that [`Self::find_referred`] did not find. The reference is only shown if it cannot
    /// be the secret itself.
    #[must_use]
    pub fn advice_on_referred(&self, reference: &SecretReference) -> String {
        let is_word = |text: &str| text.len() <= MAX_SHOWN_LENGTH && is_dns_label(text);
        let SecretReference { namespace, name, key } = reference;
        let shown = is_word(name)
            && namespace.as_deref().is_none_or(is_word)
            && key.as_ref().is_none_or(|key| key.len() <= MAX_SHOWN_LENGTH);
        if !shown {
            return "its `secretId` has to be the name of a secret: of an environment variable, or of a directory below --secrets-dir with the `key`".to_owned();
        }
        let variable = in_capitals(reference).unwrap_or_else(|| name.clone());
        let mut ways = Vec::new();
        if variable.starts_with(RESERVED_PREFIX) {
            ways.push(RESERVED_NAME.to_owned());
        } else {
            ways.push(format!("set `{variable}`"));
        }
        ways.extend(self.mount(reference));
        ways.join(" or ")
    }

    /// The path at which to mount the secret.
    fn mount(&self, reference: &SecretReference) -> Option<String> {
        let placeholder = Path::new("<secrets-dir>");
        let directory = self.directory.as_deref();
        let paths = paths(directory.unwrap_or(placeholder), reference);
        let setting = if directory.is_some() { "" } else { " for --secrets-dir" };
        paths.first().map(|path| format!("mount `{}`{setting}", path.display()))
    }

    /// How the user can supply what [`Self::find`] did not find.
    #[must_use]
    pub fn advice(&self, name: &str, lookup: &Lookup) -> String {
        let mut ways = vec![format!("set `{}`", input_variable(name))];
        let Some(reference) = &lookup.reference else { return ways.remove(0) };
        if reference.namespace.is_none() && reference.name.starts_with(RESERVED_PREFIX) {
            ways.push(RESERVED_NAME.to_owned());
        } else if lookup.showable {
            ways.extend(ci_secret(reference).map(|secret| format!("set `{secret}`")));
            ways.extend(self.mount(reference));
        } else if reference.key.is_some() {
            ways.push("mount the secret that it names below --secrets-dir".to_owned());
        } else if reference.namespace.is_some() {
            ways.push("add the key in that secret, as in `namespace/name:key`".to_owned());
        } else {
            ways.push("set the variable that its value names".to_owned());
        }
        ways.join(" or ")
    }

    fn environment_value(&self, name: &str) -> Result<Option<SecretString>, ReferenceError> {
        if name.starts_with(RESERVED_PREFIX) {
            return Ok(None);
        }
        match self.environment.get(OsStr::new(name)).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => value
                .to_str()
                .map(|value| Some(SecretString::from(value)))
                .ok_or_else(|| ReferenceError::Environment(name.to_owned())),
        }
    }
}

/// The variable through which Terraform users supply the input `name`. An entry of the
/// environment map may bear such a name already.
#[must_use]
pub fn input_variable(name: &str) -> String {
    if name.starts_with(INPUT_PREFIX) { name.to_owned() } else { format!("{INPUT_PREFIX}{name}") }
}

/// The secret's name, where the CI system may know it: its secrets have no namespaces.
fn ci_secret(reference: &SecretReference) -> Option<&str> {
    reference.namespace.is_none().then_some(reference.name.as_str())
}

/// Namespace, name and key as shells can write a variable: `tfc-token` and `token` are
/// `TFC_TOKEN_TOKEN`, `accessKey` is `ACCESS_KEY`. None of a name alone.
fn in_capitals(reference: &SecretReference) -> Option<String> {
    if reference.namespace.is_none() && reference.key.is_none() {
        return None;
    }
    let mut capitals = String::new();
    for part in parts(reference) {
        capitals.push_str(if capitals.is_empty() { "" } else { "_" });
        let mut before = None;
        for character in part.chars() {
            let begins_word = character.is_ascii_uppercase()
                && before.is_some_and(|it: char| it.is_ascii_lowercase() || it.is_ascii_digit());
            capitals.push_str(if begins_word { "_" } else { "" });
            let is_plain = character.is_ascii_alphanumeric();
            capitals.push(if is_plain { character.to_ascii_uppercase() } else { '_' });
            before = Some(character);
        }
    }
    Some(capitals)
}

fn parts(reference: &SecretReference) -> impl Iterator<Item = &str> {
    let SecretReference { namespace, name, key } = reference;
    [namespace.as_deref(), Some(name.as_str()), key.as_deref()].into_iter().flatten()
}

/// Where the secret is mounted, the more exact place first; nowhere without a key.
fn paths(directory: &Path, reference: &SecretReference) -> Vec<PathBuf> {
    let Some(key) = &reference.key else {
        return Vec::new();
    };
    let below = |directory: &Path| directory.join(&reference.name).join(key);
    let namespaced = reference.namespace.iter().map(|name| below(&directory.join(name)));
    namespaced.chain([below(directory)]).collect()
}

/// The file's text without the newline at its end; `None` if the file does not exist.
fn read_secret(path: &Path) -> Result<Option<SecretString>, ReferenceError> {
    let failed = |source| ReferenceError::File { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        file => file.map_err(failed)?,
    };
    let size = file.metadata().map_err(failed)?.len();
    if size > MAX_SECRET_SIZE {
        return Err(failed(std::io::Error::from(ErrorKind::FileTooLarge)));
    }
    // Room for everything at once: a buffer that grows leaves copies behind.
    let room = usize::try_from(size).map_or(0, |size| size + 1);
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.take(MAX_SECRET_SIZE).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(SecretString::from(without_newline(&text))))
}

/// Removes the newline that editors and `echo` append.
fn without_newline(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(namespace: Option<&str>, name: &str, key: Option<&str>) -> SecretReference {
        SecretReference {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            key: key.map(str::to_owned),
        }
    }

    #[test]
    fn a_setting_finds_what_it_names_and_no_variable_that_is_called_alike() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("home")).unwrap();
        std::fs::write(directory.path().join("home/token"), "mounted\n").unwrap();
        let variables =
            [("HOME", "/root"), ("HOME_TOKEN", "ambient"), ("MINE", "mine\r\n"), ("A_B", "both")];
        let sources = SecretSources {
            environment: variables.map(|(name, value)| (name.into(), value.into())).into(),
            directory: Some(directory.path().to_owned()),
            ..SecretSources::default()
        };
        for (namespace, name, key, expected) in [
            (None, "home", None, None),
            (None, "home", Some("token"), Some("mounted")),
            (None, "HOME", None, Some("/root")),
            (None, "MINE", None, Some("mine")),
            (None, "mine", None, None),
            (Some("a"), "b", None, Some("both")),
            (None, "a", Some("b"), Some("both")),
        ] {
            let found = sources.find_referred(&reference(namespace, name, key)).unwrap();
            let found = found.as_ref().map(ExposeSecret::expose_secret);
            assert_eq!(found, expected, "{namespace:?} {name} {key:?}");
        }
    }

    #[test]
    fn advice_shows_no_reference_that_can_be_a_secret_itself() {
        let advice = |namespace, name: &str, key| {
            SecretSources::default().advice_on_referred(&reference(namespace, name, key))
        };
        let hidden = advice(None, "HUNTER22PASTEDTOKEN", None);
        assert!(hidden.starts_with("its `secretId` has to be the name of a secret"), "{hidden}");
        for secret in ["ghp_abcdef", "aB3.atlasv1.x", "0123456789abcdef0123456789abcdef", "Hunter"]
        {
            for key in [None, Some("token")] {
                assert_eq!(advice(None, secret, key), hidden);
                assert_eq!(advice(Some(secret), "name", key), hidden);
            }
        }
        assert_eq!(
            advice(Some("prod"), "keys", Some("secretKey")),
            "set `PROD_KEYS_SECRET_KEY` or mount `<secrets-dir>/prod/keys/secretKey` for --secrets-dir"
        );
        assert_eq!(advice(None, "tfc-token", None), "set `tfc-token`");
        assert_eq!(
            advice(None, "butler", Some("token")),
            "call it something else (`BUTLER_*` is reserved) or mount `<secrets-dir>/butler/token` for --secrets-dir"
        );
    }
}
