//! Reads the package from which an executable was built, which Go writes into each executable.
//!
//! The shim of a version manager on PATH is also called `terraform` and prints the version of
//! Terraform, but it selects the version at each start, by directory and variables. Only an
//! executable that was built from the product's own package has the version that it prints in every
//! directory. The package of scripts, of programs not written in Go, and of Go before 1.18 is
//! unknown.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The first bytes of the block that Go writes into an executable.
const MAGIC: &[u8] = b"\xff Go buildinf:";

/// The offset of the flags, and the flag for texts that follow the header.
const FLAGS: usize = 15;
const INLINE: u8 = 2;

/// The offset of the two texts, each with its length before it.
const TEXTS_OFFSET: usize = 32;

/// The length of the sentinels around the second text, and its first bytes.
const SENTINEL: usize = 16;
const PACKAGE: &[u8] = b"path\t";

/// How many bytes are read at once, and how many of them are searched again with the next ones: more
/// than a block has up to the package.
const PIECE: u64 = 1 << 20;
const OVERLAP: usize = 1024;

/// The beginning of a 64-bit ELF file, and the sizes of its header and of an entry in its section table.
const ELF: &[u8] = b"\x7fELF\x02\x01";
const HEADER: usize = 64;
const SECTION: usize = 64;

/// The section with the block, and how many bytes of it are read.
const SECTION_NAME: &[u8] = b".go.buildinfo\0";
const LARGEST_BLOCK: u64 = 1 << 20;

/// The package, if the executable at `path` names exactly one. If the file has the section, only that
/// is read; otherwise the whole file: 90 MB in about 30 ms, once for each executable.
pub(super) fn package_of_executable(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    match section(&mut file) {
        Some(block) => in_block(&block),
        None => anywhere(&mut file),
    }
}

/// The section with the block, of an ELF file that has it.
fn section(file: &mut File) -> Option<Vec<u8>> {
    let header = read_at(file, 0, HEADER as u64)?;
    header.starts_with(ELF).then_some(())?;
    let (table, count, names) = (u64_at(&header, 40)?, u16_at(&header, 60)?, u16_at(&header, 62)?);
    let table = read_at(file, table, u64::from(count) * SECTION as u64)?;
    let content = |section: &[u8]| Some((u64_at(section, 24)?, u64_at(section, 32)?));
    let (start, length) = content(table.chunks_exact(SECTION).nth(usize::from(names))?)?;
    let names = read_at(file, start, length)?;
    let is_wanted = |section: &&[u8]| {
        let name = u32_at(section, 0).and_then(|start| names.get(usize::try_from(start).ok()?..));
        name.is_some_and(|name| name.starts_with(SECTION_NAME))
    };
    let (start, length) = content(table.chunks_exact(SECTION).find(is_wanted)?)?;
    let block = read_at(file, start, length)?;
    block.starts_with(MAGIC).then_some(block)
}

fn read_at(file: &mut File, start: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start)).ok()?;
    file.take(length.min(LARGEST_BLOCK)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], start: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(start..start + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], start: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(start..start + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], start: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(start..start + 8)?.try_into().ok()?))
}

/// The package in everything that looks like a block, if all blocks name the same one.
fn anywhere(file: &mut File) -> Option<String> {
    file.seek(SeekFrom::Start(0)).ok()?;
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

/// The package in a block of build information that begins here, if the block is complete.
fn in_block(block: &[u8]) -> Option<String> {
    if block.get(FLAGS)? & INLINE == 0 {
        return None;
    }
    let (_version, rest) = text(block.get(TEXTS_OFFSET..)?)?;
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
        block.resize(TEXTS_OFFSET, 0);
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
        package_of_executable(file.path())
    }

    #[test]
    fn package_is_found_at_any_offset_of_the_file() {
        let piece = usize::try_from(PIECE).unwrap();
        for before in [0, 4096, piece - 40, piece, 2 * piece - 16] {
            let mut content = vec![b'x'; before];
            content.extend(block("github.com/hashicorp/terraform"));
            content.extend([b'y'; 3000]);
            let found = package_of(&content);
            assert_eq!(found.as_deref(), Some("github.com/hashicorp/terraform"), "{before}");
        }
    }

    /// An ELF file with a block in a section of its own, and `before` in front of it.
    fn elf(before: &[u8], block: &[u8]) -> Vec<u8> {
        let names = [b"\0.text\0".as_slice(), SECTION_NAME].concat();
        let section = |name: u32, start: usize, length: usize| {
            let mut section = vec![0; SECTION];
            section[..4].copy_from_slice(&name.to_le_bytes());
            section[24..32].copy_from_slice(&(start as u64).to_le_bytes());
            section[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            section
        };
        let (at_block, at_names) = (HEADER + before.len(), HEADER + before.len() + block.len());
        let table = at_names + names.len();
        let mut header = ELF.to_vec();
        header.resize(HEADER, 0);
        header[40..48].copy_from_slice(&(table as u64).to_le_bytes());
        header[60..62].copy_from_slice(&3u16.to_le_bytes());
        header[62..64].copy_from_slice(&2u16.to_le_bytes());
        let sections = [
            section(1, HEADER, before.len()),
            section(7, at_block, block.len()),
            section(0, at_names, names.len()),
        ];
        [&header, before, block, &names, &sections.concat()].concat()
    }

    #[test]
    fn package_is_read_from_the_section_of_an_elf_file() {
        let (own, other) = (block("example.com/proxy/terraform"), block("example.com/other"));
        let found = package_of(&elf(&other, &own));
        assert_eq!(found.as_deref(), Some("example.com/proxy/terraform"));
        // A truncated file is treated as any other file.
        let whole = elf(b"", &own);
        for length in [0, 5, HEADER, HEADER + own.len(), whole.len() - SECTION, whole.len() - 1] {
            let known = length >= HEADER + own.len();
            assert_eq!(package_of(&whole[..length]).is_some(), known, "{length}");
        }
    }

    #[test]
    fn executable_without_exactly_one_package_has_none() {
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
