//! Extracts errors and warnings from the tool's human-readable log.
//!
//! The text is the only form of these messages that is the same in every version of the tool. The lines
//! are already redacted. A module can print lines in the same form, so the result is only displayed, never
//! interpreted, and its size is limited.

use butler_base::event::Stream;
use butler_result::{Diagnostic, Severity, SourceLocation};

/// How many of each severity are kept.
const MOST: usize = 100;

/// How long the text of one may be, in bytes.
const LONGEST: usize = 8 * 1024;

/// How many columns the tool fills before it goes on in the next line.
const COLUMNS: usize = 78;

/// How an error begins, and a warning.
const BEGINNINGS: [(&str, Severity); 2] =
    [("Error: ", Severity::Error), ("Warning: ", Severity::Warning)];

/// What comes on standard output behind a warning, after an empty line.
const AFTERWARDS: [&str; 15] = [
    "───",
    "Apply complete!",
    "Destroy complete!",
    "Failure! ",
    "Success! ",
    "Initializing ",
    "No changes.",
    "Note: ",
    "OpenTofu ",
    "Outputs:",
    "Plan: ",
    "Releasing state lock.",
    "Saved the plan to: ",
    "Terraform ",
    "The configuration is ",
];

/// The errors and warnings so far.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    found: Vec<Diagnostic>,
    /// One that goes on, for each stream: lines of the two come mixed.
    open: [Option<Reading>; 2],
}

impl Complaints {
    /// Reads a line of the tool's.
    pub(super) fn read(&mut self, stream: Stream, line: &str) {
        let slot = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        // With colours there is a frame around it.
        let framed = line.strip_prefix('│');
        let text = framed.map_or(line, |line| line.strip_prefix(' ').unwrap_or(line));
        let beginning = BEGINNINGS.iter().find_map(|(beginning, severity)| {
            Some((text.strip_prefix(beginning)?.trim_end(), *severity))
        });
        if let Some((summary, severity)) = beginning {
            self.finish(slot);
            let columns = text.chars().count();
            self.open[slot] = Some(Reading::new(severity, summary, columns));
        } else if line == "╵" || self.open[slot].as_ref().is_some_and(|open| open.ends_before(text))
        {
            self.finish(slot);
        } else if let Some(open) = &mut self.open[slot] {
            open.read(text);
        }
    }

    /// Ends those that go on: no line of the same command comes any more.
    pub(super) fn end(&mut self) {
        self.finish(1);
        self.finish(0);
    }

    /// All of them, in the order in which they ended.
    pub(super) fn take(&mut self) -> Vec<Diagnostic> {
        self.end();
        std::mem::take(&mut self.found)
    }

    fn finish(&mut self, slot: usize) {
        let Some(found) = self.open[slot].take().map(Reading::finish) else { return };
        let alike = self.found.iter().filter(|other| other.severity == found.severity);
        // Plan and apply, and modules that are used twice, say the same again.
        if alike.count() < MOST && !self.found.contains(&found) {
            self.found.push(found);
        }
    }
}

/// The part that is being read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// In the summary, whose last line has so many columns.
    Summary(usize),
    /// Before anything but the summary.
    Head,
    /// Where it is, and the source there.
    Snippet,
    Detail,
}

/// One that is being read.
#[derive(Debug)]
struct Reading {
    diagnostic: Diagnostic,
    part: Part,
    after_blank: bool,
}

impl Reading {
    fn new(severity: Severity, summary: &str, columns: usize) -> Self {
        let diagnostic = Diagnostic {
            severity,
            summary: cut(summary, LONGEST).to_owned(),
            detail: String::new(),
            subject: None,
            place: None,
        };
        Self { diagnostic, part: Part::Summary(columns), after_blank: false }
    }

    fn ends_before(&self, text: &str) -> bool {
        self.after_blank && AFTERWARDS.iter().any(|beginning| text.starts_with(beginning))
    }

    fn read(&mut self, text: &str) {
        self.after_blank = text.trim().is_empty();
        if let Part::Summary(columns) = self.part {
            let word = text.split(' ').next().unwrap_or_default();
            if !word.is_empty() && columns + 1 + word.chars().count() > COLUMNS {
                let summary = &mut self.diagnostic.summary;
                summary.push(' ');
                summary.push_str(text.trim_end());
                summary.truncate(summary.floor_char_boundary(LONGEST));
                self.part = Part::Summary(text.chars().count());
                return;
            }
            self.part = Part::Head;
        }
        match self.part {
            Part::Head if self.after_blank => {}
            Part::Head if text.starts_with("  with ") || text.starts_with("  on ") => {
                self.part = Part::Snippet;
                self.locate(text.trim());
            }
            Part::Snippet if self.after_blank => self.part = Part::Detail,
            Part::Snippet => self.locate(text.trim()),
            Part::Summary(_) | Part::Head | Part::Detail => {
                self.part = Part::Detail;
                let detail = &mut self.diagnostic.detail;
                if detail.len() < LONGEST {
                    detail.push_str(cut(text.trim_end(), LONGEST));
                    detail.push('\n');
                }
            }
        }
    }

