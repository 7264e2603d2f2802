//! Replaces every registered secret by `***`, in one pass over the bytes whatever their number.
//!
//! Where occurrences overlap, all that they cover is masked, so that the end of one secret does
//! not stay behind because another one began before it. The registered values are zeroed on drop, and
//! so is the automaton that searches for them: the allocator zeroes all that is freed.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use secrecy::{ExposeSecret, SecretString};

/// What stands in for a secret.
pub(super) const MASK: &str = "***";

/// Shorter values (and shorter lines of a value) cannot be masked: `a` would eat half the log.
const SHORTEST: usize = 4;

/// Longer values are masked in pieces of this size, so that a line that is shown before its end is
/// known never has to be held back by more than one piece.
const LONGEST: usize = 64 * 1024;

/// The secrets of a run, shared by everything that shows text.
#[derive(Debug, Default)]
pub struct Redactor {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sorted, each once.
    secrets: Vec<SecretString>,
    too_short: Vec<String>,
    patterns: Patterns,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets", self.secrets.len())
    }
}

#[derive(Clone, Default)]
enum Patterns {
    #[default]
    Nothing,
    Any(Arc<AhoCorasick>),
    /// There are too many secrets to search for. Then nothing is shown at all.
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

    /// Zeroes and forgets every secret but those of `kept`. What is shown later is masked for these
    /// alone, so it must come from where the others cannot be any more.
    pub fn forget_all_but<'a>(&self, kept: impl IntoIterator<Item = &'a SecretString>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
        self.register(kept);
    }

    /// The names of the secrets that are too short to be masked, in the order in which they came.
    #[must_use]
    pub fn too_short(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).too_short.clone()
    }

    fn add<'a>(&self, secrets: impl Iterator<Item = (Option<&'a str>, &'a SecretString)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.secrets.len();
        for (name, secret) in secrets {
            let value = secret.expose_secret();
            let before = state.secrets.len();
            for line in value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST) {
                state.secrets.extend(pieces(line).map(SecretString::from));
            }
            if let Some(name) = name
                && state.secrets.len() == before
                && !value.trim().is_empty()
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
        // The compact automaton: the fastest kind takes a kilobyte for each byte of a secret.
        state.patterns = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::Standard)
            .build(state.secrets.iter().map(ExposeSecret::expose_secret))
            .map_or(Patterns::Everything, |patterns| Patterns::Any(Arc::new(patterns)));
    }

    /// `text` without secrets, as valid UTF-8 without NUL: what is neither becomes U+FFFD.
    /// Text that needs no change is not copied.
    #[must_use]
    pub fn redact<'text>(&self, text: &'text [u8]) -> Cow<'text, str> {
        let patterns = self.patterns();
        let masked =
            match &patterns {
                Patterns::Everything => return Cow::Borrowed(MASK),
                Patterns::Any(patterns) if patterns.is_match(text) => {
                    let mut masked = Vec::with_capacity(text.len());
                    let mut shown = 0;
                    for secret in covered(patterns, text) {
                        masked.extend_from_slice(&text[shown..secret.start]);
                        masked.extend_from_slice(MASK.as_bytes());
                        shown = secret.end;
                    }
                    masked.extend_from_slice(&text[shown..]);
                    Cow::Owned(String::from_utf8(masked).unwrap_or_else(|error| {
                        String::from_utf8_lossy(error.as_bytes()).into_owned()
                    }))
                }
                _ => String::from_utf8_lossy(text),
            };
        if masked.contains('\0') { Cow::Owned(masked.replace('\0', "\u{fffd}")) } else { masked }
    }

    /// How many bytes of the beginning of a line can be shown before its end is known: no secret
    /// and no character is cut in two. At most 64 KiB are held back.
    #[must_use]
    pub fn showable(&self, pending: &[u8]) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut end = pending.len() - unfinished_character(pending);
        for secret in &state.secrets {
            let begun = unfinished_secret(pending, secret.expose_secret().as_bytes());
            end = end.min(pending.len() - begun);
        }
        // What is held back may itself begin in the middle of another secret.
        if let Patterns::Any(patterns) = &state.patterns
            && let Some(cut) = covered(patterns, pending)
                .into_iter()
                .find(|secret| secret.start < end && end < secret.end)
        {
            end = cut.start;
        }
        end
    }

    fn patterns(&self) -> Patterns {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).patterns.clone()
    }
}

/// `line` in pieces of at most [`LONGEST`] bytes; the last one reaches back, so that it is not too
/// short to be masked.
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

/// What secrets cover in `text`: ranges in ascending order that do not overlap.
fn covered(patterns: &AhoCorasick, text: &[u8]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    // Matches come in the order of their ends, so only the last ranges can overlap the next one.
    for found in patterns.find_overlapping_iter(text) {
        let mut range = found.range();
        while let Some(last) = ranges.pop_if(|last| last.end > range.start) {
            range.start = range.start.min(last.start);
        }
        ranges.push(range);
    }
    ranges
}

