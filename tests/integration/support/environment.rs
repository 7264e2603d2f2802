//! The environment of the test process.

use std::ffi::OsString;
use std::path::PathBuf;

/// PATH of the test process.
#[expect(clippy::disallowed_methods, reason = "tests have no settings to take it from")]
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").expect("PATH is set")
}

/// A program on PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|path| path.join(name)).find(|path| path.is_file())
}
