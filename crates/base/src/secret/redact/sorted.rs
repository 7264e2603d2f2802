//! Sorted texts, in which a binary search finds a prefix.

use std::ops::Deref;

/// Texts in ascending order, without duplicates.
pub(in crate::secret) struct Sorted<T> {
    texts: Vec<T>,
    /// Whether a text begins with the byte of this index.
    begins: [bool; 256],
    longest: usize,
}

impl<T: AsRef<[u8]>> Sorted<T> {
    /// Sorts `texts`.
    pub(in crate::secret) fn new(mut texts: Vec<T>) -> Self {
        texts.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
        texts.dedup_by(|one, other| one.as_ref() == other.as_ref());
        let mut begins = [false; 256];
        let mut longest = 0;
        for text in texts.iter().map(AsRef::as_ref) {
            longest = longest.max(text.len());
            if let Some(byte) = text.first() {
                begins[usize::from(*byte)] = true;
            }
        }
        Self { texts, begins, longest }
    }

    /// The length of the longest text.
    pub(in crate::secret) fn longest(&self) -> usize {
        self.longest
    }

    /// The length of the longest suffix of `pending` that is a proper prefix of a text.
    pub(in crate::secret) fn unfinished(&self, pending: &[u8]) -> usize {
        let first = (pending.len() + 1).saturating_sub(self.longest);
        (first..pending.len())
            .filter(|start| self.begins[usize::from(pending[*start])])
            .find(|start| self.continues(&pending[*start..]))
            .map_or(0, |start| pending.len() - start)
    }

    /// Whether a text begins with `beginning` and is longer.
    fn continues(&self, beginning: &[u8]) -> bool {
        // Texts with the same prefix are adjacent, the shortest first.
        let next = self.texts.partition_point(|text| text.as_ref() <= beginning);
        self.texts.get(next).is_some_and(|text| text.as_ref().starts_with(beginning))
    }
}

impl<T> Deref for Sorted<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_prefix_equals_the_result_of_a_linear_search() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut text = |longest| {
            let length = random.usize(1..longest);
            (0..length).map(|_| *random.choice(b"ab").unwrap()).collect::<Vec<u8>>()
        };
        for _ in 0..2000 {
            let texts: Vec<_> = (0..5).map(|_| text(9)).collect();
            let pending = text(15);
            let begun = |length: usize| {
                texts.iter().any(|text| {
                    text.len() > length && text.starts_with(&pending[pending.len() - length..])
                })
            };
            let expected = (1..=pending.len()).rev().find(|length| begun(*length)).unwrap_or(0);
            assert_eq!(Sorted::new(texts.clone()).unfinished(&pending), expected);
        }
    }
}
