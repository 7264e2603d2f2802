//! A CI system that the runner does not know.

use crate::ci::description::{CiSystem, Recognition};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "plain",
    title: "a CI system",
    recognition: Recognition::SharedVariable("CI"),
    ..CiSystem::PLAIN
};
