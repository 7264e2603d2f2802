//! The environment of the test process.

use std::ffi::OsString;
use std::path::PathBuf;

/// PATH of the test process.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").expect("PATH is set")
}

/// A program on PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|path| path.join(name)).find(|path| path.is_file())
}
