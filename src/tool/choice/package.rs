//! Of which package an executable was built, as Go writes into each.
//!
//! What a version manager puts on PATH is called `terraform` too and answers as Terraform does, but
//! which version it starts is decided each time, by where it is started and by variables. Only what
//! was built of the product's own package is the version that it says, wherever it runs. Nothing is
//! known of scripts, of what is not of Go, and of Go before 1.18.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What the block begins with that Go puts into an executable.
const MAGIC: &[u8] = b"\xff Go buildinf:";

/// The flags behind the magic, of which this one says that the texts follow.
const FLAGS: usize = 15;
const INLINE: u8 = 2;

/// Where the texts follow: two, each with its length before it.
const TEXTS: usize = 32;

/// What stands around the second text, and what it begins with.
const SENTINEL: usize = 16;
const PACKAGE: &[u8] = b"path\t";

/// How much is read at once, and how much of it is looked at again with what follows: more than a
/// block has up to the package.
const PIECE: u64 = 1 << 20;
const OVERLAP: usize = 1024;

/// The package, if the executable at `path` names one and no other. Reads the whole file: 90 MB in
/// some 30 ms, once for each that is found.
pub(super) fn of(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut window = Vec::new();
    let mut found: Option<String> = None;
    while file.by_ref().take(PIECE).read_to_end(&mut window).ok()? > 0 {
        for start in memchr::memmem::find_iter(&window, MAGIC) {
            match (in_block(&window[start..]), &found) {
                (Some(package), Some(before)) if package != *before => return None,
                (Some(package), _) => found = Some(package),
                (None, _) => {}
            }
        }
        window.drain(..window.len().saturating_sub(OVERLAP));
    }
    found
}

/// The package in a block of build information that begins here, if it is all there.
fn in_block(block: &[u8]) -> Option<String> {
    if block.get(FLAGS)? & INLINE == 0 {
        return None;
    }
    let (_version, rest) = text(block.get(TEXTS..)?)?;
    let (length, rest) = number(rest)?;
    let rest = &rest[..rest.len().min(length)];
    let package = rest.get(SENTINEL..)?.strip_prefix(PACKAGE)?;
    let end = memchr::memchr(b'\n', package)?;
    String::from_utf8(package[..end].to_vec()).ok()
}

/// A text with its length before it, and what follows.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(length)
}

/// A number of seven bits a byte, the lowest first, and what follows.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)?;
    let (digits, rest) = bytes.split_at(end + 1);
    let value = digits.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block as Go writes it, with a second text that is longer than 127 bytes.
    fn block(package: &str) -> Vec<u8> {
        let info = format!("0123456789abcdefpath\t{package}\nmod\tx\n{:200}0123456789abcdef", "");
        let length = info.len();
        assert!((128..1 << 14).contains(&length));
        let mut block = MAGIC.to_vec();
        block.extend([8, INLINE]);
        block.resize(TEXTS, 0);
        block.extend(b"\x08go1.23.3");
        block.extend([
            u8::try_from(length & 0x7f).unwrap() | 0x80,
            u8::try_from(length >> 7).unwrap(),
        ]);
        block.extend(info.as_bytes());
        block
    }

    fn package_of(content: &[u8]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        of(file.path())
    }

    #[test]
    fn a_package_is_found_wherever_it_stands() {
        let piece = usize::try_from(PIECE).unwrap();
        for before in [0, 4096, piece - 40, piece, 2 * piece - 16] {
            let mut content = vec![b'x'; before];
            content.extend(block("github.com/hashicorp/terraform"));
            content.extend([b'y'; 3000]);
            let found = package_of(&content);
            assert_eq!(found.as_deref(), Some("github.com/hashicorp/terraform"), "{before}");
        }
    }

    #[test]
    fn what_names_no_package_or_several_is_of_none() {
        let own = block("example.com/proxy/terraform");
        let both = [own.as_slice(), &block("github.com/hashicorp/terraform")].concat();
        assert_eq!(package_of(&both), None, "one carries the other");
        assert_eq!(
            package_of(&[own.as_slice(), &own].concat()).as_deref(),
            Some("example.com/proxy/terraform")
        );
        let mut pointers = own.clone();
        pointers[FLAGS] = 0;
        for content in [b"".as_slice(), b"#!/bin/sh\n", MAGIC, &own[..60], &pointers] {
            assert_eq!(package_of(content), None);
        }
    }
}
