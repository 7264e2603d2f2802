//! Has a program judge each plan before anything is applied (`--after-plan`), for policies and costs.
//!
//! The program gets the plan's JSON on standard input, always masked. Its environment holds nothing of
//! the run and, of the job, only what programs need to work at all and what the settings file names.
//! What it prints goes to the log, masked and bounded. Any end but exit code 0 stops the run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::registry::Part;
use crate::report::RunLog;
use crate::run::findings::Findings;
use crate::run::plan::part_writer::PartWriter;
use crate::run::plan::plan_report::PlanOptions;
use crate::run::reporting::outcome::Failure;
use crate::settings::{PlanJson, variable};
use butler_base::blocking::blocking;
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::chain;
use butler_base::event::{Phase, Stream};
use butler_base::process::{
    Command, Environment, Exit, Grace, Input, Output, ProcessError, Sink, supervise,
};
use butler_plan::Content;
use butler_protocol::spec::{AfterPlan, Operation};

/// How long the program may take.
const LONGEST: Duration = Duration::from_mins(5);

/// How much of its output is kept, in bytes.
const MOST_OUTPUT: usize = 64 * 1024;

/// How much of its output is quoted as the reason, in bytes; all of it is in the log.
const MOST_REASON: usize = 4 * 1024;

/// Variables that programs need to work at all, beside those that begin with one of [`BEGINNINGS`] and
/// those of [`variable::NETWORK`]. The last lines are for Windows.
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

/// What the names of such variables begin with.
const BEGINNINGS: [&str; 2] = ["LC_", "XDG_"];

/// A program that judges plans, and what it needs.
pub(in crate::run) struct Judge<'run> {
    /// What is started.
    pub(in crate::run) command: AfterPlan,
    /// The job's environment.
    pub(in crate::run) environment: &'run BTreeMap<OsString, OsString>,
    /// What the run does.
    pub(in crate::run) operation: Operation,
    /// The registry's id of the run.
    pub(in crate::run) run_id: Option<String>,
    pub(in crate::run) log: &'run RunLog,
    pub(in crate::run) stop: &'run Stop,
    pub(in crate::run) grace: Grace,
    /// A private directory.
    pub(in crate::run) private: PathBuf,
}

impl Judge<'_> {
    /// Has the plan in `findings` judged.
    ///
    /// # Errors
    /// When the program rejects it, cannot be run, takes too long or is stopped, and when there is no
    /// masked plan that it could get.
    pub(in crate::run) async fn judge(
        &self,
        findings: &Findings,
        options: &PlanOptions,
    ) -> Result<(), Failure> {
        let name = self.name();
        let input = self.masked_plan(findings, options).await.map_err(|problem| {
            let text = format!("`{name}` (--after-plan) cannot get the plan: {problem}");
            Failure::because(Phase::AfterPlan, text)
        })?;
        self.log.announce(&format!("Running {name} on the plan"));
        self.run(input, LONGEST).await
    }

    fn name(&self) -> String {
        let name = self.command.program.file_name().unwrap_or(self.command.program.as_os_str());
        name.to_string_lossy().into_owned()
    }

    async fn run(&self, input: Input, longest: Duration) -> Result<(), Failure> {
        let command = Command {
            program: self.command.program.clone(),
            arguments: self.command.arguments.iter().map(Into::into).collect(),
            environment: self.environment(),
            // The runner's own, not the module's: what lies there is not for the module to say.
            directory: None,
            input,
            output: Output::Lines,
            inner: None,
        };
        let said = Said { log: self.log, kept: Mutex::new(Kept::default()) };
        let running = supervise(&command, &said, self.stop, self.grace);
        let ended = tokio::time::timeout(longest, Box::pin(running)).await;
        if ended.is_err() {
            // What was dropped half-way has been killed.
            butler_base::process::end_orphans().await;
        }
        let Kept { text, is_cut, .. } =
            said.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let name = self.name();
        if is_cut {
            self.log.warn(&format!("the output of {name} (--after-plan) is cut after 64 KiB"));
        }
        let problem = match ended {
            Ok(Ok(Exit { stopped: Some(reason), status, .. })) if !status.success() => {
                return Err(stopped(&reason));
            }
            Ok(Ok(exit)) if exit.status.success() => return Ok(()),
            Ok(Ok(exit)) => match exit.status.code() {
                Some(code) => format!("stopped the run with exit code {code}"),
                None => format!("ended with {}", exit.status),
            },
            Ok(Err(ProcessError::Stopped(reason))) => return Err(stopped(&reason)),
            Ok(Err(error)) => format!("failed: {}", chain(&error)),
            Err(_) => format!("did not end within {}", humantime::format_duration(longest)),
        };
        let output = quoted(&text);
        let separator = if output.is_empty() { "" } else { ": " };
        let text = format!("`{name}` (--after-plan) {problem}{separator}{output}");
        Err(Failure::because(Phase::AfterPlan, text))
    }

    /// The plan's JSON without secrets, whatever is reported of it.
    async fn masked_plan(
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
                let (saved, sensitive) = (plan.saved.clone(), options.sensitive.clone());
                let (file, redactor) =
                    (self.private.join("plan.masked.json"), self.log.redactor().clone());
                let copy = move || {
                    let create = || Ok(PartWriter::new(&file));
                    let (_, copied) = saved
                        .read(create, sensitive, Content::Clean, &redactor)
                        .map_err(|error| chain(&error))?;
                    copied.and_then(|copied| copied.into.end()).map_err(|error| error.to_string())
                };
                blocking(move |_| copy()).await?
            }
        };
        match json {
            Part::Bytes(bytes) => Ok(Input::Bytes(bytes.to_vec())),
            // All of the file is the plan.
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
            let is_named =
                |known: &str| name == known || cfg!(windows) && name.eq_ignore_ascii_case(known);
            VARIABLES.into_iter().chain(variable::NETWORK).any(is_named)
                || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
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

/// The beginning of an output, as a reason.
fn quoted(output: &str) -> String {
    let output = output.trim();
    let end = output.floor_char_boundary(MOST_REASON);
    let rest = if end < output.len() { "\n… (more in the log)" } else { "" };
    format!("{}{rest}", &output[..end])
}

/// Puts masked lines into the log and keeps them, as long as there is room.
struct Said<'run> {
    log: &'run RunLog,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Masked, each line with its newline.
    text: String,
    is_cut: bool,
}

