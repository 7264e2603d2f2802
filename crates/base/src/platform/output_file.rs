//! A file in memory for the output of a child, which outlives the process that reads it.
//!
//! A child that writes to a pipe dies of SIGPIPE if the reader has died, and waits if the reader is stopped and the
//! pipe is full. It can always write to a file. The file has no name, so no output is on a disk, and the kernel
//! removes it with the last process that has it open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use nix::libc::{RLIM_INFINITY, off_t};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};

/// The file cannot be executed, and never could: some machines require that (`vm.memfd_noexec`). Linux 6.3 and later.
const NEVER_EXECUTABLE: MFdFlags = MFdFlags::from_bits_retain(0x0008);

/// The file of one stream of a child.
#[derive(Debug)]
pub struct OutputFile(File);

impl OutputFile {
    /// Creates an empty file. `None` if the system has no such files, or if a limit of file sizes
    /// (`RLIMIT_FSIZE`) could end the child when it writes.
    #[must_use]
    pub fn create() -> Option<Self> {
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
        if limit != RLIM_INFINITY {
            return None;
        }
        let create = |flags| memfd_create(c"output", MFdFlags::MFD_CLOEXEC | flags);
        let file = create(NEVER_EXECUTABLE).or_else(|error| match error {
            Errno::EINVAL => create(MFdFlags::empty()),
            error => Err(error),
        });
        let file = file.ok()?;
        // A process that opens `/dev/stdout` again appends too: otherwise two writers overwrite lines.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND)).ok()?;
        Some(Self(file.into()))
    }

    /// The same file for the child.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn writer(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Reads bytes from `position` on: none if nothing was written there yet.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(bytes, position)
    }

    /// The length of the file, in bytes.
    ///
    /// # Errors
    /// If it is unknown.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Frees the memory of the bytes in front of `position`. If that is not possible, they stay until the end.
    pub fn free(&self, position: u64) {
        if let Ok(length) = off_t::try_from(position) {
            let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let _ = fallocate(&self.0, hole, 0, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn memory_of_bytes_that_were_read_is_freed_and_later_ones_stay() {
        let output = OutputFile::create().unwrap();
        let mut writer = output.writer().unwrap();
        writer.write_all(&vec![b'a'; 1 << 20]).unwrap();
        writer.write_all(b"end").unwrap();
        let blocks = || output.0.metadata().unwrap().blocks();
        assert!(blocks() * 512 >= 1 << 20);
        output.free(1 << 20);
        assert!(blocks() * 512 <= 64 << 10, "{}", blocks());
        let mut bytes = [0; 8];
        let read = output.read_at(&mut bytes, 1 << 20).unwrap();
        assert_eq!((&bytes[..read], output.length().unwrap()), (&b"end"[..], (1 << 20) + 3));
    }

    #[test]
    fn lines_of_a_process_that_opens_the_file_again_are_not_overwritten() {
        let output = OutputFile::create().unwrap();
        let mut writer = output.writer().unwrap();
        writer.write_all(b"one ").unwrap();
        let again = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let mut other = File::options().append(true).open(again).unwrap();
        other.write_all(b"two").unwrap();
        writer.write_all(b" three").unwrap();
        let mut bytes = [0; 32];
        let read = output.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes[..read], b"one two three");
    }
}
