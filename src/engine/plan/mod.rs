//! Plans: shown as JSON while they are saved, and compared with the state after an apply.

pub(super) mod applied;
pub(super) mod reported;
pub(super) mod showing;
