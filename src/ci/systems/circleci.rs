//! `CircleCI`.

use crate::ci::description::{CiSystem, Recognition};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "circleci",
    title: "CircleCI",
    recognition: Recognition::Variable("CIRCLECI"),
    secret_place: Some(
        "add the variable to the job's context under Organization Settings > Contexts",
    ),
    ..CiSystem::PLAIN
};
