//! The variables that are read but have no flag: secrets, and those that belong to others.

use super::Variable;

/// All of them, in the order of the README.
pub const VARIABLES: &[&Variable] = &[
    &GIT_TOKEN,
    &GITHUB_TOKEN,
    &CI_JOB_TOKEN,
    &GIT_HOST,
    &SSH_AUTH_SOCK,
    &HOME,
    &TMPDIR,
    &PATH,
    &GITHUB_ACTIONS,
    &KUBERNETES_SERVICE_HOST,
    &NO_COLOR,
];

/// What the fetch of the source inherits beside: proxies and certificates, as every HTTP client
/// reads them.
pub const NETWORK: [&str; 10] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The variables by which CI systems are known, and what these are called.
pub const CI_SYSTEMS: [(&str, &str); 8] = [
    (GITHUB_ACTIONS.name, "GitHub Actions"),
    ("GITLAB_CI", "GitLab CI"),
    ("JENKINS_URL", "Jenkins"),
    ("TF_BUILD", "Azure Pipelines"),
    ("BITBUCKET_BUILD_NUMBER", "Bitbucket Pipelines"),
    ("CIRCLECI", "CircleCI"),
    ("BUILDKITE", "Buildkite"),
    ("TEAMCITY_VERSION", "TeamCity"),
];

/// `BUTLER_GIT_TOKEN`.
pub const GIT_TOKEN: Variable =
    Variable { name: "BUTLER_GIT_TOKEN", help: "A token for the git host, before all others" };
/// `GITHUB_TOKEN`.
pub const GITHUB_TOKEN: Variable =
    Variable { name: "GITHUB_TOKEN", help: "A token for the git host" };
/// `CI_JOB_TOKEN`.
pub const CI_JOB_TOKEN: Variable =
    Variable { name: "CI_JOB_TOKEN", help: "A token for the git host, under GitLab CI" };
/// `BUTLER_GIT_HOST`.
pub const GIT_HOST: Variable = Variable {
    name: "BUTLER_GIT_HOST",
    help: "The only host that gets a token from the environment; by default the repository's",
};
/// `SSH_AUTH_SOCK`.
pub const SSH_AUTH_SOCK: Variable =
    Variable { name: "SSH_AUTH_SOCK", help: "The SSH agent, for ssh repositories" };
/// `HOME`.
pub const HOME: Variable =
    Variable { name: "HOME", help: "For ~/.ssh and the default cache directory" };
/// `TMPDIR`.
pub const TMPDIR: Variable = Variable { name: "TMPDIR", help: "The directory for temporary files" };
/// `PATH`.
pub const PATH: Variable =
    Variable { name: "PATH", help: "Where an installed terraform or tofu is looked for" };
/// `GITHUB_ACTIONS`.
pub const GITHUB_ACTIONS: Variable = Variable {
    name: "GITHUB_ACTIONS",
    help: "With the value true, a grace period of 5s, and secrets are registered as the job's masks",
};
/// `KUBERNETES_SERVICE_HOST`.
pub const KUBERNETES_SERVICE_HOST: Variable =
    Variable { name: "KUBERNETES_SERVICE_HOST", help: "A grace period of 20s" };
/// `NO_COLOR`.
pub const NO_COLOR: Variable =
    Variable { name: "NO_COLOR", help: "No colours in the runner's own log" };
