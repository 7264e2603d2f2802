//! What the tests start: servers, repositories and runs, each on a free port and in a directory of its own.

pub(crate) mod authority;
pub(crate) mod git_server;
pub(crate) mod ssh_server;
