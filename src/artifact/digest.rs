//! Copies files and computes their digests.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

/// How many bytes are copied at once. The buffer is on the heap, where freed memory is zeroed, because
/// plans contain secrets.
const CHUNK: usize = 64 * 1024;

/// The number of copied bytes, and their SHA-256 sum in hexadecimal digits.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Copied {
    pub(super) size: u64,
    pub(super) sha256: String,
}

/// Copies `from` to its end into `into`.
pub(super) fn copy(from: &mut impl Read, into: &mut impl Write) -> io::Result<Copied> {
    let (mut chunk, mut sum, mut size) = (vec![0; CHUNK], Sha256::new(), 0);
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(Copied { size, sha256: hex::encode(sum.finalize()) }),
            Ok(count) => {
                sum.update(&chunk[..count]);
                into.write_all(&chunk[..count])?;
                size += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The SHA-256 sum of the file at `path` in hexadecimal digits.
///
/// # Errors
/// If it cannot be read.
pub fn file_digest(path: &Path) -> io::Result<String> {
    Ok(copy(&mut File::open(path)?, &mut io::sink())?.sha256)
}

/// The SHA-256 sum of `bytes` in hexadecimal digits.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
