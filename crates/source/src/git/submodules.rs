//! Which submodules a clone or a mirror has.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::reach::is_in;

/// Which submodules of a commit are checked out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Submodules {
    /// Those that the module reaches. Others are left out, and so is one in a directory of the module that it does not
    /// name and that cannot be fetched. If it is not known what the module reads, it reaches all.
    #[default]
    Needed,
    /// All, as with `git clone --recurse-submodules`.
    All,
    /// None.
    None,
}

impl Submodules {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Needed, Self::All, Self::None];

    /// The name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::All => "all",
            Self::None => "none",
        }
    }
}

/// Which submodules of its commits a mirror must contain.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MirrorSubmodules {
    /// All. If one of them cannot be fetched, the update fails.
    All,
    /// None that it does not have.
    None,
    /// Those at and above these paths, by reference; below an empty path, all. One that cannot be fetched is reported in
    /// `left_out` of its update.
    Needed(BTreeMap<String, BTreeSet<String>>),
}

impl MirrorSubmodules {
    /// Whether submodules of the commit of `reference` can be wanted.
    pub(super) fn wants_any(&self, reference: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Needed(paths) => paths.contains_key(reference),
        }
    }

    /// Whether the submodule at `submodule` is wanted.
    pub(super) fn wants(&self, reference: &str, submodule: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Needed(paths) => paths
                .get(reference)
                .is_some_and(|paths| paths.iter().any(|it| it.is_empty() || is_in(it, submodule))),
        }
    }
}
