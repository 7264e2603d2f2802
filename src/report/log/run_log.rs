//! The log of one run: redacts each line, numbers it, and passes it to every reader.
//!
//! [`RunLog`] is the only way into the log, and it redacts. One counter numbers the lines of both streams from
//! 1, in the order of arrival (registry API, POST logs). A line that may end with the beginning of a secret
//! waits for the next line of its stream. A line without a secret is copied only once for each reader.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::spool::Sender;
use super::waiting::WaitingLines;
use butler_base::event::LogLineRef;
use butler_base::event::{Notation, Phase, Stream};
use butler_base::process::Sink;
use butler_base::secret::{LineRedactor, Redactor};
use butler_result::timeline::Watcher;
use butler_result::{Diagnostic, DiagnosticReader};

/// The largest number that the registry can store, a signed 32-bit integer.
const MAX_SEQUENCE: u32 = i32::MAX.unsigned_abs();

/// The writer of a line.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Origin {
    Child,
    Runner,
}

/// The log of one run; clones share it.
#[derive(Clone, Debug)]
pub struct RunLog {
    redactor: Arc<Redactor>,
    waiting: Arc<WaitingLines>,
    state: Arc<Mutex<LogState>>,
}

#[derive(Debug)]
struct LogState {
    /// The number of the last line.
    last: u32,
    readers: Vec<Sender>,
    live: Option<LiveOutput>,
    diagnostics: DiagnosticReader,
    warnings: Vec<String>,
}

/// The output on the terminal. It does not contain the runner's own messages, which the process's own log
/// shows.
#[derive(Debug)]
pub struct LiveOutput {
    /// The queue of the terminal.
    pub sender: Sender,
    /// The CI system's notation for phases and lines.
    pub notation: Box<dyn Notation>,
    /// Whether the hint to apply the plan file is shown.
    pub plan_hint: PlanHint,
}

/// Whether the terminal shows the tool's hint to apply the plan file, which follows each plan. The file belongs
/// to the run and is removed at its end, so the hint would mislead users of the command line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanHint {
    /// The output is shown as the tool prints it.
    #[default]
    LiveOutput,
    /// The hint is not shown.
    Hidden {
        /// Whether the previous line was a part of the hint.
        is_within: bool,
    },
}

impl PlanHint {
    /// Whether `line` is a part of a hint that is not shown.
    fn hides(&mut self, line: &str) -> bool {
        let Self::Hidden { is_within } = self else { return false };
        let continuations =
            ["To perform exactly these actions, run ", "    terraform apply ", "    tofu apply "];
        let continues =
            line.is_empty() || continuations.iter().any(|begin| line.starts_with(begin));
        *is_within = line.starts_with("Saved the plan to: ") || (*is_within && continues);
        *is_within
    }
}

impl LiveOutput {
    fn add(&self, sequence: u32, lines: Option<&str>) {
        for content in lines.into_iter().flat_map(str::lines) {
            self.sender.send(LogLineRef { sequence, stream: Stream::Stdout, content });
        }
    }
}

