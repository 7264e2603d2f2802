use std::os::unix::fs::{MetadataExt, symlink};

use tar::{Builder, Header};

use super::*;
use butler_base::error::chain;
use butler_fuzz::Target;

/// An entry: type, name, and content or the target of a link.
type Given<'a> = (EntryType, &'a str, &'a str);

/// A tar with these entries, with names as they are. Files have the mode `mode`.
fn archive(entries: &[Given<'_>], mode: u32) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(mode);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let data = if is_link {
            header.set_link_name_literal(content).unwrap();
            ""
        } else {
            content
        };
        header.set_size(data.len() as u64);
        header.set_cksum();
        tar.append(&header, data.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn unpack_bytes(bytes: &[u8], destination: &Path) -> Result<(), ArchiveError> {
    unpack(bytes, destination, &CancellationToken::new())
}

const FILE: EntryType = EntryType::Regular;
const DIRECTORY: EntryType = EntryType::Directory;
const LINK: EntryType = EntryType::Symlink;

#[test]
fn files_directories_and_inner_links_are_unpacked() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("source");
    let bytes = archive(
        &[
            (EntryType::XGlobalHeader, "pax_global_header", "18 comment=4f2a7e\n"),
            (DIRECTORY, "./", ""),
            // Before its target, and with files below the target afterwards.
            (LINK, "envs/prod/module", "../../modules/./a"),
            (DIRECTORY, "./modules/a/", ""),
            (FILE, "./modules/a/main.tf", "locals {}"),
            (LINK, "latest", "envs/prod/module"),
            (LINK, "dangling", "nothing"),
            (FILE, "modules/..a", "dots"),
        ],
        0o644,
    );
    unpack_bytes(&bytes, &root).unwrap();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(read("latest/main.tf"), "locals {}");
    assert_eq!(read("modules/..a"), "dots");
    assert!(root.join("dangling").is_symlink());
}

#[test]
fn files_are_executable_or_not_and_nothing_else() {
    for (mode, expected) in [
        (0o644, 0o644),
        (0o600, 0o644),
        (0o666, 0o644),
        (0o755, 0o755),
        (0o777, 0o755),
        (0o6711, 0o755),
        (0o000, 0o644),
    ] {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("source");
        unpack_bytes(&archive(&[(DIRECTORY, "a", ""), (FILE, "a/b", "")], mode), &root).unwrap();
        let found = |path: &str| std::fs::metadata(root.join(path)).unwrap().mode() & 0o7777;
        assert_eq!(found("a/b"), expected, "{mode:o}");
        assert_eq!(found("a"), 0o755, "{mode:o}");
    }
}

#[test]
fn no_entry_leaves_the_directory() {
    let (hard, outside) = (EntryType::Link, "outside");
    let cases: &[&[Given<'_>]] = &[
        &[(FILE, "../outside", "x")],
        &[(FILE, "a/../../outside", "x")],
        &[(FILE, "a/../b", "x")],
        &[(FILE, "/outside", "x")],
        &[(DIRECTORY, "../outside", "")],
        &[(FILE, "", "x")],
        &[(FILE, "./", "x")],
        &[(FILE, "a", "x"), (FILE, "a", "y")],
        &[(FILE, "a", "x"), (FILE, "./a/b", "y")],
        &[(LINK, "a", "..")],
        &[(LINK, "a", "/outside")],
        &[(LINK, "a/b", "../../outside")],
        &[(LINK, "a", "")],
        // `up` is the root, so `out` would be above it.
        &[(LINK, "a/b/up", "../.."), (LINK, "out", "a/b/up/..")],
        &[(LINK, "a", "b"), (FILE, "a/x", "x")],
        &[(FILE, "a/x", "x"), (LINK, "a", "b")],
        &[(LINK, "a", "."), (LINK, "a/b", "..")],
        &[(LINK, "a", "b"), (LINK, "a", "c")],
        &[(hard, "a", outside)],
        &[(hard, "a", "../outside")],
        &[(FILE, "a", ""), (hard, "b", "a")],
        &[(EntryType::Fifo, "a", "")],
        &[(EntryType::Char, "a", "")],
        &[(EntryType::Block, "a", "")],
        &[(EntryType::GNUSparse, "a", "")],
        &[(EntryType::Continuous, "a", "")],
        &[(EntryType::new(b'Z'), "a", "")],
    ];
    for entries in cases {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join(outside), "kept").unwrap();
        let root = base.path().join("source");
        let result = unpack_bytes(&archive(entries, 0o644), &root);
        assert!(result.is_err(), "{entries:?}");
        let kept = std::fs::read_to_string(base.path().join(outside)).unwrap();
        assert_eq!(kept, "kept", "{entries:?}");
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 2, "{entries:?}");
    }
}

