//! Keeps the words that `docs/style.md` lists out of documentation, `--help`, and messages.

use std::path::Path;

use syn::visit::Visit;

use butler_testing::project::{
    files_below, is_test_file, is_test_item, program_sources, project_path,
};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The first column of the table below the heading.
fn words() -> Vec<String> {
    let text = read(&project_path("docs/style.md"));
    let (_, table) = text.split_once("## Words to avoid").unwrap();
    let rows = table.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let words: Vec<_> = rows.map(|row| row.split('|').nth(1).unwrap().trim().to_owned()).collect();
    assert!(words.len() > 15, "{words:?}");
    words
}

/// The words that are in `text`, as whole words in any case.
fn found<'w>(words: &'w [String], text: &str) -> Vec<&'w str> {
    let text = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    // "There is no flag `-x`" is plain English; "`-x` is no flag" is not.
    let plain = ["there is no ", "there are no ", "there was no ", "no longer"];
    let text = plain.iter().fold(text, |text, plain| text.replace(plain, ""));
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_in = |word: &&String| {
        text.match_indices(word.as_str()).any(|(start, _)| {
            !is_letter(text[..start].chars().next_back())
                && !is_letter(text[start + word.len()..].chars().next())
        })
    };
    words.iter().filter(is_in).map(String::as_str).collect()
}

/// The text of a page without code.
fn prose(markdown: &str) -> String {
    let blocks = markdown.split("```").step_by(2);
    blocks.flat_map(|block| block.split('`').step_by(2)).collect::<Vec<_>>().join(" ` ")
}

#[test]
fn documentation_avoids_the_words_of_the_style_guide() {
    let words = words();
    let mut pages = files_below(&project_path("docs"), "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(project_path));
    let wrong: Vec<_> = pages
        .iter()
        .filter(|page| !page.ends_with("docs/style.md"))
        .flat_map(|page| {
            let text = prose(&read(page));
            let found = found(&words, &text);
            found.into_iter().map(|word| format!("{}: {word}", page.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn help_avoids_the_words_of_the_style_guide() {
    fn check(words: &[String], command: &mut clap::Command, wrong: &mut Vec<String>) {
        let help = command.render_long_help().to_string();
        let name = command.get_name().to_owned();
        wrong.extend(found(words, &help).into_iter().map(|word| format!("{name} --help: {word}")));
        for subcommand in command.get_subcommands_mut() {
            check(words, subcommand, wrong);
        }
    }
    let mut wrong = Vec::new();
    check(&words(), &mut butler_runner::cli::command(), &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn messages_avoid_the_words_of_the_style_guide() {
    let words = words();
    let mut wrong = Vec::new();
    let mut literals = 0;
    for path in program_sources().into_iter().filter(|path| !is_test_file(path)) {
        let mut strings = Strings::default();
        strings.visit_file(&syn::parse_file(&read(&path)).unwrap());
        literals += strings.0.len();
        for text in strings.0 {
            let found = found(&words, &text);
            wrong.extend(found.iter().map(|word| format!("{}: {word}: {text}", path.display())));
        }
    }
    assert!(literals > 3000, "{literals}");
    assert!(wrong.is_empty(), "{} messages: {wrong:#?}", wrong.len());
}

/// The string literals of a file, without its tests and comments.
#[derive(Default)]
struct Strings(Vec<String>);

impl<'ast> Visit<'ast> for Strings {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_item(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("error")
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.0.push(list.tokens.to_string());
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.0.push(call.tokens.to_string());
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.0.push(literal.value());
    }
}
