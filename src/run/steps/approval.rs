//! Asks at the terminal whether a plan is to be applied, once everything that was planned is shown.
//!
//! Nothing runs and nothing is locked meanwhile: Terraform itself refuses the plan if the state has
//! changed in between. A signal ends the question as it ends every other wait.

use std::path::Path;

use crate::engine::{Engine, PlanMode, Planned};
use crate::report::RunLog;
use crate::run::failure::Failure;
use crate::screen::LiveControl;
use butler_base::event::Phase;
use butler_base::platform::{forget_typed, typed_line};

/// What goes on; everything else does not.
const YES: &str = "yes";

/// Asks whoever sits at the terminal.
#[derive(Debug)]
pub(in crate::run) struct Approver {
    /// What keeps the live line away while somebody types; none without one.
    pub(in crate::run) live: Option<LiveControl>,
}

impl Approver {
    /// Asks about `plan`, which `engine` has made.
    ///
    /// # Errors
    /// When the answer is not `yes`, there is none, or the run has to stop.
    pub(in crate::run) async fn approve(
        &self,
        plan: &Planned,
        mode: PlanMode,
        engine: &Engine<'_, RunLog>,
    ) -> Result<(), Failure> {
        if !plan.summary.has_changes() {
            return Ok(());
        }
        let paused = match &self.live {
            Some(live) => Some(live.pause().await),
            None => None,
        };
        forget_typed();
        engine.log.ask(&question(mode, engine.directory));
        let answer = tokio::select! {
            // First of all: Ctrl-C may also end the line.
            biased;
            reason = engine.stop.requested() => return Err(Failure::stopped(Phase::Apply, &reason)),
            answer = typed_line() => answer,
        };
        drop(paused);
        match answer {
            Ok(Some(line)) if line.trim() == YES => Ok(()),
            Ok(_) => {
                let reason = "the plan was not approved, and nothing was changed";
                Err(Failure::because(Phase::Apply, reason))
            }
            Err(error) => {
                let reason = format!("no answer can be read: {error}; nothing was changed");
                Err(Failure::because(Phase::Apply, reason))
            }
        }
    }
}

fn question(mode: PlanMode, directory: &Path) -> String {
    let directory = directory.display();
    let (question, what) = match mode {
        PlanMode::Destroy => (
            "Do you really want to destroy all of this?",
            format!("It will be destroyed as shown above, in {directory}. There is no undo."),
        ),
        PlanMode::Normal | PlanMode::RefreshOnly => (
            "Do you want to perform these actions?",
            format!("Exactly the plan above will be applied, in {directory}."),
        ),
    };
    format!("\n{question}\n  {what}\n  Only 'yes' will be accepted.\n\n  Enter a value:")
}
