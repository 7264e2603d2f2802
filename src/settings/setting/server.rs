//! The server. Its settings are flags of `serve`, and of the commands that ask a server.

use crate::settings::{Kind, Section, Setting};

/// `--config` of `serve`.
pub const SERVER_CONFIG: Setting = Setting {
    noun: "configuration of the server",
    flags: &["--config"],
    variables: &["BUTLER_CONFIG"],
    kind: Kind::Value("FILE|DIR"),
    default: "butler.yaml, else butler.d",
    help: "The repositories and layers: a YAML file, or a directory whose files are read in the order of their names",
    example: "butler.yaml",
    section: Section::Server,
};

/// `--data`.
pub const DATA: Setting = Setting {
    noun: "data directory",
    flags: &["--data"],
    variables: &["BUTLER_DATA"],
    kind: Kind::Value("DIR"),
    default: "$XDG_DATA_HOME/butler-runner, else ~/.local/share/butler-runner",
    help: "The directory of the server: its store, mirrors, logs, plans and states; one server uses it at a time",
    example: "/var/lib/butler-runner",
    section: Section::Server,
};

/// `--listen`.
pub const LISTEN: Setting = Setting {
    noun: "address",
    flags: &["--listen"],
    variables: &["BUTLER_LISTEN"],
    kind: Kind::Value("ADDRESS"),
    default: "127.0.0.1:7373",
    help: "Where people and programs reach the server; a port 0 becomes a free port, which stays the same after a restart",
    example: "127.0.0.1:7373",
    section: Section::Server,
};

/// `--public-url`.
pub const PUBLIC_URL: Setting = Setting {
    noun: "public address",
    flags: &["--public-url"],
    variables: &["BUTLER_PUBLIC_URL"],
    kind: Kind::Value("URL"),
    default: "none",
    help: "The address under which people reach the server, for example that of a proxy",
    example: "https://butler.example.com",
    section: Section::Server,
};

/// `--allowed-host`.
pub const ALLOWED_HOST: Setting = Setting {
    noun: "host",
    flags: &["--allowed-host"],
    variables: &["BUTLER_ALLOWED_HOST"],
    kind: Kind::Values("HOST"),
    default: "none",
    help: "A further name or address under which the server answers, without a port; can be repeated. Loopback, the address of --listen and the host of --public-url need no entry",
    example: "butler.internal",
    section: Section::Server,
};

/// `--allowed-git-host`.
pub const ALLOWED_GIT_HOST: Setting = Setting {
    noun: "git host",
    flags: &["--allowed-git-host"],
    variables: &["BUTLER_ALLOWED_GIT_HOST"],
    kind: Kind::Values("GLOB"),
    default: "none",
    help: "A host, without a port, of the repositories that included configuration and custom resources define; `*` matches any text; can be repeated",
    example: "*.example.com",
    section: Section::Server,
};

