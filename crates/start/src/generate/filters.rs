//! Escapes values for each dialect, so that no content changes the file's structure.
//!
//! Every value in a template must use one of these filters; a test checks it.

#![expect(
    unreachable_pub,
    clippy::inline_always,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "askama requires these signatures, and generates this code"
)]

use std::fmt::Display;

use askama::{Result, Values};

/// A double-quoted YAML scalar, which is a JSON string.
#[askama::filter_fn]
pub(super) fn yaml(value: impl Display, _: &dyn Values) -> Result<String> {
    Ok(serde_json::Value::String(value.to_string()).to_string())
}

/// One word of a POSIX shell.
#[askama::filter_fn]
pub(super) fn shell(value: impl Display, _: &dyn Values) -> Result<String> {
    Ok(format!("'{}'", value.to_string().replace('\'', r"'\''")))
}

/// A Groovy string without interpolation.
#[askama::filter_fn]
pub(super) fn groovy(value: impl Display, _: &dyn Values) -> Result<String> {
    Ok(format!("'{}'", value.to_string().replace('\\', r"\\").replace('\'', r"\'")))
}

/// Lines of a Groovy string between `'''`, each with an end of line.
#[askama::filter_fn]
pub(super) fn groovy_lines(value: impl Display, _: &dyn Values) -> Result<String> {
    Ok(value.to_string().replace('\\', r"\\").replace("'''", r"\'\'\'"))
}

/// The text of a comment until the end of the line.
#[askama::filter_fn]
pub(super) fn comment(value: impl Display, _: &dyn Values) -> Result<String> {
    Ok(value.to_string().replace(char::is_control, " "))
}

/// A text that needs no escaping, because it does not come from the user: a number, or a rendered part of the
/// file. Its lines are indented to `column`.
#[askama::filter_fn]
pub(super) fn at(text: impl Display, _: &dyn Values, column: usize) -> Result<String> {
    let margin = " ".repeat(column);
    let text = text.to_string();
    let indented = text
        .trim_end()
        .lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("{margin}{line}") });
    let indented: Vec<_> = indented.collect();
    // The template already indents the first line.
    Ok(indented.join("\n").trim_start().to_owned())
}

#[cfg(test)]
mod tests {
    use askama::Template;

    use super::super::filters;

    #[derive(Template)]
    #[template(
        source = "{{ v|yaml }}\n{{ v|shell }}\n{{ v|groovy }}\n{{ v|comment }}\n  {{ \"a\\n\\n  b\\n\"|at(2) }}",
        ext = "txt"
    )]
    struct All<'a> {
        v: &'a str,
    }

    #[test]
    fn values_are_escaped_in_every_dialect() {
        let shown = All { v: "it's \"$x\" \\ `y`\nz" }.render().unwrap();
        expect_test::expect![[r#"
            "it's \"$x\" \\ `y`\nz"
            'it'\''s "$x" \ `y`
            z'
            'it\'s "$x" \\ `y`
            z'
            it's "$x" \ `y` z
              a

                b"#]]
        .assert_eq(&shown);
    }

    #[test]
    fn every_value_in_a_template_uses_a_filter() {
        let templates = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
        let mut values = 0;
        for entry in std::fs::read_dir(templates).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            // In templates with `{=` and `=}`, `{{` is syntax of the CI system.
            let (begin, end) = if text.contains("{= ") { ("{= ", " =}") } else { ("{{ ", " }}") };
            for (expression, _) in text.split(begin).skip(1).filter_map(|it| it.split_once(end)) {
                let filter = expression.rsplit('|').next().unwrap();
                let known = ["yaml", "shell", "groovy", "comment"].contains(&filter)
                    || filter.starts_with("at(");
                assert!(known, "{}: {expression}", path.display());
                values += 1;
            }
        }
        assert!(values > 0);
    }
}
