//! Colours for the tool's lines. The tool itself runs without colours, so that only the terminal receives
//! them.
//!
//! The colours are Terraform's: only signs, headings and results are coloured, with the sixteen colours of every
//! terminal. A line that already has colours is not changed.

pub(super) const RESET: &str = "\x1b[0m";
pub(super) const BOLD: &str = "\x1b[1m";
pub(super) const DIM: &str = "\x1b[2m";
pub(super) const RED: &str = "\x1b[31m";
pub(super) const GREEN: &str = "\x1b[32m";
pub(super) const YELLOW: &str = "\x1b[33m";
pub(super) const CYAN: &str = "\x1b[36m";

/// The signs at the beginning of a line of a plan, the longer ones first.
const SIGNS: [(&str, &[(&str, &str)]); 6] = [
    ("-/+", &[(RED, "-"), (RESET, "/"), (GREEN, "+")]),
    ("+/-", &[(GREEN, "+"), (RESET, "/"), (RED, "-")]),
    ("<=", &[(CYAN, "<=")]),
    ("+", &[(GREEN, "+")]),
    ("-", &[(RED, "-")]),
    ("~", &[(YELLOW, "~")]),
];

/// Beginnings of lines that are coloured as a whole.
const RESULTS: [(&str, &str); 10] = [
    ("Apply complete!", GREEN),
    ("Destroy complete!", GREEN),
    ("No changes.", GREEN),
    ("Success!", GREEN),
    ("Terraform has been successfully initialized!", GREEN),
    ("OpenTofu has been successfully initialized!", GREEN),
    ("Failure!", RED),
    ("Error: ", RED),
    ("Warning: ", YELLOW),
    ("Changes to Outputs:", ""),
];

/// Beginnings of lines after which a plan follows, in which signs are coloured.
const PLAN_BEGINS: [&str; 3] = [
    "Resource actions are indicated with",
    "perform the following actions:",
    "detected the following changes",
];

/// Texts about the progress of a resource, and their colours.
const STATES: [(&str, &str); 4] =
    [(": Still ", DIM), (" complete after ", GREEN), (": Import complete", GREEN), ("...", "")];

/// Colours the lines of one stream.
#[derive(Debug, Default)]
pub(super) struct Painter {
    /// Whether the current lines belong to a plan.
    in_plan: bool,
}

impl Painter {
    /// Colours complete lines.
    pub(super) fn paint(&mut self, lines: &str) -> String {
        let mut painted = String::with_capacity(lines.len() + lines.len() / 4);
        for line in lines.split_inclusive('\n') {
            let text = line.strip_suffix('\n').unwrap_or(line);
            self.paint_line(text, &mut painted);
            painted.push_str(&line[text.len()..]);
        }
        painted
    }

    fn paint_line(&mut self, line: &str, painted: &mut String) {
        if line.contains('\x1b') {
            painted.push_str(line);
            return;
        }
        let begins = PLAN_BEGINS.iter().any(|begin| line.contains(begin));
        self.in_plan |= begins;
        if let Some(counts) = line.strip_prefix("Plan: ") {
            self.in_plan = false;
            painted.extend([BOLD, "Plan:", RESET, " ", counts]);
            return;
        }
        let bare = line.strip_prefix("│ ").unwrap_or(line);
        if let Some((_, colour)) = RESULTS.iter().find(|(begin, _)| bare.starts_with(begin)) {
            self.in_plan = bare.starts_with("Changes to");
            let frame = &line[..line.len() - bare.len()];
            painted.extend([frame, BOLD, colour, bare, RESET]);
            return;
        }
        // Any other line without indentation ends the plan.
        self.in_plan &= begins || line.is_empty() || line.starts_with(' ') || sign(line).is_some();
        if self.in_plan {
            paint_change(line, painted);
        } else {
            paint_state(line, painted);
        }
    }
}

/// Colours a line of a plan: its sign, or the headline of a resource.
fn paint_change(line: &str, painted: &mut String) {
    let bare = line.trim_start_matches(' ');
    painted.push_str(&line[..line.len() - bare.len()]);
    if bare.starts_with("# ") {
        let strong = ["destroyed", "replaced"].into_iter().find(|word| bare.contains(*word));
        match strong.and_then(|word| bare.split_once(word).map(|parts| (word, parts))) {
            Some((word, (before, after))) => {
                painted.extend([BOLD, before, RED, word, RESET, BOLD, after, RESET]);
            }
            None => painted.extend([BOLD, bare, RESET]),
        }
        return;
    }
    let Some((sign, parts)) = sign(bare) else {
        painted.push_str(bare);
        return;
    };
    for (colour, part) in parts {
        painted.extend([*colour, *part]);
    }
    painted.push_str(RESET);
    let rest = &bare[sign.len()..];
    match rest.split_once("# forces replacement") {
        Some((before, after)) => {
            painted.extend([before, RED, "# forces replacement", RESET, after]);
        }
        None => painted.push_str(rest),
    }
}