/// The length of the longest end of `pending` that is a beginning, but not the whole, of `secret`.
fn unfinished_secret(pending: &[u8], secret: &[u8]) -> usize {
    (1..secret.len().min(pending.len() + 1))
        .rev()
        .find(|length| pending.ends_with(&secret[..*length]))
        .unwrap_or(0)
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
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        let redactor = Redactor::new();
        let secrets: Vec<SecretString> = secrets.iter().copied().map(SecretString::from).collect();
        redactor.register(&secrets);
        redactor
    }

    #[test]
    fn secrets_never_get_through() {
        let redactor = redactor(&["hunter22", "first line\n  second line\r\n"]);
        assert_eq!(redactor.redact(b"password=hunter22;"), "password=***;");
        assert_eq!(redactor.redact(b"second line"), "***");
        assert_eq!(redactor.redact(b"hunter22hunter22 \xffhunter22"), "****** \u{fffd}***");
        assert!(!format!("{redactor:?}").contains("hunter22"));
    }

    #[test]
    fn text_that_needs_no_change_is_not_copied() {
        let redactor = redactor(&["hunter22"]);
        assert!(matches!(redactor.redact("schön".as_bytes()), Cow::Borrowed("schön")));
        assert_eq!(redactor.redact(b"a\0b\xff"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn overlapping_secrets_are_masked_in_whole() {
        let redactor = redactor(&["abcdef", "defghi", "abcdefghijkl", "abcd", "aaaa"]);
        assert_eq!(redactor.redact(b"<abcdefghi>"), "<***>");
        assert_eq!(redactor.redact(b"<abcdefghijkl>"), "<***>");
        assert_eq!(redactor.redact(b"<aaaaaa>"), "<***>");
    }

    #[test]
    fn beginning_of_a_secret_is_held_back() {
        let redactor = redactor(&["hunter22", "xhunter", "ababac"]);
        assert_eq!(redactor.showable(b"password=hunt"), "password=".len());
        assert_eq!(redactor.showable(b"password="), "password=".len());
        assert_eq!(redactor.showable(b"password=hunter22"), "password=hunter22".len());
        assert_eq!(redactor.showable(b"ababab"), 2);
        // `hunter` may become `hunter22`, and showing `x` alone would uncover `xhunter`.
        assert_eq!(redactor.showable(b"= xhunter"), 2);
    }

    #[test]
    fn character_cut_in_two_is_held_back() {
        let redactor = Redactor::new();
        let euro = "€".as_bytes();
        assert_eq!(redactor.showable(&[b"\xff1", &euro[..1]].concat()), 2);
        assert_eq!(redactor.showable(&[b"\xff1", &euro[..2]].concat()), 2);
        assert_eq!(redactor.showable(&[b"\xff1", euro].concat()), 5);
        assert_eq!(redactor.showable(b"\xff"), 1);
        assert_eq!(redactor.showable(b"\x80\x80\x80\x80"), 4);
    }

    #[test]
    fn long_secret_does_not_hold_back_a_full_buffer() {
        let secret: String =
            (0..180_000).flat_map(|number: u32| [number.to_string(), ";".to_owned()]).collect();
        let redactor = redactor(&[&secret]);
        let full = &secret.as_bytes()[..1024 * 1024];
        let showable = redactor.showable(full);
        assert!(showable >= full.len() - LONGEST, "{showable}");
        let shown = redactor.redact(&full[..showable]).into_owned()
            + &redactor.redact(&secret.as_bytes()[showable..]);
        assert_eq!(shown.replace(MASK, ""), "");
    }

    #[test]
    fn what_is_forgotten_is_masked_no_more() {
        let redactor = redactor(&["hunter22", "brce_token"]);
        redactor.forget_all_but(&[SecretString::from("brce_token")]);
        assert_eq!(redactor.redact(b"hunter22 brce_token"), "hunter22 ***");
        redactor.forget_all_but([]);
        assert_eq!(redactor.redact(b"hunter22 brce_token"), "hunter22 brce_token");
        assert_eq!(redactor.showable(b"brce_"), 5);
    }

    #[test]
    fn names_of_values_too_short_to_mask_are_kept() {
        let redactor = Redactor::new();
        let [short, long, empty, lines] =
            ["abc", "abcd", " ", "{\n\"key\": 1\n}"].map(SecretString::from);
        let values = [("short", &short), ("long", &long), ("empty", &empty), ("lines", &lines)];
        redactor.register_named(values);
        redactor.register_named(values);
        assert_eq!(redactor.too_short(), ["short"]);
        assert_eq!(redactor.redact(b"abc abcd"), "abc ***");
        assert_eq!(redactor.state.lock().unwrap().secrets.len(), 2);
    }

    #[test]
    fn no_secret_can_be_put_together_from_parts_of_a_line() {
        let secrets = ["abab", "babba", "aabbaa", "bbbbb"];
        let redactor = redactor(&secrets);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let (mut pending, mut shown) = (Vec::new(), String::new());
            for _ in 0..random.usize(1..60) {
                pending.push(*random.choice(b"aabbc").unwrap());
                if random.u8(..4) == 0 {
                    let end = redactor.showable(&pending);
                    shown += &redactor.redact(&pending.drain(..end).collect::<Vec<_>>());
                }
            }
            shown += &redactor.redact(&pending);
            assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
        }
    }
}
