//! Runs the commands one by one and hands on what they produced.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroizing;

use super::arguments::{self, PlanRequest};
use super::diagnostics::Validation;
use super::error::EngineError;
use super::invocation::Engine;
use super::locks::locking::{APPLY, Locked, Unfinished};
use super::plan::applied::Applied;
use super::plan::reported::Reported;
use super::test_results::counts::TestCounts;
use super::test_results::junit::readable_junit;
use super::watching::Messages;
use butler_base::event::Stream;
use butler_base::process::{Command, Output, Sink};
use butler_base::secret::Redactor;
use butler_plan::{Content, Copied, PlanSummary, Survey, read};
use butler_protocol::spec::{Assignment, PlanningOptions};

/// How much `output -json` and `validate -json` may say. The registry takes bodies up to 50 MiB.
const LARGEST_ANSWER: usize = 48 * 1024 * 1024;

/// The files of a plan.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The plan file; it holds secrets in clear text.
    pub file: PathBuf,
    /// Its JSON, as Terraform writes it, secrets included.
    pub json: PathBuf,
    /// What Terraform printed, secrets included where the module prints them.
    pub text: PathBuf,
}

impl Saved {
    /// Reads its JSON, in which the root module's `variables` of these names are sensitive, and copies it
    /// into what `create` creates: more than once where it has secrets that `redactor` does not know yet.
    ///
    /// # Errors
    /// When it cannot be read or is no plan's JSON. That it cannot be copied is no error of this.
    pub fn read<W: Write>(
        &self,
        create: impl FnMut() -> std::io::Result<W>,
        variables: BTreeSet<String>,
        content: Content,
        redactor: &Redactor,
    ) -> Result<(Survey, std::io::Result<Copied<W>>), EngineError> {
        let open = || File::open(&self.json);
        read(open, create, variables, content, redactor).map_err(|source| match source.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                EngineError::Answer { command: "show", source: serde_json::Error::io(source) }
            }
            _ => EngineError::Read { path: self.json.clone(), source },
        })
    }
}

/// A plan that can be applied.
#[derive(Debug)]
pub struct Planned {
    /// Its files.
    pub saved: Saved,
    /// What it will do.
    pub summary: PlanSummary,
}

/// The result of `validate`.
#[derive(Debug)]
pub struct Validated {
    /// Whether the configuration is valid.
    pub valid: bool,
    /// One line for people; the reason when it is not valid.
    pub summary: String,
}

/// The result of `test`.
#[derive(Debug)]
pub struct Tested {
    /// Whether all tests passed.
    pub passed: bool,
    /// How many did; none when the tool did not get that far.
    pub counts: Option<TestCounts>,
    /// The `JUnit` file, unless there was no test.
    pub junit: Option<PathBuf>,
    /// Whether the tool has written one that is none.
    pub is_broken: bool,
}

