//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

use super::families::Family;
use super::histogram::Histogram;

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics as text.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric. Its samples follow.
    pub fn family(&mut self, family: &Family) {
        let Family { name, kind, help, .. } = family;
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", kind.name()));
    }

    /// One value, with the values of the metric's labels in their order.
    pub fn sample(&mut self, family: &Family, values: &[&str], value: impl Display) {
        self.part(
            family.name,
            "",
            family.labels.iter().copied().zip(values.iter().copied()),
            value,
        );
    }

    /// One series of a histogram, with the values of the metric's labels in their order.
    pub(super) fn histogram(&mut self, family: &Family, values: &[&str], histogram: &Histogram) {
        let labels = || family.labels.iter().copied().zip(values.iter().copied());
        let (bounded, count) = histogram.cumulative();
        for (bound, up_to) in bounded {
            let bound = bound.to_string();
            self.part(family.name, "_bucket", labels().chain([("le", &*bound)]), up_to);
        }
        self.part(family.name, "_bucket", labels().chain([("le", "+Inf")]), count);
        self.part(family.name, "_sum", labels(), histogram.sum().as_secs_f64());
        self.part(family.name, "_count", labels(), count);
    }

    /// A metric with one value and no labels.
    pub fn single(&mut self, family: &Family, value: impl Display) {
        self.family(family);
        self.sample(family, &[], value);
    }

    /// One line of a metric whose name continues with `suffix`.
    fn part<'a>(
        &mut self,
        name: &str,
        suffix: &str,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        value: impl Display,
    ) {
        let labels: Vec<String> =
            labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        if labels.is_empty() {
            self.line(format_args!("{name}{suffix} {value}"));
        } else {
            self.line(format_args!("{name}{suffix}{{{}}} {value}", labels.join(",")));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// The value of a label between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{POLLS, RUNS_WAITING};

    #[test]
    fn values_of_labels_cannot_break_out_of_their_quotes() {
        let mut text = Exposition::default();
        text.single(&RUNS_WAITING, 3);
        text.family(&POLLS);
        text.sample(&POLLS, &["a\"b\\c\nd", "failed"], 1.5);
        let text = text.into_text();
        assert!(
            text.contains("# TYPE butler_runs_waiting gauge\nbutler_runs_waiting 3\n"),
            "{text}"
        );
        let expected = "butler_polls_total{repository=\"a\\\"b\\\\c\\nd\",result=\"failed\"} 1.5\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
