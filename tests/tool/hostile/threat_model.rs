//! The threat model names a test for each guarantee; these tests check the names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::THREAT_MODEL;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names of all tests in a directory. The tests of the contract of stores are functions that a
/// macro calls for each store, so they have no attribute.
fn tests(directory: PathBuf, found: &mut BTreeSet<String>) {
    let of_a_contract = directory.ends_with("contract_tests");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(path).unwrap();
            let mut lines = text.lines().map(str::trim);
            let contract = of_a_contract.then(|| {
                let functions =
                    text.lines().filter_map(|line| line.strip_prefix("pub(super) async fn "));
                functions.filter_map(|line| line.split_once('('))
            });
            found.extend(contract.into_iter().flatten().map(|(name, _)| name.to_owned()));
            while lines.by_ref().any(|line| line == "#[test]" || line.starts_with("#[tokio::test"))
            {
                let name =
                    lines.by_ref().find_map(|line| line.split_once("fn ")?.1.split_once('('));
                found.extend(name.map(|(name, _)| name.to_owned()));
            }
        }
    }
}

#[test]
fn each_test_named_in_the_threat_model_exists() {
    let mut found = BTreeSet::new();
    for directory in ["src", "crates", "tests"] {
        tests(root().join(directory), &mut found);
    }
    assert!(found.len() > 300, "{}", found.len());
    let text = std::fs::read_to_string(root().join(THREAT_MODEL)).unwrap();
    // Text in the form of a test name: four words or more.
    let named: BTreeSet<&str> = text
        .split('`')
        .filter(|word| word.split('_').count() > 3)
        .filter(|word| {
            word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
        .collect();
    assert!(named.len() > 50, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !found.contains(**name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn each_guarantee_of_the_threat_model_names_its_test() {
    let text = std::fs::read_to_string(root().join(THREAT_MODEL)).unwrap();
    let tables = text.split("| promise | held by |\n").skip(1);
    let mut promises = 0;
    for row in tables.flat_map(|table| table.lines().skip(1).take_while(|it| it.starts_with('|'))) {
        let held_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert!(held_by.starts_with('`'), "{row}");
        promises += 1;
    }
    assert!(promises > 30, "{promises}");
}
