//! The difference between two texts, line by line, with a few unchanged lines around each change.

/// How many unchanged lines are shown before and after a change.
const AROUND: usize = 3;

/// The largest product of line numbers that is compared; larger parts are shown as removed and
/// added. The comparison needs this number of steps and bytes.
const MOST_STEPS: usize = 250_000;

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

/// The difference between `before` and `after`, in the order of their lines.
pub(super) fn line_diff<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let shorter = old.len().min(new.len());
    let begin = (0..shorter).take_while(|index| old[*index] == new[*index]).count();
    let end = (1..=shorter - begin)
        .take_while(|back| old[old.len() - back] == new[new.len() - back])
        .count();
    let mut lines: Vec<_> = old[..begin].iter().map(|line| Line::Same(line)).collect();
    middle(&old[begin..old.len() - end], &new[begin..new.len() - end], &mut lines);
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Same(line)));
    fold(&lines)
}

/// Compares by the longest common subsequence of lines.
fn middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    let (mut from, mut to) = (0, 0);
    if old.len().saturating_mul(new.len()) <= MOST_STEPS {
        let width = new.len() + 1;
        let mut longest = vec![0_u32; (old.len() + 1) * width];
        for one in (0..old.len()).rev() {
            for other in (0..new.len()).rev() {
                longest[one * width + other] = if old[one] == new[other] {
                    longest[(one + 1) * width + other + 1] + 1
                } else {
                    longest[(one + 1) * width + other].max(longest[one * width + other + 1])
                };
            }
        }
        while from < old.len() && to < new.len() {
            if old[from] == new[to] {
                lines.push(Line::Same(old[from]));
                (from, to) = (from + 1, to + 1);
            } else if longest[(from + 1) * width + to] >= longest[from * width + to + 1] {
                lines.push(Line::Old(old[from]));
                from += 1;
            } else {
                lines.push(Line::New(new[to]));
                to += 1;
            }
        }
    }
    lines.extend(old[from..].iter().map(|line| Line::Old(line)));
    lines.extend(new[to..].iter().map(|line| Line::New(line)));
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
}
