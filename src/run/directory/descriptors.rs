//! Reserves file descriptors for the end of a run.
//!
//! With a low limit, or after a leak of descriptors, the runner must still be able to connect to the registry and to
//! wipe its files.

use std::io::PipeReader;

/// Enough for two connections with their name resolution, and for a directory tree.
const RESERVED: usize = 16;

/// Reserved descriptors. Dropping this frees them.
#[derive(Debug)]
pub(in crate::run) struct DescriptorReserve {
    _descriptors: Vec<PipeReader>,
}

impl DescriptorReserve {
    /// Opens the descriptors.
    ///
    /// # Errors
    /// If there are not enough. The run should not begin then.
    pub(in crate::run) fn open() -> std::io::Result<Self> {
        let (first, _) = std::io::pipe()?;
        let mut descriptors =
            (1..RESERVED).map(|_| first.try_clone()).collect::<Result<Vec<_>, _>>()?;
        descriptors.push(first);
        Ok(Self { _descriptors: descriptors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_reserve_frees_its_descriptors() {
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        let reserve = DescriptorReserve::open().unwrap();
        assert_eq!(count(), before + RESERVED);
        drop(reserve);
        assert_eq!(count(), before);
    }
}
