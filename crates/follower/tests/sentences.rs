//! What a follower must and must not do. docs/internals/followers.md has the rules with their tests.

mod sentences {
    mod delivery;
    mod failures;
    mod limits;
    mod readings;
    mod timings;
}
mod support;
