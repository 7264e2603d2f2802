//! The table of all settings, which is the source of `--help`, docs/settings.md and error messages.

use super::{Kind, Section, Setting};

/// All settings, in the order of `--help` and of docs/settings.md.
pub const SETTINGS: &[&Setting] = &[
    &ENDPOINT,
    &RUN_ID,
    &TOKEN,
    &TOKEN_FILE,
    &REQUEST_TIMEOUT,
    &REGISTRY_TIMEOUT,
    &BODY_LIMIT,
    &LOCAL,
    &MODULE_DIR,
    &OPERATION,
    &TF_VERSION,
    &VAR_FILE,
    &CONFIG,
    &REPORT_DIR,
    &CI,
    &SUMMARY,
    &REPORT,
    &WORK_DIR,
    &TMPFS_DIR,
    &RECOVERY_DIR,
    &SECRETS_DIR,
    &LOG_INTERVAL,
    &CANCEL_INTERVAL,
    &GRACE_PERIOD,
    &LOCK_TIMEOUT,
    &FORCE_UNLOCK_OWN,
    &ALLOW_EPHEMERAL_STATE,
    &PLAN_STATUS,
    &PLAN_JSON,
    &AFTER_PLAN,
    &SENSITIVE_VALUES,
    &SETTINGS_FILE,
    &PROVIDER_CACHE,
    &CACHE_DIR,
    &MIRROR,
    &SIGNING_KEY,
    &CA_BUNDLE,
    &DEFAULT_TOOL_VERSION,
    &TOOL_TIMEOUT,
    &DRAIN_PERIOD,
    &LOG_FORMAT,
    &LOG,
];

