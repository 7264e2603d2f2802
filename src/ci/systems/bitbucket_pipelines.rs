//! Bitbucket Pipelines.

use crate::ci::description::{CiSystem, Recognition};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "bitbucket-pipelines",
    title: "Bitbucket Pipelines",
    recognition: Recognition::Variable("BITBUCKET_BUILD_NUMBER"),
    secret_place: Some("add a secured variable under Repository settings > Repository variables"),
    ..CiSystem::PLAIN
};
