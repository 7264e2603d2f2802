//! How a saved plan is encrypted: pieces of 64 KiB with XChaCha20-Poly1305, each of which is authenticated
//! with its number and whether it is the last one (the STREAM construction), so that no piece can be
//! changed, moved, repeated or left out. What the plan belongs to is authenticated with each piece too:
//! a file that is given another name cannot be decrypted.
//!
//! The file is `HEADER PIECE…`, with a header of [`MAGIC`], the id of the key and a random nonce.

use std::io::{self, Read, Write};

use chacha20poly1305::aead::stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::aead::{KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305};
use zeroize::Zeroizing;

use super::keys::{KeyError, KeyId, PlanKeys};

/// How a file begins: what it is, and the version of its format.
const MAGIC: &[u8; 16] = b"butler-plan-1\n\0\0";

/// The part of a nonce that is the same in all pieces.
const NONCE: usize = 19;

/// The size of a header.
const HEADER: usize = MAGIC.len() + size_of::<KeyId>() + NONCE;

/// The size of a piece before it is encrypted.
const PIECE: usize = 64 * 1024;

/// The size of what authenticates a piece.
const TAG: usize = 16;

/// A saved plan cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key is not in the file.
    #[error("the key with which it was encrypted is not in the key file")]
    KeyMissing,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not what was saved.
    #[error("it is damaged, or belongs to another run")]
    Damaged,
}

/// What is authenticated with each piece.
fn associated(header: &[u8; HEADER], belongs_to: &str) -> Vec<u8> {
    [&header[..], belongs_to.as_bytes()].concat()
}

/// Encrypts what is written to it.
pub(crate) struct Sealer<W: Write> {
    output: W,
    encryptor: EncryptorBE32<XChaCha20Poly1305>,
    associated: Vec<u8>,
    piece: Zeroizing<Vec<u8>>,
}

impl<W: Write> Sealer<W> {
    /// Writes the header. `belongs_to` is needed to decrypt the file.
    pub(crate) fn new(mut output: W, keys: &PlanKeys, belongs_to: &str) -> Result<Self, OpenError> {
        let key = keys.newest()?;
        let mut header = [0; HEADER];
        let (magic, rest) = header.split_at_mut(MAGIC.len());
        magic.copy_from_slice(MAGIC);
        let (id, nonce) = rest.split_at_mut(size_of::<KeyId>());
        id.copy_from_slice(&key.id());
        getrandom::fill(nonce).map_err(io::Error::other)?;
        let cipher = XChaCha20Poly1305::new(Key::from_slice(key.bytes()));
        let encryptor = EncryptorBE32::from_aead(cipher, (&*nonce).into());
        output.write_all(&header)?;
        let piece = Zeroizing::new(Vec::with_capacity(PIECE));
        Ok(Self { output, encryptor, associated: associated(&header, belongs_to), piece })
    }

    /// Encrypts `bytes` behind what came before.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // A full piece is written only if another one follows: the last one is marked.
            if self.piece.len() == PIECE {
                let payload = Payload { msg: &self.piece, aad: &self.associated };
                let sealed = self.encryptor.encrypt_next(payload).map_err(|_| too_long())?;
                self.output.write_all(&sealed)?;
                self.piece.clear();
            }
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Writes the last piece, and returns the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let payload = Payload { msg: &self.piece, aad: &self.associated };
        let sealed = self.encryptor.encrypt_last(payload).map_err(|_| too_long())?;
        self.output.write_all(&sealed)?;
        Ok(self.output)
    }
}

fn too_long() -> io::Error {
    io::Error::other("the saved plan is too long to be encrypted")
}

