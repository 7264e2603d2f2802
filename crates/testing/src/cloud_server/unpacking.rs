//! The configurations that clients send.

use std::path::Path;
use std::process::Command;

/// Unpacks an archive (`.tar.gz`) that a client has sent.
pub(super) fn unpack(directory: &Path, archive: &[u8]) {
    std::fs::create_dir_all(directory).unwrap();
    let file = directory.with_extension("tar.gz");
    std::fs::write(&file, archive).unwrap();
    let unpacked = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(directory).status();
    assert!(unpacked.unwrap().success());
    std::fs::remove_file(file).unwrap();
}

/// The paths of all files below a directory.
pub(super) fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let path = entry.path();
                files.push(path.strip_prefix(directory).unwrap().display().to_string());
            }
        }
    }
    files
}
