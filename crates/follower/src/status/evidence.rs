//! The evidence of reuse of a follower's stages, as text.

use super::follower::FollowerStatus;
use super::table::Table;
use crate::text::shorten;

/// The most rows.
const MOST: usize = 32;

/// The letters of a path.
const PATH: usize = 100;

/// The plain text table `REUSE`: what the stages show about results that they reused. `None` if they show nothing.
#[must_use]
pub fn evidence_table(follower: &FollowerStatus) -> Option<String> {
    let evidence = follower.stages.iter().flat_map(|stage| {
        stage.evidence.iter().map(|(path, value)| [&stage.name, path, value].map(String::as_str))
    });
    let mut table = Table::new(&["STAGE", "EVIDENCE", "VALUE"]);
    let mut has_any = false;
    for [stage, path, value] in evidence.take(MOST) {
        has_any = true;
        table.push([stage.to_owned(), shorten(path, PATH), value.to_owned()]);
    }
    has_any.then(|| format!("REUSE\n{table}"))
}
