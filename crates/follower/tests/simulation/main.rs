//! A follower in a cluster in memory, with faults that a number decides.
//!
//! Each number is one story: commits, failures, objects that are late, lost and old records, readings
//! that fail, lag or repeat, crashes of the controller, two controllers at once, and people. After
//! each decision, `invariants` are checked. When the faults end, the follower must deliver the newest
//! commit. A story that fails prints its number and its last steps, and is the same at each repetition.

mod cluster;
mod faults;
mod invariants;
mod story;

use std::collections::BTreeSet;

use butler_follower::Phase;

/// How many stories a plain test run has. `make soak` tells more of them (`SIMULATE_SEEDS`).
const STORIES: u64 = 100;

#[expect(clippy::disallowed_methods, reason = "set by the developer who simulates")]
fn stories() -> u64 {
    let given = std::env::var("SIMULATE_SEEDS").ok();
    given.map_or(STORIES, |it| it.parse().expect("SIMULATE_SEEDS is a number"))
}

#[test]
fn follower_keeps_its_invariants_and_delivers_when_faults_end() {
    let mut phases = BTreeSet::new();
    let mut reruns = 0;
    let stories = stories();
    for number in 0..stories {
        match story::tell(number) {
            Ok(told) => {
                phases.extend(told.phases);
                reruns += told.attempts;
            }
            Err(failure) => panic!("story {number} fails:\n{failure}"),
        }
    }
    assert_eq!(phases, Phase::ALL.into(), "the stories reach each phase");
    assert!(reruns > stories, "the stories have retries: {reruns}");
}

#[test]
fn story_is_the_same_at_each_repetition() {
    let tell = || story::tell(7).map(|told| (told.phases, told.attempts));
    assert_eq!(tell(), tell());
}
