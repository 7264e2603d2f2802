//! Saves a plan with everything that a later apply needs (`plan --out FILE`), and restores it for that apply
//! (`apply FILE`). The file can be the user's, or the registry's.

use std::fs::File;
use std::path::PathBuf;

use super::command_input::CommandInput;
use super::module_files::registry_failure;
use crate::artifact::{Artifact, ArtifactError, Head, Parts, Snapshot, file_digest, save};
use crate::engine::{Engine, Planned, Restriction};
use crate::registry::RegistryError;
use crate::report::RunLog;
use crate::run::context::Context;
use crate::run::failure::{Cause, Failure};
use butler_base::blocking::blocking;
use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_protocol::spec::{Operation, PlanFile, PlanPurpose, ToolRequest};
use butler_source::git::checked_out_commit;

/// The name of Terraform's own plan in the run's directory.
const PLAN_NAME: &str = "saved.tfplan";

/// The name of the registry's saved plan in the run's directory.
const FILE_NAME: &str = "saved-plan";

/// The registry's saved plan, in messages.
const WHAT: &str = "the saved plan";

/// A plan file that is written when the plan is made.
pub(in crate::run) struct PendingPlanFile {
    path: PathBuf,
    /// The files of the module before `init`, which can complete the lock file.
    before: Snapshot,
    /// Files that the run itself writes, which are not saved.
    reports: Vec<PathBuf>,
    purpose: PlanPurpose,
}

impl PendingPlanFile {
    /// Records the files in the module's directory. Must be called before `init`. None if the plan is not saved.
    ///
    /// # Errors
    /// If the plan is made through Terragrunt.
    pub(in crate::run) async fn prepare(
        engine: &Engine<'_, RunLog>,
        input: &CommandInput<'_>,
    ) -> Result<Option<Self>, Failure> {
        let path = match &input.options.plan_file {
            PlanFile::Save(path) => path.clone(),
            PlanFile::Send { .. } => engine.private.join(FILE_NAME),
            PlanFile::None | PlanFile::Apply(_) | PlanFile::Fetch { .. } => return Ok(None),
        };
        if engine.wrapper.is_some() {
            // Its plans refer to copies of the module, which are removed after the run.
            let reason = "a plan through Terragrunt cannot be saved";
            return Err(Failure::because(Phase::Plan, reason)
                .advise("apply it at once, with `butler-runner apply`"));
        }
        let directory = engine.directory.to_owned();
        let (reports, excluded) = (input.reports.clone(), input.reports.clone());
        let before =
            blocking(move |_| Snapshot::of(&directory, &excluded).with_contents(&directory));
        let before = before.await;
        Ok(Some(Self { path, before, reports, purpose: input.options.purpose }))
    }

