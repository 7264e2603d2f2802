//! Plans that are saved with all that it takes to apply them later (`plan --out FILE`), and applied
//! (`apply FILE`).

use std::path::PathBuf;

use super::command_input::Files;
use super::workspace_choice;
use crate::artifact::{Artifact, ArtifactError, Head, Parts, Snapshot, save};
use crate::engine::{Engine, Planned};
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::blocking::blocking;
use butler_base::event::Phase;
use butler_protocol::spec::{Operation, PlanFile, Purpose};
use butler_source::git::checked_out_commit;

/// The name of Terraform's own plan in the run's directory.
const PLAN: &str = "saved.tfplan";

/// A plan that is going to be saved.
pub(in crate::run) struct Saving {
    path: PathBuf,
    before: Snapshot,
    others: Vec<PathBuf>,
    purpose: Purpose,
}

impl Saving {
    /// Looks at the module's directory before the plan is made. None where it is not to be saved.
    ///
    /// # Errors
    /// When such a plan cannot be saved.
    pub(in crate::run) async fn begin(
        engine: &Engine<'_, RunLog>,
        files: &Files<'_>,
    ) -> Result<Option<Self>, Failure> {
        let PlanFile::Save(path) = &files.options.plan_file else { return Ok(None) };
        if engine.wrapper.is_some() {
            // Its plans are about copies of the module, which are gone after the run.
            let reason = "a plan through Terragrunt cannot be saved";
            return Err(Failure::because(Phase::Plan, reason)
                .advise("apply it at once, with `butler-runner apply`"));
        }
        let directory = engine.directory.to_owned();
        let (others, own) = (files.reports.clone(), files.reports.clone());
        let before = blocking(move |_| Snapshot::of(&directory, &own)).await;
        Ok(Some(Self { path: path.clone(), before, others, purpose: files.options.purpose }))
    }

    /// Saves the plan, and says how it is applied.
    ///
    /// # Errors
    /// When it cannot be saved.
    pub(in crate::run) async fn save(
        self,
        engine: &Engine<'_, RunLog>,
        plan: &Planned,
    ) -> Result<(), Failure> {
        let Self { path, before, others, purpose } = self;
        let head = Head {
            operation: match purpose {
                Purpose::Bring => Operation::Apply,
                Purpose::Destroy => Operation::Destroy,
            },
            tool: engine.tool.clone(),
            directory: engine.directory.to_owned(),
            workspace: workspace_choice::current(engine),
            commit: None,
        };
        let (plan, target) = (plan.saved.file.clone(), path.clone());
        let saved = blocking(move |_| {
            let created = Snapshot::of(&head.directory, &others).created_since(&before);
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

/// Brings back what the saved plan needs, before `init` looks at it. Returns Terraform's own plan;
/// none where the plan is still to be made.
///
/// # Errors
/// When it is not the plan of this directory, damaged, or a file has changed since.
pub(in crate::run) async fn restore(
    engine: &Engine<'_, RunLog>,
    files: &Files<'_>,
) -> Result<Option<PathBuf>, Failure> {
    let PlanFile::Apply(path) = &files.options.plan_file else { return Ok(None) };
    let plan = engine.private.join(PLAN);
    let (path, directory, tool) = (path.clone(), engine.directory.to_owned(), engine.tool.clone());
    let (saved, target) = (path.display().to_string(), plan.clone());
    let restored = blocking(move |_| -> Result<_, ArtifactError> {
        let artifact = Artifact::open(&path)?;
        artifact.check_directory(&directory)?;
        // Another one may be there since the command line was read.
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
