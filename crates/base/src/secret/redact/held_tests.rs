//! Secrets are masked across lines, and other lines are shown at once.

use secrecy::SecretString;

use super::*;

const PHRASE: &str = "correct horse  battery \"staple\" in many more words than fit upon one line";

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster:\n    server: https://10.0.0.1:6443\nusers:\n- name: admin\n  user:\n    token: hunter2-token\n";

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    let secrets: Vec<_> = secrets.iter().copied().map(SecretString::from).collect();
    redactor.register(&secrets);
    redactor
}

/// The lines that are shown after each line of `text`, and those at the end.
fn pushed(redactor: &Redactor, text: &str) -> Vec<Vec<String>> {
    let mut held = LineRedactor::default();
    let mut shown: Vec<_> = text
        .lines()
        .map(|line| {
            let mut shown = Vec::new();
            held.push(redactor, line.as_bytes(), |line| shown.push(line.to_owned()));
            shown
        })
        .collect();
    let mut rest = Vec::new();
    held.flush(redactor, |line| rest.push(line.to_owned()));
    shown.push(rest);
    shown
}

fn shown(redactor: &Redactor, text: &str) -> String {
    pushed(redactor, text).concat().join("\n")
}

/// Breaks lines as Terraform does: after at most `columns` characters, at white space.
fn wrapped(text: &str, columns: usize, line_start: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().unwrap();
        if !line.is_empty() && line.len() + 1 + word.len() > columns {
            lines.push(word.to_owned());
        } else {
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(space);
            line.push_str(word);
        }
    }
    let lines: Vec<_> = lines.iter().map(|line| format!("{line_start}{line}")).collect();
    lines.join("\n")
}

#[test]
fn wrapped_secret_is_masked_at_every_width_and_in_every_frame() {
    let redactor = redactor(&[PHRASE]);
    let json = serde_json::to_string(PHRASE).unwrap();
    let errors = [
        format!("Invalid value for \"v\" parameter: cannot convert \"{PHRASE}\" to number."),
        format!("cannot convert {json} to number."),
        format!("cannot convert {} to number.", serde_json::to_string(&json).unwrap()),
        format!("cannot convert &quot;{}&quot; to number.", PHRASE.replace('"', "&quot;")),
        format!("cannot convert '{}' to number.", PHRASE.replace('"', "\"\"")),
    ];
    let starts =
        ["", "│ ", "\u{1b}[31m│\u{1b}[0m \u{1b}[0m", "    ", "a.b[\"c d\"] (local-exec): "];
    for error in &errors {
        for columns in [8, 20, 33, 57, 78, 200] {
            for start in starts {
                let shown = shown(&redactor, &wrapped(error, columns, start));
                let left = PHRASE.split_whitespace().find(|word| {
                    let word = word.trim_matches('"');
                    word.len() > 2 && shown.contains(word)
                });
                assert_eq!(left, None, "{columns} `{start}`: {shown}");
                assert!(shown.contains("cannot") && shown.contains("number."), "{shown}");
                let lines = wrapped(error, columns, start).lines().count();
                assert_eq!(shown.lines().count(), lines, "{shown}");
            }
        }
    }
}

#[test]
fn line_is_held_only_if_it_ends_with_the_beginning_of_a_secret() {
    let redactor = redactor(&["correct horse battery"]);
    assert_eq!(
        pushed(&redactor, "a line\nit is correct\nhorse battery\nnot correct\nx\ncorrect horse"),
        [
            vec!["a line"],
            vec![],
            vec!["it is ***", "***"],
            vec![],
            vec!["not correct", "x"],
            vec![],
            vec!["correct horse"],
        ]
    );
}

#[test]
fn held_lines_and_incomplete_lines_keep_their_order() {
    let redactor = redactor(&["correct horse battery"]);
    let mut held = LineRedactor::default();
    assert_eq!(held.showable(&redactor, b"Enter a value: "), 15);
    assert_eq!(held.showable(&redactor, b"it is correct"), "it is ".len());
    held.push(&redactor, b"it is correct", |line| panic!("{line} is shown"));
    assert_eq!(held.showable(&redactor, b"Enter a value: "), 0);
}

#[test]
fn ordinary_lines_of_a_secret_are_masked_only_beside_its_other_lines() {
    let redactor = redactor(&[KUBECONFIG]);
    for line in [
        "terraform_data.users: Creating...",
        "kind: Config",
        "users:",
        "- name: prod",
        "Plan: 1 to add, apiVersion: v1",
    ] {
        assert_eq!(shown(&redactor, line), line);
        assert_eq!(redactor.redact(line.as_bytes()), line);
    }
    let words = ["Config", "prod", "admin", "hunter2", "10.0.0.1", "users", "v1"];
    for (start, indented) in
        [("", ""), ("a.b (local-exec): ", ""), ("│ ", ""), ("", "      "), ("  + ", "")]
    {
        let text: Vec<_> =
            KUBECONFIG.lines().map(|line| format!("{start}{indented}{line}")).collect();
        let text = format!("before\n{}\nbehind\nusers:", text.join("\n"));
        for shown in [shown(&redactor, &text), redactor.redact(text.as_bytes()).into_owned()] {
            let inner =
                shown.strip_prefix("before\n").unwrap().strip_suffix("\nbehind\nusers:").unwrap();
            if start != "  + " {
                assert!(!words.iter().any(|word| inner.contains(word)), "{shown}");
            }
            assert!(!inner.contains("hunter2"), "{shown}");
        }
    }
}

#[test]
fn repeated_ordinary_lines_do_not_hold_back_the_log() {
    let redactor = redactor(&["alpha\nbravo\nalpha\n"]);
    let text = "alpha\nbravo\n".repeat(1000);
    let shown = pushed(&redactor, &text);
    assert!(shown[..2000].iter().filter(|lines| lines.is_empty()).count() < 3);
    assert!(shown.concat().iter().all(|line| line == "***"));
}

#[test]
fn held_lines_are_bounded() {
    let redactor = redactor(&["correct horse"]);
    let mut held = LineRedactor::default();
    let (line, mut lines) = (" ".repeat(100_000), 0);
    held.push(&redactor, b"correct", |_| lines += 1);
    for _ in 0..2 {
        held.push(&redactor, line.as_bytes(), |_| lines += 1);
    }
    assert_eq!(lines, 0);
    held.push(&redactor, line.as_bytes(), |_| lines += 1);
    assert_eq!(lines, 4);
}

#[test]
fn shown_text_is_the_same_for_lines_as_for_the_whole() {
    let secrets = ["aa bb", "ab  a\tbb", "b a b a", "aaaa\nbbbb", "ab ab\nabba\nbb bb"];
    let redactor = redactor(&secrets);
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut random = fastrand::Rng::with_seed(21);
    for _ in 0..3000 {
        let length = random.usize(1..60);
        let text: String = (0..length)
            .map(|_| *random.choice(&['a', 'b', 'a', 'b', ' ', '\n']).unwrap())
            .collect();
        let text: Vec<_> = text.split('\n').map(flat).collect();
        let text = text.join("\n").replace("\n\n\n", "\n");
        let text = text.trim_end_matches('\n');
        let lines = shown(&redactor, text);
        for secret in secrets {
            assert!(!flat(&lines).contains(&flat(secret)), "{secret:?} in {lines:?} of {text:?}");
        }
        assert_eq!(lines.lines().count(), text.lines().count());
    }
}