    /// Saves the plan and the files that were created with it. Logs how to apply the plan, or sends it to the
    /// registry.
    ///
    /// # Errors
    /// If the file cannot be written, or the registry does not take it.
    pub(in crate::run) async fn save(
        self,
        engine: &Engine<'_, RunLog>,
        input: &CommandInput<'_>,
        plan: &Planned,
    ) -> Result<(), Failure> {
        let Self { path, before, reports, purpose } = self;
        let head = Head {
            operation: match purpose {
                PlanPurpose::Apply | PlanPurpose::Accept => Operation::Apply,
                PlanPurpose::Destroy => Operation::Destroy,
            },
            tool: engine.tool.clone(),
            directory: engine.directory.to_owned(),
            workspace: engine.current_workspace(),
            commit: None,
        };
        let owner = engine.isolation.as_ref().and_then(|isolation| match isolation.restriction {
            Restriction::User { id, .. } => Some(id),
            Restriction::Paths(_) => None,
        });
        let (plan, target) = (plan.files.file.clone(), path.clone());
        let saved = blocking(move |_| {
            let created = Snapshot::of(&head.directory, &reports).created_since(&before);
            let head = Head { commit: checked_out_commit(&head.directory), ..head };
            let parts = Parts { plan: &plan, created: &created, before: &before, owner };
            save(&target, &head, parts).map(|()| created)
        });
        let created = saved.await.map_err(|error| Failure::new(Phase::Plan, &error))?;
        if !created.is_empty() {
            engine.log.announce(&format!("Saved with the plan: {}", names(&created)));
        }
        if let (PlanFile::Send { url }, Some(registry)) = (&input.options.plan_file, input.registry)
        {
            return tokio::select! {
                sent = registry.send_plan_file(url, &path) => {
                    sent.map_err(|error| Failure::new(Phase::Plan, &error).caused_by(Cause::Registry))
                }
                reason = engine.stop.requested() => Err(Failure::stopped(Phase::Plan, &reason)),
            };
        }
        engine.log.announce(&format!(
            "Saved the plan as {0}; to apply exactly this plan: `butler-runner apply {0} {1}`",
            path.display(),
            engine.directory.display()
        ));
        Ok(())
    }
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

/// Restores the files of a saved plan. Must be called before `init`, which reads some of them. Returns
/// Terraform's own plan; none if the run makes the plan itself.
///
/// # Errors
/// If the file is damaged or was made for another directory or with another tool, or if a file of the module
/// has changed.
pub(in crate::run) async fn restore(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    operation: Operation,
) -> Result<Option<PathBuf>, Failure> {
    let path = match (&input.options.plan_file, &input.fetched) {
        (PlanFile::Apply(path), _) | (PlanFile::Fetch { .. }, Some(path)) => path.clone(),
        _ => return Ok(None),
    };
    let plan = engine.private.join(PLAN_NAME);
    let (directory, tool) = (engine.directory.to_owned(), engine.tool.clone());
    let (saved, target) = (path.display().to_string(), plan.clone());
    let restored = blocking(move |_| -> Result<_, ArtifactError> {
        let artifact = Artifact::open(&path)?;
        artifact.check_directory(&directory)?;
        artifact.check_operation(operation)?;
        // The file may have been replaced after the command line was read.
        let is_same = artifact.head().tool == tool;
        let written = if is_same { artifact.restore(&target)? } else { Vec::new() };
        Ok((artifact.head().tool.clone(), written))
    });
    let (made_with, written) =
        restored.await.map_err(|error| Failure::new(Phase::Source, &error))?;
    if !written.is_empty() {
        engine.log.announce(&format!("Restored with the plan: {}", names(&written)));
    }
    if made_with != *engine.tool {
        let reason = format!("`{saved}` was made with {made_with}, not with {}", engine.tool);
        let class = Some(FailureClass::StalePlan);
        return Err(Failure { class, ..Failure::because(Phase::Tool, reason) });
    }
    Ok(Some(plan))
}

/// Waits until the registry has answered that the run goes on, if the run applies a plan of the registry: the
/// download of the plan is long ago if the providers were downloaded since.
///
/// # Errors
/// If the run is over or was stopped, or if the registry gives no answer.
pub(in crate::run) async fn confirm(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
) -> Result<(), Failure> {
    let (PlanFile::Fetch { .. }, Some(registry)) = (&input.options.plan_file, input.registry)
    else {
        return Ok(());
    };
    tokio::select! {
        biased;
        reason = engine.stop.requested() => Err(Failure::stopped(Phase::Apply, &reason)),
        confirmed = registry.confirm() => match (confirmed, engine.stop.reason()) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(reason)) => Err(Failure::stopped(Phase::Apply, &reason)),
            (Err(error), None) => Err(Failure::new(Phase::Apply, &error).caused_by(Cause::Registry)),
        },
    }
}

/// The registry's saved plan.
pub(in crate::run) struct FetchedPlan {
    /// The file.
    pub(in crate::run) path: PathBuf,
    /// The tool that made it, if the file is a saved plan.
    pub(in crate::run) tool: Option<ToolRequest>,
}

/// Downloads the registry's saved plan, before the tool is chosen: only the tool that made it can apply it. None if
/// the run does not apply one.
///
/// # Errors
/// If it cannot be downloaded, or has another digest.
pub(in crate::run) async fn fetch_plan(
    context: &Context<'_>,
) -> Result<Option<FetchedPlan>, Failure> {
    let PlanFile::Fetch { url, sha256 } = &context.options.plan_file else { return Ok(None) };
    let path = fetch(context, url, sha256).await?;
    let opened = path.clone();
    // `restore` reports the errors of the file.
    let tool = blocking(move |_| Artifact::open(&opened).map(|it| it.head().tool.clone())).await;
    Ok(Some(FetchedPlan { path, tool: tool.ok() }))
}

/// Downloads the registry's saved plan, and checks its digest. Returns its path.
async fn fetch(context: &Context<'_>, url: &str, sha256: &str) -> Result<PathBuf, Failure> {
    let Some(registry) = context.registry else {
        let text = "the saved plan of the run is in a registry, and the run has no registry";
        return Err(Failure::because(Phase::Source, text)
            .advise("set --endpoint (BUTLER_ENDPOINT), or use `butler-runner apply FILE`"));
    };
    let path = context.directory.private().path().join(FILE_NAME);
    // The directory is closed to others, so the mode of the file does not matter.
    let file = File::create_new(&path).map_err(|source| {
        registry_failure(&RegistryError::File { act: "store", what: WHAT, source })
    })?;
    tokio::select! {
        fetched = registry.archive(WHAT, url, &file) => {
            fetched.map_err(|error| registry_failure(&error))?;
        }
        reason = context.stop.requested() => return Err(Failure::stopped(Phase::Source, &reason)),
    }
    let (fetched, expected) = (path.clone(), sha256.to_owned());
    let is_expected =
        blocking(move |_| Ok::<_, std::io::Error>(file_digest(&fetched)? == expected));
    match is_expected.await {
        Ok(true) => Ok(path),
        Ok(false) => {
            let text = "the saved plan that the registry sent has another digest than the configuration names";
            let class = Some(FailureClass::StalePlan);
            Err(Failure { class, ..Failure::because(Phase::Source, text) })
        }
        Err(source) => {
            Err(registry_failure(&RegistryError::File { act: "read", what: WHAT, source }))
        }
    }
}
