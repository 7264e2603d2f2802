//! Output files and the runner's log.

use crate::settings::{Kind, Section, Setting};

/// `--ci`.
pub const CI: Setting = Setting {
    noun: "CI system",
    flags: &["--ci"],
    variables: &["BUTLER_CI"],
    kind: Kind::Value("SYSTEM"),
    default: "detected from environment variables",
    help: "The CI system whose log format and files to use: github-actions, gitlab-ci, jenkins, azure-pipelines, bitbucket-pipelines, \
circleci, buildkite, teamcity, tekton, plain or none",
    example: "gitlab-ci",
    section: Section::Output,
};

/// `--summary`.
pub const SUMMARY: Setting = Setting {
    noun: "summary",
    flags: &["--summary"],
    variables: &["BUTLER_SUMMARY"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "Write a Markdown summary of the run to this file",
    example: "summary.md",
    section: Section::Output,
};

/// `--report`.
pub const REPORT: Setting = Setting {
    noun: "report",
    flags: &["--report"],
    variables: &["BUTLER_REPORT"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "Write an HTML report of the run to this file; the report does not load other files",
    example: "report.html",
    section: Section::Output,
};

/// `--log-format`.
pub const LOG_FORMAT: Setting = Setting {
    noun: "log format",
    flags: &["--log-format"],
    variables: &["BUTLER_LOG_FORMAT"],
    kind: Kind::Value("FORMAT"),
    default: "text",
    help: "The format of the runner's log on standard error: text or json",
    example: "json",
    section: Section::Log,
};

/// `--log`, `-v` and `-q`.
pub const LOG: Setting = Setting {
    noun: "log filter",
    flags: &["--log", "-v", "-q"],
    variables: &["BUTLER_LOG"],
    kind: Kind::Value("FILTER"),
    default: "info",
    help: "The filter for the runner's log: error, warn, info, debug, trace, or butler_runner::tool=debug",
    example: "debug",
    section: Section::Log,
};
