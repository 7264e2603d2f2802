//! Buildkite.

use std::borrow::Cow;

use crate::ci::description::{
    CiSystem, GroupFormat, GroupHeader, LogCommands, LogFormat, Recognition,
};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "buildkite",
    title: "Buildkite",
    recognition: Recognition::Variable("BUILDKITE"),
    log: LogFormat::Groups(GroupFormat { begin: begin_group, end: None }),
    commands: LogCommands::InLines(disarm_line),
    secret_place: Some(
        "add the secret to the cluster under Agents > Secrets and name it in the step's `secrets`",
    ),
    ..CiSystem::PLAIN
};

/// Begin a group at the beginning of a line.
const HEADERS: [&str; 4] = ["---", "+++", "~~~", "^^^"];

fn begin_group(group: &GroupHeader) -> String {
    format!("--- {}", group.title)
}

/// Disarms `--- title`, also after colours, and the escape sequences for pictures, links and times.
fn disarm_line(line: &str) -> Cow<'_, str> {
    let mut rest = line;
    loop {
        let next = rest.trim_start_matches(|c: char| !c.is_ascii_graphic());
        let colour = next.strip_prefix('[').filter(|_| rest.len() > next.len());
        match colour.and_then(|it| it.split_once(|c: char| c.is_ascii_alphabetic())) {
            Some((_, after)) if rest[..rest.len() - next.len()].ends_with('\u{1b}') => {
                rest = after;
            }
            _ => {
                rest = next;
                break;
            }
        }
    }
    let mut disarmed = Cow::Borrowed(line);
    if HEADERS.iter().any(|header| rest.starts_with(header)) {
        let at = line.len() - rest.len() + 1;
        disarmed = Cow::Owned(format!("{} {}", &line[..at], &line[at..]));
    }
    if disarmed.contains('\u{1b}') {
        let colours = disarmed.replace("\u{1b}[", "\u{0}").replace('\u{1b}', "\u{241b}");
        disarmed = Cow::Owned(colours.replace('\u{0}', "\u{1b}["));
    }
    disarmed
}
