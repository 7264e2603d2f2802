//! Saves a plan with everything that a later apply needs (`plan --out FILE`), and restores it for that apply
//! (`apply FILE`).

use std::path::PathBuf;

use super::command_input::CommandInput;
use super::workspace_choice::current_workspace;
use crate::artifact::{Artifact, ArtifactError, Head, Parts, Snapshot, save};
use crate::engine::{Engine, Planned};
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::blocking::blocking;
use butler_base::event::Phase;
use butler_protocol::spec::{Operation, PlanFile, PlanPurpose};
use butler_source::git::checked_out_commit;

/// The name of Terraform's own plan in the run's directory.
const PLAN_NAME: &str = "saved.tfplan";

/// A plan file that is written when the plan is made.
pub(in crate::run) struct PendingPlanFile {
    path: PathBuf,
    /// The files of the module before the plan.
    before: Snapshot,
    /// Files that the run itself writes, which are not saved.
    reports: Vec<PathBuf>,
    purpose: PlanPurpose,
}

impl PendingPlanFile {
    /// Records the files in the module's directory before the plan is made. None without `--out`.
    ///
    /// # Errors
    /// If the plan is made through Terragrunt.
    pub(in crate::run) async fn prepare(
        engine: &Engine<'_, RunLog>,
        input: &CommandInput<'_>,
    ) -> Result<Option<Self>, Failure> {
        let PlanFile::Save(path) = &input.options.plan_file else { return Ok(None) };
        if engine.wrapper.is_some() {
            // Its plans refer to copies of the module, which are removed after the run.
            let reason = "a plan through Terragrunt cannot be saved";
            return Err(Failure::because(Phase::Plan, reason)
                .advise("apply it at once, with `butler-runner apply`"));
        }
        let directory = engine.directory.to_owned();
        let (reports, excluded) = (input.reports.clone(), input.reports.clone());
        let before = blocking(move |_| Snapshot::of(&directory, &excluded)).await;
        Ok(Some(Self { path: path.clone(), before, reports, purpose: input.options.purpose }))
    }

    /// Saves the plan and the files that were created with it. Logs how to apply the plan.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(in crate::run) async fn save(
        self,
        engine: &Engine<'_, RunLog>,
        plan: &Planned,
    ) -> Result<(), Failure> {
        let Self { path, before, reports, purpose } = self;
        let head = Head {
            operation: match purpose {
                PlanPurpose::Apply => Operation::Apply,
                PlanPurpose::Destroy => Operation::Destroy,
            },
            tool: engine.tool.clone(),
            directory: engine.directory.to_owned(),
            workspace: current_workspace(engine),
            commit: None,
        };
        let (plan, target) = (plan.files.file.clone(), path.clone());
        let saved = blocking(move |_| {
            let created = Snapshot::of(&head.directory, &reports).created_since(&before);
            let head = Head { commit: checked_out_commit(&head.directory), ..head };
            save(&target, &head, Parts { plan: &plan, created: &created }).map(|()| created)
        });
        let created = saved.await.map_err(|error| Failure::new(Phase::Plan, &error))?;
        if !created.is_empty() {
            let names: Vec<_> = created.iter().map(|file| file.display().to_string()).collect();
            engine.log.announce(&format!("Saved with the plan: {}", names.join(", ")));
        }
        engine.log.announce(&format!(
            "Saved the plan as {0}; to apply exactly this plan: `butler-runner apply {0} {1}`",
            path.display(),
            engine.directory.display()
        ));
        Ok(())
    }
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
) -> Result<Option<PathBuf>, Failure> {
    let PlanFile::Apply(path) = &input.options.plan_file else { return Ok(None) };
    let plan = engine.private.join(PLAN_NAME);
    let (path, directory, tool) = (path.clone(), engine.directory.to_owned(), engine.tool.clone());
    let (saved, target) = (path.display().to_string(), plan.clone());
    let restored = blocking(move |_| -> Result<_, ArtifactError> {
        let artifact = Artifact::open(&path)?;
        artifact.check_directory(&directory)?;
        // The file may have been replaced after the command line was read.
        if artifact.head().tool == tool {
            artifact.restore(&target)?;
        }
        Ok(artifact.head().tool.clone())
    });
    let made_with = restored.await.map_err(|error| Failure::new(Phase::Source, &error))?;
    if made_with != *engine.tool {
        let reason = format!("`{saved}` was made with {made_with}, not with {}", engine.tool);
        return Err(Failure::because(Phase::Tool, reason));
    }
    Ok(Some(plan))
}