#[test]
fn error_names_the_entry_and_its_problem() {
    let base = tempfile::tempdir().unwrap();
    let bytes = archive(&[(EntryType::Link, "a\u{1b}[31m", "x")], 0o644);
    let error = unpack_bytes(&bytes, &base.path().join("source")).unwrap_err();
    let text = chain(&error);
    assert!(text.contains("is a hard link") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn destination_must_not_exist() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("source");
    symlink(base.path(), &root).unwrap();
    assert!(unpack_bytes(&archive(&[(FILE, "a", "x")], 0o644), &root).is_err());
    assert!(!base.path().join("a").exists());
}

#[test]
fn truncated_archive_is_an_error() {
    let bytes = archive(&[(FILE, "a", &"x".repeat(2000))], 0o644);
    for length in [100, 512, 1500, 2511] {
        let base = tempfile::tempdir().unwrap();
        let result = unpack_bytes(&bytes[..length], &base.path().join("source"));
        assert!(matches!(result, Err(ArchiveError::Read(_))), "{length}: {result:?}");
    }
}

#[test]
fn abandoned_archive_is_not_unpacked() {
    let base = tempfile::tempdir().unwrap();
    let abandoned = CancellationToken::new();
    abandoned.cancel();
    let bytes = archive(&[(FILE, "a", "x")], 0o644);
    let root = base.path().join("source");
    assert!(unpack(bytes.as_slice(), &root, &abandoned).is_err());
    assert!(!root.join("a").exists());
}

/// A name of up to three words, which may be absolute or go up.
fn random_name(random: &mut fastrand::Rng) -> String {
    let words: Vec<_> =
        (0..random.usize(1..4)).map(|_| ["a", "b", "c", ".", ".."][random.usize(..5)]).collect();
    let start = if random.usize(..20) == 0 { "/" } else { "" };
    format!("{start}{}", words.join("/"))
}

/// Asserts that each link below `directory` leads to a place in `root`, or to nothing.
fn assert_links_stay_inside(directory: &Path, root: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            assert!(path.canonicalize().map_or(true, |it| it.starts_with(root)), "{path:?}");
        } else if path.is_dir() {
            assert_links_stay_inside(&path, root);
        }
    }
}

#[test]
fn fuzz_archive_writes_only_below_its_directory() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().canonicalize().unwrap().join("above/source");
    let above = root.parent().unwrap().to_owned();
    let sample = archive(&[(FILE, "a", "x"), (LINK, "b", "a")], 0o644);
    let mut accepted = 0;
    let mut check = |bytes: &[u8]| {
        std::fs::create_dir(&above).unwrap();
        accepted += usize::from(unpack_bytes(bytes, &root).is_ok());
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&above).unwrap().count(), 1);
        assert_links_stay_inside(&root, &root);
        std::fs::remove_dir_all(&above).unwrap();
    };
    let target =
        Target { name: "module archive", samples: &[&sample], tokens: &[b"../"], rounds: 1000 };
    target.run(|input, random| {
        check(input);
        let names: Vec<_> =
            (0..6).map(|_| (random_name(random), random_name(random), random.usize(..4))).collect();
        let entry = |(name, target, kind)| match kind {
            0 => (FILE, name, "x"),
            1 => (DIRECTORY, name, ""),
            _ => (LINK, name, target),
        };
        let entries: Vec<_> = names
            .iter()
            .take(random.usize(1..7))
            .map(|(name, target, kind)| entry((name.as_str(), target.as_str(), *kind)))
            .collect();
        check(&archive(&entries, 0o644));
    });
    assert!(accepted > 0, "no input was right");
}
