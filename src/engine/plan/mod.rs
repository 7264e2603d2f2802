//! Plans: shown while they are saved, and compared with what an apply did.

pub(super) mod applied;
pub(super) mod reported;
pub(super) mod showing;
