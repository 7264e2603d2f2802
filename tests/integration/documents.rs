//! What the documentation says is there, is there: files, messages, and the functions of a platform.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let mut documents = files(&project("docs"), "md");
    for name in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        documents.push(project(name));
    }
    let mut links = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let led = document.parent().unwrap().join(path);
            assert!(led.exists(), "`{target}` in {}", document.display());
            links += 1;
        }
    }
    assert!(links > 40, "{links}");
}

/// A reader decides by the first lines, and builds a clone with the two commands.
#[test]
fn readme_begins_with_when_to_use_it_and_names_the_commands_of_a_clone() {
    let readme = std::fs::read_to_string(project("README.md")).unwrap();
    let begin = readme.lines().take(10).collect::<Vec<_>>().join("\n");
    for words in ["executes Terraform and OpenTofu runs", "**Use it if**", "**Do not use it if**"] {
        assert!(begin.contains(words), "{words}: {begin}");
    }
    let text = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["`make demo`", "`make test`", "The first build takes about"] {
        assert!(text.contains(words), "{words}");
    }
    let makefile = std::fs::read_to_string(project("Makefile")).unwrap();
    for target in ["demo", "test"] {
        let begins = |line: &str| line.starts_with(&format!("{target}:"));
        assert!(makefile.lines().any(begins), "make {target}");
    }
}

/// The cells of the rows below `<!-- marker -->`.
fn rows(file: &str, marker: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(project(file)).unwrap();
    let (_, after) = text.split_once(&format!("<!-- {marker} -->\n")).expect("the marker is there");
    let rows = after.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// What stands between backticks.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The sources of the runner and of its crates.
fn sources() -> Vec<PathBuf> {
    let mut sources = files(&project("src"), "rs");
    sources.extend(files(&project("crates"), "rs"));
    sources
}

#[test]
fn every_message_that_is_explained_is_one_of_the_runners() {
    let sources: String =
        sources().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let explained = rows("docs/troubleshooting.md", "troubleshooting");
    assert!(explained.len() >= 10, "{explained:?}");
    for row in explained {
        let pieces = code(&row[0]);
        assert!(!pieces.is_empty(), "{row:?}");
        let said = sources.lines().any(|line| pieces.iter().all(|piece| line.contains(piece)));
        assert!(said, "nothing says `{}`", row[0]);
    }
}

#[test]
fn the_systems_differ_in_one_place_and_each_difference_is_explained() {
    let asks = |text: &str| {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let mut code = code.filter(|line| !line.contains("all(test"));
        code.any(|line| {
            line.contains("cfg(")
                && ["target_os", "unix", "windows"].iter().any(|name| line.contains(name))
        })
    };
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let home = path.starts_with(project("crates/base/src/platform"));
        assert!(home || !asks(text), "{}", path.display());
    }
    let functions = |file: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(project(file)).unwrap();
        let names = text.lines().filter_map(|line| {
            line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub async fn "))
        });
        names.map(|rest| rest.split('(').next().unwrap().to_owned()).collect()
    };
    let explained: BTreeSet<_> = rows("docs/platforms.md", "platform")
        .iter()
        .map(|row| code(&row[0])[0].to_owned())
        .collect();
    assert_eq!(functions("crates/base/src/platform/linux.rs"), explained);
    assert_eq!(functions("crates/base/src/platform/other.rs"), explained);
}

/// The table of the architecture page names each folder of the runner and each crate, and no other.
#[test]
fn architecture_page_names_each_module() {
    let mut modules = BTreeSet::new();
    for parent in ["crates", "src"] {
        for entry in std::fs::read_dir(project(parent)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let is_module = entry.path().is_dir() || !matches!(&*name, "lib.rs" | "main.rs");
            if is_module {
                modules.insert(format!("{parent}/{}", name.trim_end_matches(".rs")));
            }
        }
    }
    let explained: BTreeSet<_> = rows("docs/architecture.md", "modules")
        .iter()
        .map(|row| code(&row[0])[0].to_owned())
        .collect();
    assert_eq!(explained, modules);
}

/// Each file that a recipe or the flow names exists.
#[test]
fn architecture_page_names_files_that_exist() {
    let text = std::fs::read_to_string(project("docs/architecture.md")).unwrap();
    let mut named = 0;
    for word in code(&text) {
        let is_path = word.contains('/') && !word.contains(' ') && !word.contains('<');
        let extension = Path::new(word).extension().and_then(|it| it.to_str());
        if is_path && (word.ends_with('/') || matches!(extension, Some("rs" | "md"))) {
            let found = [word.to_owned(), format!("src/{word}")];
            assert!(found.iter().any(|path| project(path).exists()), "`{word}`");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
