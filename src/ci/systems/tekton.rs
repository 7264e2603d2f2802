//! Tekton.

use crate::ci::description::{CiSystem, Recognition};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "tekton",
    title: "Tekton",
    // Tekton sets no variable, but mounts this directory into each step.
    recognition: Recognition::Path("/tekton/steps"),
    secret_place: Some(
        "put it into a Secret and name that in the step's `env` (`generate tekton --secret NAME`)",
    ),
    ..CiSystem::PLAIN
};
