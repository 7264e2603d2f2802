//! The commands of the tool, and their results.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::arguments::{self, ApplyRequest, PlanRequest};
use super::diagnostics::Validation;
use super::error::EngineError;
use super::initialising::{DEFAULT_WORKSPACE, HeldErrors};
use super::invocation::{CommandEnd, Engine};
use super::json_output::{json_offset, open_json};
use super::locks::lock_output::LockSeeker;
use super::locks::locking::{APPLY, LockingExit, UnfinishedCommand};
use super::plan::applied::{AppliedChanges, StatesAfter};
use super::plan::reported::ReportedResources;
use super::test_results::cleanup::with_failed_cleanup;
use super::test_results::counts::counts_of_junit;
use super::test_results::junit::{read_junit, readable_junit};
use super::watching::{OutputWatch, TestMessages};
use butler_base::event::Stream;
use butler_base::process::{Command, Output, Sink};
use butler_base::secret::Redactor;
use butler_plan::{Content, CopiedPlan, PlanSummary, Survey, read};
use butler_protocol::spec::{Assignment, PlanningOptions};
use butler_result::TestCounts;

/// The largest output of `output -json` and `validate -json`, in bytes. The registry accepts 50 MiB.
const MAX_OUTPUT: usize = 48 * 1024 * 1024;

/// The error of `workspace list` if the backend has no workspaces.
const NO_WORKSPACES: &str = "workspaces not supported";

/// The files of a plan.
#[derive(Clone, Debug)]
pub struct PlanFiles {
    /// The plan file, with secrets in clear text.
    pub file: PathBuf,
    /// Its JSON as Terraform writes it, with secrets.
    pub json: PathBuf,
    /// The text that Terraform printed, with secrets if the module prints them.
    pub text: PathBuf,
}

impl PlanFiles {
    /// Removes the files before another plan has the same paths. A tool that saves into a new file is seen to have done
    /// so.
    pub fn remove(&self) {
        for path in [&self.file, &self.json, &self.text] {
            if let Err(error) = fs_err::remove_file(path) {
                tracing::debug!(%error, "a file of a plan stays");
            }
        }
    }

    /// Reads the JSON and copies it into the destination that `create` returns. `variables` are the names of the
    /// root module's sensitive variables. `create` is called again if the plan contains secrets that are new
    /// to `redactor`.
    ///
    /// # Errors
    /// If the JSON cannot be read or is not a plan. An error of the copy is in the inner result.
    pub fn read<W: Write>(
        &self,
        create: impl FnMut() -> std::io::Result<W>,
        variables: BTreeSet<String>,
        content: Content,
        redactor: &Redactor,
    ) -> Result<(Survey, std::io::Result<CopiedPlan<W>>), EngineError> {
        let open = || open_json(&self.json);
        read(open, create, variables, content, redactor).map_err(|source| match source.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                EngineError::Malformed { command: "show", source: serde_json::Error::io(source) }
            }
            _ => EngineError::Read { path: self.json.clone(), source },
        })
    }
}

/// A plan that can be applied.
#[derive(Debug)]
pub struct Planned {
    /// Its files.
    pub files: PlanFiles,
    /// Its changes.
    pub summary: PlanSummary,
}

/// The result of `validate`.
#[derive(Debug)]
pub struct ValidationResult {
    /// Whether the configuration is valid.
    pub valid: bool,
    /// One line for users; the reason if the configuration is not valid.
    pub summary: String,
}

/// The result of `test`.
#[derive(Debug)]
pub struct TestResult {
    /// Whether all tests passed.
    pub passed: bool,
    /// The number of tests by result; none if the tool failed before the tests.
    pub counts: Option<TestCounts>,
    /// The `JUnit` file; none if no test ran.
    pub junit: Option<PathBuf>,
    /// Whether the tool has written a `JUnit` file that is not valid.
    pub is_broken: bool,
    /// The resources that the clean-up has left.
    pub left: Vec<String>,
}

