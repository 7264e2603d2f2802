//! The log of one run: redacts each line, numbers it, and hands it to every reader.
//!
//! Nothing gets in unredacted, because the redactor is part of the way in. One counter runs over
//! both streams, from 1, in order of arrival (registry API, POST logs). A line that needs no
//! masking is copied once for each reader and nowhere else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::spool::Sender;
use crate::report::diagnostics::Complaints;
use butler_base::event::LogLineRef;
use butler_base::event::{Notation, Phase, Stream};
use butler_base::process::Sink;
use butler_base::secret::Redactor;
use butler_result::Diagnostic;
use butler_result::timeline::Watcher;

/// The largest number that the registry can store, a signed 32-bit integer.
const LARGEST_SEQUENCE: u32 = i32::MAX.unsigned_abs();

/// Who a line comes from.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Origin {
    Child,
    Runner,
}

/// The log of one run; clones share it.
#[derive(Clone, Debug)]
pub struct RunLog {
    redactor: Arc<Redactor>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    last: u32,
    readers: Vec<Sender>,
    shown: Option<Shown>,
    complaints: Complaints,
    warnings: Vec<String>,
}

/// The live output. It does not contain the runner's own messages, which are shown elsewhere.
#[derive(Debug)]
pub struct Shown {
    /// Where the lines go.
    pub sender: Sender,
    /// How they are written.
    pub notation: Box<dyn Notation>,
    /// What is left out of them.
    pub plan_hint: PlanHint,
}

/// Whether who looks on is told how to apply the plan file, as the tool does behind each plan. That
/// file is the run's own and gone after it, so that the advice is wrong for people.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanHint {
    /// Everything is shown as the tool prints it.
    #[default]
    Shown,
    /// It is left out.
    LeftOut {
        /// Whether the line before was a part of it.
        is_within: bool,
    },
}

impl PlanHint {
    /// Whether `line` is a part of what is left out.
    fn takes(&mut self, line: &str) -> bool {
        let Self::LeftOut { is_within } = self else { return false };
        let goes_on =
            ["To perform exactly these actions, run ", "    terraform apply ", "    tofu apply "];
        let goes_on = line.is_empty() || goes_on.iter().any(|begin| line.starts_with(begin));
        *is_within = line.starts_with("Saved the plan to: ") || (*is_within && goes_on);
        *is_within
    }
}

impl Shown {
    fn add(&self, sequence: u32, lines: Option<&str>) {
        for content in lines.into_iter().flat_map(str::lines) {
            self.sender.send(LogLineRef { sequence, stream: Stream::Stdout, content });
        }
    }
}

