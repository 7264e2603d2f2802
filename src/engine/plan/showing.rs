//! Has a plan shown as JSON as soon as it is saved.
//!
//! A tool that has saved its plan still prints it, gives its lock back and ends, and none of that
//! changes the plan. So `show` begins when the file is closed, beside the rest of `plan`. What it says
//! counts only where `plan` ends well and the file is still the same; otherwise it is asked again.
//! It does not begin early where nobody is told that a file was closed, where memory may be short, where
//! something wraps the tool, which may work in the same directory, and where the tools write logs of
//! their own, which would be mixed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use zeroize::Zeroizing;

use crate::engine::arguments;
use crate::engine::commands::Saved;
use crate::engine::error::EngineError;
use crate::engine::invocation::Engine;
use crate::engine::locks::locking::Unfinished;
use butler_base::event::Stream;
use butler_base::platform::fs::MetadataExt;
use butler_base::platform::saved;
use butler_base::process::{Command, Output, Sink, memory_left};

/// So much memory has to be left, in bytes: providers of large clouds take half of it to say what they
/// know, while the tool that makes the plan still has all of its own.
const ENOUGH: u64 = 2 * 1024 * 1024 * 1024;

/// How much is kept of what `show` says on standard error, in bytes.
const MOST: usize = 64 * 1024;

impl<S: Sink> Engine<'_, S> {
    /// Runs `planning`, which saves a plan in the new file `plan`, and `show` of that. When the plan is
    /// made, `beside` begins, which is not waited for by `show`. Returns the file with the plan's JSON.
    pub(in crate::engine) async fn show_when_saved<T>(
        &self,
        planning: impl Future<Output = Result<(), Box<Unfinished>>>,
        plan: &Path,
        beside: impl Future<Output = T>,
    ) -> Result<(PathBuf, T), Box<Unfinished>> {
        let may_show = self.may_show(plan, memory_left);
        let (ends, ended) = oneshot::channel();
        let planning = async {
            planning.await?;
            let _ = ends.send(());
            Ok::<T, Box<Unfinished>>(beside.await)
        };
        // A plan that fails ends what shows it; what cannot be shown ends nothing that is still at work
        // on files.
        let (done, json) = tokio::try_join!(planning, async {
            Ok(Box::pin(self.shown(plan, may_show, ended)).await)
        })?;
        Ok((json?, done))
    }

    /// Shows a plan that was made before: to people, which is kept in a file that `beside` gets, and as
    /// JSON.
    ///
    /// # Errors
    /// When it cannot be shown, or the run is stopped.
    pub async fn show_saved<T>(
        &self,
        file: &Path,
        beside: impl AsyncFnOnce(&Path) -> T,
    ) -> Result<(Saved, T), EngineError> {
        let text = self.private.join("plan.txt");
        let command = self.command(arguments::show_text(file), Output::LinesAndFile(text.clone()));
        self.succeed("show", &command).await?;
        let done = beside(&text).await;
        let (command, json) = self.showing(file, "plan.json");
        self.succeed("show", &command).await?;
        Ok((Saved { file: file.to_owned(), json, text }, done))
    }

    /// Shows a plan as soon as it may be, at the latest when it has `ended` well.
    async fn shown(
        &self,
        plan: &Path,
        may_show: impl Future<Output = ()>,
        mut ended: oneshot::Receiver<()>,
    ) -> Result<PathBuf, Box<Unfinished>> {
        let (early, ended) = tokio::select! {
            biased;
            ended = &mut ended => (None, ended),
            () = may_show => (Box::pin(self.show_early(plan)).await, ended.await),
        };
        if ended.is_err() {
            std::future::pending::<()>().await;
        }
        if let Some(Early { json, version, said }) = early
            && Version::of(plan) == Some(version)
        {
            for line in said.split_inclusive(|byte| *byte == b'\n') {
                self.log.line(Stream::Stderr, &line[..line.len() - 1]);
            }
            return Ok(json);
        }
        // Not the same file: what is left of that is wiped with all others.
        let (command, json) = self.showing(plan, "plan.json");
        Box::pin(self.succeed("show", &command)).await?;
        Ok(json)
    }

    fn showing(&self, plan: &Path, name: &str) -> (Command, PathBuf) {
        let json = self.private.join(name);
        (self.command(arguments::show(Some(plan)), Output::File(json.clone())), json)
    }

    /// Completes when `plan` is saved from now on, provided that it may be shown at once; how many bytes
    /// of memory are left by then `memory_left` says.
    fn may_show(
        &self,
        plan: &Path,
        memory_left: fn() -> Option<u64>,
    ) -> impl Future<Output = ()> + use<S> {
        let mut names = self.environment.iter().map(|(name, _)| name.as_encoded_bytes());
        let may_ever = self.wrapper.is_none() && !names.any(|name| name.starts_with(b"TF_LOG"));
        let saved = may_ever.then(|| saved(plan));
        async move {
            if let Some(saved) = saved {
                saved.await;
                if memory_left().is_some_and(|left| left >= ENOUGH) {
                    return;
                }
            }
            std::future::pending::<()>().await;
        }
    }

    /// What showing it has brought, if it went well.
    async fn show_early(&self, plan: &Path) -> Option<Early> {
        let version = Version::of(plan)?;
        let (command, json) = self.showing(plan, "plan.early.json");
        let kept = Kept(Mutex::new(Some(Zeroizing::default())));
        tracing::debug!("the plan is shown while the rest of `plan` goes on");
        match self.supervise("show", &command, &kept).await {
            Ok(exit) if exit.status.success() => {
                let said = kept.0.into_inner().unwrap_or_else(PoisonError::into_inner)?;
                Some(Early { json, version, said })
            }
            _ => None,
        }
    }
}

