//! Azure Pipelines.

use crate::ci::bracket_commands::disarm_bracket_commands;
use crate::ci::description::{
    Annotation, CiSystem, GroupFormat, GroupHeader, JobVariables, LogCommands, LogFormat,
    Recognition,
};

pub(in crate::ci) const SYSTEM: CiSystem = CiSystem {
    id: "azure-pipelines",
    title: "Azure Pipelines",
    recognition: Recognition::Variable("TF_BUILD"),
    log: LogFormat::Groups(GroupFormat { begin: begin_group, end: Some(end_group) }),
    commands: LogCommands::InLines(disarm_bracket_commands),
    annotation: Some(annotation),
    secret_place: Some(
        "add a secret variable to the pipeline or to a variable group and map it in the step's `env` (`generate azure-pipelines --secret NAME`)",
    ),
    job_variables: JobVariables {
        workspace: Some("BUILD_SOURCESDIRECTORY"),
        repository: Some("BUILD_REPOSITORY_NAME"),
        address: Some("BUILD_REPOSITORY_URI"),
        commit: Some("BUILD_SOURCEVERSION"),
        ..CiSystem::PLAIN.job_variables
    },
    ..CiSystem::PLAIN
};

fn begin_group(group: &GroupHeader) -> String {
    format!("##[group]{}", group.title)
}

fn end_group(_: &GroupHeader) -> String {
    "##[endgroup]".to_owned()
}

/// <https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands>
fn annotation(annotation: &Annotation) -> String {
    let data = |text: &str| {
        let text = text.replace('%', "%AZP25").replace('\r', "%0D").replace('\n', "%0A");
        text.replace(';', "%3B").replace(']', "%5D")
    };
    let place = annotation.place.as_ref();
    let place = place.map(|it| format!("sourcepath={};linenumber={};", data(&it.file), it.line));
    let place = place.unwrap_or_default();
    let text = data(&format!("{}: {}", annotation.title, annotation.text));
    format!("##vso[task.logissue type={};{place}]{text}", annotation.severity_name())
}