impl RunLog {
    /// An empty log whose lines go to `readers`. Lines of children also go to the `live` output.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>, readers: Vec<Sender>, live: Option<LiveOutput>) -> Self {
        let state = LogState {
            last: 0,
            readers,
            live,
            diagnostics: DiagnosticReader::default(),
            warnings: Vec::new(),
        };
        Self { redactor, waiting: Arc::default(), state: Arc::new(Mutex::new(state)) }
    }

    /// The redactor of all lines.
    #[must_use]
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Adds a message of the runner, one entry for each line of `text`. It is not shown on the terminal.
    pub fn write_lines(&self, text: &str) {
        let mut lines = LineRedactor::default();
        let add = |line: &str| self.add(Origin::Runner, Stream::Stdout, line);
        for line in text.lines() {
            lines.push(&self.redactor, line.as_bytes(), add);
        }
        lines.flush(&self.redactor, add);
    }

    /// Shows `text` only on the terminal, after all earlier lines.
    pub fn show_prompt(&self, text: &str) {
        let state = self.state();
        let sequence = state.last;
        for content in text.lines() {
            if let Some(shown) = &state.live {
                shown.sender.send(LogLineRef { sequence, stream: Stream::Stderr, content });
            }
        }
    }

    /// Adds a message of the runner to this log and to the process's own log.
    pub fn announce(&self, text: &str) {
        self.write_lines(text);
        for line in text.lines() {
            tracing::info!("{line}");
        }
    }

    /// Logs a warning about a probable user error, and repeats it at the end.
    pub fn warn(&self, text: &str) {
        self.write_lines(&format!("Warning: {text}"));
        tracing::warn!("{text}");
        let text = self.redactor.redact(text.as_bytes()).into_owned();
        let mut state = self.state();
        // Plan and apply print the same warnings.
        if !state.warnings.contains(&text) {
            state.warnings.push(text);
        }
    }

    /// The warnings, redacted.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.state().warnings.clone()
    }

    /// The tool's errors and warnings so far, redacted; each is returned once.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.state().diagnostics.take()
    }

    /// Ends the log: readers see its end after the last line. Later lines are dropped.
    pub fn close(&self) {
        self.flush();
        let mut state = self.state();
        state.readers.clear();
        let last = state.last;
        if let Some(mut shown) = state.live.take() {
            let lines = shown.notation.closed();
            shown.add(last, lines.as_deref());
        }
    }

    /// Adds a redacted line.
    fn add(&self, origin: Origin, stream: Stream, content: &str) {
        let mut state = self.state();
        if state.last == MAX_SEQUENCE {
            return;
        }
        state.last += 1;
        let entry = LogLineRef { sequence: state.last, stream, content };
        for reader in &state.readers {
            reader.send(entry);
        }
        if origin == Origin::Runner {
            return;
        }
        state.diagnostics.read(stream, content);
        if let Some(shown) = &mut state.live {
            if shown.plan_hint.hides(content) {
                return;
            }
            let content = shown.notation.line(content);
            shown.sender.send(LogLineRef { content: &content, ..entry });
        }
    }

    /// Adds the lines that wait for another line.
    fn flush(&self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.stream_ended(stream);
        }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for RunLog {
    fn begun(&mut self, phase: Phase) {
        let mut state = self.state();
        let last = state.last;
        if let Some(shown) = &mut state.live {
            let lines = shown.notation.begun(phase);
            shown.add(last, lines.as_deref());
        }
    }

    fn ended(&mut self, phase: Phase) {
        self.flush();
        let mut state = self.state();
        state.diagnostics.finish_all();
        let last = state.last;
        if let Some(shown) = &mut state.live {
            let lines = shown.notation.ended(phase);
            shown.add(last, lines.as_deref());
        }
    }
}

impl Sink for RunLog {
    fn line(&self, stream: Stream, line: &[u8]) {
        // Windows programs end lines with a carriage return. Inside of a line it belongs to a progress bar.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let add = |line: &str| self.add(Origin::Child, stream, line);
        self.waiting.of(stream).push(&self.redactor, line, add);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        let showable = self.waiting.of(stream).showable(&self.redactor, pending);
        if showable > 0 {
            self.line(stream, &pending[..showable]);
        }
        showable
    }