/// Decrypts all of `input` to `output`. What was written before an error must not be used.
pub(crate) fn open(
    input: &mut impl Read,
    keys: &PlanKeys,
    belongs_to: &str,
    output: &mut impl Write,
) -> Result<(), OpenError> {
    let mut header = [0; HEADER];
    input.read_exact(&mut header).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => OpenError::Damaged,
        _ => OpenError::Io(error),
    })?;
    let (magic, rest) = header.split_at(MAGIC.len());
    let (id, nonce) = rest.split_at(size_of::<KeyId>());
    if magic != MAGIC {
        return Err(OpenError::Damaged);
    }
    let id = id.try_into().map_err(|_| OpenError::Damaged)?;
    let key = keys.find(id)?.ok_or(OpenError::KeyMissing)?;
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key.bytes()));
    let mut decryptor = DecryptorBE32::from_aead(cipher, nonce.into());
    let associated = associated(&header, belongs_to);
    let damaged = |_| OpenError::Damaged;

    // Whether a piece is the last one is known only when the next one was looked for.
    let mut piece = read_piece(input)?;
    loop {
        let next = if piece.len() == PIECE + TAG { read_piece(input)? } else { Vec::new() };
        let payload = Payload { msg: &piece, aad: &associated };
        if next.is_empty() {
            let last = Zeroizing::new(decryptor.decrypt_last(payload).map_err(damaged)?);
            output.write_all(&last)?;
            return Ok(());
        }
        let opened = Zeroizing::new(decryptor.decrypt_next(payload).map_err(damaged)?);
        output.write_all(&opened)?;
        piece = next;
    }
}

/// The next encrypted piece, which is shorter at the end.
fn read_piece(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE + TAG);
    input.take((PIECE + TAG) as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key file in a directory of its own.
    fn keys() -> (tempfile::TempDir, PlanKeys) {
        let root = tempfile::tempdir().unwrap();
        let keys = PlanKeys::at_or_new(&root.path().join("plan.key")).unwrap();
        (root, keys)
    }

    fn seal(keys: &PlanKeys, belongs_to: &str, content: &[u8], pieces: usize) -> Vec<u8> {
        let mut sealer = Sealer::new(Vec::new(), keys, belongs_to).unwrap();
        content.chunks(pieces).for_each(|piece| sealer.write(piece).unwrap());
        sealer.finish().unwrap()
    }

    fn opened(keys: &PlanKeys, belongs_to: &str, file: &[u8]) -> Result<Vec<u8>, OpenError> {
        let mut output = Vec::new();
        open(&mut &*file, keys, belongs_to, &mut output).map(|()| output)
    }

    #[test]
    fn plans_of_all_sizes_are_decrypted_as_they_were() {
        let (_root, keys) = keys();
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7] {
            let content: Vec<u8> = (0..=250).cycle().take(size).collect();
            for pieces in [1_000, PIECE, 5 * PIECE] {
                let file = seal(&keys, "run", &content, pieces);
                assert_eq!(opened(&keys, "run", &file).unwrap(), content, "{size}");
            }
        }
    }

    #[test]
    fn nothing_of_the_plan_is_readable_and_two_files_differ() {
        let (_root, keys) = keys();
        let content = b"password = precious".repeat(10_000);
        let (one, two) = (seal(&keys, "run", &content, 999), seal(&keys, "run", &content, 999));
        assert!(!one.windows(8).any(|window| window == b"precious"));
        assert_ne!(one[HEADER..], two[HEADER..]);
    }

    #[test]
    fn changed_shortened_and_exchanged_files_are_refused() {
        let (root, keys) = keys();
        let file = seal(&keys, "run", &vec![7; 2 * PIECE + 5], PIECE);
        let damaged = |file: &[u8]| matches!(opened(&keys, "run", file), Err(OpenError::Damaged));
        for index in [0, MAGIC.len() + 9, HEADER, HEADER + PIECE + TAG, file.len() - 1] {
            let mut changed = file.clone();
            changed[index] ^= 1;
            assert!(damaged(&changed), "{index}");
        }
        let piece = PIECE + TAG;
        for length in [0, HEADER - 1, HEADER, HEADER + piece, HEADER + 2 * piece, file.len() - 1] {
            assert!(damaged(&file[..length]), "{length}");
        }
        let (header, pieces) = file.split_at(HEADER);
        let (first, rest) = pieces.split_at(piece);
        let (second, last) = rest.split_at(piece);
        assert!(damaged(&[header, second, first, last].concat()));
        assert!(damaged(&[header, first, last].concat()));
        assert!(damaged(&[&*file, &[0]].concat()));
        assert!(matches!(opened(&keys, "other", &file), Err(OpenError::Damaged)));
        std::fs::write(root.path().join("plan.key"), "cd".repeat(32)).unwrap();
        assert!(matches!(opened(&keys, "run", &file), Err(OpenError::KeyMissing)));
    }
}
