//! Replaces each registered secret by `***`, in one pass over the bytes for any number of secrets.
//!
//! A secret is found unchanged; line by line; with other line breaks; escaped for a literal, XML, a
//! shell or a URL; and in base64 at any offset. Overlapping matches are masked as one, so that no part of
//! either secret remains. Values are zeroed on drop and by [`Redactor::forget`].

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::{ExposeSecret, SecretString};

use super::lines::{Lines, SHORTEST};
use super::patterns::Patterns;

/// The replacement of a secret.
pub const MASK: &str = "***";

/// The size of the pieces in which longer values are masked, in bytes. It limits the text of an
/// incomplete line that is held back to two pieces in base64.
const LONGEST: usize = 64 * 1024;

/// The largest number of consecutive backslashes that are not split. Repeated escaping of one
/// character results in fewer.
const MOST_BACKSLASHES: usize = 64;

/// Is called with each registered line of a value.
type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// The secrets of a run, shared by all code that shows text.
#[derive(Default)]
pub struct Redactor {
    state: Mutex<RegisteredSecrets>,
}

#[derive(Default)]
struct RegisteredSecrets {
    /// The registered values, lines and pieces, sorted and without duplicates.
    secrets: Vec<SecretString>,
    /// The ordinary lines of values, each with the line beside it.
    pairs: Vec<SecretString>,
    too_short: Vec<String>,
    hides_everything: bool,
    search: Search,
    observer: Option<Observer>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets", self.state().secrets.len())
    }
}

#[derive(Clone, Default)]
enum Search {
    #[default]
    Nothing,
    /// Secrets were registered since the last search.
    Outdated,
    Any(Arc<Patterns>),
    /// There are too many secrets to search for. The whole text is masked.
    Everything,
}

