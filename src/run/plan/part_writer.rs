//! Writes a part of a report's body: in memory while it is short, which spares a file that has to be
//! wiped, and in a file from then on.

use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::registry::Part;
use butler_base::platform::fs::OpenOptionsExt;
use butler_base::secret::wipe_file;

/// As much is held in memory, in bytes.
const SHORT: usize = 128 * 1024;

/// Writes one part. What is not ended is no part.
pub(in crate::run) struct PartWriter {
    path: PathBuf,
    held: Vec<u8>,
    /// Where what was held before is.
    file: Option<fs_err::File>,
    written: u64,
}

impl PartWriter {
    /// Begins one that gets into the file `path` where it is long. An older one there is wiped: it was
    /// written before all secrets were known.
    pub(in crate::run) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), held: Vec::new(), file: None, written: 0 }
    }

    /// The part with all that was written.
    pub(in crate::run) fn end(mut self) -> Result<Part> {
        let Some(file) = &mut self.file else { return Ok(Part::Bytes(self.held.into())) };
        file.write_all(&self.held)?;
        Ok(Part::File { path: Arc::new(self.path), place: 0..self.written })
    }

    /// Moves what is held into the file.
    fn spill(&mut self) -> Result<&mut fs_err::File> {
        if self.file.is_none() {
            wipe_file(&self.path).map_err(std::io::Error::other)?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            self.file = Some(fs_err::OpenOptions::from_options(options).open(&self.path)?);
        }
        let file = self.file.as_mut().expect("it was opened before");
        file.write_all(&self.held)?;
        self.held.clear();
        Ok(file)
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.written += bytes.len() as u64;
        if self.held.len() + bytes.len() > SHORT {
            let file = self.spill()?;
            if bytes.len() > SHORT {
                file.write_all(bytes)?;
                return Ok(bytes.len());
            }
        }
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Nobody reads what is not ended.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn only_what_is_long_gets_into_a_file_and_nothing_of_it_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part");
        for (length, is_file) in [(0, false), (SHORT, false), (SHORT + 1, true), (5 * SHORT, true)]
        {
            let bytes: Vec<u8> = (0..=250u8).cycle().take(length).collect();
            let mut writer = PartWriter::new(&path);
            for piece in bytes.chunks(1 + length / 3) {
                writer.write_all(piece).unwrap();
            }
            let part = writer.end().unwrap();
            assert_eq!(matches!(part, Part::File { .. }), is_file, "{length}");
            assert_eq!(path.exists(), is_file);
            let mut read = Vec::new();
            part.open().unwrap().read_to_end(&mut read).unwrap();
            assert!(read == bytes && part.length() == length as u64);
            if length > 70 {
                let mut read = Vec::new();
                part.at(7..70).open().unwrap().read_to_end(&mut read).unwrap();
                assert_eq!(read, bytes[7..70]);
            }
        }
    }

    #[test]
    fn a_part_in_the_place_of_another_leaves_nothing_of_that() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part");
        let write = |byte: u8, length: usize| {
            let mut writer = PartWriter::new(&path);
            writer.write_all(&vec![byte; length]).unwrap();
            writer.end().unwrap().length()
        };
        let long = 4 * SHORT;
        assert_eq!(write(b'x', long), long as u64);
        let mut older = std::fs::File::open(&path).unwrap();
        assert_eq!(write(b'y', 2 * SHORT), 2 * SHORT as u64);
        assert_eq!(std::fs::read(&path).unwrap(), vec![b'y'; 2 * SHORT]);
        let mut left = Vec::new();
        older.read_to_end(&mut left).unwrap();
        assert_eq!(left, vec![0; long]);
    }
}
