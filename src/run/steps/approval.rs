//! Asks the user at the terminal to approve a plan, after the whole plan was shown.
//!
//! No command runs and the state is not locked meanwhile: Terraform itself rejects the plan if the state
//! has changed in between. A signal ends the question like every other wait.

use std::path::Path;

use crate::engine::{Engine, PlanMode, Planned};
use crate::report::RunLog;
use crate::run::failure::Failure;
use crate::screen::LiveControl;
use butler_base::event::Phase;
use butler_base::platform::{forget_typed, typed_line};

/// The only answer that approves the plan.
const YES: &str = "yes";

/// Asks the user at the terminal.
#[derive(Debug)]
pub(in crate::run) struct Approver {
    /// Hides the live line while the user types; none if the terminal has no live line.
    pub(in crate::run) live: Option<LiveControl>,
}

impl Approver {
    /// Asks whether `plan` is applied. Does not ask if it does not have changes.
    ///
    /// # Errors
    /// If the answer is not `yes` or cannot be read, or if the run is stopped.
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
        engine.log.show_prompt(&question(mode, engine.directory));
        let answer = tokio::select! {
            // The stop has priority, because Ctrl-C may also end the line.
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
                let reason = format!("cannot read the answer: {error}; nothing was changed");
                Err(Failure::because(Phase::Apply, reason))
            }
        }
    }
}

/// The question, in Terraform's own words.
fn question(mode: PlanMode, directory: &Path) -> String {
    let directory = directory.display();
    let (question, effect) = match mode {
        PlanMode::Destroy => (
            "Do you really want to destroy all of this?",
            format!("It will be destroyed as shown above, in {directory}. There is no undo."),
        ),
        PlanMode::Normal | PlanMode::RefreshOnly => (
            "Do you want to perform these actions?",
            format!("Exactly the plan above will be applied, in {directory}."),
        ),
    };
    format!("\n{question}\n  {effect}\n  Only 'yes' will be accepted.\n\n  Enter a value:")
}
