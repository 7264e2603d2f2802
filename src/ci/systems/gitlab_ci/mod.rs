//! GitLab CI.

pub(in crate::ci) mod reports;

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ci::description::{
    CiSystem, GroupFormat, GroupHeader, JobVariables, LogCommands, LogFormat, Recognition,
    StopTimes,
};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "gitlab-ci",
    title: "GitLab CI",
    recognition: Recognition::Variable("GITLAB_CI"),
    log: LogFormat::Groups(GroupFormat { begin: begin_section, end: Some(end_section) }),
    commands: LogCommands::AcrossLines(disarm_sections),
    secret_place: Some(
        "add a masked variable under Settings > CI/CD > Variables; protected ones reach protected branches only",
    ),
    job_variables: JobVariables {
        collected_directory: Some("CI_PROJECT_DIR"),
        ..CiSystem::PLAIN.job_variables
    },
    // GitLab sends SIGTERM to every process of the job's container and removes the container 10 s later
    // (gitlab-runner, `executors/docker`, `sendSIGTERMToContainerProcs`).
    stop_times: Some(StopTimes { grace: Duration::from_secs(5), report: Duration::from_secs(4) }),
    reads_report_files: true,
    ..CiSystem::PLAIN
};

fn begin_section(group: &GroupHeader) -> String {
    let GroupHeader { title, name, since } = group;
    format!("\u{1b}[0Ksection_start:{}:{name}\r\u{1b}[0K{title}", unix_seconds(*since))
}

fn end_section(group: &GroupHeader) -> String {
    let now = unix_seconds(SystemTime::now());
    format!("\u{1b}[0Ksection_end:{now}:{}\r\u{1b}[0K", group.name)
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Without control characters after it, a marker of a section is ordinary text.
fn disarm_sections(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let text = text.replace("section_start:", "section_start :");
    Cow::Owned(text.replace("section_end:", "section_end :"))
}
