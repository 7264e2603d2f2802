//! Files of this machine: below a directory, or in a tar of one.
//!
//! A tar is read in place: its entry is a section of the file, and nothing is unpacked.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::path::{Component, Path, PathBuf};

use url::Url;

/// Opens the file that `url` names, to be read to its end.
pub(super) fn open(url: &Url) -> io::Result<Take<File>> {
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
    match archive_above(&path) {
        Some((archive, name)) => section(&archive, &name),
        None => Err(metadata.expect_err("handled above")),
    }
}

/// The tar that stands where a directory of `path` should, and the name in it.
fn archive_above(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let archive = path.ancestors().skip(1).find(|above| above.is_file())?;
    Some((archive.to_owned(), path.strip_prefix(archive).ok()?.to_owned()))
}

/// The section of a tar that is the regular file `name`: the last of that name, because a tar grows
/// by what is appended to it.
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
    fn files_are_found_in_directories_and_in_tars() {
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
