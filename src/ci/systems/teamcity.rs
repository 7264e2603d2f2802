//! `TeamCity`.

use crate::ci::bracket_commands::disarm_bracket_commands;
use crate::ci::description::{
    Annotation, CiSystem, GroupFormat, GroupHeader, LogCommands, LogFormat, Recognition,
};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "teamcity",
    title: "TeamCity",
    recognition: Recognition::Variable("TEAMCITY_VERSION"),
    log: LogFormat::Groups(GroupFormat { begin: begin_block, end: Some(end_block) }),
    commands: LogCommands::InLines(disarm_bracket_commands),
    annotation: Some(annotation),
    secret_place: Some(
        "add a parameter `env.NAME` of the type Password to the build configuration",
    ),
    ..CiSystem::PLAIN
};

fn begin_block(group: &GroupHeader) -> String {
    format!("##teamcity[blockOpened name='{}']", group.title)
}

fn end_block(group: &GroupHeader) -> String {
    format!("##teamcity[blockClosed name='{}']", group.title)
}

/// <https://www.jetbrains.com/help/teamcity/service-messages.html>
fn annotation(annotation: &Annotation) -> String {
    let place = annotation.place.as_ref();
    let place = place.map(|it| format!("{}:{}: ", it.file, it.line)).unwrap_or_default();
    let mut text = String::new();
    for character in format!("{place}{}: {}", annotation.title, annotation.text).chars() {
        match character {
            '\n' => text.push_str("|n"),
            '\r' => text.push_str("|r"),
            '|' | '\'' | '[' | ']' => text.extend(['|', character]),
            _ => text.push(character),
        }
    }
    let status = annotation.severity_name().to_uppercase();
    format!("##teamcity[message text='{text}' status='{status}']")
}
