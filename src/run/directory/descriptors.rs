//! Keeps file descriptors back for the end of a run.
//!
//! A job whose limit is low, or a bug that leaks them, must not keep the runner from connecting to
//! the registry once more and from wiping its files.

use std::io::PipeReader;

/// How many are kept: for two connections with their name look-ups, and for a directory tree.
const KEPT: usize = 16;

/// Descriptors that nobody else can take; they are free when this is dropped.
#[derive(Debug)]
pub(in crate::run) struct Reserve {
    _kept: Vec<PipeReader>,
}

impl Reserve {
    /// Takes them.
    ///
    /// # Errors
    /// When there are not enough: then the run should not begin.
    pub(in crate::run) fn take() -> std::io::Result<Self> {
        let (first, _) = std::io::pipe()?;
        let mut kept = (1..KEPT).map(|_| first.try_clone()).collect::<Result<Vec<_>, _>>()?;
        kept.push(first);
        Ok(Self { _kept: kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_back_is_free_again_afterwards() {
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        let reserve = Reserve::take().unwrap();
        assert_eq!(count(), before + KEPT);
        drop(reserve);
        assert_eq!(count(), before);
    }
}