/// A plan that was shown before it was known that it counts.
struct Early {
    json: PathBuf,
    version: Version,
    /// The lines of standard error, each with its newline.
    said: Zeroizing<Vec<u8>>,
}

/// What tells a file from a later one in its place, and from what it was before it was changed. What a
/// module has started may be at work until `plan` has ended, and could set other times.
#[derive(Eq, PartialEq)]
struct Version {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Version {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { inode: found.ino(), length: found.len(), changed })
    }
}

/// Keeps lines, which would stand in the middle of another command's; none any more when they are too
/// many.
struct Kept(Mutex<Option<Zeroizing<Vec<u8>>>>);

impl Sink for Kept {
    fn line(&self, _: Stream, line: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *kept {
            Some(lines) if lines.len() + line.len() < MOST => {
                lines.extend_from_slice(line);
                lines.push(b'\n');
            }
            _ => *kept = None,
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
    use crate::engine::Wrapper;
    use butler_base::cancel::Stop;
    use butler_base::process::{Discard, Environment, Grace, Input};
    use butler_protocol::spec::{Product, ToolRequest};

    #[tokio::test]
    async fn a_plan_may_be_shown_early_only_where_nothing_speaks_against_it() {
        let directory = tempfile::tempdir().unwrap();
        let (plan, stop) = (directory.path().join("plan.tfplan"), Stop::new());
        let tool = ToolRequest { product: Product::Terraform, version: "1.11.4".parse().unwrap() };
        let engine = |wrapper: Option<Wrapper>, variable: &str| Engine {
            tool: &tool,
            program: Path::new("/terraform"),
            wrapper,
            directory: directory.path(),
            private: directory.path(),
            environment: Environment::from_iter([(variable.into(), "1".into())]),
            input: Input::Nothing,
            log: &Discard,
            stop: &stop,
            grace: Grace { normal: Duration::ZERO, urgent: Duration::ZERO },
            lock_timeout: Duration::ZERO,
            killed_lock: KilledLock::EndsWithTool,
        };
        let wrapper = Wrapper {
            version: "0.99.1".parse().unwrap(),
            program: "/terragrunt".into(),
            downloads: None,
        };
        let enough: fn() -> Option<u64> = || Some(ENOUGH);
        let mut never = [
            Box::pin(engine(Some(wrapper), "A").may_show(&plan, enough)),
            Box::pin(engine(None, "TF_LOG_CORE").may_show(&plan, enough)),
            Box::pin(engine(None, "A").may_show(&plan, || Some(ENOUGH - 1))),
            Box::pin(engine(None, "A").may_show(&plan, || None)),
        ];
        let may = engine(None, "A").may_show(&plan, enough);
        tokio::pin!(may);
        assert!(futures_util::poll!(&mut may).is_pending(), "it is not saved yet");
        std::fs::write(&plan, "a plan").unwrap();
        // All are told of the file in the same turn of the runtime.
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