impl<S: Sink> Engine<'_, S> {
    /// `plan` into a file, and `show` of that file. As soon as `plan` has ended successfully, the path of
    /// the text that it printed is sent to `printed`; `show` may still run then.
    ///
    /// # Errors
    /// If `plan` or `show` fails or the run is stopped. If `plan` fails, nothing is sent.
    pub async fn plan(
        &self,
        request: &PlanRequest<'_>,
        printed: oneshot::Sender<PathBuf>,
    ) -> Result<PlanFiles, EngineError> {
        let file = self.tool_files.join("plan.tfplan");
        let text = self.private.join("plan.txt");
        let arguments = arguments::plan(request, &file, self.lock_timeout);
        let command = self.command(arguments, Output::LinesAndFile(text.clone()));
        let planning = Box::pin(async {
            self.run_locking_successfully("plan", "OperationTypePlan", &command).await?;
            // The receiver is gone if the caller does not need the text.
            let _ = printed.send(text.clone());
            Ok(())
        });
        match self.show_when_saved(planning, &file).await {
            Ok(json) => Ok(PlanFiles { file, json, text }),
            Err(mut unfinished) => {
                self.release_lock(&mut unfinished).await;
                Err(unfinished.error)
            }
        }
    }

    /// `apply` of exactly this plan.
    ///
    /// # Errors
    /// If it fails or is stopped. A lock that it left is not removed yet: see [`Self::release_lock`].
    pub async fn apply(
        &self,
        plan: &Planned,
        variables: &[Assignment],
        options: &PlanningOptions,
    ) -> Result<(), Box<UnfinishedCommand>> {
        let file = &plan.files.file;
        let forgets = plan.summary.counts.forget > 0;
        let request = ApplyRequest { variables, options, forgets };
        let arguments = arguments::apply(&request, self.tool, file, self.lock_timeout);
        let command = self.command(arguments, Output::Lines);
        self.run_locking_successfully("apply", APPLY, &command).await
    }

    /// The changes that a failed or stopped apply has made, from the states after it and from the lines that it
    /// `reported`.
    ///
    /// # Errors
    /// If the plan or a state cannot be read.
    pub fn applied_changes(
        &self,
        plan: &Planned,
        states: StatesAfter<BufReader<File>>,
        reported: &ReportedResources,
    ) -> Result<AppliedChanges, EngineError> {
        let plan = open_json(&plan.files.json)
            .map_err(|source| EngineError::Read { path: plan.files.json.clone(), source })?;
        AppliedChanges::compare(BufReader::new(plan), states, reported)
            .map_err(|source| EngineError::Malformed { command: "show", source })
    }

    /// `output -json`: a JSON object with secrets in clear text. Ignores the stop: drop the future
    /// instead.
    ///
    /// # Errors
    /// If the command fails or does not print a JSON object.
    pub async fn read_outputs(&self) -> Result<Vec<u8>, EngineError> {
        let mut command = self.command(arguments::output(), Output::Memory(MAX_OUTPUT));
        self.reduce_garbage_collection(&mut command);
        let mut exit = self.run_ignoring_stop("output", &command).await?;
        let offset = json_offset(&exit.output);
        exit.output.drain(..offset);
        serde_json::from_slice::<std::collections::BTreeMap<String, &serde_json::value::RawValue>>(
            &exit.output,
        )
        .map_err(|source| EngineError::Malformed { command: "output", source })?;
        Ok(exit.output)
    }

    /// The names of the existing workspaces. The environment must not name a workspace, because Terraform would
    /// create it. A backend without workspaces has the default one.
    ///
    /// # Errors
    /// If they cannot be listed, or the run is stopped.
    pub async fn list_workspaces(&self) -> Result<Vec<String>, EngineError> {
        let command = self.command(arguments::workspaces(), Output::Memory(MAX_OUTPUT));
        let held = HeldErrors::new(self.log);
        let (exit, end) = self.run("workspace list", &command, &held).await?;
        if !exit.status.success() && held.contains(NO_WORKSPACES) {
            held.discard();
            return Ok(vec![DEFAULT_WORKSPACE.to_owned()]);
        }
        drop(held);
        self.check_exit("workspace list", &exit, end)?;
        let text = String::from_utf8_lossy(&exit.output);
        // `* ` marks the selected workspace; all others are indented by two spaces.
        let name = |line: &str| line.get(2..).map(|name| name.trim().to_owned());
        Ok(text.lines().filter_map(name).filter(|name| !name.is_empty()).collect())
    }

    /// `validate`: its diagnostics go to the log as readable lines.
    ///
    /// # Errors
    /// If it is stopped, or its output is not a validation. An invalid configuration is not an error.
    pub async fn validate(&self) -> Result<ValidationResult, EngineError> {
        let command = self.command(arguments::validate(), Output::Memory(MAX_OUTPUT));
        let (exit, end) = self.run("validate", &command, self.log).await?;
        let json = &exit.output[json_offset(&exit.output)..];
        let validation: Validation = match serde_json::from_slice(json) {
            Ok(validation) => validation,
            Err(source) => {
                self.check_exit("validate", &exit, end)?;
                return Err(EngineError::Malformed { command: "validate", source });
            }
        };
        for line in validation.lines() {
            self.log.line(Stream::Stdout, line.as_bytes());
        }
        Ok(ValidationResult { valid: validation.valid, summary: validation.summary() })
    }

    /// `test`.
    ///
    /// # Errors
    /// If it is stopped or cannot be run. A failed test is not an error.
    pub async fn test(&self, variables: &[Assignment]) -> Result<TestResult, EngineError> {
        let tool_writes = arguments::writes_junit(self.tool);
        let writer = if tool_writes { self.tool_files } else { self.private };
        let file = writer.join("junit.xml");
        let junit = tool_writes.then(|| file.clone());
        let command = self.command(arguments::test(variables, junit.as_deref()), Output::Lines);
        let (exit, counts, left) = if let Some(file) = &junit {
            let (watch, seeker) =
                (OutputWatch::new(self.log, &self.remote_runs), LockSeeker::now());
            let exit = self.supervise("test", &command, &watch).await?;
            let mut seen = watch.into_observed();
            let left = std::mem::take(&mut seen.left_resources);
            // The file exists only if tests have run, even if it cannot be parsed.
            let xml = read_junit(file).ok();
            if xml.is_none() {
                self.check_exit("test", &exit, CommandEnd::of(seen, &seeker))?;
            }
            (exit, xml.and_then(|xml| counts_of_junit(&readable_junit(&xml))), left)
        } else {
            let messages = TestMessages {
                sink: self.log,
                counts: Mutex::default(),
                cases: Mutex::default(),
                left: Mutex::default(),
                interrupted: AtomicBool::default(),
            };
            let exit = self.supervise("test", &command, &messages).await?;
            let cases = messages.cases.into_inner().unwrap_or_else(PoisonError::into_inner);
            if let Some(xml) = cases.to_xml()
                && let Err(error) = fs_err::write(&file, xml)
            {
                tracing::warn!(%error, "no JUnit file");
            }
            let counts = messages.counts.into_inner().unwrap_or_else(PoisonError::into_inner);
            (exit, counts, messages.left.into_inner().unwrap_or_else(PoisonError::into_inner))
        };
        let (is_broken, left) = (junit.is_some() && counts.is_none(), left.into_addresses());
        let junit = self.add_cleanup(file, &left);
        Ok(TestResult { passed: exit.status.success(), counts, junit, is_broken, left })
    }

    /// The `JUnit` file, with the resources that the clean-up has left; none if there is no file.
    fn add_cleanup(&self, file: PathBuf, left: &[String]) -> Option<PathBuf> {
        if !file.exists() {
            return None;
        }
        let xml = if left.is_empty() { None } else { read_junit(&file).ok() };
        let amended = xml.and_then(|xml| with_failed_cleanup(&readable_junit(&xml), left));
        let Some(xml) = amended else { return Some(file) };
        // Not into the directory of the tools, where a tool can have put a link.
        let amended = self.private.join("junit-with-clean-up.xml");
        match fs_err::write(&amended, xml) {
            Ok(()) => Some(amended),
            Err(error) => {
                tracing::warn!(%error, "the JUnit file does not name the resources that are left");
                Some(file)
            }
        }
    }

    /// Runs a command that locks the state. Any exit code but 0 is an error.
    async fn run_locking_successfully(
        &self,
        name: &'static str,
        operation: &'static str,
        command: &Command,
    ) -> Result<(), Box<UnfinishedCommand>> {
        let locked = self.run_locking(name, operation, command).await?;
        let LockingExit { exit, end, left, trace, reported } = locked;
        let checked =
            self.check_not_stopped(name, exit).and_then(|exit| self.check_exit(name, &exit, end));
        checked.map_err(|mut error| {
            if let Some(left) = left {
                error.set_left(left);
            }
            Box::new(UnfinishedCommand { error, reported, trace: Some(trace) })
        })
    }
}
