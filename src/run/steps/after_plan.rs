//! Runs a program that checks each plan before an apply (`--after-plan`), for policies and costs.
//!
//! The program gets the plan's JSON on standard input, always redacted. Its environment does not contain
//! variables of the run. Of the job's variables it contains only those that most programs need and those
//! that the settings file names. Its output is redacted, limited in size, and logged. Any exit code but 0
//! stops the run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::registry::Part;
use crate::report::{RunLog, WaitingLines};
use crate::run::failure::Failure;
use crate::run::findings::Findings;
use crate::run::plan::part_writer::PartWriter;
use crate::run::plan::plan_report::PlanOptions;
use crate::settings::{PlanJson, variable};
use butler_base::blocking::blocking;
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::{FailureClass, chain};
use butler_base::event::{Phase, Stream};
use butler_base::platform;
use butler_base::process::{
    Command, Environment, Exit, Grace, Input, Output, ProcessError, Sink, supervise,
};
use butler_plan::Content;
use butler_protocol::spec::{AfterPlan, Operation};
use butler_result::PlanCheck;

/// How long the program may run.
const TIMEOUT: Duration = Duration::from_mins(5);

/// How much of its output is logged, in bytes.
const MAX_OUTPUT: usize = 64 * 1024;

/// How much of its output is quoted as the reason of the failure, in bytes.
const MAX_REASON: usize = 4 * 1024;

/// Variables that most programs need, besides those with one of [`PREFIXES`] and those of
/// [`variable::NETWORK`]. The last lines are for Windows.
const VARIABLES: [&str; 21] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "NO_COLOR",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
];

/// Prefixes of such variables.
const PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// A program that checks plans, with its input.
pub(in crate::run) struct AfterPlanProgram<'run> {
    /// The program and its arguments.
    pub(in crate::run) command: AfterPlan,
    /// The job's environment.
    pub(in crate::run) environment: &'run BTreeMap<OsString, OsString>,
    pub(in crate::run) operation: Operation,
    /// The registry's id of the run.
    pub(in crate::run) run_id: Option<String>,
    pub(in crate::run) log: &'run RunLog,
    pub(in crate::run) stop: &'run Stop,
    pub(in crate::run) grace: Grace,
    /// A private directory.
    pub(in crate::run) private: PathBuf,
}

