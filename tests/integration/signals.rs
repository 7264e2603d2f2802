//! Every signal at every phase: one final status, nothing left, the state unlocked.

use crate::support::documented::assert_documented;

#[test]
fn the_documentation_lists_what_is_tested() {
    assert_documented("docs/faults.md", "signals", &[]);
}
