//! Which submodules the layers of a repository need, and what it means for them that one is not there.
//!
//! A reading finds the submodules that are not in the mirror. They are fetched if a layer may need them, and the
//! repository is read again. One that cannot be fetched stops only the layers that are known to read it.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::SubmoduleChoice;
use crate::mirror::{AbsentSubmodule, can_match_in};
use crate::model::Commit;

/// Why submodules cannot be fetched, by commit and path.
pub type LeftOut = BTreeMap<Commit, BTreeMap<String, String>>;

/// Submodules that are not there, by commit.
pub type AbsentSubmodules = BTreeMap<Commit, BTreeSet<String>>;

/// The needs of layers for submodules that are not there.
pub(super) struct SubmoduleNeeds<'a> {
    choice: SubmoduleChoice,
    left_out: &'a LeftOut,
    /// Those that must be fetched.
    pub(super) wanted: AbsentSubmodules,
}

impl<'a> SubmoduleNeeds<'a> {
    pub(super) const fn new(choice: SubmoduleChoice, left_out: &'a LeftOut) -> Self {
        Self { choice, left_out, wanted: BTreeMap::new() }
    }

    /// Takes what a layer needs. Returns what people should know about it.
    ///
    /// # Errors
    /// If the module reads a submodule that cannot be fetched: why, for people.
    pub(super) fn take(
        &mut self,
        commit: &Commit,
        absent: &[AbsentSubmodule],
    ) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for AbsentSubmodule { path, is_required } in absent {
            if self.choice == SubmoduleChoice::None {
                if *is_required {
                    notes.push(format!(
                        "the module may read the submodule `{path}`, which is left out: `submodules: none`"
                    ));
                }
                continue;
            }
            let why = self.want(commit, path);
            if *is_required {
                let why = why.unwrap_or("it is not there");
                return Err(format!(
                    "the module may read the submodule `{path}`, which cannot be fetched: {why}"
                ));
            }
            if let Some(why) = why {
                notes.push(format!(
                    "the submodule `{path}` is left out, because it cannot be fetched: {why}"
                ));
            }
        }
        Ok(notes)
    }

    /// Takes the globs of a layer, or of a layer set. Returns those of the `absent` submodules in which something can
    /// match, and that cannot be fetched, with the reason.
    pub(super) fn take_globs<'g>(
        &mut self,
        commit: &Commit,
        absent: &'g [String],
        globs: &[&str],
    ) -> Vec<(&'g str, String)> {
        if self.choice == SubmoduleChoice::None {
            return Vec::new();
        }
        let matches = |path: &&String| globs.iter().any(|glob| can_match_in(glob, path));
        let matching = absent.iter().filter(matches);
        let failed = matching.filter_map(|path| {
            let why = self.want(commit, path)?;
            Some((path.as_str(), why.to_owned()))
        });
        failed.collect()
    }

    /// Takes a submodule that must be fetched. Returns why it cannot.
    fn want(&mut self, commit: &Commit, path: &str) -> Option<&'a str> {
        self.wanted.entry(commit.clone()).or_default().insert(path.to_owned());
        self.left_out.get(commit)?.get(path).map(String::as_str)
    }
}