impl Redactor {
    /// A redactor without secrets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers secrets, which are masked from now on. Each line of a value is a separate secret,
    /// because the log consists of lines; an ordinary one only together with a line beside it.
    pub fn register<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) {
        self.add(secrets.into_iter().map(|secret| (None, secret)));
    }

    /// Registers secrets like [`Redactor::register`], and records the names of those that are too
    /// short to be masked.
    pub fn register_named<'a>(
        &self,
        secrets: impl IntoIterator<Item = (&'a str, &'a SecretString)>,
    ) {
        self.add(secrets.into_iter().map(|(name, secret)| (Some(name), secret)));
    }

    /// Calls `observer` with each line that is registered from now on, before the registration
    /// returns. It must not use this redactor.
    pub fn observe(&self, observer: impl Fn(&str) + Send + Sync + 'static) {
        self.state().observer = Some(Arc::new(observer));
    }

    /// Removes the observer.
    pub fn end_observation(&self) {
        self.state().observer = None;
    }

    /// The names of the secrets that are too short to be masked, in the order of their
    /// registration.
    #[must_use]
    pub fn too_short(&self) -> Vec<String> {
        self.state().too_short.clone()
    }

    /// Masks every text from now on, because it may contain secrets that are not known.
    pub fn hide_everything(&self) {
        let mut state = self.state();
        state.hides_everything = true;
        state.search = Search::Everything;
    }

    /// Zeroes and drops all secrets. Text that is shown after this must not contain any of them;
    /// secrets that are still in use must be registered again.
    pub fn forget(&self) {
        *self.state() = RegisteredSecrets::default();
    }

    fn add<'a>(&self, secrets: impl Iterator<Item = (Option<&'a str>, &'a SecretString)>) {
        let mut state = self.state();
        let known = state.secrets.len();
        let mut lines = Vec::new();
        for (name, secret) in secrets {
            let value = secret.expose_secret().trim();
            let Lines { own, pairs } = Lines::of(value);
            let is_short = own.is_empty() && pairs.is_empty();
            for line in own {
                if !state.knows(known, line) {
                    lines.push(SecretString::from(line));
                    state.secrets.extend(pieces(line).map(SecretString::from));
                }
            }
            state.pairs.extend(pairs.into_iter().map(SecretString::from));
            // The whole value is a secret too, because tools print it escaped or encoded on one line.
            if value.contains('\n') && value.len() >= SHORTEST && !state.knows(known, value) {
                state.secrets.extend(pieces(value).map(SecretString::from));
            }
            if let Some(name) = name
                && is_short
                && !value.is_empty()
                && !state.too_short.iter().any(|known| known == name)
            {
                state.too_short.push(name.to_owned());
            }
        }
        if state.secrets.len() == known {
            return;
        }
        state.secrets = sorted(std::mem::take(&mut state.secrets));
        state.pairs = sorted(std::mem::take(&mut state.pairs));
        if !state.hides_everything {
            state.search = Search::Outdated;
        }
        let observer = state.observer.clone();
        drop(state);
        if let Some(observer) = observer {
            for line in &lines {
                observer(line.expose_secret());
            }
        }
    }

    /// Redacts `text`. The result is valid UTF-8 without NUL: other bytes become U+FFFD. A text that
    /// does not change is not copied.
    #[must_use]
    pub fn redact<'text>(&self, text: &'text [u8]) -> Cow<'text, str> {
        self.mask(text, Patterns::covered)
    }

    /// Whether the whole `text` is masked.
    #[must_use]
    pub fn hides(&self, text: &str) -> bool {
        self.redact(text.as_bytes()) == MASK
    }

    /// Whether `text`, which is UTF-8 without NUL, does not contain a secret.
    #[must_use]
    pub(in crate::secret) fn is_open(&self, text: &[u8]) -> bool {
        match self.state().search() {
            Search::Everything => false,
            Search::Any(patterns) => !patterns.is_in(text),
            Search::Nothing | Search::Outdated => true,
        }
    }

    /// Like [`Redactor::redact`], for a name: only long secrets are masked, because a short one may
    /// be an ordinary word.
    #[must_use]
    pub(in crate::secret) fn redact_name<'text>(&self, text: &'text [u8]) -> Cow<'text, str> {
        self.mask(text, Patterns::covered_by_long)
    }

    fn mask<'text>(
        &self,
        text: &'text [u8],
        covered: fn(&Patterns, &[u8]) -> Vec<Range<usize>>,
    ) -> Cow<'text, str> {
        let secrets = match self.state().search() {
            Search::Everything => return Cow::Borrowed(MASK),
            Search::Any(patterns) => covered(&patterns, text),
            Search::Nothing | Search::Outdated => Vec::new(),
        };
        replaced(text, &secrets)
    }

    /// Whether `line` ends with the beginning of a secret that may continue in the next line.
    #[must_use]
    pub(super) fn continues(&self, line: &[u8]) -> bool {
        match self.state().search() {
            Search::Any(patterns) => patterns.is_continued(line),
            Search::Everything | Search::Nothing | Search::Outdated => false,
        }
    }

    /// The begin of the secret that `lines` end with, and that may continue in the next line. The
    /// length of `lines` if there is none. Each line has its line feed.
    #[must_use]
    pub(super) fn continued(&self, lines: &[u8]) -> usize {
        match self.state().search() {
            Search::Any(patterns) => patterns.continued(lines),
            Search::Everything | Search::Nothing | Search::Outdated => lines.len(),
        }
    }

    /// The ranges of `text` that secrets cover, in ascending order and without overlaps.
    #[must_use]
    pub(super) fn covered(&self, text: &[u8]) -> Vec<Range<usize>> {
        match self.state().search() {
            Search::Any(patterns) => patterns.covered(text),
            Search::Everything => std::iter::once(0..text.len()).collect(),
            Search::Nothing | Search::Outdated => Vec::new(),
        }
    }

    /// The length of the beginning of an incomplete line that can be shown, in bytes. It does not
    /// end within a secret or a character. The held back rest is at most one piece of a secret.
    #[must_use]
    pub fn showable(&self, pending: &[u8]) -> usize {
        let search = self.state().search();
        let mut end = pending.len() - unfinished_character(pending);
        let Search::Any(patterns) = search else { return end };
        end = end.min(pending.len() - patterns.unfinished(pending));
        // The held back bytes can start in the middle of another secret.
        let ranges = patterns.covered(pending);
        let end = ranges
            .into_iter()
            .find(|secret| secret.start < end && end < secret.end)
            .map_or(end, |cut| cut.start);
        before_backslashes(pending, end)
    }

    fn state(&self) -> MutexGuard<'_, RegisteredSecrets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegisteredSecrets {
    /// Whether `value` is one of the first `known` secrets, which are sorted.
    fn knows(&self, known: usize, value: &str) -> bool {
        let secrets = &self.secrets[..known];
        secrets.binary_search_by(|secret| secret.expose_secret().cmp(value)).is_ok()
    }

    /// The search for the registered secrets. Builds it again if it is outdated.
    fn search(&mut self) -> Search {
        if matches!(self.search, Search::Outdated) {
            let secrets = self.secrets.iter().map(ExposeSecret::expose_secret);
            let pairs = self.pairs.iter().map(ExposeSecret::expose_secret);
            self.search = Patterns::new(secrets, pairs)
                .map_or(Search::Everything, |patterns| Search::Any(Arc::new(patterns)));
        }
        self.search.clone()
    }
}