/// `--endpoint`.
pub const ENDPOINT: Setting = Setting {
    noun: "endpoint",
    flags: &["--endpoint", "--butler-url"],
    variables: &["BUTLER_ENDPOINT", "BUTLER_URL"],
    kind: Kind::Value("URL"),
    default: "required",
    help: "The URL of the registry, including its path",
    example: "https://portal.example.com/api/registry",
    section: Section::Registry,
};
/// `--run-id`.
pub const RUN_ID: Setting = Setting {
    noun: "run id",
    flags: &["--run-id"],
    variables: &["BUTLER_RUN_ID"],
    kind: Kind::Value("ID"),
    default: "required",
    help: "The id of the run to execute",
    example: "550e8400-e29b-41d4-a716-446655440000",
    section: Section::Registry,
};
/// `--token`.
pub const TOKEN: Setting = Setting {
    noun: "token",
    flags: &["--token"],
    variables: &["BUTLER_TOKEN"],
    kind: Kind::Value("TOKEN"),
    default: "required, here or in a file",
    help: "The callback token of the run; a flag is visible in the process list, so prefer the variable or a file",
    example: "brce_...",
    section: Section::Registry,
};
/// `--token-file`.
pub const TOKEN_FILE: Setting = Setting {
    noun: "token file",
    flags: &["--token-file"],
    variables: &["BUTLER_TOKEN_FILE"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "A file that holds the callback token",
    example: "/run/secrets/butler-token",
    section: Section::Registry,
};
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
    default: "required with --local",
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
    default: "required with --local",
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
/// `--work-dir`.
pub const WORK_DIR: Setting = Setting {
    noun: "work directory",
    flags: &["--work-dir"],
    variables: &["BUTLER_WORK_DIR"],
    kind: Kind::Value("DIR"),
    default: "the directory for temporary files",
    help: "The directory in which the run creates its own directory and removes it at the end",
    example: "/workspace",
    section: Section::Run,
};
/// `--tmpfs-dir`.
pub const TMPFS_DIR: Setting = Setting {
    noun: "directory in memory",
    flags: &["--tmpfs-dir"],
    variables: &["BUTLER_TMPFS_DIR"],
    kind: Kind::Value("DIR"),
    default: "/dev/shm, if it is in memory and has free space",
    help: "The directory in memory for secret files, so that they are never written to a disk",
    example: "/dev/shm",
    section: Section::Run,
};
/// `--recovery-dir`.
pub const RECOVERY_DIR: Setting = Setting {
    noun: "recovery directory",
    flags: &["--recovery-dir"],
    variables: &["BUTLER_RECOVERY_DIR"],
    kind: Kind::Value("DIR"),
    default: "recovery, in the cache directory",
    help: "The directory for states that could not be stored and for undelivered log lines; use a volume in Kubernetes",
    example: "/var/lib/butler-runner",
    section: Section::Run,
};
/// `--secrets-dir`.
pub const SECRETS_DIR: Setting = Setting {
    noun: "secrets directory",
    flags: &["--secrets-dir"],
    variables: &["BUTLER_SECRETS_DIR"],
    kind: Kind::Value("DIR"),
    default: "none",
    help: "The directory with mounted secrets: DIR/NAMESPACE/NAME/KEY or DIR/NAME/KEY",
    example: "/var/run/secrets/butler",
    section: Section::Run,
};
/// `--log-interval`.
pub const LOG_INTERVAL: Setting = Setting {
    noun: "log interval",
    flags: &["--log-interval"],
    variables: &["BUTLER_LOG_INTERVAL"],
    kind: Kind::Value("DURATION"),
    default: "2s",
    help: "How often the runner sends log lines to the registry",
    example: "2s",
    section: Section::Run,
};
/// `--request-timeout`.
pub const REQUEST_TIMEOUT: Setting = Setting {
    noun: "request timeout",
    flags: &["--request-timeout"],
    variables: &["BUTLER_REQUEST_TIMEOUT"],
    kind: Kind::Value("DURATION"),
    default: "30s",
    help: "The timeout for one attempt of a request to the registry",
    example: "30s",
    section: Section::Registry,
};
/// `--registry-timeout`.
pub const REGISTRY_TIMEOUT: Setting = Setting {
    noun: "registry timeout",
    flags: &["--registry-timeout"],
    variables: &["BUTLER_REGISTRY_TIMEOUT"],
    kind: Kind::Value("DURATION"),
    default: "5m",
    help: "How long the runner retries the configuration request and the final status while the registry is unreachable",
    example: "5m",
    section: Section::Registry,
};
/// `--body-limit`.
pub const BODY_LIMIT: Setting = Setting {
    noun: "body limit",
    flags: &["--body-limit"],
    variables: &["BUTLER_BODY_LIMIT"],
    kind: Kind::Value("SIZE"),
    default: "50MiB",
    help: "The maximum size of a request body; the runner removes less important parts from a larger plan",
    example: "50MiB",
    section: Section::Registry,
};
/// `--cancel-interval`.
pub const CANCEL_INTERVAL: Setting = Setting {
    noun: "cancel interval",
    flags: &["--cancel-interval"],
    variables: &["BUTLER_CANCEL_INTERVAL"],
    kind: Kind::Value("DURATION"),
    default: "30s",
    help: "How often the runner asks the registry whether the run was cancelled",
    example: "30s",
    section: Section::Run,
};
/// `--grace-period`.
pub const GRACE_PERIOD: Setting = Setting {
    noun: "grace period",
    flags: &["--grace-period"],
    variables: &["BUTLER_GRACE_PERIOD"],
    kind: Kind::Value("DURATION"),
    default: "60s; 20s in Kubernetes; 5s in GitHub Actions, GitLab CI and Jenkins, which send SIGKILL sooner",
    help: "The time between the stop signal to the tool and SIGKILL",
    example: "60s",
    section: Section::Run,
};
/// `--lock-timeout`.
pub const LOCK_TIMEOUT: Setting = Setting {
    noun: "lock timeout",
    flags: &["--lock-timeout"],
    variables: &["BUTLER_LOCK_TIMEOUT"],
    kind: Kind::Value("DURATION"),
    default: "0s",
    help: "How long the tool waits for a state lock that another process holds",
    example: "5m",
    section: Section::Run,
};
/// `--force-unlock-own`.
pub const FORCE_UNLOCK_OWN: Setting = Setting {
    noun: "unlocking",
    flags: &["--force-unlock-own"],
    variables: &["BUTLER_FORCE_UNLOCK_OWN"],
    kind: Kind::Switch,
    default: "false",
    help: "Remove the state lock of this run if its tool was killed and left the lock",
    example: "true",
    section: Section::Run,
};
/// `--allow-ephemeral-state`.
pub const ALLOW_EPHEMERAL_STATE: Setting = Setting {
    noun: "ephemeral state",
    flags: &["--allow-ephemeral-state"],
    variables: &["BUTLER_ALLOW_EPHEMERAL_STATE"],
    kind: Kind::Switch,
    default: "false",
    help: "Allow apply and destroy to store their state in the clone, where it is lost at the end of the run",
    example: "true",
    section: Section::Run,
};
/// `--plan-status`.
pub const PLAN_STATUS: Setting = Setting {
    noun: "plan status",
    flags: &["--plan-status"],
    variables: &["BUTLER_PLAN_STATUS"],
    kind: Kind::Value("STATUS"),
    default: "succeeded",
    help: "The status that the runner reports for a plan with changes: succeeded or planned",
    example: "planned",
    section: Section::Run,
};
/// `--plan-json`.
pub const PLAN_JSON: Setting = Setting {
    noun: "kind of plan JSON",
    flags: &["--plan-json"],
    variables: &["BUTLER_PLAN_JSON"],
    kind: Kind::Value("KIND"),
    default: "clean",
    help: "clean: mask sensitive values in the plan's JSON; raw: send the JSON as Terraform writes it",
    example: "raw",
    section: Section::Run,
};
/// `--after-plan`.
pub const AFTER_PLAN: Setting = Setting {
    noun: "program after the plan",
    flags: &["--after-plan"],
    variables: &["BUTLER_AFTER_PLAN"],
    kind: Kind::Value("COMMAND"),
    default: "none",
    help: "A program that reads each masked plan (JSON) on its standard input before anything is applied, and stops the run \
with an exit code other than 0: program and arguments, separated by spaces; no shell",
    example: "conftest test --policy /etc/terraform-policy -",
    section: Section::Run,
};
/// `--sensitive-values`.
pub const SENSITIVE_VALUES: Setting = Setting {
    noun: "kind of sensitive values",
    flags: &["--sensitive-values"],
    variables: &["BUTLER_SENSITIVE_VALUES"],
    kind: Kind::Value("KIND"),
    default: "auto",
    help: "auto: resolve a sensitive value that has the form of a reference; literal: always use the value itself as the secret",
    example: "literal",
    section: Section::Run,
};
/// `--settings`.
pub const SETTINGS_FILE: Setting = Setting {
    noun: "settings file",
    flags: &["--settings"],
    variables: &["BUTLER_SETTINGS"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "A YAML or JSON file with settings for Terraform: provider mirrors, credentials, backend, environment, logging",
    example: "terraform-settings.yaml",
    section: Section::Run,
};
/// `--provider-cache`.
pub const PROVIDER_CACHE: Setting = Setting {
    noun: "provider cache",
    flags: &["--provider-cache"],
    variables: &["BUTLER_PROVIDER_CACHE"],
    kind: Kind::Value("DIR"),
    default: "providers, in the cache directory",
    help: "The cache directory for provider packages; off disables the cache",
    example: "off",
    section: Section::Run,
};
/// `--cache-dir`.
pub const CACHE_DIR: Setting = Setting {
    noun: "cache directory",
    flags: &["--cache-dir"],
    variables: &["BUTLER_CACHE_DIR"],
    kind: Kind::Value("DIR"),
    default: "~/.butler-runner, also if it is read-only and contains tools; butler-runner-UID in the directory for temporary files if HOME is missing or not writable",
    help: "The cache directory for installed versions",
    example: "/var/cache/butler-runner",
    section: Section::Tool,
};
/// `--mirror`.
pub const MIRROR: Setting = Setting {
    noun: "mirror",
    flags: &["--mirror"],
    variables: &["BUTLER_MIRROR"],
    kind: Kind::Value("URL"),
    default: "the vendor's site",
    help: "The http, https or file URL of a mirror; the runner appends the path of the vendor's URL",
    example: "https://mirror.example.com/hashicorp",
    section: Section::Tool,
};
/// `--signing-key`.
pub const SIGNING_KEY: Setting = Setting {
    noun: "signing key",
    flags: &["--signing-key"],
    variables: &["BUTLER_SIGNING_KEY"],
    kind: Kind::Paths("FILE"),
    default: "the built-in keys of the vendors",
    help: "A file with an additional OpenPGP key to trust for releases; can be repeated, or separated by colons in the environment variable",
    example: "mirror.asc",
    section: Section::Tool,
};
/// `--ca-bundle`.
pub const CA_BUNDLE: Setting = Setting {
    noun: "CA bundle",
    flags: &["--ca-bundle"],
    variables: &["BUTLER_CA_BUNDLE"],
    kind: Kind::Value("FILE"),
    default: "the system's certificates",
    help: "A PEM file with CA certificates to trust in addition to the system's",
    example: "/etc/ssl/company.pem",
    section: Section::Tool,
};
/// `--default-tool-version`.
pub const DEFAULT_TOOL_VERSION: Setting = Setting {
    noun: "default version",
    flags: &["--default-tool-version"],
    variables: &["BUTLER_DEFAULT_TOOL_VERSION"],
    kind: Kind::Value("VERSION"),
    default: "the version that `tool use` set, otherwise the version on PATH",
    help: "The exact version to use if neither the run nor the module requests one",
    example: "1.11.4",
    section: Section::Tool,
};
/// `--tool-timeout`.
pub const TOOL_TIMEOUT: Setting = Setting {
    noun: "tool timeout",
    flags: &["--tool-timeout"],
    variables: &["BUTLER_TOOL_TIMEOUT"],
    kind: Kind::Value("DURATION"),
    default: "10m",
    help: "The timeout for installing one version, including the wait for another process that installs it",
    example: "30m",
    section: Section::Tool,
};
/// `--drain-period`.
pub const DRAIN_PERIOD: Setting = Setting {
    noun: "drain period",
    flags: &["--drain-period"],
    variables: &["BUTLER_DRAIN_PERIOD"],
    kind: Kind::Value("DURATION"),
    default: "30s",
    help: "How long the runner waits before it removes a version, for runs that are just starting",
    example: "1m",
    section: Section::Lifecycle,
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
