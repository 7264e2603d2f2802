//! Commits as pages show them.

use butler_base::blocking::blocking;

use super::state_words::short;
use crate::api::ApiState;
use crate::mirror::commit_title;
use crate::model::{Commit, LayerName};

/// The short hash of each commit, and the first line of its message if the mirror of the layer's repository
/// has it.
pub(super) async fn named<S>(
    state: &ApiState<S>,
    layer: &LayerName,
    commits: Vec<Commit>,
) -> Vec<String> {
    let source = state.source(layer);
    let mirror = source.map(|source| state.data.mirror(&source.configured.repository));
    let named = blocking(move |_| {
        let name = |commit: &Commit| {
            let short = short(commit.as_str());
            match mirror.as_deref().and_then(|mirror| commit_title(mirror, commit)) {
                Some(title) => format!("{short} {title}"),
                None => short.to_owned(),
            }
        };
        commits.iter().map(name).collect()
    });
    named.await
}
