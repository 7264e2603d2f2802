//! Writes a part of a report's body: a short part in memory, which avoids a file that must be wiped, and a
//! longer one in a file.

use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::registry::Part;
use butler_base::platform::fs::OpenOptionsExt;
use butler_base::secret::wipe_file;

/// The longest part in memory, in bytes.
const MAX_IN_MEMORY: usize = 128 * 1024;

/// Writes one part, which is complete after [`PartWriter::finish`].
pub(in crate::run) struct PartWriter {
    path: PathBuf,
    held: Vec<u8>,
    /// The file with the bytes before `held`; none if the part is short.
    file: Option<fs_err::File>,
    written: u64,
}

impl PartWriter {
    /// A long part is written to the file `path`. An existing file is wiped, because it was written before all
    /// secrets were known.
    pub(in crate::run) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), held: Vec::new(), file: None, written: 0 }
    }

    /// The complete part.
    pub(in crate::run) fn finish(mut self) -> Result<Part> {
        let Some(file) = &mut self.file else { return Ok(Part::Bytes(self.held.into())) };
        file.write_all(&self.held)?;
        Ok(Part::File { path: Arc::new(self.path), place: 0..self.written })
    }

    /// Moves the held bytes into the file.
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
        if self.held.len() + bytes.len() > MAX_IN_MEMORY {
            let file = self.spill()?;
            if bytes.len() > MAX_IN_MEMORY {
                file.write_all(bytes)?;
                return Ok(bytes.len());
            }
        }
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// No effect: the part is not read before it is complete.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn only_a_long_part_is_written_to_a_file_and_no_byte_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part");
        for (length, is_file) in [
            (0, false),
            (MAX_IN_MEMORY, false),
            (MAX_IN_MEMORY + 1, true),
            (5 * MAX_IN_MEMORY, true),
        ] {
            let bytes: Vec<u8> = (0..=250u8).cycle().take(length).collect();
            let mut writer = PartWriter::new(&path);
            for piece in bytes.chunks(1 + length / 3) {
                writer.write_all(piece).unwrap();
            }
            let part = writer.finish().unwrap();
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
    fn older_part_at_the_same_path_is_wiped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part");
        let write = |byte: u8, length: usize| {
            let mut writer = PartWriter::new(&path);
            writer.write_all(&vec![byte; length]).unwrap();
            writer.finish().unwrap().length()
        };
        let long = 4 * MAX_IN_MEMORY;
        assert_eq!(write(b'x', long), long as u64);
        let mut older = std::fs::File::open(&path).unwrap();
        assert_eq!(write(b'y', 2 * MAX_IN_MEMORY), 2 * MAX_IN_MEMORY as u64);
        assert_eq!(std::fs::read(&path).unwrap(), vec![b'y'; 2 * MAX_IN_MEMORY]);
        let mut left = Vec::new();
        older.read_to_end(&mut left).unwrap();
        assert_eq!(left, vec![0; long]);
    }
}
