//! What a runner that was killed leaves behind, and what the next one does with it.

use crate::support::documented::assert_documented;

#[test]
fn the_documentation_lists_what_is_tested() {
    assert_documented("docs/faults.md", "kills", &[]);
}
