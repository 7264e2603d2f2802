//! The rules for the structure of the code, checked on the sources.

mod graph;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use butler_testing::project::{files_below, project_path};

/// The runner's modules by layer; a module imports from layers below its own, or from itself.
const RUNNER: &[&[&str]] = &[
    &["exit", "screen"],
    &[
        "artifact",
        "ci",
        "engine",
        "providers",
        "registry",
        "report",
        "telemetry",
        "tool",
        "workspace",
    ],
    &["doctor", "run", "settings", "update"],
    &["demo"],
    &["cli"],
];

/// Allowed imports within a layer.
const RUNNER_SIDEWAYS: &[(&str, &str)] =
    &[("run", "settings"), ("doctor", "run"), ("doctor", "settings")];

/// The layers of `crates/base`, on which all other crates build.
const BASE: &[&[&str]] = &[
    &["platform"],
    &[
        "blocking",
        "cancel",
        "error",
        "event",
        "json",
        "moment",
        "pace",
        "paths",
        "resource_lines",
        "secret",
        "similar",
        "size",
        "trust",
        "yaml",
    ],
    &["http", "process"],
];

const BASE_SIDEWAYS: &[(&str, &str)] = &[("secret", "error")];

/// The `src` directories of the runner and of all crates.
fn crates() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project_path("crates")).unwrap();
    let crates = entries.map(|entry| entry.unwrap().path().join("src"));
    std::iter::once(project_path("src")).chain(crates).collect()
}

/// The names after `crate::` in a file, except in comments.
fn imports(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect())
        .collect()
}

fn assert_downwards(src: &Path, layers: &[&[&str]], sideways: &[(&str, &str)]) {
    let layer_of: BTreeMap<&str, usize> = layers
        .iter()
        .enumerate()
        .flat_map(|(layer, names)| names.iter().map(move |name| (*name, layer)))
        .collect();
    let mut wrong = Vec::new();
    for file in files_below(src, "rs") {
        let relative = file.strip_prefix(src).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(module, "lib" | "main") {
            continue;
        }
        let layer = layer_of.get(module).unwrap_or_else(|| panic!("`{module}` is in no layer"));
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            let Some(other) = layer_of.get(import.as_str()) else { continue };
            let sideways = sideways.contains(&(module, import.as_str()));
            if import != module && other >= layer && !sideways {
                wrong.push(format!("{} imports {import}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn modules_import_from_lower_layers_only() {
    assert_downwards(&project_path("src"), RUNNER, RUNNER_SIDEWAYS);
    assert_downwards(&project_path("crates/base/src"), BASE, BASE_SIDEWAYS);
}

/// Circles that have to go. A circle that is gone has to leave this list.
const KNOWN_CIRCLES: &[(&str, &[&str])] = &[
    ("crates/server/src", &["config/document.rs", "config/entries.rs", "config/windows.rs"]),
    ("src", &["artifact/error.rs", "artifact/manifest.rs"]),
    ("src", &["tool/fetch/download/error.rs", "tool/fetch/download/remote.rs"]),
];

#[test]
fn files_of_a_crate_do_not_use_each_other_in_circles() {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for src in crates() {
        let name = src.strip_prefix(project_path("")).unwrap().display().to_string();
        let circles = graph::circles(&graph::edges(&src)).into_iter();
        found.extend(circles.map(|files| (name.clone(), files)));
    }
    found.sort();
    let known = KNOWN_CIRCLES.iter().map(|(name, files)| {
        ((*name).to_owned(), files.iter().map(|file| (*file).to_owned()).collect())
    });
    assert_eq!(found, known.collect::<Vec<(String, Vec<String>)>>());
}
