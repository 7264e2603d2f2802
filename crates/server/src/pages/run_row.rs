//! A run in a list.

use super::state_words::{StateWord, counts, of_run, short, title};
use super::when::When;
use crate::model::Moment;
use crate::serve::{LayerView, RunView};

/// A run in a list.
#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) id: String,
    pub(super) title: &'static str,
    pub(super) cause: &'static str,
    pub(super) state: StateWord,
    pub(super) ended: String,
    pub(super) commit: String,
    pub(super) counts: String,
    pub(super) created: When,
}

impl RunRow {
    pub(super) fn new(layer: Option<&LayerView>, run: &RunView, now: Moment) -> Self {
        Self {
            id: run.id.to_string(),
            title: title(run.action),
            cause: run.cause,
            state: of_run(layer, run),
            ended: run.ended.as_deref().map(super::layout::sentence).unwrap_or_default(),
            commit: short(run.commit.as_str()).to_owned(),
            counts: counts(run.counts),
            created: When::new(run.created.0, now),
        }
    }
}
