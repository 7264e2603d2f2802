//! Extracts errors and warnings from the tool's human-readable output.
//!
//! The text is the only form of these messages that is the same in every version of the tool. A module can
//! print lines in the same form, so a caller must not rely on the result where a mistake matters. Its size is
//! limited, and texts are cut: lines with secrets must be redacted before, or have a limit above their length.

use butler_base::event::Stream;

use crate::diagnostic::{Diagnostic, Severity, SourceLocation};

/// The number of diagnostics of each severity that are kept.
const MAX_DIAGNOSTICS: usize = 100;

/// The longest summary or detail of a diagnostic that is displayed, in bytes.
const MAX_TEXT: usize = 8 * 1024;

/// The number of columns after which the tool breaks a line.
const COLUMNS: usize = 78;

/// The first words of an error and of a warning.
const PREFIXES: [(&str, Severity); 2] =
    [("Error: ", Severity::Error), ("Warning: ", Severity::Warning)];

/// The beginnings of lines that follow a warning on standard output, after an empty line.
const FOLLOWING_LINES: [&str; 15] = [
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

/// Reads the lines of the tool, and collects its errors and warnings.
#[derive(Debug)]
pub struct DiagnosticReader {
    found: Vec<Diagnostic>,
    /// The unfinished diagnostic of each stream, because the lines of both streams are mixed.
    open: [Option<OpenDiagnostic>; 2],
    /// The longest summary or detail, in bytes.
    max_text: usize,
}

impl Default for DiagnosticReader {
    /// A reader of redacted lines, for display.
    fn default() -> Self {
        Self::with_limit(MAX_TEXT)
    }
}

impl DiagnosticReader {
    /// A reader that cuts a summary and a detail after `max_text` bytes.
    #[must_use]
    pub const fn with_limit(max_text: usize) -> Self {
        Self { found: Vec::new(), open: [None, None], max_text }
    }

    /// Reads a line of the tool.
    pub fn read(&mut self, stream: Stream, line: &str) {
        let slot = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        // If colours are enabled, the tool draws a frame around a diagnostic.
        let framed = line.strip_prefix('│');
        let text = framed.map_or(line, |line| line.strip_prefix(' ').unwrap_or(line));
        let headline = PREFIXES.iter().find_map(|(prefix, severity)| {
            Some((text.strip_prefix(prefix)?.trim_end(), *severity))
        });
        if let Some((summary, severity)) = headline {
            self.finish(slot);
            let columns = text.chars().count();
            let open = OpenDiagnostic::new(severity, summary, columns, self.max_text);
            self.open[slot] = Some(open);
        } else if line == "╵"
            || self.open[slot].as_ref().is_some_and(|open| open.ends_before(stream, text))
        {
            self.finish(slot);
        } else if let Some(open) = &mut self.open[slot] {
            open.read(text);
        }
    }

    /// Finishes open diagnostics, because the command has ended.
    pub fn finish_all(&mut self) {
        self.finish(1);
        self.finish(0);
    }

    /// All diagnostics, in the order of their ends. Each is returned once.
    pub fn take(&mut self) -> Vec<Diagnostic> {
        self.finish_all();
        std::mem::take(&mut self.found)
    }

    fn finish(&mut self, slot: usize) {
        let Some(found) = self.open[slot].take().map(OpenDiagnostic::finish) else { return };
        let same_severity = self.found.iter().filter(|other| other.severity == found.severity);
        // Plan and apply, and a module that is used twice, print the same diagnostics.
        if same_severity.count() < MAX_DIAGNOSTICS && !self.found.contains(&found) {
            self.found.push(found);
        }
    }
}

/// The part of a diagnostic that is being read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DiagnosticPart {
    /// The summary, with the number of columns of its last line.
    Summary(usize),
    /// Between summary and snippet.
    Head,
    /// Location and source.
    Snippet,
    Detail,
}

/// An unfinished diagnostic.
#[derive(Debug)]
struct OpenDiagnostic {
    diagnostic: Diagnostic,
    part: DiagnosticPart,
    after_blank: bool,
    max_text: usize,
}

