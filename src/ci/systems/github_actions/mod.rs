//! GitHub Actions.

pub(in crate::ci) mod masks;
pub(in crate::ci) mod step_files;

use std::borrow::Cow;
use std::time::Duration;

use crate::ci::bracket_commands::disarm_bracket_commands;
use crate::ci::description::{
    Annotation, CiSystem, GroupFormat, GroupHeader, JobVariables, LogCommands, LogFormat,
    Recognition, StopTimes,
};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "github-actions",
    title: "GitHub Actions",
    recognition: Recognition::Variable("GITHUB_ACTIONS"),
    log: LogFormat::Groups(GroupFormat { begin: begin_group, end: Some(end_group) }),
    commands: LogCommands::InLines(disarm_line),
    annotation: Some(annotation),
    secret_place: Some(
        "add the secret under Settings > Secrets and variables > Actions and map it in the workflow's `env` (`generate github-actions --secret NAME`)",
    ),
    job_variables: JobVariables {
        summary: Some("GITHUB_STEP_SUMMARY"),
        outputs: Some("GITHUB_OUTPUT"),
        workspace: Some("GITHUB_WORKSPACE"),
        repository: Some("GITHUB_REPOSITORY"),
        address: Some("GITHUB_SERVER_URL"),
        commit: Some("GITHUB_SHA"),
        collected_directory: None,
    },
    // GitHub sends SIGINT, SIGTERM 7.5 s later, and SIGKILL 2.5 s after that. The grace period ends before the
    // second signal, because a second signal otherwise means that a user wants the run to end at once.
    stop_times: Some(StopTimes { grace: Duration::from_secs(5), report: Duration::from_secs(4) }),
    reads_masks: true,
    ..CiSystem::PLAIN
};

fn begin_group(group: &GroupHeader) -> String {
    format!("::group::{}", group.title)
}

fn end_group(_: &GroupHeader) -> String {
    "::endgroup::".to_owned()
}

/// Disarms `::command::` at the beginning of a line, after white space, and the older `##[command]`.
fn disarm_line(line: &str) -> Cow<'_, str> {
    let blank = line.find(|c: char| c.is_ascii_graphic()).unwrap_or(line.len());
    let Some(rest) = line[blank..].strip_prefix("::") else {
        return disarm_bracket_commands(line);
    };
    Cow::Owned(format!("{}: :{}", &line[..blank], disarm_bracket_commands(rest)))
}

/// <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>
fn annotation(annotation: &Annotation) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let place = annotation.place.as_ref();
    let place = place.map(|it| format!("file={},line={},", property(&it.file), it.line));
    let (place, title) = (place.unwrap_or_default(), property(&annotation.title));
    format!("::{} {place}title={title}::{}", annotation.severity_name(), data(&annotation.text))
}