impl AfterPlanProgram<'_> {
    /// Runs the program on the plan in `findings`, and puts its verdict there.
    ///
    /// # Errors
    /// If the program rejects the plan, cannot be run, takes too long or is stopped, or if the plan cannot
    /// be redacted.
    pub(in crate::run) async fn check_plan(
        &self,
        findings: &mut Findings,
        options: &PlanOptions,
    ) -> Result<(), Failure> {
        let name = self.name();
        let input = self.redacted_plan(findings, options).await.map_err(|problem| {
            let text = format!("`{name}` (--after-plan) cannot get the plan: {problem}");
            Failure::because(Phase::AfterPlan, text)
        })?;
        self.log.announce(&format!("Running {name} on the plan"));
        let (output, checked) = self.run(input, TIMEOUT).await;
        findings.plan_check = Some(PlanCheck::new(name, checked.is_ok(), &output));
        checked
    }

    fn name(&self) -> String {
        let name = self.command.program.file_name().unwrap_or(self.command.program.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Returns the output, redacted and at most [`MAX_OUTPUT`] long, and whether the program accepts the plan.
    async fn run(&self, input: Input, timeout: Duration) -> (String, Result<(), Failure>) {
        let command = Command {
            program: self.command.program.clone(),
            arguments: self.command.arguments.iter().map(Into::into).collect(),
            environment: self.environment(),
            // The runner's directory: the module must not decide which files the program finds.
            directory: None,
            input,
            output: Output::Lines,
            ..Command::default()
        };
        let sink = LimitedOutput {
            log: self.log,
            waiting: WaitingLines::default(),
            kept: Mutex::default(),
        };
        let running = supervise(&command, &sink, self.stop, self.grace);
        let ended = tokio::time::timeout(timeout, Box::pin(running)).await;
        if ended.is_err() {
            // The timeout has dropped the future, which kills the process group without waiting for its end.
            butler_base::process::end_orphans().await;
        }
        let KeptOutput { text, is_cut } =
            sink.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let name = self.name();
        if is_cut {
            self.log.warn(&format!("the output of {name} (--after-plan) is cut after 64 KiB"));
        }
        let verdict = self.verdict(ended, timeout, &text);
        (text, verdict)
    }

    fn verdict(
        &self,
        ended: Result<Result<Exit, ProcessError>, tokio::time::error::Elapsed>,
        timeout: Duration,
        text: &str,
    ) -> Result<(), Failure> {
        let name = self.name();
        let (class, problem) = match ended {
            Ok(Ok(Exit { stopped: Some(reason), status, .. })) if !status.success() => {
                return Err(stopped(&reason));
            }
            Ok(Ok(exit)) if exit.status.success() => return Ok(()),
            Ok(Ok(exit)) => match exit.status.code() {
                Some(code) => {
                    (FailureClass::Policy, format!("stopped the run with exit code {code}"))
                }
                None => (FailureClass::Platform, format!("ended with {}", exit.status)),
            },
            Ok(Err(ProcessError::Stopped(reason))) => return Err(stopped(&reason)),
            Ok(Err(error)) => (FailureClass::Configuration, format!("failed: {}", chain(&error))),
            Err(_) => {
                let timeout = humantime::format_duration(timeout);
                (FailureClass::Platform, format!("did not end within {timeout}"))
            }
        };
        let output = quote_beginning(text);
        let separator = if output.is_empty() { "" } else { ": " };
        let text = format!("`{name}` (--after-plan) {problem}{separator}{output}");
        Err(Failure::because(Phase::AfterPlan, text).classed(class))
    }

    /// The plan's JSON without secrets, also if the registry gets it with secrets (`--plan-json raw`).
    async fn redacted_plan(
        &self,
        findings: &Findings,
        options: &PlanOptions,
    ) -> Result<Input, String> {
        let (Some(plan), Some(report)) = (&findings.plan, &findings.plan_report) else {
            return Err("there is no plan (a bug)".to_owned());
        };
        let report = report.as_ref().map_err(Clone::clone)?;
        let json = match options.json {
            PlanJson::Clean => report.json.clone(),
            PlanJson::Raw => {
                let (files, sensitive) = (plan.files.clone(), options.sensitive.clone());
                let (file, redactor) =
                    (self.private.join("plan.masked.json"), self.log.redactor().clone());
                let copy = move || {
                    let create = || Ok(PartWriter::new(&file));
                    let (_, copied) = files
                        .read(create, sensitive, Content::Clean, &redactor)
                        .map_err(|error| chain(&error))?;
                    copied
                        .and_then(|copied| copied.into.finish())
                        .map_err(|error| error.to_string())
                };
                blocking(move |_| copy()).await?
            }
        };
        match json {
            Part::Bytes(bytes) => Ok(Input::Bytes(bytes.to_vec())),
            // The whole file is the plan, so its range is not needed.
            Part::File { path, .. } => {
                let file = File::open(path.as_path())
                    .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
                Ok(Input::File(Arc::new(file)))
            }
        }
    }

    fn environment(&self) -> Environment {
        let is_needed = |name: &OsStr| {
            let Some(name) = name.to_str() else { return false };
            let is_named = |known: &str| platform::is_same_variable(name, known);
            VARIABLES.into_iter().chain(variable::NETWORK).any(is_named)
                || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || self.command.environment.iter().any(|given| is_named(given))
        };
        let variables = self.environment.iter().filter(|(name, _)| is_needed(name));
        let mut environment: Environment =
            variables.map(|(name, value)| (name.clone(), value.clone())).collect();
        environment.set("BUTLER_OPERATION", self.operation.to_string());
        if let Some(run_id) = &self.run_id {
            environment.set("BUTLER_RUN_ID", run_id);
        }
        environment
    }
}

fn stopped(reason: &StopReason) -> Failure {
    Failure::stopped(Phase::AfterPlan, reason)
}

/// The beginning of an output, as a part of the reason.
fn quote_beginning(output: &str) -> String {
    let output = output.trim();
    let end = output.floor_char_boundary(MAX_REASON);
    let rest = if end < output.len() { "\n… (more in the log)" } else { "" };
    format!("{}{rest}", &output[..end])
}

/// Redacts lines, logs them and keeps them, up to [`MAX_OUTPUT`].
struct LimitedOutput<'run> {
    log: &'run RunLog,
    waiting: WaitingLines,
    kept: Mutex<KeptOutput>,
}

