//! SHA-256 checksums of downloads and of installed executables.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

/// How many bytes of a file are read at once.
const CHUNK: usize = 256 * 1024;

/// A SHA-256 sum.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Sum([u8; 32]);

/// A text is not 64 hexadecimal digits.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 sum of 64 hexadecimal digits")]
pub struct NoSha256Sum(String);

/// Computes a checksum chunk by chunk.
#[derive(Clone, Default)]
pub(super) struct Summing(Sha256);

impl Summing {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Sha256Sum {
        Sha256Sum(self.0.finalize().into())
    }
}

impl Sha256Sum {
    /// The checksum of the rest of `reader`. Fails with [`io::ErrorKind::Interrupted`]
    /// when `abandoned` is cancelled.
    pub(super) fn of(mut reader: impl Read, abandoned: &CancellationToken) -> io::Result<Self> {
        let mut summing = Summing::default();
        copy(&mut reader, abandoned, |bytes| {
            summing.update(bytes);
            Ok(())
        })?;
        Ok(summing.finish())
    }
}

/// Passes the rest of `reader` to `take`, chunk by chunk. Fails with [`io::ErrorKind::Interrupted`] when
/// `abandoned` is cancelled.
pub(super) fn copy(
    reader: &mut impl Read,
    abandoned: &CancellationToken,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        if abandoned.is_cancelled() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "cancelled"));
        }
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => take(&chunk[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl fmt::Display for Sha256Sum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256Sum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Sha256Sum {
    type Err = NoSha256Sum;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut sum = [0; 32];
        hex::decode_to_slice(text, &mut sum).map_err(|_| NoSha256Sum(text.to_owned()))?;
        Ok(Self(sum))
    }
}

impl TryFrom<String> for Sha256Sum {
    type Error = NoSha256Sum;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Sha256Sum> for String {
    fn from(sum: Sha256Sum) -> Self {
        sum.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn sum_is_read_and_written_as_hexadecimal() {
        let sum = Sha256Sum::of(io::empty(), &CancellationToken::new()).unwrap();
        assert_eq!(sum.to_string(), EMPTY);
        assert_eq!(EMPTY.parse(), Ok(sum));
        for wrong in ["", &EMPTY[1..], &format!("{EMPTY}0"), &EMPTY.replace('e', "g")] {
            assert!(wrong.parse::<Sha256Sum>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn cancelled_checksum_stops_reading() {
        let abandoned = CancellationToken::new();
        abandoned.cancel();
        let error = Sha256Sum::of(io::repeat(0), &abandoned).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
