//! The figure of errors whose cause is right, over the texts in `tests/data/tool-errors`.

use super::cause::FailureCause;
use super::printed::PrintedErrors;
use butler_base::error::FailureClass;
use butler_base::secret::Redactor;

/// The texts by the command that printed them. Those of `services`, `held` and `reported` were collected
/// independently of the rules.
const TEXTS: [(&str, &str); 7] = [
    ("init", include_str!("../../../tests/data/tool-errors/init.txt")),
    ("plan", include_str!("../../../tests/data/tool-errors/plan.txt")),
    ("apply", include_str!("../../../tests/data/tool-errors/apply.txt")),
    ("encryption", include_str!("../../../tests/data/tool-errors/encryption.txt")),
    ("services", include_str!("../../../tests/data/tool-errors/services.txt")),
    ("held", include_str!("../../../tests/data/tool-errors/held.txt")),
    ("reported", include_str!("../../../tests/data/tool-errors/reported.txt")),
];

/// The errors of backends about a state, without a headline.
const STATES: &str = include_str!("../../../tests/data/tool-errors/states.txt");

/// The headlines that a tool prints in front of such a text, in `init`, in `plan` and in a list of workspaces.
const HEADLINES: [(&str, [&str; 4]); 2] = [
    (
        "terraform",
        [
            "Error refreshing state: ",
            "Error: Error refreshing state: ",
            "Error: error loading state: ",
            "Error: Failed to get existing workspaces: ",
        ],
    ),
    (
        "opentofu",
        [
            "Error refreshing state: ",
            "Error: Error refreshing state\n\n",
            "Error: error loading state: ",
            "Error: Failed to get existing workspaces: ",
        ],
    ),
];

/// The share of texts that must be right, in percent: of all of them, and of those of `reported`.
const RIGHT: usize = 95;

/// A text with its cause.
struct Row {
    command: &'static str,
    source: String,
    cause: String,
    text: String,
}

impl Row {
    /// The mistake about the cause that is found, if there is one.
    fn mistake(&self) -> Option<String> {
        let Self { command, source, cause, text } = self;
        let found = cause_of(text);
        (format!("{found:?}") != *cause)
            .then(|| format!("{command}: {source}: {found:?} instead of {cause}"))
    }
}

fn rows() -> Vec<Row> {
    TEXTS.into_iter().flat_map(|(command, texts)| rows_of(command, texts)).collect()
}

fn rows_of(command: &'static str, texts: &str) -> Vec<Row> {
    let row = |block: &str| {
        let (head, text) = block.split_once('\n').unwrap();
        let (cause, source) = head.split_once(": ").unwrap();
        let (cause, source) = (cause.to_owned(), source.to_owned());
        Row { command, source, cause, text: text.to_owned() }
    };
    texts.split("=== ").skip(1).map(row).collect()
}

/// Fails if too few of `rows` have the right cause.
fn assert_right(rows: &[&Row]) {
    let wrong: Vec<_> = rows.iter().filter_map(|row| row.mistake()).collect();
    let right = (rows.len() - wrong.len()) * 100 / rows.len();
    let wrong = wrong.join("\n");
    assert!(right >= RIGHT, "{right} % of {} are right; wrong:\n{wrong}", rows.len());
}

fn cause_of(text: &str) -> FailureCause {
    let mut errors = PrintedErrors::default();
    text.lines().for_each(|line| errors.read(line.as_bytes()));
    errors.into_failure(Some(1), &Redactor::new()).cause
}

#[test]
fn causes_of_real_errors_are_found() {
    let rows = rows();
    assert!(rows.len() >= 120, "{} texts are too few", rows.len());
    let reported: Vec<_> = rows.iter().filter(|row| row.command == "reported").collect();
    let encryption: Vec<_> = rows.iter().filter(|row| row.command == "encryption").collect();
    for rows in [rows.iter().collect(), reported, encryption] {
        assert_right(&rows);
    }
}

#[test]
fn error_of_a_backend_about_a_state_decides_and_not_the_headline() {
    for (tool, headlines) in HEADLINES {
        let mut rows = Vec::new();
        for headline in headlines {
            for row in rows_of(tool, STATES) {
                let source = format!("{}, {:?}", row.source, headline.trim());
                rows.push(Row { source, text: format!("{headline}{}", row.text), ..row });
            }
        }
        assert!(rows.len() >= 150, "{} texts are too few", rows.len());
        assert_right(&rows.iter().collect::<Vec<_>>());
    }
}

#[test]
fn each_class_of_errors_has_texts_and_hints_are_sentences() {
    let rows = rows();
    let mut classes: Vec<_> = rows.iter().map(|row| cause_of(&row.text).class()).collect();
    classes.dedup();
    for class in [
        FailureClass::Credentials,
        FailureClass::Configuration,
        FailureClass::Syntax,
        FailureClass::Module,
        FailureClass::Lock,
        FailureClass::Network,
        FailureClass::Platform,
        FailureClass::StalePlan,
    ] {
        assert!(classes.contains(&class), "{class:?}");
    }
    for row in &rows {
        let cause = cause_of(&row.text);
        let advice = cause.advice("terraform").unwrap_or_default();
        let is_module = matches!(cause.class(), FailureClass::Module | FailureClass::Syntax);
        assert!(is_module || !advice.is_empty(), "{cause:?} has no hint");
        assert!(!advice.ends_with('.'), "{advice}");
    }
}
