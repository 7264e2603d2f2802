//! The difference between two texts, line by line, with a few unchanged lines around each change.

use crate::alignment::align;

/// How many unchanged lines are shown before and after a change.
const AROUND: usize = 3;

/// A line of the difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Line<'a> {
    /// Removed.
    Old(&'a str),
    /// Added.
    New(&'a str),
    /// Unchanged.
    Same(&'a str),
    /// This number of unchanged lines is omitted.
    Gap(usize),
}

/// The difference between `before` and `after`, in the order of their lines. The carriage return of a line belongs to the
/// line. If only one of the texts ends with a line end, it has one more line, which is empty.
pub(super) fn line_diff<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let is_ended = [before, after].iter().all(|text| text.is_empty() || text.ends_with('\n'));
    let lines = |text: &'a str| match text {
        "" => Vec::new(),
        text => text.strip_suffix('\n').filter(|_| is_ended).unwrap_or(text).split('\n').collect(),
    };
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(before), lines(after));
    let pairs = align((old.len(), new.len()), |from, to| old[from] == new[to]);
    let (mut found, mut from, mut to) = (Vec::new(), 0, 0);
    for (one, other) in pairs.into_iter().chain([(old.len(), new.len())]) {
        found.extend(old[from..one].iter().map(|line| Line::Old(line)));
        found.extend(new[to..other].iter().map(|line| Line::New(line)));
        found.extend(old.get(one).map(|line| Line::Same(line)));
        (from, to) = (one + 1, other + 1);
    }
    fold(&found)
}

/// Omits unchanged lines that are far from a change.
fn fold<'a>(lines: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut near = vec![false; lines.len()];
    for index in 0..lines.len() {
        if !matches!(lines[index], Line::Same(_)) {
            let end = (index + AROUND + 1).min(lines.len());
            near[index.saturating_sub(AROUND)..end].fill(true);
        }
    }
    let mut folded = Vec::new();
    for (line, near) in lines.iter().zip(near) {
        match (near, folded.last_mut()) {
            (true, _) => folded.push(*line),
            (false, Some(Line::Gap(count))) => *count += 1,
            (false, _) => folded.push(Line::Gap(1)),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_lines_far_from_a_change_are_omitted() {
        let numbers: Vec<_> = (0..30).map(|number| number.to_string()).collect();
        let before = numbers.join("\n") + "\n";
        let after = before.replace("14\n", "x\ny\n").replace("16\n", "");
        let shown: Vec<_> = line_diff(&before, &after)
            .into_iter()
            .map(|line| match line {
                Line::Old(line) => format!("-{line}"),
                Line::New(line) => format!("+{line}"),
                Line::Same(line) => line.to_owned(),
                Line::Gap(count) => format!("({count})"),
            })
            .collect();
        assert_eq!(shown.join(" "), "(11) 11 12 13 -14 +x +y 15 -16 17 18 19 (10)");
    }

    #[test]
    fn large_difference_is_not_compared() {
        let [before, after] = ["a\n", "b\n"].map(|line| line.repeat(600));
        let lines = line_diff(&before, &after);
        assert_eq!(lines.len(), 1200);
        assert_eq!((lines[0], lines[1199]), (Line::Old("a"), Line::New("b")));
    }

    #[test]
    fn line_ends_are_part_of_the_difference() {
        use Line::{New, Old, Same};
        assert_eq!(line_diff("a\nb\n", "a\r\nb\n"), [Old("a"), New("a\r"), Same("b")]);
        assert_eq!(line_diff("a\nb\n", "a\nb"), [Same("a"), Same("b"), Old("")]);
        assert_eq!(line_diff("a", "a\nb\n"), [Same("a"), New("b"), New("")]);
        assert_eq!(line_diff("a\n\n", "a\n"), [Same("a"), Old("")]);
        assert_eq!(line_diff("", "a\nb\n"), [New("a"), New("b")]);
    }
}
