//! Local files: below a directory, or in a tar of one.
//!
//! A tar is read in place: its entry is a section of the file, and nothing is unpacked.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take, Write};
use std::path::{Component, Path, PathBuf};

use tokio_util::sync::CancellationToken;
use url::Url;

use super::error::DownloadError;
use crate::tool::digest::{Sha256Sum, Summing, copy};
use crate::tool::fetch::login::redacted;
use butler_base::blocking::blocking;

/// Reads a local file of at most `limit` bytes.
pub(super) async fn read_local<T: Send + 'static>(
    url: &Url,
    limit: u64,
    read: impl FnOnce(&mut Take<Take<File>>) -> io::Result<T> + Send + 'static,
) -> Result<T, DownloadError> {
    let wanted = url.clone();
    let read = blocking(move |_| -> io::Result<(T, bool)> {
        let mut file = open(&wanted)?.take(limit + 1);
        let content = read(&mut file)?;
        Ok((content, file.limit() == 0))
    });
    match read.await {
        Ok((content, false)) => Ok(content),
        Ok((_, true)) => Err(DownloadError::TooLarge { url: redacted(url), limit }),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            Err(DownloadError::NotFound { url: redacted(url) })
        }
        Err(source) => Err(DownloadError::Local { url: redacted(url), source }),
    }
}

/// Copies a local file into an unnamed one, so that it cannot change after its checksum is computed.
pub(super) async fn copy_to_unnamed(
    url: &Url,
    limit: u64,
    directory: &Path,
) -> Result<(File, Sha256Sum), DownloadError> {
    let store = |source| DownloadError::Store { directory: directory.to_owned(), source };
    let mut file = tempfile::tempfile_in(directory).map_err(store)?;
    let abandoned = CancellationToken::new();
    let _guard = abandoned.clone().drop_guard();
    let copied = read_local(url, limit, move |source| {
        let mut summing = Summing::default();
        let mut full = None;
        let read = copy(source, &abandoned, |bytes| {
            summing.update(bytes);
            let written = file.write_all(bytes);
            written.map_err(|error| full.insert(error).kind().into())
        });
        // A write error, such as a full disk, is not an error of the source file.
        match full {
            Some(error) => Ok(Err(error)),
            None => read.map(|()| Ok((file, summing.finish()))),
        }
    });
    copied.await?.map_err(store)
}

/// Opens the file that `url` names, to be read to its end.
fn open(url: &Url) -> io::Result<Take<File>> {
    let path = url.to_file_path().map_err(|()| {
        io::Error::new(io::ErrorKind::InvalidInput, "the URL does not name a local file")
    })?;
    let metadata = std::fs::metadata(&path);
    match &metadata {
        Ok(metadata) if metadata.is_file() => {
            let file = File::open(&path)?;
            return Ok(file.take(u64::MAX));
        }
        Ok(_) => return Err(io::Error::other("it is not a regular file")),
        Err(_) => {}
    }
    match parent_archive(&path) {
        Some((archive, name)) => section(&archive, &name),
        None => Err(metadata.expect_err("handled above")),
    }
}

/// The tar that is one of the parents of `path`, and the name in it.
fn parent_archive(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let archive = path.ancestors().skip(1).find(|above| above.is_file())?;
    Some((archive.to_owned(), path.strip_prefix(archive).ok()?.to_owned()))
}

/// The section of a tar with the regular file `name`: the last one of that name, because a newer file
/// is appended.
fn section(archive: &Path, name: &Path) -> io::Result<Take<File>> {
    if is_compressed(archive)? {
        return Err(io::Error::other(
            "it is in a compressed archive; only uncompressed tar archives are supported",
        ));
    }
    let mut reader = tar::Archive::new(File::open(archive)?);
    let mut found = None;
    for entry in reader.entries_with_seek()? {
        let entry = entry?;
        let plain = |path: &Path| -> PathBuf {
            path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
        };
        if entry.header().entry_type().is_file() && plain(&entry.path()?) == name {
            found = Some((entry.raw_file_position(), entry.size()));
        }
    }
    let Some((start, size)) = found else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the archive does not contain the file",
        ));
    };
    let mut file = File::open(archive)?;
    file.seek(SeekFrom::Start(start))?;
    Ok(file.take(size))
}

/// Whether a file begins as those of gzip, bzip2, xz, zstd and zip do.
fn is_compressed(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(6).read_to_end(&mut start)?;
    let kinds: [&[u8]; 5] =
        [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"];
    Ok(kinds.iter().any(|kind| start.starts_with(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(path: &Path) -> io::Result<String> {
        let mut text = String::new();
        open(&Url::from_file_path(path).unwrap())?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn local_file_is_found_in_a_directory_and_in_a_tar() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        std::fs::create_dir(place.join("a")).unwrap();
        std::fs::write(place.join("a/one"), "first").unwrap();
        std::fs::write(place.join("a/two"), "second").unwrap();
        let mut tar = tar::Builder::new(File::create(place.join("b.tar")).unwrap());
        tar.append_dir_all("./a", place.join("a")).unwrap();
        std::fs::write(place.join("newer"), "newer").unwrap();
        tar.append_path_with_name(place.join("newer"), "a/two").unwrap();
        tar.into_inner().unwrap();
        std::fs::write(place.join("b.tar.gz"), b"\x1f\x8b\x08\0\0\0").unwrap();

        assert_eq!(content(&place.join("a/one")).unwrap(), "first");
        assert_eq!(content(&place.join("b.tar/a/one")).unwrap(), "first");
        assert_eq!(content(&place.join("b.tar/a/two")).unwrap(), "newer");
        let error = content(&place.join("b.tar.gz/a/two")).unwrap_err();
        assert!(error.to_string().contains("only uncompressed tar"), "{error}");
        for missing in ["a/three", "b.tar/a/three", "b.tar/a", "c.tar/a/one"] {
            let error = content(&place.join(missing)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{missing}");
        }
        assert!(content(&place.join("a")).is_err());
        assert!(content(&place.join("a/one/two")).is_err());
    }
}
