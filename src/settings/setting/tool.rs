//! Tools: the cache, mirrors, versions.

use crate::settings::{Kind, Section, Setting};

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