impl<S: Sink> Engine<'_, S> {
    /// `init`, with the backend's settings from a file if there is one, and with a directory for
    /// its plugin cache if that is not the environment's affair.
    ///
    /// # Errors
    /// When it fails or is stopped.
    pub async fn init(
        &self,
        backend: Option<&Path>,
        without_backend: bool,
        plugin_cache: Option<&Path>,
    ) -> Result<(), EngineError> {
        let mut command = self
            .command(arguments::init(backend, without_backend, self.lock_timeout), Output::Lines);
        if let Some(directory) = plugin_cache {
            command.environment.set("TF_PLUGIN_CACHE_DIR", directory);
        }
        self.collect_less(&mut command);
        self.succeed("init", &command).await.map(drop)
    }

    /// `plan` into a file, and `show` of that. As soon as all that `plan` prints is there, `beside` gets the
    /// file with it, and is waited for at the end.
    ///
    /// # Errors
    /// When it fails or is stopped, or the saved plan cannot be shown.
    pub async fn plan<T>(
        &self,
        request: &PlanRequest<'_>,
        beside: impl AsyncFnOnce(&Path) -> T,
    ) -> Result<(Saved, T), EngineError> {
        let file = self.private.join("plan.tfplan");
        let text = self.private.join("plan.txt");
        let arguments = arguments::plan(request, &file, self.lock_timeout);
        let command = self.command(arguments, Output::LinesAndFile(text.clone()));
        let planning = Box::pin(self.succeed_locking("plan", "OperationTypePlan", &command));
        match self.show_when_saved(planning, &file, beside(&text)).await {
            Ok((json, done)) => Ok((Saved { file, json, text }, done)),
            Err(mut unfinished) => {
                self.release(&mut unfinished).await;
                Err(unfinished.error)
            }
        }
    }

    /// `apply` of exactly this plan.
    ///
    /// # Errors
    /// When it fails or is stopped. A lock that it left is not removed yet: see [`Self::release`].
    pub async fn apply(
        &self,
        plan: &Planned,
        variables: &[Assignment],
        options: &PlanningOptions,
    ) -> Result<(), Box<Unfinished>> {
        let file = &plan.saved.file;
        let arguments = arguments::apply(variables, options, file, self.lock_timeout);
        let command = self.command(arguments, Output::Lines);
        self.succeed_locking("apply", APPLY, &command).await
    }

    /// What an apply that failed or was stopped has really done, from the state and from what it
    /// `reported`. Deaf to the stop: drop the future instead.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub async fn applied(
        &self,
        plan: &Planned,
        reported: &Reported,
    ) -> Result<Applied, EngineError> {
        let state = self.private.join("state.json");
        self.undisturbed("show", &self.command(arguments::show(None), Output::File(state.clone())))
            .await?;
        let open = |path: &Path| {
            let failed = |source| EngineError::Read { path: path.to_owned(), source };
            File::open(path).map(BufReader::new).map_err(failed)
        };
        Applied::compare(open(&plan.saved.json)?, open(&state)?, reported)
            .map_err(|source| EngineError::Answer { command: "show", source })
    }

    /// `output -json`: a JSON object in memory that is zeroed when it is dropped. Deaf to the stop:
    /// drop the future instead.
    ///
    /// # Errors
    /// When it fails, or says no JSON object.
    pub async fn outputs(&self) -> Result<Zeroizing<Vec<u8>>, EngineError> {
        let mut command = self.command(arguments::output(), Output::Memory(LARGEST_ANSWER));
        self.collect_less(&mut command);
        let exit = self.undisturbed("output", &command).await?;
        serde_json::from_slice::<std::collections::BTreeMap<String, &serde_json::value::RawValue>>(
            &exit.output,
        )
        .map_err(|source| EngineError::Answer { command: "output", source })?;
        Ok(exit.output.into())
    }

    /// The names of the workspaces that there are. The environment must name none: Terraform would
    /// make one of it.
    ///
    /// # Errors
    /// When they cannot be listed, or the run is stopped.
    pub async fn workspaces(&self) -> Result<Vec<String>, EngineError> {
        let command = self.command(arguments::workspaces(), Output::Memory(LARGEST_ANSWER));
        let exit = self.succeed("workspace list", &command).await?;
        let text = String::from_utf8_lossy(&exit.output);
        // `* ` stands before the one that is selected, and spaces before all others.
        let name = |line: &str| line.get(2..).map(|name| name.trim().to_owned());
        Ok(text.lines().filter_map(name).filter(|name| !name.is_empty()).collect())
    }

    /// `validate`: its diagnostics go to the log as readable lines.
    ///
    /// # Errors
    /// When it is stopped, or says something else than a validation. An invalid configuration is no error.
    pub async fn validate(&self) -> Result<Validated, EngineError> {
        let command = self.command(arguments::validate(), Output::Memory(LARGEST_ANSWER));
        let (exit, headline) = self.run("validate", &command).await?;
        let validation: Validation = match serde_json::from_slice(&exit.output) {
            Ok(validation) => validation,
            Err(source) => {
                self.check("validate", &exit, headline, None)?;
                return Err(EngineError::Answer { command: "validate", source });
            }
        };
        for line in validation.lines() {
            self.log.line(Stream::Stdout, line.as_bytes());
        }
        Ok(Validated { valid: validation.valid, summary: validation.summary() })
    }

    /// `test`.
    ///
    /// # Errors
    /// When it is stopped or cannot be run. Tests that fail are no error.
    pub async fn test(&self, variables: &[Assignment]) -> Result<Tested, EngineError> {
        let file = self.private.join("junit.xml");
        let junit = arguments::writes_junit(self.tool).then(|| file.clone());
        let command = self.command(arguments::test(variables, junit.as_deref()), Output::Lines);
        let (exit, counts) = if let Some(file) = &junit {
            let (exit, headline) = self.run("test", &command).await?;
            // One that is there says that tests were run, even where nobody can read it.
            let xml = fs_err::read(file).ok();
            if xml.is_none() {
                self.check("test", &exit, headline, None)?;
            }
            (exit, xml.and_then(|xml| TestCounts::from_junit(&readable_junit(&xml))))
        } else {
            let messages = Messages {
                sink: self.log,
                counts: Mutex::default(),
                cases: Mutex::default(),
                interrupted: AtomicBool::default(),
            };
            let exit = self.supervise("test", &command, &messages).await?;
            let cases = messages.cases.into_inner().unwrap_or_else(PoisonError::into_inner);
            if let Some(xml) = cases.to_xml()
                && let Err(error) = fs_err::write(&file, xml)
            {
                tracing::warn!(%error, "no JUnit file");
            }
            (exit, messages.counts.into_inner().unwrap_or_else(PoisonError::into_inner))
        };
        let is_broken = junit.is_some() && counts.is_none();
        let junit = Some(file).filter(|file| file.exists());
        Ok(Tested { passed: exit.status.success(), counts, junit, is_broken })
    }

    /// Runs a command that locks the state and has to end with 0.
    async fn succeed_locking(
        &self,
        name: &'static str,
        operation: &'static str,
        command: &Command,
    ) -> Result<(), Box<Unfinished>> {
        let locked = self.run_locking(name, operation, command).await?;
        let Locked { exit, headline, foreign, left, trace, reported } = locked;
        let checked =
            self.stopped(name, exit).and_then(|exit| self.check(name, &exit, headline, foreign));
        checked.map_err(|mut error| {
            if let Some(left) = left {
                error.set_left(left);
            }
            Box::new(Unfinished { error, reported, trace: Some(trace) })
        })
    }
}
