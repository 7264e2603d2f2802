//! How a run executes.

use crate::settings::{Kind, Section, Setting};

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

/// `--submodules`.
pub const SUBMODULES: Setting = Setting {
    noun: "choice of submodules",
    flags: &["--submodules"],
    variables: &["BUTLER_SUBMODULES"],
    kind: Kind::Value("WHICH"),
    default: "needed",
    help: "The submodules of a git repository that are fetched: needed (those that the module reaches; the log names those \
that are left out), all or none",
    example: "all",
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

/// `--report-outputs-after-destroy`.
pub const REPORT_OUTPUTS_AFTER_DESTROY: Setting = Setting {
    noun: "outputs after a destroy",
    flags: &["--report-outputs-after-destroy"],
    variables: &["BUTLER_REPORT_OUTPUTS_AFTER_DESTROY"],
    kind: Kind::Switch,
    default: "false",
    help: "Report the outputs after a destroy too. By default the registry keeps those of before, because modules that depend on them need them for their own destroy",
    example: "true",
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

/// `--isolation`.
pub const ISOLATION: Setting = Setting {
    noun: "isolation",
    flags: &["--isolation"],
    variables: &["BUTLER_ISOLATION"],
    kind: Kind::Value("LEVEL"),
    default: "none",
    help: "What Terraform, its providers and provisioners are kept from reading and writing: none: nothing; landlock: all files but those of the run and the system; user: all files that not every user can use, with a user for each run, which needs root; auto: landlock if the kernel has it, otherwise user if the runner is root, otherwise none, with a warning",
    example: "landlock",
    section: Section::Run,
};

/// `--isolation-users`.
pub const ISOLATION_USERS: Setting = Setting {
    noun: "range of users",
    flags: &["--isolation-users"],
    variables: &["BUTLER_ISOLATION_USERS"],
    kind: Kind::Value("FIRST-LAST"),
    default: "61184-65519",
    help: "The user ids, and group ids, of which each run with --isolation user takes one that no process has",
    example: "200000-200999",
    section: Section::Run,
};

/// `--isolation-read`.
pub const ISOLATION_READ: Setting = Setting {
    noun: "readable path",
    flags: &["--isolation-read"],
    variables: &["BUTLER_ISOLATION_READ"],
    kind: Kind::Paths("PATH"),
    default: "none",
    help: "A file or directory that an isolated run can read and execute; can be repeated, or separated by colons in the environment variable",
    example: "/srv/provider-mirror",
    section: Section::Run,
};

/// `--isolation-write`.
pub const ISOLATION_WRITE: Setting = Setting {
    noun: "writable path",
    flags: &["--isolation-write"],
    variables: &["BUTLER_ISOLATION_WRITE"],
    kind: Kind::Paths("PATH"),
    default: "none",
    help: "A file or directory that an isolated run can read, execute and write; can be repeated, or separated by colons in the environment variable",
    example: "/srv/states",
    section: Section::Run,
};