    /// Reads `with ADDRESS,` or `on FILE line NUMBER, in BLOCK:`.
    fn locate(&mut self, text: &str) {
        let Diagnostic { subject, place, .. } = &mut self.diagnostic;
        if let Some(address) = text.strip_prefix("with ") {
            let address = address.strip_suffix([',', ':']).unwrap_or(address);
            subject.get_or_insert_with(|| address.to_owned());
        } else if let Some(rest) = text.strip_prefix("on ").filter(|_| place.is_none()) {
            let Some((file, line, rest)) = rest.match_indices(" line ").find_map(|(at, word)| {
                let number = &rest[at + word.len()..];
                let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
                let is_whole =
                    number[end..].is_empty() || number[end..].starts_with([',', ':', ' ']);
                let line = number[..end].parse().ok().filter(|_| is_whole)?;
                Some((&rest[..at], line, &number[end..]))
            }) else {
                return;
            };
            *place = Some(SourceLocation { file: file.to_owned(), line });
            if let Some((block, _)) = rest.strip_prefix(", in ").and_then(|it| it.rsplit_once(':'))
            {
                subject.get_or_insert_with(|| block.to_owned());
            }
        }
    }

    fn finish(mut self) -> Diagnostic {
        let detail = &mut self.diagnostic.detail;
        detail.truncate(cut(detail, LONGEST).trim_end().len());
        self.diagnostic
    }
}

/// The beginning of `text`, of at most `length` bytes.
fn cut(text: &str, length: usize) -> &str {
    &text[..text.floor_char_boundary(length)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[(Stream, &str)]) -> Vec<Diagnostic> {
        let mut complaints = Complaints::default();
        for (stream, text) in lines {
            text.lines().for_each(|line| complaints.read(*stream, line));
        }
        complaints.take()
    }

    #[test]
    fn an_error_is_the_same_with_and_without_its_frame() {
        let plain = "\nError: Invalid function argument\n\n  with module.a.terraform_data.x[\"k: 1\"],\n  \
            on a line 1/main.tf line 12, in output \"z\":\n  12: output \"z\" { value = file(\"missing\") }\n    \
            ├────────────────\n    │ while calling file(path)\n\nInvalid value: no file\nexists.\n\nSecond paragraph.\n";
        let framed: Vec<String> = plain.trim().lines().map(|line| format!("│ {line}")).collect();
        let framed = format!("╷\n{}\n╵\nno part of it", framed.join("\n"));
        let expected = Diagnostic {
            severity: Severity::Error,
            summary: "Invalid function argument".to_owned(),
            detail: "Invalid value: no file\nexists.\n\nSecond paragraph.".to_owned(),
            subject: Some("module.a.terraform_data.x[\"k: 1\"]".to_owned()),
            place: Some(SourceLocation { file: "a line 1/main.tf".to_owned(), line: 12 }),
        };
        for text in [plain, &framed] {
            assert_eq!(found(&[(Stream::Stderr, text)]), std::slice::from_ref(&expected));
        }
    }

    #[test]
    fn a_summary_goes_on_in_the_next_line_where_it_had_no_room() {
        let text = "Error: Terraform encountered problems during initialisation, including problems\nwith the configuration, described below.\n\nThe detail.";
        let long = found(&[(Stream::Stderr, text)]);
        let summary = "Terraform encountered problems during initialisation, including problems with the configuration, described below.";
        assert_eq!((long[0].summary.as_str(), long[0].detail.as_str()), (summary, "The detail."));
        let short = found(&[(Stream::Stderr, "Error: Short\nbut more")]);
        assert_eq!((short[0].summary.as_str(), short[0].detail.as_str()), ("Short", "but more"));
    }

    #[test]
    fn a_warning_ends_where_the_output_goes_on_and_streams_do_not_mix() {
        let lines = [
            (
                Stream::Stdout,
                "Warning: Check block assertion failed\n\n  on main.tf line 10, in check \"c\":",
            ),
            (Stream::Stderr, "Error: Other\n\nIts detail."),
            (Stream::Stdout, "  10:     condition = var.x == 5\n\nx is not five\n\nSee there.\n"),
            (Stream::Stdout, "\nApply complete! Resources: 1 added\n\nOutputs:\n\no = 1"),
        ];
        let found = found(&lines);
        assert_eq!(found[0].detail, "x is not five\n\nSee there.");
        assert_eq!(found[0].subject.as_deref(), Some("check \"c\""));
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!((found[1].detail.as_str(), found.len()), ("Its detail.", 2));
    }

    #[test]
    fn what_is_said_twice_counts_once_and_there_is_an_end_to_all() {
        let mut complaints = Complaints::default();
        for _ in 0..2 {
            for number in 0..=MOST {
                complaints.read(Stream::Stderr, &format!("Error: {number}"));
            }
        }
        complaints.read(Stream::Stdout, &format!("Warning: {}", "ä".repeat(LONGEST)));
        for _ in 0..10 {
            complaints.read(Stream::Stdout, &"x".repeat(LONGEST / 2));
        }
        let found = complaints.take();
        assert_eq!(found.len(), MOST + 1);
        let last = &found[MOST];
        assert!(last.summary.len() <= LONGEST && last.detail.len() <= LONGEST);
    }
}
