//! What a registry that fails in every way does to a run: nothing is lost, and nothing said twice.

use crate::support::documented::assert_documented;

#[test]
fn the_documentation_lists_what_is_tested() {
    assert_documented("docs/faults.md", "requests", &[]);
}
