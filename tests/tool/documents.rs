//! The documentation names existing files, messages, and platform functions.

use std::collections::BTreeSet;
use std::path::Path;

use syn::visit::Visit;

use butler_testing::project::{
    files_below, is_test_file, is_test_item, program_sources, project_path,
};

#[test]
fn every_relative_link_leads_to_an_existing_file() {
    let mut documents = files_below(&project_path("docs"), "md");
    for name in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        documents.push(project_path(name));
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
    let readme = std::fs::read_to_string(project_path("README.md")).unwrap();
    let begin = readme.lines().take(10).collect::<Vec<_>>().join("\n");
    for words in ["executes Terraform and OpenTofu runs", "**Use it if**", "**Do not use it if**"] {
        assert!(begin.contains(words), "{words}: {begin}");
    }
    let text = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["`make demo`", "`make test`", "The first build takes about"] {
        assert!(text.contains(words), "{words}");
    }
    let makefile = std::fs::read_to_string(project_path("Makefile")).unwrap();
    for target in ["demo", "test"] {
        let begins = |line: &str| line.starts_with(&format!("{target}:"));
        assert!(makefile.lines().any(begins), "make {target}");
    }
}

/// A rule whose test was renamed or removed would be a claim without a test.
#[test]
fn each_rule_of_followers_names_tests_that_exist() {
    let sources: String = ["crates", "tests"]
        .iter()
        .flat_map(|directory| files_below(&project_path(directory), "rs"))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let rules = rows("docs/internals/followers.md", "follower rules");
    assert!(rules.len() > 40, "{}", rules.len());
    for rule in rules {
        let tests = rule[1].split('`').skip(1).step_by(2);
        for test in tests {
            assert!(sources.contains(&format!("fn {test}()")), "{rule:?}");
        }
    }
}

/// The cells of the rows below `<!-- marker -->`.
fn rows(file: &str, marker: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(project_path(file)).unwrap();
    let (_, after) = text.split_once(&format!("<!-- {marker} -->\n")).expect("the marker is there");
    let rows = after.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The text between backticks.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_explained_message_exists_in_the_sources() {
    let sources: String =
        program_sources().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for (file, marker) in [
        ("docs/troubleshooting.md", "troubleshooting"),
        ("docs/operating.md", "blocked layers"),
        ("docs/operating.md", "log lines"),
    ] {
        let explained = rows(file, marker);
        assert!(explained.len() >= 10, "{explained:?}");
        for row in explained {
            let pieces = code(&row[0]);
            assert!(!pieces.is_empty(), "{row:?}");
            let said = sources.lines().any(|line| pieces.iter().all(|piece| line.contains(piece)));
            assert!(said, "nothing says `{}`", row[0]);
        }
    }
}

#[test]
fn platform_code_is_in_one_module_and_each_difference_documented() {
    let platform = project_path("crates/base/src/platform");
    let mut conditions_in_platform = 0;
    for path in program_sources().into_iter().filter(|path| !is_test_file(path)) {
        let mut conditions = SystemConditions::default();
        let text = std::fs::read_to_string(&path).unwrap();
        conditions.visit_file(&syn::parse_file(&text).unwrap());
        if path.starts_with(&platform) {
            conditions_in_platform += conditions.0.len();
        } else {
            assert!(conditions.0.is_empty(), "{}: {:?}", path.display(), conditions.0);
        }
    }
    assert!(conditions_in_platform > 3, "{conditions_in_platform}");
    let functions = |files: &[&str]| -> BTreeSet<String> {
        let texts = files.iter().map(|file| std::fs::read_to_string(platform.join(file)).unwrap());
        let text = texts.collect::<String>();
        let names = text.lines().filter_map(|line| {
            line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub async fn "))
        });
        names.map(|rest| rest.split('(').next().unwrap().to_owned()).collect()
    };
    let explained: BTreeSet<_> = rows("docs/platforms.md", "platform")
        .iter()
        .map(|row| code(&row[0])[0].to_owned())
        .collect();
    assert_eq!(functions(&["landlock.rs", "linux.rs", "users.rs"]), explained);
    assert_eq!(functions(&["other.rs"]), explained);
}

/// Conditions on the operating system, `#[cfg(…)]` and `cfg!(…)`, in a file's code but not in its tests.
#[derive(Default)]
struct SystemConditions(Vec<String>);

impl SystemConditions {
    fn check(&mut self, condition: &str) {
        if ["target_os", "target_family", "unix", "windows"].iter().any(|it| condition.contains(it))
        {
            self.0.push(condition.to_owned());
        }
    }
}

impl<'ast> Visit<'ast> for SystemConditions {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_item(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta
            && (list.path.is_ident("cfg") || list.path.is_ident("cfg_attr"))
        {
            self.check(&list.tokens.to_string());
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.is_ident("cfg") {
            self.check(&call.tokens.to_string());
        }
        syn::visit::visit_macro(self, call);
    }
}

/// The table of the architecture page names each folder of the runner and each crate, and no other.
#[test]
fn architecture_page_names_each_module() {
    let mut modules = BTreeSet::new();
    for parent in ["crates", "src"] {
        for entry in std::fs::read_dir(project_path(parent)).unwrap() {
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
    let text = std::fs::read_to_string(project_path("docs/architecture.md")).unwrap();
    let mut named = 0;
    for word in code(&text) {
        let is_path = word.contains('/') && !word.contains(' ') && !word.contains('<');
        let extension = Path::new(word).extension().and_then(|it| it.to_str());
        if is_path && (word.ends_with('/') || matches!(extension, Some("rs" | "md"))) {
            let found = [word.to_owned(), format!("src/{word}")];
            assert!(found.iter().any(|path| project_path(path).exists()), "`{word}`");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