impl OpenDiagnostic {
    fn new(severity: Severity, summary: &str, columns: usize, max_text: usize) -> Self {
        let diagnostic = Diagnostic {
            severity,
            summary: cut(summary, max_text).to_owned(),
            detail: String::new(),
            subject: None,
            place: None,
        };
        Self { diagnostic, part: DiagnosticPart::Summary(columns), after_blank: false, max_text }
    }

    /// Whether `text` does not belong to the diagnostic. A paragraph of an error can begin like other output.
    fn ends_before(&self, stream: Stream, text: &str) -> bool {
        stream == Stream::Stdout
            && self.after_blank
            && FOLLOWING_LINES.iter().any(|beginning| text.starts_with(beginning))
    }

    fn read(&mut self, text: &str) {
        self.after_blank = text.trim().is_empty();
        if let DiagnosticPart::Summary(columns) = self.part {
            let word = text.split(' ').next().unwrap_or_default();
            if !word.is_empty() && columns + 1 + word.chars().count() > COLUMNS {
                let summary = &mut self.diagnostic.summary;
                summary.push(' ');
                summary.push_str(text.trim_end());
                summary.truncate(summary.floor_char_boundary(self.max_text));
                self.part = DiagnosticPart::Summary(text.chars().count());
                return;
            }
            self.part = DiagnosticPart::Head;
        }
        match self.part {
            DiagnosticPart::Head if self.after_blank => {}
            DiagnosticPart::Head if text.starts_with("  with ") || text.starts_with("  on ") => {
                self.part = DiagnosticPart::Snippet;
                self.locate(text.trim());
            }
            DiagnosticPart::Snippet if self.after_blank => self.part = DiagnosticPart::Detail,
            DiagnosticPart::Snippet => self.locate(text.trim()),
            DiagnosticPart::Summary(_) | DiagnosticPart::Head | DiagnosticPart::Detail => {
                self.part = DiagnosticPart::Detail;
                let detail = &mut self.diagnostic.detail;
                if detail.len() < self.max_text {
                    detail.push_str(cut(text.trim_end(), self.max_text));
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
        detail.truncate(cut(detail, self.max_text).trim_end().len());
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
        let mut diagnostics = DiagnosticReader::default();
        for (stream, text) in lines {
            text.lines().for_each(|line| diagnostics.read(*stream, line));
        }
        diagnostics.take()
    }

    #[test]
    fn error_is_the_same_with_and_without_a_frame() {
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
    fn summary_continues_in_the_next_line_if_its_line_is_full() {
        let text = "Error: Terraform encountered problems during initialisation, including problems\nwith the configuration, described below.\n\nThe detail.";
        let long = found(&[(Stream::Stderr, text)]);
        let summary = "Terraform encountered problems during initialisation, including problems with the configuration, described below.";
        assert_eq!((long[0].summary.as_str(), long[0].detail.as_str()), (summary, "The detail."));
        let short = found(&[(Stream::Stderr, "Error: Short\nbut more")]);
        assert_eq!((short[0].summary.as_str(), short[0].detail.as_str()), ("Short", "but more"));
    }

    #[test]
    fn warning_ends_at_the_next_output_and_streams_do_not_mix() {
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
    fn paragraph_of_an_error_can_begin_with_the_name_of_the_tool() {
        let text = "Error: No\n\nOpenTofu failed to fetch it:\n503\n\nTerraform acquires a lock";
        let detail = "OpenTofu failed to fetch it:\n503\n\nTerraform acquires a lock";
        assert_eq!(found(&[(Stream::Stderr, text)])[0].detail, detail);
    }

    #[test]
    fn repeated_diagnostics_count_once_and_the_size_is_limited() {
        let mut diagnostics = DiagnosticReader::default();
        for _ in 0..2 {
            for number in 0..=MAX_DIAGNOSTICS {
                diagnostics.read(Stream::Stderr, &format!("Error: {number}"));
            }
        }
        diagnostics.read(Stream::Stdout, &format!("Warning: {}", "ä".repeat(MAX_TEXT)));
        for _ in 0..10 {
            diagnostics.read(Stream::Stdout, &"x".repeat(MAX_TEXT / 2));
        }
        let found = diagnostics.take();
        assert_eq!(found.len(), MAX_DIAGNOSTICS + 1);
        let last = &found[MAX_DIAGNOSTICS];
        assert!(last.summary.len() <= MAX_TEXT && last.detail.len() <= MAX_TEXT);
    }
}
