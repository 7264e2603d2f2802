//! Shows a saved plan as JSON (`show -json`), if possible while `plan` still runs.
//!
//! After a tool has saved its plan it prints the plan, releases its lock and exits. None of this changes
//! the plan, so `show` starts when the file is closed, beside the rest of `plan`. The result counts only
//! if `plan` succeeds and the file is unchanged by then; otherwise `show` runs again.
//!
//! `show` does not start early if the system does not report closed files, if memory may be short, if a
//! wrapper starts the tool (it may work in the same directory), or if the tools write logs of their own
//! (the logs of both commands would be mixed).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::engine::arguments;
use crate::engine::commands::PlanFiles;
use crate::engine::error::EngineError;
use crate::engine::invocation::Engine;
use crate::engine::locks::locking::UnfinishedCommand;
use butler_base::event::Stream;
use butler_base::platform::fs::MetadataExt;
use butler_base::platform::saved;
use butler_base::process::{Command, Output, Sink, memory_left};

/// The free memory that an early `show` needs, in bytes. The schemas of large providers take half of it,
/// while the tool that plans still holds all of its own memory.
const NEEDED_MEMORY: u64 = 2 * 1024 * 1024 * 1024;

/// How much of the standard error of an early `show` is kept, in bytes.
const MAX_STDERR: usize = 64 * 1024;

impl<S: Sink> Engine<'_, S> {
    /// Runs `planning`, which saves a plan in the new file `plan`, and `show` of that file. Returns the
    /// file with the plan's JSON.
    ///
    /// A failure of `planning` kills a `show` that runs. A failure of `show` does not end `planning`,
    /// which may be working on files.
    pub(in crate::engine) async fn show_when_saved(
        &self,
        planning: impl Future<Output = Result<(), Box<UnfinishedCommand>>>,
        plan: &Path,
    ) -> Result<PathBuf, Box<UnfinishedCommand>> {
        let may_show = self.wait_until_showable(plan, memory_left);
        let (planned, is_planned) = oneshot::channel();
        let planning = async {
            planning.await?;
            let _ = planned.send(());
            Ok(())
        };
        let showing = Box::pin(self.show_planned(plan, may_show, is_planned));
        let ((), json) = tokio::try_join!(planning, showing)?;
        Ok(json)
    }

    /// Shows a plan that was made before this run. First as text, whose file is sent to `printed` as soon
    /// as it is complete, then as JSON.
    ///
    /// # Errors
    /// If `show` fails or the run is stopped. `printed` may have been used by then.
    pub async fn show_saved(
        &self,
        file: &Path,
        printed: oneshot::Sender<PathBuf>,
    ) -> Result<PlanFiles, EngineError> {
        let text = self.private.join("plan.txt");
        let command = self.command(arguments::show_text(file), Output::LinesAndFile(text.clone()));
        self.run_successfully("show", &command).await?;
        // The receiver is gone if the caller does not need the text.
        let _ = printed.send(text.clone());
        let (command, json) = self.show_command(file, "plan.json");
        self.run_successfully("show", &command).await?;
        Ok(PlanFiles { file: file.to_owned(), json, text })
    }

    /// Shows a plan as soon as `may_show` completes, at the latest when the plan `is_planned`. Does not
    /// complete if planning fails.
    async fn show_planned(
        &self,
        plan: &Path,
        may_show: impl Future<Output = ()>,
        mut is_planned: oneshot::Receiver<()>,
    ) -> Result<PathBuf, Box<UnfinishedCommand>> {
        let (early, is_planned) = tokio::select! {
            biased;
            is_planned = &mut is_planned => (None, is_planned),
            () = may_show => (Box::pin(self.show_early(plan)).await, is_planned.await),
        };
        if is_planned.is_err() {
            std::future::pending::<()>().await;
        }
        if let Some(EarlyShow { json, version, stderr }) = early
            && FileVersion::read(plan) == Some(version)
        {
            for line in stderr.split_inclusive(|byte| *byte == b'\n') {
                self.log.line(Stream::Stderr, &line[..line.len() - 1]);
            }
            return Ok(json);
        }
        // The file has changed. The early JSON stays in the private directory, which is wiped as a whole.
        let (command, json) = self.show_command(plan, "plan.json");
        Box::pin(self.run_successfully("show", &command)).await?;
        Ok(json)
    }

    /// `show -json` of `plan` into the private file `name`; also returns that file's path.
    fn show_command(&self, plan: &Path, name: &str) -> (Command, PathBuf) {
        let json = self.private.join(name);
        (self.command(arguments::show(Some(plan)), Output::File(json.clone())), json)
    }

    /// Completes when `plan` is saved after this call, if an early `show` is possible. `memory_left`
    /// returns the free memory in bytes at that time.
    fn wait_until_showable(
        &self,
        plan: &Path,
        memory_left: fn() -> Option<u64>,
    ) -> impl Future<Output = ()> + use<S> {
        let mut names = self.environment.iter().map(|(name, _)| name.as_encoded_bytes());
        let is_possible = self.wrapper.is_none() && !names.any(|name| name.starts_with(b"TF_LOG"));
        let saved = is_possible.then(|| saved(plan));
        async move {
            if let Some(saved) = saved {
                saved.await;
                if memory_left().is_some_and(|left| left >= NEEDED_MEMORY) {
                    return;
                }
            }
            std::future::pending::<()>().await;
        }
    }

    /// Runs `show` beside `plan`; none if it fails or prints too much.
    async fn show_early(&self, plan: &Path) -> Option<EarlyShow> {
        let version = FileVersion::read(plan)?;
        let (command, json) = self.show_command(plan, "plan.early.json");
        let lines = HeldLines(Mutex::new(Some(Vec::new())));
        tracing::debug!("the plan is shown while the rest of `plan` goes on");
        match self.supervise("show", &command, &lines).await {
            Ok(exit) if exit.status.success() => {
                let stderr = lines.0.into_inner().unwrap_or_else(PoisonError::into_inner)?;
                Some(EarlyShow { json, version, stderr })
            }
            _ => None,
        }
    }
}