/// Returns `end`, or the start of the backslashes around it: two halves of a row of backslashes
/// would be decoded differently. A row longer than [`MOST_BACKSLASHES`] is not an escape and can be
/// split.
fn before_backslashes(pending: &[u8], end: usize) -> usize {
    if pending.get(end) != Some(&b'\\') {
        return end;
    }
    let row = pending[..end].iter().rev().take(MOST_BACKSLASHES + 1);
    let row = row.take_while(|byte| **byte == b'\\').count();
    if row > MOST_BACKSLASHES { end } else { end - row }
}

/// `text` with [`MASK`] in place of each of the `secrets`, as valid UTF-8 without NUL.
pub(super) fn replaced<'text>(text: &'text [u8], secrets: &[Range<usize>]) -> Cow<'text, str> {
    let masked = if secrets.is_empty() {
        String::from_utf8_lossy(text)
    } else {
        let mut masked = Vec::with_capacity(text.len());
        let mut shown = 0;
        for secret in secrets {
            masked.extend_from_slice(&text[shown..secret.start]);
            masked.extend_from_slice(MASK.as_bytes());
            shown = secret.end;
        }
        masked.extend_from_slice(&text[shown..]);
        Cow::Owned(
            String::from_utf8(masked)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        )
    };
    if masked.contains('\0') { Cow::Owned(masked.replace('\0', "\u{fffd}")) } else { masked }
}

/// Sorts `secrets`, and removes duplicates.
fn sorted(mut secrets: Vec<SecretString>) -> Vec<SecretString> {
    secrets.sort_by(|one, other| one.expose_secret().cmp(other.expose_secret()));
    secrets.dedup_by(|one, other| one.expose_secret() == other.expose_secret());
    secrets
}

/// Splits `line` into pieces of at most [`LONGEST`] bytes. The last piece overlaps the one before, so
/// that it is not too short to be masked. The other pieces do not overlap, because an incomplete
/// line is split between them.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let last = line.len().saturating_sub(LONGEST);
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let end = line.floor_char_boundary(start + LONGEST);
        next = (end < line.len()).then(|| end.min(line.ceil_char_boundary(last)));
        Some(&line[start..end])
    })
}

/// The length of an incomplete UTF-8 sequence at the end of `pending`.
fn unfinished_character(pending: &[u8]) -> usize {
    let start = pending.iter().rev().take(3).position(|byte| byte & 0xC0 != 0x80);
    let Some(length) = start.map(|back| back + 1) else { return 0 };
    let needed = match pending[pending.len() - length] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    if needed > length { length } else { 0 }
}

#[cfg(test)]
#[path = "redactor_tests.rs"]
mod tests;
