//! A terminal or a script instead of a CI system.

use crate::ci::description::{CiSystem, LogFormat};

pub(in crate::ci) const SYSTEM: CiSystem =
    CiSystem { id: "none", title: "no CI system", log: LogFormat::Unchanged, ..CiSystem::PLAIN };
