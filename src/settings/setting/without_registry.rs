//! Runs without a registry, and the report directory.

use crate::settings::{Kind, Section, Setting};

/// `--local`.
pub const LOCAL: Setting = Setting {
    noun: "local run",
    flags: &["--local"],
    variables: &["BUTLER_LOCAL"],
    kind: Kind::Switch,
    default: "false",
    help: "Run in a local directory, without a registry",
    example: "true",
    section: Section::Alone,
};

/// `--module-dir`.
pub const MODULE_DIR: Setting = Setting {
    noun: "module directory",
    flags: &["--module-dir", "--working-dir"],
    variables: &["BUTLER_MODULE_DIR", "BUTLER_WORKING_DIR"],
    kind: Kind::Value("DIR"),
    default: "the current directory",
    help: "The directory of the module, with --local",
    example: "./network",
    section: Section::Alone,
};

/// `--operation`.
pub const OPERATION: Setting = Setting {
    noun: "operation",
    flags: &["--operation"],
    variables: &["BUTLER_OPERATION"],
    kind: Kind::Value("OPERATION"),
    default: "plan",
    help: "plan, apply, destroy, refresh, drift-check, validate or test, with --local",
    example: "plan",
    section: Section::Alone,
};

/// `--tf-version`.
pub const TF_VERSION: Setting = Setting {
    noun: "version",
    flags: &["--tf-version"],
    variables: &["BUTLER_TF_VERSION"],
    kind: Kind::Value("VERSION"),
    default: "what the module asks for",
    help: "The version of the tool, with --local: 1.9.8, 1.9 for the newest 1.9.x, opentofu-1.8.3, terragrunt-1.0.0 or latest",
    example: "1.9.0",
    section: Section::Alone,
};

/// `--var-file`.
pub const VAR_FILE: Setting = Setting {
    noun: "variable file",
    flags: &["--var-file"],
    variables: &["BUTLER_VAR_FILE"],
    kind: Kind::Paths("FILE"),
    default: "none",
    help: "A file with variables, with --local; can be repeated, or separated by colons in the environment variable",
    example: "prod.tfvars",
    section: Section::Alone,
};

/// `--config`.
pub const CONFIG: Setting = Setting {
    noun: "configuration",
    flags: &["--config"],
    variables: &["BUTLER_CONFIG"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "Execute the run that this file describes, in the registry's format",
    example: "run.json",
    section: Section::Alone,
};

/// `--report-dir`.
pub const REPORT_DIR: Setting = Setting {
    noun: "report directory",
    flags: &["--report-dir"],
    variables: &["BUTLER_REPORT_DIR"],
    kind: Kind::Value("DIR"),
    default: "none",
    help: "Also write logs, plan, outputs and status to this directory",
    example: "./report",
    section: Section::Alone,
};
