//! Finds the elements that two sequences have in common: a longest common subsequence.

/// The largest product of the lengths of two parts that are compared. The comparison takes this number of steps, and four
/// bytes for each. Of longer sequences, only equal elements at both ends correspond.
const MOST_STEPS: usize = 250_000;

/// The pairs of indexes of corresponding elements, in ascending order. The sequences have these lengths, and `same`
/// compares an element of the first with one of the second.
pub fn align(
    (old, new): (usize, usize),
    same: impl Fn(usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    let shorter = old.min(new);
    let begin = (0..shorter).take_while(|index| same(*index, *index)).count();
    let end = (1..=shorter - begin).take_while(|back| same(old - back, new - back)).count();
    let mut pairs: Vec<_> = (0..begin).map(|index| (index, index)).collect();
    pairs.extend(align_middle((begin, old - end), (begin, new - end), same));
    pairs.extend((1..=end).rev().map(|back| (old - back, new - back)));
    pairs
}

/// The pairs between these begins and ends.
fn align_middle(
    (from, old): (usize, usize),
    (to, new): (usize, usize),
    same: impl Fn(usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    let (height, width) = (old - from, new - to);
    let mut pairs = Vec::new();
    if height.saturating_mul(width) > MOST_STEPS {
        return pairs;
    }
    // The length of the longest common subsequence behind each pair of positions.
    let row = width + 1;
    let mut longest = vec![0_u32; (height + 1) * row];
    for one in (0..height).rev() {
        for other in (0..width).rev() {
            longest[one * row + other] = if same(from + one, to + other) {
                longest[(one + 1) * row + other + 1] + 1
            } else {
                longest[(one + 1) * row + other].max(longest[one * row + other + 1])
            };
        }
    }
    let (mut one, mut other) = (0, 0);
    while one < height && other < width {
        if same(from + one, to + other) {
            pairs.push((from + one, to + other));
            (one, other) = (one + 1, other + 1);
        } else if longest[(one + 1) * row + other] >= longest[one * row + other + 1] {
            one += 1;
        } else {
            other += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(old: &str, new: &str) -> Vec<(usize, usize)> {
        let (one, other) = (old.as_bytes(), new.as_bytes());
        align((one.len(), other.len()), |from, to| one[from] == other[to])
    }

    #[test]
    fn corresponding_elements_are_in_both_sequences_in_the_same_order() {
        assert_eq!(aligned("abcdef", "acef"), [(0, 0), (2, 1), (4, 2), (5, 3)]);
        assert_eq!(aligned("abc", "xaybz"), [(0, 1), (1, 3)]);
        assert_eq!(aligned("aa", "a"), [(0, 0)]);
        assert_eq!(aligned("", "a"), []);
        assert_eq!(aligned("ab", "ab"), [(0, 0), (1, 1)]);
    }

    #[test]
    fn long_sequences_are_compared_at_their_ends_only() {
        let lengths = (1000, 1000);
        let pairs = align(lengths, |from, to| from == to && !(10..=990).contains(&from));
        assert_eq!((pairs.len(), pairs[9], pairs[10]), (19, (9, 9), (991, 991)));
    }
}