/// The sign that `text` begins with, and its colours.
fn sign(text: &str) -> Option<(&'static str, &'static [(&'static str, &'static str)])> {
    let begins = |sign: &str| text.strip_prefix(sign).is_some_and(|rest| rest.starts_with(' '));
    SIGNS.into_iter().find(|(sign, _)| begins(sign))
}

/// Colours a line about the progress of a resource: `ADDRESS: Creating...`.
fn paint_state(line: &str, painted: &mut String) {
    let said = line.find(": ").filter(|at| *at > 0 && !line[..*at].contains("  "));
    let state = said.and_then(|_| STATES.iter().find(|(sign, _)| line.contains(sign)));
    match (said, state) {
        (Some(_), Some((_, DIM))) => painted.extend([DIM, line, RESET]),
        (Some(at), Some((_, colour))) => {
            let (address, rest) = line.split_at(at);
            painted.extend([BOLD, address, RESET, colour, rest, RESET]);
        }
        _ => painted.push_str(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces colours by letters, so that tests are readable.
    fn painted(lines: &str) -> String {
        let mut text = Painter::default().paint(lines);
        for (code, name) in [
            (RESET, "<>"),
            (BOLD, "<bold>"),
            (DIM, "<dim>"),
            (RED, "<red>"),
            (GREEN, "<green>"),
            (YELLOW, "<yellow>"),
            (CYAN, "<cyan>"),
        ] {
            text = text.replace(code, name);
        }
        assert!(!text.contains('\x1b'), "{text}");
        text
    }

    #[test]
    fn plan_has_the_colours_of_terraform() {
        let plan = "\
- no sign yet
Terraform used the selected providers to generate the following execution
plan. Resource actions are indicated with the following symbols:
  + create
-/+ destroy and then create replacement
 <= read (data resources)

  # aws_vpc.a will be created
  + resource \"aws_vpc\" \"a\" {
      ~ cidr = \"10.0.0.0/16\" -> \"10.1.0.0/16\" # forces replacement
        -name = \"no sign\"
    }

  # aws_vpc.b will be destroyed

Plan: 1 to add, 0 to change, 1 to destroy.
- no sign any more

Changes to Outputs:
  + name = \"a\"
aws_vpc.a: Creating...
+ no sign any more
";
        expect_test::expect![[r#"
            - no sign yet
            Terraform used the selected providers to generate the following execution
            plan. Resource actions are indicated with the following symbols:
              <green>+<> create
            <red>-<>/<green>+<> destroy and then create replacement
             <cyan><=<> read (data resources)

              <bold># aws_vpc.a will be created<>
              <green>+<> resource "aws_vpc" "a" {
                  <yellow>~<> cidr = "10.0.0.0/16" -> "10.1.0.0/16" <red># forces replacement<>
                    -name = "no sign"
                }

              <bold># aws_vpc.b will be <red>destroyed<><bold><>

            <bold>Plan:<> 1 to add, 0 to change, 1 to destroy.
            - no sign any more

            <bold>Changes to Outputs:<>
              <green>+<> name = "a"
            <bold>aws_vpc.a<>: Creating...<>
            + no sign any more
        "#]]
        .assert_eq(&painted(plan));
    }

    #[test]
    fn headings_results_and_progress_are_coloured_and_other_lines_are_not() {
        let text = "\
Error: Unsupported argument
│ Warning: Deprecated
aws_vpc.a: Creating...
aws_vpc.a: Still creating... [10s elapsed]
aws_vpc.a: Creation complete after 12s [id=vpc-1]
  note: waiting...
Apply complete! Resources: 1 added, 0 changed, 0 destroyed.
";
        let expected = "\
<bold><red>Error: Unsupported argument<>
│ <bold><yellow>Warning: Deprecated<>
<bold>aws_vpc.a<>: Creating...<>
<dim>aws_vpc.a: Still creating... [10s elapsed]<>
<bold>aws_vpc.a<><green>: Creation complete after 12s [id=vpc-1]<>
  note: waiting...
<bold><green>Apply complete! Resources: 1 added, 0 changed, 0 destroyed.<>
";
        assert_eq!(painted(text), expected);
        let own = "Error: with \x1b[35mcolours\x1b[0m of its own\n";
        assert_eq!(Painter::default().paint(own), own);
    }
}