/// The result of a `show` that ran beside `plan`.
struct EarlyShow {
    json: PathBuf,
    /// The plan file as it was before `show` read it.
    version: FileVersion,
    /// Lines, each with its newline.
    stderr: Vec<u8>,
}

/// Detects whether a file was changed or replaced. The time is that of the inode, because a process that
/// a module has started can set the file's modification time until `plan` has ended.
#[derive(Eq, PartialEq)]
struct FileVersion {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl FileVersion {
    fn read(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { inode: found.ino(), length: found.len(), changed })
    }
}

/// Holds lines back, because they would appear between the lines of `plan`. Holds nothing once they exceed
/// [`MAX_STDERR`].
struct HeldLines(Mutex<Option<Vec<u8>>>);

impl Sink for HeldLines {
    fn line(&self, _: Stream, line: &[u8]) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *held {
            Some(lines) if lines.len() + line.len() < MAX_STDERR => {
                lines.extend_from_slice(line);
                lines.push(b'\n');
            }
            _ => *held = None,
        }
    }

    fn partial(&self, _: Stream, _: &[u8]) -> usize {
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::KilledLock;
    use crate::engine::{RemoteRuns, Wrapper};
    use butler_base::cancel::Stop;
    use butler_base::process::{Discard, Environment, Grace, Input};
    use butler_protocol::spec::{Product, ToolRequest};

    #[tokio::test]
    async fn plan_is_shown_early_only_without_wrapper_and_tool_log_and_with_enough_memory() {
        let directory = tempfile::tempdir().unwrap();
        let (plan, stop) = (directory.path().join("plan.tfplan"), Stop::new());
        let redactor = butler_base::secret::Redactor::new();
        let tool = ToolRequest { product: Product::Terraform, version: "1.11.4".parse().unwrap() };
        let engine = |wrapper: Option<Wrapper>, variable: &str| Engine {
            tool: &tool,
            program: Path::new("/terraform"),
            wrapper,
            isolation: None,
            directory: directory.path(),
            private: directory.path(),
            tool_files: directory.path(),
            variables: Vec::new(),
            environment: Environment::from_iter([(variable.into(), "1".into())]),
            input: Input::Nothing,
            log: &Discard,
            redactor: &redactor,
            stop: &stop,
            grace: Grace { normal: Duration::ZERO, urgent: Duration::ZERO },
            lock_timeout: Duration::ZERO,
            killed_lock: KilledLock::EndsWithTool,
            remote_runs: RemoteRuns::default(),
        };
        let wrapper = Wrapper {
            version: "0.99.1".parse().unwrap(),
            program: "/terragrunt".into(),
            downloads: None,
        };
        let enough: fn() -> Option<u64> = || Some(NEEDED_MEMORY);
        let mut never = [
            Box::pin(engine(Some(wrapper), "A").wait_until_showable(&plan, enough)),
            Box::pin(engine(None, "TF_LOG_CORE").wait_until_showable(&plan, enough)),
            Box::pin(engine(None, "A").wait_until_showable(&plan, || Some(NEEDED_MEMORY - 1))),
            Box::pin(engine(None, "A").wait_until_showable(&plan, || None)),
        ];
        let may = engine(None, "A").wait_until_showable(&plan, enough);
        tokio::pin!(may);
        assert!(futures_util::poll!(&mut may).is_pending(), "the plan is not saved yet");
        std::fs::write(&plan, "a plan").unwrap();
        // All futures are woken in the same turn of the runtime.
        let all = futures_util::future::select_all(&mut never);
        tokio::select! {
            biased;
            _ = all => panic!("one of them may be shown early"),
            () = may => {}
        }
        for never in &mut never {
            assert!(futures_util::poll!(never).is_pending());
        }
    }
}
