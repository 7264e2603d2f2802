//! Decompresses bodies with gzip, up to a limit.

use std::io::Read;

use flate2::read::MultiGzDecoder;

/// How many bytes of a body are decompressed at a time.
const CHUNK: usize = 64 * 1024;

/// Why a body cannot be decompressed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GzipError {
    /// It is not gzip, damaged, or truncated.
    #[error("the body is not valid gzip")]
    Damaged,
    /// It is longer than this many bytes when decompressed.
    #[error("the decompressed body is longer than {0} bytes")]
    TooLong(usize),
}

/// The decompressed body. An empty one stays empty.
///
/// # Errors
/// When the body is damaged, or is longer than `limit` bytes when decompressed.
pub fn decompress(compressed: &[u8], limit: usize) -> Result<Vec<u8>, GzipError> {
    let mut body = Vec::with_capacity(CHUNK.min(limit));
    if compressed.is_empty() {
        return Ok(body);
    }
    let mut decoder = MultiGzDecoder::new(compressed);
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = decoder.read(&mut chunk).map_err(|_| GzipError::Damaged)?;
        if length == 0 {
            return Ok(body);
        }
        if body.len() + length > limit {
            return Err(GzipError::TooLong(limit));
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn gzip_body_is_decompressed_completely_and_up_to_the_limit() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b'x'; 1_000_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 2000, "{} bytes", bomb.len());
        assert_eq!(decompress(&bomb, 1_000_000).unwrap().len(), 1_000_000);
        assert_eq!(decompress(&bomb, 999_999), Err(GzipError::TooLong(999_999)));
        let truncated = &bomb[..bomb.len() - 1];
        assert_eq!(decompress(truncated, 1_000_000), Err(GzipError::Damaged));
        assert_eq!(decompress(b"{}", 1_000_000), Err(GzipError::Damaged));
        assert!(decompress(b"", 1_000_000).unwrap().is_empty());
    }
}