impl Sink for Said<'_> {
    fn line(&self, stream: Stream, line: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_cut {
            return;
        }
        // Masked before it is cut: half a secret is not found.
        let line = self.log.redactor().redact(line);
        let room = MOST_OUTPUT.saturating_sub(kept.text.len());
        let shown = &line[..line.floor_char_boundary(room)];
        kept.is_cut = shown.len() < line.len() || room == 0;
        kept.text.push_str(shown);
        kept.text.push('\n');
        drop(kept);
        if !shown.is_empty() || line.is_empty() {
            self.log.line(stream, shown.as_bytes());
        }
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        if self.kept.lock().unwrap_or_else(PoisonError::into_inner).is_cut {
            return pending.len();
        }
        let showable = self.log.redactor().showable(pending);
        if showable > 0 {
            self.line(stream, &pending[..showable]);
        }
        showable
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use butler_base::secret::Redactor;

    async fn run(script: &str, longest: Duration) -> Result<(), Failure> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (stop, environment) = (Stop::new(), BTreeMap::new());
        let log = RunLog::new(Arc::new(Redactor::new()), Vec::new(), None);
        let judge = Judge {
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
        judge.run(Input::Nothing, longest).await
    }

    #[tokio::test]
    async fn program_that_does_not_end_is_killed_and_stops_the_run() {
        let failure = run("echo waiting; sleep 600", Duration::from_millis(500)).await.unwrap_err();
        assert_eq!(failure.reason, "`sh` (--after-plan) did not end within 500ms: waiting");
        assert_eq!(failure.phase, Phase::AfterPlan);
    }

    #[tokio::test]
    async fn reason_quotes_the_beginning_of_the_output() {
        let failure = run("yes 'much to say' | head -c 100000; exit 9", LONGEST).await.unwrap_err();
        let expected = "`sh` (--after-plan) stopped the run with exit code 9: much to say\nmuch";
        assert!(failure.reason.starts_with(expected), "{}", failure.reason);
        assert!(failure.reason.ends_with("(more in the log)") && failure.reason.len() < 5000);
        let failure = run("kill -9 $$", LONGEST).await.unwrap_err();
        assert!(failure.reason.contains("signal: 9"), "{}", failure.reason);
    }
}