    fn stream_ended(&self, stream: Stream) {
        let add = |line: &str| self.add(Origin::Child, stream, line);
        self.waiting.of(stream).flush(&self.redactor, add);
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::spool::{Receiver, channel};
    use super::*;
    use butler_base::event::AsItIs;

    fn log() -> (RunLog, Receiver, Receiver) {
        let (all, all_lines) = channel(1 << 20, "/nonexistent/all".into());
        let (some, some_lines) = channel(1 << 20, "/nonexistent/some".into());
        let redactor = Arc::new(Redactor::new());
        let plan_hint = PlanHint::Hidden { is_within: false };
        let live = LiveOutput { sender: some, notation: Box::new(AsItIs), plan_hint };
        (RunLog::new(redactor, vec![all], Some(live)), all_lines, some_lines)
    }

    async fn read(mut receiver: Receiver) -> Vec<(u32, Stream, String)> {
        let mut lines = Vec::new();
        while let Some(line) = receiver.recv().await {
            lines.push((line.sequence, line.stream, line.content));
        }
        lines
    }

    #[tokio::test]
    async fn one_counter_runs_over_both_streams_and_the_runner() {
        let (log, all, children) = log();
        log.line(Stream::Stdout, b"one");
        log.clone().line(Stream::Stderr, b"two");
        log.write_lines("three\nfour");
        log.line(Stream::Stdout, b"");
        log.close();
        log.line(Stream::Stdout, b"too late");
        let line = |sequence, stream, content: &str| (sequence, stream, content.to_owned());
        let [one, two, five] = [
            line(1, Stream::Stdout, "one"),
            line(2, Stream::Stderr, "two"),
            line(5, Stream::Stdout, ""),
        ];
        assert_eq!(read(children).await, [one.clone(), two.clone(), five.clone()]);
        let runner = [line(3, Stream::Stdout, "three"), line(4, Stream::Stdout, "four")];
        assert_eq!(read(all).await, [&[one, two][..], &runner, &[five]].concat());
    }

    #[tokio::test]
    async fn line_is_redacted_and_converted_to_storable_text() {
        let (log, all, _) = log();
        log.redactor().register(&[SecretString::from("hunter22")]);
        log.line(Stream::Stdout, b"password=hunter22\r");
        log.line(Stream::Stdout, b" 10%\r 20%\r\r");
        log.line(Stream::Stdout, b"a\0b\xffc");
        assert_eq!(log.partial(Stream::Stdout, b"password: hunt"), "password: ".len());
        assert_eq!(log.partial(Stream::Stdout, b"hunt"), 0);
        log.write_lines("it is hunter22");
        log.close();
        let content: Vec<String> = read(all).await.into_iter().map(|(_, _, text)| text).collect();
        assert_eq!(
            content,
            ["password=***", " 10%\r 20%\r", "a\u{fffd}b\u{fffd}c", "password: ", "it is ***"]
        );
    }

    #[tokio::test]
    async fn line_with_the_beginning_of_a_secret_waits_for_the_next_one_of_its_stream() {
        let (log, all, _) = log();
        log.redactor().register(&[SecretString::from("correct horse battery")]);
        log.line(Stream::Stderr, b"it is correct");
        log.line(Stream::Stdout, b"other");
        assert_eq!(log.partial(Stream::Stderr, b"ho"), 0);
        log.line(Stream::Stderr, b"horse battery");
        log.write_lines("the runner: correct\nhorse battery\nand correct");
        log.line(Stream::Stderr, b"not correct");
        log.stream_ended(Stream::Stderr);
        log.line(Stream::Stdout, b"once more correct");
        log.close();
        let content: Vec<String> = read(all).await.into_iter().map(|(_, _, text)| text).collect();
        let expected = [
            "other",
            "it is ***",
            "***",
            "the runner: ***",
            "***",
            "and correct",
            "not correct",
            "once more correct",
        ];
        assert_eq!(content, expected);
    }

    #[tokio::test]
    async fn terminal_does_not_show_the_hint_to_apply_the_plan_file() {
        let (log, all, children) = log();
        let hint = [
            "Saved the plan to: /tmp/run/plan.tfplan",
            "",
            "To perform exactly these actions, run the following command to apply:",
            "    terraform apply \"/tmp/run/plan.tfplan\"",
        ];
        for line in ["Plan: 1 to add", ""].iter().chain(&hint).chain(&["Releasing state lock.", ""])
        {
            log.line(Stream::Stdout, line.as_bytes());
        }
        log.close();
        let text = |lines: Vec<(u32, Stream, String)>| -> Vec<String> {
            lines.into_iter().map(|(_, _, text)| text).collect()
        };
        assert_eq!(text(read(children).await), ["Plan: 1 to add", "", "Releasing state lock.", ""]);
        assert_eq!(read(all).await.len(), 8);
    }

    #[tokio::test]
    async fn repeated_warning_is_kept_once() {
        let (log, _all, _) = log();
        for text in ["the state is lost", "another", "the state is lost"] {
            log.warn(text);
        }
        assert_eq!(log.warnings(), ["the state is lost", "another"]);
    }

    #[tokio::test]
    async fn lines_beyond_the_largest_number_of_the_registry_are_dropped() {
        let (log, all, _) = log();
        log.state.lock().unwrap().last = MAX_SEQUENCE - 1;
        log.line(Stream::Stdout, b"last");
        log.line(Stream::Stdout, b"one too many");
        log.close();
        assert_eq!(read(all).await, [(2_147_483_647, Stream::Stdout, "last".to_owned())]);
    }
}
