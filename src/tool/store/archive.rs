//! Extracts the executable, and nothing else, from the archive of a release, if it is in one.
//!
//! A name in the archive never becomes a path: the one entry is found by its exact name and written
//! to the file that the caller opened. Licences and change logs stay in the archive.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::tool::digest::{self, Sha256Sum, Summing};
use crate::tool::vendor::product::Packaging;
use butler_base::error::{Advice, FailureClass};

/// The largest accepted executable, in bytes; the largest known one has about 100 MB.
const MAX_EXECUTABLE: u64 = 1024 * 1024 * 1024;

/// Why an archive cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is not a zip archive, or it is damaged.
    #[error("cannot read the archive")]
    Read(#[source] ZipError),
    /// It does not contain the executable, or contains several files of one name.
    #[error("the archive must contain exactly one regular file `{name}`")]
    NoExecutable {
        /// The executable's name.
        name: String,
    },
    /// The executable is too large.
    #[error("`{name}` in the archive has more than {largest} bytes")]
    TooLarge {
        /// The executable's name.
        name: String,
        /// The limit, in bytes.
        largest: u64,
    },
    /// The executable cannot be extracted or written.
    #[error("cannot unpack `{}`", path.display())]
    Unpack {
        /// The target file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
}

/// The checksum of the archive was right, so the archive is as its publisher made it.
impl Advice for ArchiveError {
    fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Unpack { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free disk space, or set another directory with --cache-dir"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "check that --cache-dir is writable"
                }
                _ => {
                    "check the disk of --cache-dir, and that the archive is complete where it was published"
                }
            },
            Self::Read(_) | Self::NoExecutable { .. } | Self::TooLarge { .. } => {
                "its checksum is right, so it was published like this: check --url and --mirror, or choose another version"
            }
        };
        Some(advice.to_owned())
    }

    fn class(&self) -> Option<FailureClass> {
        Some(match self {
            Self::Unpack { .. } => FailureClass::Platform,
            Self::Read(_) | Self::NoExecutable { .. } | Self::TooLarge { .. } => {
                FailureClass::Configuration
            }
        })
    }
}

/// Writes the executable `name` of `archive` to the target file, and returns its checksum.
pub(in crate::tool) fn unpack(
    packaging: Packaging,
    mut archive: impl Read + Seek,
    name: &str,
    target: (&mut File, &std::path::Path),
    abandoned: &CancellationToken,
) -> Result<Sha256Sum, ArchiveError> {
    match packaging {
        Packaging::Zip => unpack_at_most(MAX_EXECUTABLE, archive, name, target, abandoned),
        Packaging::Bare => {
            let unpack = |source| ArchiveError::Unpack { path: target.1.to_owned(), source };
            archive.rewind().map_err(unpack)?;
            write_at_most(MAX_EXECUTABLE, archive, name, target, abandoned)
        }
    }
}

/// Writes the entry `name` of a zip archive, with at most `largest` bytes.
pub(in crate::tool) fn unpack_at_most(
    largest: u64,
    archive: impl Read + Seek,
    name: &str,
    (file, path): (&mut File, &std::path::Path),
    abandoned: &CancellationToken,
) -> Result<Sha256Sum, ArchiveError> {
    let no_executable = || ArchiveError::NoExecutable { name: name.to_owned() };
    let mut archive = ZipArchive::new(archive).map_err(ArchiveError::Read)?;
    if archive.has_duplicate_names() {
        return Err(no_executable());
    }
    let entry = match archive.by_name(name) {
        Ok(entry) => entry,
        Err(ZipError::FileNotFound) => return Err(no_executable()),
        Err(error) => return Err(ArchiveError::Read(error)),
    };
    if !entry.is_file() || entry.is_symlink() {
        return Err(no_executable());
    }
    write_at_most(largest, entry, name, (file, path), abandoned)
}

fn write_at_most(
    largest: u64,
    content: impl Read,
    name: &str,
    (file, path): (&mut File, &std::path::Path),
    abandoned: &CancellationToken,
) -> Result<Sha256Sum, ArchiveError> {
    // One byte more than allowed, so that an oversized entry is detected even if it declares a
    // smaller size.
    let mut content = content.take(largest + 1);
    let mut summing = Summing::default();
    digest::copy(&mut content, abandoned, |bytes| {
        summing.update(bytes);
        file.write_all(bytes)
    })
    .map_err(|source| ArchiveError::Unpack { path: path.to_owned(), source })?;
    if content.limit() == 0 {
        return Err(ArchiveError::TooLarge { name: name.to_owned(), largest });
    }
    Ok(summing.finish())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    /// Unpacks `terraform` from `archive` in a fresh directory; returns the directory's files too.
    fn unpacked(archive: Vec<u8>) -> (Result<String, ArchiveError>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        let mut file = File::create_new(&path).unwrap();
        let token = CancellationToken::new();
        let archive = Cursor::new(archive);
        let result = unpack(Packaging::Zip, archive, "terraform", (&mut file, &path), &token);
        let files = std::fs::read_dir(directory.path()).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        (result.map(|_| std::fs::read_to_string(path).unwrap()), files)
    }

    #[test]
    fn only_the_executable_is_unpacked() {
        let (content, files) = unpacked(archive(&[
            ("LICENSE.txt", "licence"),
            ("../terraform", "outside"),
            ("terraform", "binary"),
            ("bin/terraform", "below"),
        ]));
        assert_eq!(content.unwrap(), "binary");
        assert_eq!(files, ["target"]);
    }

    #[test]
    fn archive_without_a_plain_executable_is_refused() {
        let mut link = ZipWriter::new(Cursor::new(Vec::new()));
        link.add_symlink("terraform", "/bin/sh", SimpleFileOptions::default()).unwrap();
        for bytes in [
            archive(&[("terraform/", "")]),
            archive(&[("../terraform", "outside"), ("tofu", "other")]),
            link.finish().unwrap().into_inner(),
        ] {
            let (result, _) = unpacked(bytes);
            assert!(matches!(result, Err(ArchiveError::NoExecutable { .. })), "{result:?}");
        }
        let (result, _) = unpacked(b"<html>".to_vec());
        assert!(matches!(result, Err(ArchiveError::Read(_))), "{result:?}");
    }

    #[test]
    fn damaged_archive_is_refused() {
        let mut bytes = archive(&[("terraform", &"binary ".repeat(99))]);
        bytes[50] ^= 0x55;
        let (result, _) = unpacked(bytes);
        assert!(matches!(result, Err(ArchiveError::Unpack { .. })), "{result:?}");
    }

    #[test]
    fn archive_with_an_oversized_executable_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        let bytes = archive(&[("terraform", &"0".repeat(1_000_000))]);
        assert!(bytes.len() < 10_000, "it must compress well: {} bytes", bytes.len());
        // The size in the central directory must not matter.
        let central = bytes.windows(4).position(|it| it == b"PK\x01\x02").unwrap();
        let mut lying = bytes.clone();
        lying[central + 24..central + 28].copy_from_slice(&10_u32.to_le_bytes());
        for bytes in [bytes, lying] {
            let mut file = File::create(&path).unwrap();
            let token = CancellationToken::new();
            let result =
                unpack_at_most(5000, Cursor::new(bytes), "terraform", (&mut file, &path), &token);
            assert!(result.is_err(), "{result:?}");
            assert!(path.metadata().unwrap().len() <= 5001);
        }
    }
}