impl RunLog {
    /// An empty log whose lines go to `readers`; those of children also to who looks on.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>, readers: Vec<Sender>, shown: Option<Shown>) -> Self {
        let state = State {
            last: 0,
            readers,
            shown,
            complaints: Complaints::default(),
            warnings: Vec::new(),
        };
        Self { redactor, state: Arc::new(Mutex::new(state)) }
    }

    /// What the lines are redacted with.
    #[must_use]
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Adds what the runner itself has to say, one entry per line of `text`. Who looks on does
    /// not get it.
    pub fn say(&self, text: &str) {
        for line in text.lines() {
            self.add(Origin::Runner, Stream::Stdout, line.as_bytes());
        }
    }

    /// Shows `text` on the terminal only, after everything that was shown before.
    pub fn ask(&self, text: &str) {
        let state = self.state();
        let sequence = state.last;
        for content in text.lines() {
            if let Some(shown) = &state.shown {
                shown.sender.send(LogLineRef { sequence, stream: Stream::Stderr, content });
            }
        }
    }

    /// Writes to the run's log and to the process's own log.
    pub fn announce(&self, text: &str) {
        self.say(text);
        for line in text.lines() {
            tracing::info!("{line}");
        }
    }

    /// Logs a warning about a probable user error, and repeats it at the end.
    pub fn warn(&self, text: &str) {
        self.say(&format!("Warning: {text}"));
        tracing::warn!("{text}");
        let text = self.redactor.redact(text.as_bytes()).into_owned();
        let mut state = self.state();
        // Plan and apply warn of the same.
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
        self.state().complaints.take()
    }

    /// Ends the log: readers meet the end after the lines that are in it. What comes later is lost.
    pub fn close(&self) {
        let mut state = self.state();
        state.readers.clear();
        let last = state.last;
        if let Some(mut shown) = state.shown.take() {
            let lines = shown.notation.closed();
            shown.add(last, lines.as_deref());
        }
    }

    fn add(&self, origin: Origin, stream: Stream, line: &[u8]) {
        // Windows programs end their lines with it; one inside a line is a progress bar's.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let content = self.redactor.redact(line);
        let mut state = self.state();
        if state.last == LARGEST_SEQUENCE {
            return;
        }
        state.last += 1;
        let entry = LogLineRef { sequence: state.last, stream, content: &content };
        for reader in &state.readers {
            reader.send(entry);
        }
        if origin == Origin::Runner {
            return;
        }
        state.complaints.read(stream, &content);
        if let Some(shown) = &mut state.shown {
            if shown.plan_hint.takes(&content) {
                return;
            }
            let content = shown.notation.line(&content);
            shown.sender.send(LogLineRef { content: &content, ..entry });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for RunLog {
    fn begun(&mut self, phase: Phase) {
        let mut state = self.state();
        let last = state.last;
        if let Some(shown) = &mut state.shown {
            let lines = shown.notation.begun(phase);
            shown.add(last, lines.as_deref());
        }
    }

    fn ended(&mut self, phase: Phase) {
        let mut state = self.state();
        state.complaints.end();
        let last = state.last;
        if let Some(shown) = &mut state.shown {
            let lines = shown.notation.ended(phase);
            shown.add(last, lines.as_deref());
        }
    }
}

impl Sink for RunLog {
    fn line(&self, stream: Stream, line: &[u8]) {
        self.add(Origin::Child, stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        let showable = self.redactor.showable(pending);
        if showable > 0 {
            self.line(stream, &pending[..showable]);
        }
        showable
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
        let plan_hint = PlanHint::LeftOut { is_within: false };
        let shown = Shown { sender: some, notation: Box::new(AsItIs), plan_hint };
        (RunLog::new(redactor, vec![all], Some(shown)), all_lines, some_lines)
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
        log.say("three\nfour");
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
    async fn line_is_redacted_and_made_storable() {
        let (log, all, _) = log();
        log.redactor().register(&[SecretString::from("hunter22")]);
        log.line(Stream::Stdout, b"password=hunter22\r");
        log.line(Stream::Stdout, b" 10%\r 20%\r\r");
        log.line(Stream::Stdout, b"a\0b\xffc");
        assert_eq!(log.partial(Stream::Stdout, b"password: hunt"), "password: ".len());
        assert_eq!(log.partial(Stream::Stdout, b"hunt"), 0);
        log.say("it is hunter22");
        log.close();
        let content: Vec<String> = read(all).await.into_iter().map(|(_, _, text)| text).collect();
        assert_eq!(
            content,
            ["password=***", " 10%\r 20%\r", "a\u{fffd}b\u{fffd}c", "password: ", "it is ***"]
        );
    }

    #[tokio::test]
    async fn who_looks_on_is_not_told_to_apply_a_file_that_will_be_gone() {
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
    async fn what_is_warned_of_twice_is_kept_once() {
        let (log, _all, _) = log();
        for text in ["the state is lost", "another", "the state is lost"] {
            log.warn(text);
        }
        assert_eq!(log.warnings(), ["the state is lost", "another"]);
    }

    #[tokio::test]
    async fn numbers_that_the_registry_cannot_store_are_not_given() {
        let (log, all, _) = log();
        log.state.lock().unwrap().last = LARGEST_SEQUENCE - 1;
        log.line(Stream::Stdout, b"last");
        log.line(Stream::Stdout, b"one too many");
        log.close();
        assert_eq!(read(all).await, [(2_147_483_647, Stream::Stdout, "last".to_owned())]);
    }
}
