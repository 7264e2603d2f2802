//! Replaces every registered secret by `***`, in one pass over the bytes whatever their number.
//!
//! A secret is found as it is, in each of its lines, escaped for a literal, XML, a shell or a URL, and
//! in base64 wherever it begins there. Where occurrences overlap, all that they cover is masked, so that the
//! end of one secret does not stay behind because another one began before it. Values are zeroed on
//! drop and by [`Redactor::forget`].

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::{ExposeSecret, SecretString};

use super::patterns::Patterns;

/// What stands in for a secret.
pub const MASK: &str = "***";

/// Shorter values (and shorter lines of a value) cannot be masked: `a` would eat half the log.
/// Escaped forms are longer than the value; for base64 there is a limit of its own.
const SHORTEST: usize = 4;

/// Longer values are masked in pieces of this size, so that a line that is shown before its end is
/// known never has to be held back by more than two pieces in base64.
const LONGEST: usize = 64 * 1024;

/// How many backslashes are kept together: more than escape one character.
const MOST_BACKSLASHES: usize = 64;

/// Told of each value and each line of a value that is registered.
type Observer = Arc<dyn Fn(&str) + Send + Sync>;

/// The secrets of a run, shared by everything that shows text.
#[derive(Default)]
pub struct Redactor {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sorted, each once.
    secrets: Vec<SecretString>,
    too_short: Vec<String>,
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
    /// Secrets were registered since the last one.
    Outdated,
    Any(Arc<Patterns>),
    /// There are too many secrets to search for. Then nothing is shown.
    Everything,
}

impl Redactor {
    /// A redactor that knows no secret yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers secrets; from now on none of them gets through. Of a value with several lines,
    /// each line counts, because the log is made of lines.
    pub fn register<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) {
        self.add(secrets.into_iter().map(|secret| (None, secret)));
    }

    /// Registers secrets like [`Redactor::register`] and remembers the names of those that are too
    /// short to be masked.
    pub fn register_named<'a>(
        &self,
        secrets: impl IntoIterator<Item = (&'a str, &'a SecretString)>,
    ) {
        self.add(secrets.into_iter().map(|(name, secret)| (Some(name), secret)));
    }

    /// Has `observer` called with each line that is registered from now on, before the registration
    /// returns. It must not use this redactor.
    pub fn observe(&self, observer: impl Fn(&str) + Send + Sync + 'static) {
        self.state().observer = Some(Arc::new(observer));
    }

    /// Has nobody called any more.
    pub fn end_observation(&self) {
        self.state().observer = None;
    }

    /// The names of the secrets that are too short to be masked, in the order in which they came.
    #[must_use]
    pub fn too_short(&self) -> Vec<String> {
        self.state().too_short.clone()
    }

    /// Zeroes and drops every secret. What is shown from now on must come from where none of them
    /// can be, and what may still show up must be registered anew.
    pub fn forget(&self) {
        *self.state() = State::default();
    }

    fn add<'a>(&self, secrets: impl Iterator<Item = (Option<&'a str>, &'a SecretString)>) {
        let mut state = self.state();
        let known = state.secrets.len();
        let mut lines = Vec::new();
        for (name, secret) in secrets {
            let value = secret.expose_secret().trim();
            let mut is_short = true;
            for line in value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST) {
                is_short = false;
                if !state.knows(known, line) {
                    lines.push(SecretString::from(line));
                    state.secrets.extend(pieces(line).map(SecretString::from));
                }
            }
            // In one piece where it is escaped or encoded.
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
        state.secrets.sort_by(|one, other| one.expose_secret().cmp(other.expose_secret()));
        state.secrets.dedup_by(|one, other| one.expose_secret() == other.expose_secret());
        state.search = Search::Outdated;
        let observer = state.observer.clone();
        drop(state);
        if let Some(observer) = observer {
            for line in &lines {
                observer(line.expose_secret());
            }
        }
    }

    /// `text` without secrets, as valid UTF-8 without NUL: what is neither becomes U+FFFD.
    /// Text that needs no change is not copied.
    #[must_use]
    pub fn redact<'text>(&self, text: &'text [u8]) -> Cow<'text, str> {
        self.mask(text, Patterns::covered)
    }

    /// Whether nothing is left of `text` where it is shown.
    #[must_use]
    pub fn hides(&self, text: &str) -> bool {
        self.redact(text.as_bytes()) == MASK
    }

    /// Whether no secret is in `text`, which is UTF-8 without NUL.
    #[must_use]
    pub(super) fn is_open(&self, text: &[u8]) -> bool {
        match self.state().search() {
            Search::Everything => false,
            Search::Any(patterns) => !patterns.is_in(text),
            Search::Nothing | Search::Outdated => true,
        }
    }

    /// The same as [`Redactor::redact`] for what people read line by line: a secret that was broken
    /// into the lines of `text`, or of a text that `text` is a line of, is masked too.
    #[must_use]
    pub fn redact_lines<'text>(&self, text: &'text [u8]) -> Cow<'text, str> {
        self.mask(text, Patterns::covered_in_lines)
    }

    /// The same as [`Redactor::redact`] for a name of something: only secrets of some length are
    /// masked, because a short one may be a word that the name has for itself.
    #[must_use]
    pub(super) fn redact_name<'text>(&self, text: &'text [u8]) -> Cow<'text, str> {
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

    /// How many bytes of the beginning of a line can be shown before its end is known: no secret
    /// and no character is cut in two. What is held back is never more than a piece of a secret.
    #[must_use]
    pub fn showable(&self, pending: &[u8]) -> usize {
        let search = self.state().search();
        let mut end = pending.len() - unfinished_character(pending);
        let Search::Any(patterns) = search else { return end };
        end = end.min(pending.len() - patterns.unfinished(pending));
        // What is held back may itself begin in the middle of another secret.
        let ranges = patterns.covered(pending);
        let end = ranges
            .into_iter()
            .find(|secret| secret.start < end && end < secret.end)
            .map_or(end, |cut| cut.start);
        before_backslashes(pending, end)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether `value` is among the first `known` secrets, which are in order.
    fn knows(&self, known: usize, value: &str) -> bool {
        let secrets = &self.secrets[..known];
        secrets.binary_search_by(|secret| secret.expose_secret().cmp(value)).is_ok()
    }

    /// The search for what is registered, made anew where that is needed.
    fn search(&mut self) -> Search {
        if matches!(self.search, Search::Outdated) {
            let secrets = self.secrets.iter().map(ExposeSecret::expose_secret);
            self.search = Patterns::new(secrets)
                .map_or(Search::Everything, |patterns| Search::Any(Arc::new(patterns)));
        }
        self.search.clone()
    }
}

/// `end`, or where the backslashes begin in the middle of which it is: each half of them would be
/// read in another way. A long row of them is a drawing, and is not held back.
fn before_backslashes(pending: &[u8], end: usize) -> usize {
    if pending.get(end) != Some(&b'\\') {
        return end;
    }
    let row = pending[..end].iter().rev().take(MOST_BACKSLASHES + 1);
    let row = row.take_while(|byte| **byte == b'\\').count();
    if row > MOST_BACKSLASHES { end } else { end - row }
}

/// `line` in pieces of at most [`LONGEST`] bytes; the last one reaches back,
/// so that it is not too short to be
/// masked. They do not overlap otherwise: a line that is shown before its end is known is cut there.
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

/// The length of an UTF-8 sequence at the end of `pending` that more bytes could complete.
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
