//! Directories that are nested deeper than a path can be long.

use std::io::Read as _;
use std::path::Path;

use super::wipe::{DEEPEST, Layout, remove_directory, wipe_directory};

/// A directory `a` below `parent` with others below each other, and with a file in the last one.
fn nested(parent: &Path, depth: usize) -> std::fs::File {
    let (top, outer) = (parent.join("a"), parent.join("outer"));
    std::fs::create_dir(&top).unwrap();
    std::fs::write(top.join("secret.tfstate"), "hunter2").unwrap();
    let secret = std::fs::File::open(top.join("secret.tfstate")).unwrap();
    // The path is too long to be created from its beginning.
    for _ in 0..depth {
        std::fs::create_dir(&outer).unwrap();
        std::fs::rename(&top, outer.join("a")).unwrap();
        std::fs::rename(&outer, &top).unwrap();
    }
    secret
}

/// A directory in memory, if there is one. A disk takes ten times as long for 20,000 directories, and is slow for all
/// tests meanwhile.
fn base() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn directories_of_any_depth_are_removed_in_a_small_stack() {
    let base = base();
    let root = base.path().join("home");
    std::fs::create_dir(&root).unwrap();
    let _ = nested(&root, 20_000);
    let (path, size) = (root.clone(), 256 * 1024);
    let thread = std::thread::Builder::new().stack_size(size);
    thread.spawn(move || remove_directory(&path)).unwrap().join().unwrap().unwrap();
    assert!(!root.exists());
    remove_directory(&root).unwrap();
}

#[test]
fn directories_of_any_depth_are_overwritten_and_removed() {
    for depth in [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 2 * DEEPEST + 1, 20_000] {
        for is_checkout in [false, true] {
            let base = base();
            let root = base.path().join("run");
            let parent = if is_checkout { root.join("source") } else { root.clone() };
            std::fs::create_dir_all(&parent).unwrap();
            std::fs::write(root.join("mark"), "").unwrap();
            let mut secret = nested(&parent, depth);
            std::fs::create_dir(parent.join(".deep-1")).unwrap();
            let changed = is_checkout.then_some(("source", "mark"));
            let layout = Layout { public: &["providers"], changed };
            wipe_directory(&root, layout).unwrap();
            assert!(!root.exists(), "{depth}");
            let mut content = String::new();
            secret.read_to_string(&mut content).unwrap();
            assert_eq!(content, "\0".repeat(7), "{depth}, in the checkout: {is_checkout}");
        }
    }
}
