//! The rules that the crate's documentation states about itself, read from the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules by layer; a module imports from layers below its own, or from itself.
const LAYERS: [&[&str]; 6] = [
    &["platform"],
    &[
        "blocking",
        "cancel",
        "error",
        "event",
        "fuzz",
        "pace",
        "resource_lines",
        "result",
        "secret",
        "similar",
        "spec",
        "timeline",
        "trust",
    ],
    &["http", "process", "screen"],
    &[
        "artifact",
        "ci",
        "cluster",
        "engine",
        "generate",
        "providers",
        "registry",
        "report",
        "telemetry",
        "tool",
        "workspace",
    ],
    &["devregistry", "doctor", "run", "settings", "trigger", "update"],
    &["cli"],
];

/// What a layer's modules may import of their own layer: composition is made of parts.
const SIDEWAYS: [(&str, &str); 12] = [
    ("run", "settings"),
    ("run", "devregistry"),
    ("doctor", "run"),
    ("doctor", "settings"),
    ("trigger", "settings"),
    ("result", "event"),
    ("result", "secret"),
    ("timeline", "event"),
    ("timeline", "result"),
    ("secret", "error"),
    ("secret", "fuzz"),
    ("spec", "error"),
];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn source_directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

/// The names after `crate::` in a file, but for those in its comments.
fn imports(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect())
        .collect()
}

#[test]
fn modules_import_downwards_only() {
    let layer_of: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, names)| names.iter().map(move |name| (*name, layer)))
        .collect();
    let mut wrong = Vec::new();
    for file in sources(source_directory()) {
        let relative = file.strip_prefix(source_directory()).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(module, "lib" | "main") {
            continue;
        }
        let layer = layer_of.get(module).unwrap_or_else(|| panic!("`{module}` is in no layer"));
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            let Some(other) = layer_of.get(import.as_str()) else { continue };
            let sideways = SIDEWAYS.contains(&(module, import.as_str()));
            if import != module && other >= layer && !sideways {
                wrong.push(format!("{} imports {import}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_one_place_starts_processes_and_builds_http_clients() {
    for (word, home) in [
        ("process::Command::new", "process"),
        ("Client::builder()", "http.rs"),
        ("env::vars", "settings"),
        ("println!", "cli"),
    ] {
        for file in sources(source_directory()) {
            let text = std::fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let relative = file.strip_prefix(source_directory()).unwrap();
            let is_test = relative.to_string_lossy().contains("tests");
            assert!(
                !code.contains(word) || relative.starts_with(home) || is_test,
                "`{word}` in {}",
                relative.display()
            );
        }
    }
}
