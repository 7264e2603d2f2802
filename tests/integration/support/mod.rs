//! What the tests start: servers, repositories and runs, each on a free port and in a directory of its own.

pub(crate) mod release_site;
