//! The registry and its run.

use crate::settings::{Kind, Section, Setting};

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