#[derive(Default)]
struct KeptOutput {
    /// Redacted, each line with its newline.
    text: String,
    is_cut: bool,
}

impl LimitedOutput<'_> {
    fn is_cut(&self) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).is_cut
    }

    /// Keeps and logs a redacted line. It was redacted before it is cut: a part of a secret is not recognised.
    fn keep(&self, stream: Stream, line: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_cut {
            return;
        }
        let room = MAX_OUTPUT.saturating_sub(kept.text.len());
        let logged = &line[..line.floor_char_boundary(room)];
        kept.is_cut = logged.len() < line.len() || room == 0;
        kept.text.push_str(logged);
        kept.text.push('\n');
        drop(kept);
        if !logged.is_empty() || line.is_empty() {
            self.log.line(stream, logged.as_bytes());
        }
    }
}

impl Sink for LimitedOutput<'_> {
    fn line(&self, stream: Stream, line: &[u8]) {
        if !self.is_cut() {
            let keep = |line: &str| self.keep(stream, line);
            self.waiting.of(stream).push(self.log.redactor(), line, keep);
        }
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        if self.is_cut() {
            return pending.len();
        }
        let showable = self.waiting.of(stream).showable(self.log.redactor(), pending);
        if showable > 0 {
            self.line(stream, &pending[..showable]);
        }
        showable
    }

    fn stream_ended(&self, stream: Stream) {
        let keep = |line: &str| self.keep(stream, line);
        self.waiting.of(stream).flush(self.log.redactor(), keep);
        self.log.stream_ended(stream);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use butler_base::secret::Redactor;

    async fn run(script: &str, timeout: Duration) -> (String, Result<(), Failure>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (stop, environment) = (Stop::new(), BTreeMap::new());
        let log = RunLog::new(Arc::new(Redactor::new()), Vec::new(), None);
        let program = AfterPlanProgram {
            command: AfterPlan {
                program: "/bin/sh".into(),
                arguments: vec!["-c".to_owned(), script.to_owned()],
                environment: Vec::new(),
            },
            environment: &environment,
            operation: Operation::Plan,
            run_id: None,
            log: &log,
            stop: &stop,
            grace: Grace { normal: Duration::ZERO, urgent: Duration::ZERO },
            private: directory.path().to_owned(),
        };
        program.run(Input::Nothing, timeout).await
    }

    #[tokio::test]
    async fn program_that_does_not_end_is_killed_and_stops_the_run() {
        let failure =
            run("echo waiting; sleep 600", Duration::from_millis(500)).await.1.unwrap_err();
        assert_eq!(failure.reason, "`sh` (--after-plan) did not end within 500ms: waiting");
        assert_eq!(failure.phase, Phase::AfterPlan);
    }

    #[tokio::test]
    async fn reason_quotes_the_beginning_of_the_output() {
        let (output, checked) = run("yes 'much to say' | head -c 100000; exit 9", TIMEOUT).await;
        assert!((MAX_OUTPUT..=MAX_OUTPUT + 1).contains(&output.len()), "{}", output.len());
        let failure = checked.unwrap_err();
        let expected = "`sh` (--after-plan) stopped the run with exit code 9: much to say\nmuch";
        assert!(failure.reason.starts_with(expected), "{}", failure.reason);
        assert!(failure.reason.ends_with("(more in the log)") && failure.reason.len() < 5000);
        let failure = run("kill -9 $$", TIMEOUT).await.1.unwrap_err();
        assert!(failure.reason.contains("signal: 9"), "{}", failure.reason);
    }
}
