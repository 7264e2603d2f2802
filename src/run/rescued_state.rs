//! Keeps the state that Terraform could not store (`errored.tfstate`): it is the only copy.

use std::path::Path;

use super::directory::errored_state::{KeptState, StateForm};
use super::directory::run_directory::RunDirectory;
use crate::engine::LeftLock;
use butler_base::error::chain;
use butler_protocol::spec::Product;

/// A state that Terraform could not store.
pub(super) struct RescuedState {
    /// The path of the state and the commands that push it, for the user.
    pub(super) text: String,
    /// Whether the state is still in the clone, which must not be wiped then.
    pub(super) in_clone: bool,
}

impl RescuedState {
    /// Moves such a state from the clone to `recovery_dir`, if there is one. `tool` is the run's tool
    /// with its version. `lock` is a state lock that must be removed before the state can be pushed.
    pub(super) fn move_from(
        directory: &RunDirectory,
        recovery_dir: &Path,
        tool: Option<&str>,
        lock: Option<&LeftLock>,
    ) -> Option<Self> {
        let is_used = |product: &Product| tool.is_some_and(|tool| tool.starts_with(product.name()));
        let product = Product::ALL.into_iter().find(is_used).unwrap_or(Product::Terraform);
        let product = product.executable();
        let unlock =
            lock.and_then(|lock| Some(format!("; {lock}: {}, then", lock.removal(product)?)));
        let step = |kept: &KeptState| {
            let place = if matches!(kept, KeptState::Part(_)) { "" } else { " in the module" };
            let step = kept.next_step(product, kept.path());
            format!("{} {step}{place}", unlock.as_deref().unwrap_or(":"))
        };
        match directory.rescue_state(recovery_dir) {
            Ok(None) => None,
            Ok(Some(kept)) => Some(Self {
                text: format!(
                    "The state could not be stored; it is kept in {}{}",
                    kept.path().display(),
                    step(&kept)
                ),
                in_clone: false,
            }),
            Err((state, error)) => {
                let form = StateForm::of_file(&state).unwrap_or(StateForm::Part);
                let kept = KeptState::at(state, form);
                Some(Self {
                    text: format!(
                        "The state could not be stored, and the runner could not move it ({}); it stays in {}{}, or have the next run or `butler-runner clean` move it to {}",
                        chain(&error),
                        kept.path().display(),
                        step(&kept),
                        recovery_dir.display()
                    ),
                    in_clone: true,
                })
            }
        }
    }
}