/// `--tls-cert`.
pub const TLS_CERT: Setting = Setting {
    noun: "certificate",
    flags: &["--tls-cert"],
    variables: &["BUTLER_TLS_CERT"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "The certificate with which the server speaks TLS, followed by those of its issuers, as PEM; needs --tls-key, and is read again when it changes",
    example: "/etc/butler-runner/tls.crt",
    section: Section::Server,
};

/// `--tls-key`.
pub const TLS_KEY: Setting = Setting {
    noun: "key",
    flags: &["--tls-key"],
    variables: &["BUTLER_TLS_KEY"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "The private key of --tls-cert, as PEM",
    example: "/etc/butler-runner/tls.key",
    section: Section::Server,
};

/// `--trusted-proxy`.
pub const TRUSTED_PROXY: Setting = Setting {
    noun: "proxy",
    flags: &["--trusted-proxy"],
    variables: &["BUTLER_TRUSTED_PROXY"],
    kind: Kind::Values("CIDR"),
    default: "none",
    help: "A network whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host count; can be repeated",
    example: "10.0.0.0/8",
    section: Section::Server,
};

/// `--allow-http`.
pub const ALLOW_HTTP: Setting = Setting {
    noun: "switch",
    flags: &["--allow-http"],
    variables: &["BUTLER_ALLOW_HTTP"],
    kind: Kind::Switch,
    default: "off",
    help: "Listen beyond loopback without TLS: tokens cross the network unencrypted",
    example: "true",
    section: Section::Server,
};

/// `--access-file`.
pub const ACCESS_FILE: Setting = Setting {
    noun: "access file",
    flags: &["--access-file"],
    variables: &["BUTLER_ACCESS_FILE"],
    kind: Kind::Value("FILE"),
    default: "none: one administrator with the token in admin.token of the data directory",
    help: "The users with their roles, layers and hashes of tokens: a YAML file, which is read again when it changes",
    example: "/etc/butler-runner/access.yaml",
    section: Section::Server,
};

/// `--metrics-open`.
pub const METRICS_OPEN: Setting = Setting {
    noun: "switch",
    flags: &["--metrics-open"],
    variables: &["BUTLER_METRICS_OPEN"],
    kind: Kind::Switch,
    default: "off",
    help: "Answer /metrics without a token: it has the names of repositories",
    example: "true",
    section: Section::Server,
};

/// `--store`.
pub const STORE: Setting = Setting {
    noun: "store",
    flags: &["--store"],
    variables: &["BUTLER_STORE"],
    kind: Kind::Value("sqlite|URL"),
    default: "sqlite",
    help: "Where the server keeps its facts: a SQLite file in the data directory, or a PostgreSQL database, which several servers can share",
    example: "postgres://butler@db.example.com/butler",
    section: Section::Server,
};

/// `--store-password-file`.
pub const STORE_PASSWORD_FILE: Setting = Setting {
    noun: "password file",
    flags: &["--store-password-file"],
    variables: &["BUTLER_STORE_PASSWORD_FILE"],
    kind: Kind::Value("FILE"),
    default: "none: the URL of --store contains the password, or needs none",
    help: "The password of the PostgreSQL user of --store",
    example: "/run/secrets/store-password",
    section: Section::Server,
};

/// `--artifacts`.
pub const ARTIFACTS: Setting = Setting {
    noun: "object store",
    flags: &["--artifacts"],
    variables: &["BUTLER_ARTIFACTS"],
    kind: Kind::Value("URL"),
    default: "none: logs and plans are in the data directory only",
    help: "An object store with copies of logs and plans, which all servers with one store share: s3://, gs://, az:// or file://",
    example: "s3://acme-terraform/butler",
    section: Section::Server,
};

/// `--key-file`.
pub const KEY_FILE: Setting = Setting {
    noun: "key file",
    flags: &["--key-file"],
    variables: &["BUTLER_KEY_FILE"],
    kind: Kind::Value("FILE"),
    default: "plan.key in the data directory, which is made with a new key",
    help: "The keys that encrypt saved plans, one of 64 hexadecimal digits a line: the first one encrypts, the others only decrypt",
    example: "/run/secrets/plan.key",
    section: Section::Server,
};

/// `--repo`.
pub const REPO: Setting = Setting {
    noun: "repository",
    flags: &["--repo"],
    variables: &["BUTLER_REPO"],
    kind: Kind::Value("URL"),
    default: "none",
    help: "Serve this repository without a configuration file; needs --path",
    example: "https://git.example.com/infra.git",
    section: Section::Server,
};

/// `--path`.
pub const LAYER_PATH: Setting = Setting {
    noun: "path",
    flags: &["--path"],
    variables: &["BUTLER_PATH"],
    kind: Kind::Value("GLOB"),
    default: "none",
    help: "With --repo: each directory that matches and has a module becomes a layer",
    example: "envs/*",
    section: Section::Server,
};

/// `--ref`.
pub const REFERENCE: Setting = Setting {
    noun: "branch",
    flags: &["--ref"],
    variables: &["BUTLER_REF"],
    kind: Kind::Value("BRANCH"),
    default: "the default branch",
    help: "With --repo: the branch or tag",
    example: "main",
    section: Section::Server,
};

/// `--concurrency`.
pub const CONCURRENCY: Setting = Setting {
    noun: "concurrency",
    flags: &["--concurrency"],
    variables: &["BUTLER_CONCURRENCY"],
    kind: Kind::Value("N"),
    default: "number of processors",
    help: "The most attempts at the same time; checks for drift use half of them",
    example: "4",
    section: Section::Server,
};

/// `--starts-per-minute`.
pub const STARTS_PER_MINUTE: Setting = Setting {
    noun: "number of starts",
    flags: &["--starts-per-minute"],
    variables: &["BUTLER_STARTS_PER_MINUTE"],
    kind: Kind::Value("N"),
    default: "60",
    help: "The most attempts that start in a minute, of checks for drift and of what is due after a start of the server; layers that were never planned and commits that arrive later are planned at once, and --once has no such limit",
    example: "20",
    section: Section::Server,
};

/// `--followers`.
pub const FOLLOWERS: Setting = Setting {
    noun: "registry of followers",
    flags: &["--followers"],
    variables: &["BUTLER_FOLLOWERS"],
    kind: Kind::Value("FILE"),
    default: "none",
    help: "The branches whose commits the server delivers through other systems, with their stages: a YAML file, which is read again when it changes",
    example: "/etc/butler-runner/followers.yaml",
    section: Section::Server,
};

/// `--follower-token-file`.
pub const FOLLOWER_TOKEN_FILE: Setting = Setting {
    noun: "token file",
    flags: &["--follower-token-file"],
    variables: &["BUTLER_FOLLOWER_TOKEN_FILE"],
    kind: Kind::Value("FILE"),
    default: "none: Jobs cannot ask the server",
    help: "The file with the token of Jobs of `follower` in the server's cluster, which read and trigger followers only; `access token` makes one; read again at each use",
    example: "/run/secrets/follower-token",
    section: Section::Server,
};

/// `--resources`.
pub const RESOURCES: Setting = Setting {
    noun: "namespace",
    flags: &["--resources"],
    variables: &["BUTLER_RESOURCES"],
    kind: Kind::Values("NAMESPACE"),
    default: "none",
    help: "A namespace of the cluster whose custom resources Repository, Layer and Follower are part of the desired state, beside or instead of --config; can be repeated",
    example: "team-a",
    section: Section::Server,
};

/// `--executor`.
pub const EXECUTOR: Setting = Setting {
    noun: "executor",
    flags: &["--executor"],
    variables: &["BUTLER_EXECUTOR"],
    kind: Kind::Value("EXECUTOR"),
    default: "process",
    help: "What an attempt is: process: a process of this machine; kubernetes: a Job of a cluster, that of KUBECONFIG or of the server's pod",
    example: "kubernetes",
    section: Section::Server,
};

/// `--attempt-url`.
pub const ATTEMPT_URL: Setting = Setting {
    noun: "address for attempts",
    flags: &["--attempt-url"],
    variables: &["BUTLER_ATTEMPT_URL"],
    kind: Kind::Value("URL"),
    default: "that of --public-url",
    help: "With --executor kubernetes: the https URL under which attempts reach the server",
    example: "https://butler.butler-system.svc:7373",
    section: Section::Server,
};

/// `--attempt-ca-config-map`.
pub const ATTEMPT_CA_CONFIG_MAP: Setting = Setting {
    noun: "config map",
    flags: &["--attempt-ca-config-map"],
    variables: &["BUTLER_ATTEMPT_CA_CONFIG_MAP"],
    kind: Kind::Value("NAME[/KEY]"),
    default: "none",
    help: "With --executor kubernetes: a config map with certificates that attempts trust in addition, for example the one that signed --tls-cert; the default key is ca.crt",
    example: "butler-ca",
    section: Section::Server,
};

/// `--job-namespace`.
pub const JOB_NAMESPACE: Setting = Setting {
    noun: "namespace",
    flags: &["--job-namespace"],
    variables: &["BUTLER_JOB_NAMESPACE"],
    kind: Kind::Value("NAME"),
    default: "that of the kubeconfig's context, or of the server's pod",
    help: "With --executor kubernetes: the namespace of the Jobs",
    example: "butler-attempts",
    section: Section::Server,
};

/// `--job-image`.
pub const JOB_IMAGE: Setting = Setting {
    noun: "image",
    flags: &["--job-image"],
    variables: &["BUTLER_JOB_IMAGE"],
    kind: Kind::Value("IMAGE"),
    default: "ghcr.io/butlerdotdev/butler-runner with the version of the server",
    help: "With --executor kubernetes: the image of attempts, with a tag or a digest; its runner must be as new as the server",
    example: "registry.example.com/butler-runner:1.0.0",
    section: Section::Server,
};

/// `--job-pull-secret`.
pub const JOB_PULL_SECRET: Setting = Setting {
    noun: "secret",
    flags: &["--job-pull-secret"],
    variables: &["BUTLER_JOB_PULL_SECRET"],
    kind: Kind::Values("NAME"),
    default: "none",
    help: "With --executor kubernetes: a Secret with a login for the registry of the image; can be repeated",
    example: "registry-login",
    section: Section::Server,
};

/// `--isolation` of `serve`.
pub const SERVER_ISOLATION: Setting = Setting {
    noun: "isolation",
    flags: &["--isolation"],
    variables: &["BUTLER_ISOLATION"],
    kind: Kind::Value("LEVEL"),
    default: "auto",
    help: "What modules are kept from reading and writing: landlock: all files but those of their run and the system; user: all files that not every user can use, with a user for each attempt, which needs root; auto: landlock if the kernel has it, otherwise user; the server does not start if that is not possible; none: nothing",
    example: "landlock",
    section: Section::Server,
};

/// `--mirror-memory`.
pub const MIRROR_MEMORY: Setting = Setting {
    noun: "memory limit",
    flags: &["--mirror-memory"],
    variables: &["BUTLER_MIRROR_MEMORY"],
    kind: Kind::Value("SIZE"),
    default: "1GiB",
    help: "The most memory of a process that fetches a repository",
    example: "2GiB",
    section: Section::Server,
};

/// `--stop-attempts`.
pub const STOP_ATTEMPTS: Setting = Setting {
    noun: "switch",
    flags: &["--stop-attempts"],
    variables: &["BUTLER_STOP_ATTEMPTS"],
    kind: Kind::Switch,
    default: "off; on as process 1",
    help: "End attempts when the server is asked to end, and wait for their reports; otherwise, attempts go on",
    example: "true",
    section: Section::Server,
};

/// `--stop-timeout`.
pub const STOP_TIMEOUT: Setting = Setting {
    noun: "time limit",
    flags: &["--stop-timeout"],
    variables: &["BUTLER_STOP_TIMEOUT"],
    kind: Kind::Value("DURATION"),
    default: "10m",
    help: "The longest wait of --stop-attempts",
    example: "5m",
    section: Section::Server,
};

/// `--once`.
pub const ONCE: Setting = Setting {
    noun: "switch",
    flags: &["--once"],
    variables: &["BUTLER_ONCE"],
    kind: Kind::Switch,
    default: "off",
    help: "Make one pass and end: read the repositories, run what can start now, and print what waits",
    example: "true",
    section: Section::Server,
};

/// `--dry-run` of `serve`.
pub const DRY_RUN: Setting = Setting {
    noun: "switch",
    flags: &["--dry-run"],
    variables: &["BUTLER_DRY_RUN"],
    kind: Kind::Switch,
    default: "off",
    help: "With --once: print what the pass would start and what waits; start nothing, and write nothing into the data directory",
    example: "true",
    section: Section::Server,
};

/// `--server`.
pub const SERVER: Setting = Setting {
    noun: "address of the server",
    flags: &["--server"],
    variables: &["BUTLER_SERVER"],
    kind: Kind::Value("URL"),
    default: "http://127.0.0.1:7373",
    help: "The server to ask",
    example: "https://butler.example.com",
    section: Section::Client,
};

/// `--server-token-file`.
pub const SERVER_TOKEN_FILE: Setting = Setting {
    noun: "token file",
    flags: &["--server-token-file"],
    variables: &["BUTLER_SERVER_TOKEN_FILE"],
    kind: Kind::Value("FILE"),
    default: "admin.token in the data directory",
    help: "A file with the token for the server",
    example: "/run/secrets/butler-server-token",
    section: Section::Client,
};

/// `--egress-port` of `generate server`, `follower plan` and `follower apply`.
pub const EGRESS_PORT: Setting = Setting {
    noun: "port",
    flags: &["--egress-port"],
    variables: &["BUTLER_EGRESS_PORT"],
    kind: Kind::Values("PORT"),
    default: "443, 22 and 6443",
    help: "A port that the NetworkPolicy of an installed server allows it to connect to, for repositories, notifications, object stores and the API server; can be repeated, and replaces the default ports. DNS and --database-port are always allowed",
    example: "443",
    section: Section::Installation,
};
