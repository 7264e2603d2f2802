//! The variables that are read but have no flag: secrets, and those that belong to others.

use super::Variable;

/// The prefix of the runner's own variables; the runner removes them from the environment of children.
pub(super) const OWN_PREFIX: &[u8] = b"BUTLER_";

/// All of them, in the order of docs/settings.md.
pub const VARIABLES: &[&Variable] = &[
    &GIT_TOKEN,
    &GITHUB_TOKEN,
    &CI_JOB_TOKEN,
    &GIT_HOST,
    &CI_TOKEN,
    &CI_API_TOKEN,
    &SSH_AUTH_SOCK,
    &HOME,
    &TMPDIR,
    &PATH,
    &NO_SELF_UPDATE,
    &COMPLETE,
    &GITHUB_ACTIONS,
    &GITHUB_STEP_SUMMARY,
    &GITHUB_OUTPUT,
    &GITHUB_WORKSPACE,
    &GITHUB_REPOSITORY,
    &GITHUB_SERVER_URL,
    &GITHUB_SHA,
    &GITHUB_EVENT_PATH,
    &BUILD_SOURCESDIRECTORY,
    &BUILD_REPOSITORY_NAME,
    &BUILD_REPOSITORY_URI,
    &BUILD_SOURCEVERSION,
    &CI_PROJECT_DIR,
    &KUBERNETES_SERVICE_HOST,
    &KUBECONFIG,
    &NO_COLOR,
    &CLICOLOR_FORCE,
    &FORCE_COLOR,
    &TERM,
    &COLORTERM,
    &MIRROR_USER,
    &MIRROR_PASSWORD,
    &MIRROR_TOKEN,
    &NETRC,
    &TFENV_REMOTE,
    &TFENV_REMOTE_USER,
    &TFENV_REMOTE_PASSWORD,
    &TFENV_HASHICORP_PGP_KEY,
    &ATLANTIS_TF_DOWNLOAD_URL,
    &TOFUENV_URL_TEMPLATE,
    &TOFUENV_REMOTE,
    &TOFUENV_REMOTE_USER,
    &TOFUENV_REMOTE_PASSWORD,
    &TOFUENV_OPENTOFU_PGP_KEY,
    &TG_REMOTE,
    &TG_REMOTE_USER,
    &TG_REMOTE_PASSWORD,
    &OTLP_ENDPOINT,
    &OTLP_TRACES_ENDPOINT,
    &OTLP_METRICS_ENDPOINT,
    &OTLP_PROTOCOL,
    &OTEL_SERVICE_NAME,
    &OTEL_SDK_DISABLED,
    &TRACEPARENT,
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
/// `BUTLER_CI_TOKEN`.
pub const CI_TOKEN: Variable = Variable {
    name: "BUTLER_CI_TOKEN",
    help: "What trigger and ci-status log in to the CI system with, where no reference names it: a token, or the private key of a GitHub App",
};
/// `BUTLER_CI_API_TOKEN`.
pub const CI_API_TOKEN: Variable = Variable {
    name: "BUTLER_CI_API_TOKEN",
    help: "An access token that reads GitLab's pipelines, beside the trigger token",
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
/// `BUTLER_NO_SELF_UPDATE`.
pub const NO_SELF_UPDATE: Variable = Variable {
    name: "BUTLER_NO_SELF_UPDATE",
    help: "Why `self update` must not replace the executable, and what to do instead; set by images and packages",
};
/// `BUTLER_COMPLETE`.
pub const COMPLETE: Variable = Variable {
    name: "BUTLER_COMPLETE",
    help: "The shell that asks what it can complete; set by the scripts of `completions`",
};
/// `GITHUB_ACTIONS`.
pub const GITHUB_ACTIONS: Variable = Variable {
    name: "GITHUB_ACTIONS",
    help: "With the value true, a grace period of 5s, and secrets are registered as the job's masks",
};
/// `GITHUB_STEP_SUMMARY`.
pub const GITHUB_STEP_SUMMARY: Variable = Variable {
    name: "GITHUB_STEP_SUMMARY",
    help: "Where the summary of the step goes, under GitHub Actions",
};
/// `GITHUB_OUTPUT`.
pub const GITHUB_OUTPUT: Variable = Variable {
    name: "GITHUB_OUTPUT",
    help: "Where the outputs of the step go, under GitHub Actions",
};
/// `GITHUB_WORKSPACE`.
pub const GITHUB_WORKSPACE: Variable = Variable {
    name: "GITHUB_WORKSPACE",
    help: "Where the job has its repository, for the files of annotations, under GitHub Actions",
};
/// `GITHUB_REPOSITORY`.
pub const GITHUB_REPOSITORY: Variable = Variable {
    name: "GITHUB_REPOSITORY",
    help: "Which repository that is: annotations name files of no other",
};
/// `GITHUB_SERVER_URL`.
pub const GITHUB_SERVER_URL: Variable = Variable {
    name: "GITHUB_SERVER_URL",
    help: "Where that repository is: annotations name files of no other host",
};
/// `GITHUB_SHA`.
pub const GITHUB_SHA: Variable = Variable {
    name: "GITHUB_SHA",
    help: "Which commit the job is for: annotations name files of no other",
};
/// `GITHUB_EVENT_PATH`.
pub const GITHUB_EVENT_PATH: Variable = Variable {
    name: "GITHUB_EVENT_PATH",
    help: "Kept from Terraform where that file holds the callback token",
};
/// `BUILD_SOURCESDIRECTORY`.
pub const BUILD_SOURCESDIRECTORY: Variable = Variable {
    name: "BUILD_SOURCESDIRECTORY",
    help: "The same as GITHUB_WORKSPACE, under Azure Pipelines",
};
/// `BUILD_REPOSITORY_NAME`.
pub const BUILD_REPOSITORY_NAME: Variable = Variable {
    name: "BUILD_REPOSITORY_NAME",
    help: "The same as GITHUB_REPOSITORY, under Azure Pipelines",
};
/// `BUILD_REPOSITORY_URI`.
pub const BUILD_REPOSITORY_URI: Variable = Variable {
    name: "BUILD_REPOSITORY_URI",
    help: "The same as GITHUB_SERVER_URL, under Azure Pipelines",
};
/// `BUILD_SOURCEVERSION`.
pub const BUILD_SOURCEVERSION: Variable =
    Variable { name: "BUILD_SOURCEVERSION", help: "The same as GITHUB_SHA, under Azure Pipelines" };
/// `CI_PROJECT_DIR`.
pub const CI_PROJECT_DIR: Variable = Variable {
    name: "CI_PROJECT_DIR",
    help: "Where files for GitLab go without --report-dir: butler-report in it",
};
/// `KUBERNETES_SERVICE_HOST`.
pub const KUBERNETES_SERVICE_HOST: Variable =
    Variable { name: "KUBERNETES_SERVICE_HOST", help: "A grace period of 20s" };
/// `KUBECONFIG`.
pub const KUBECONFIG: Variable = Variable {
    name: "KUBECONFIG",
    help: "Where clusters for --apply and trigger kubernetes are described; by default ~/.kube/config",
};
/// `NO_COLOR`.
pub const NO_COLOR: Variable =
    Variable { name: "NO_COLOR", help: "No colours, whatever else is set" };
/// `CLICOLOR_FORCE`.
pub const CLICOLOR_FORCE: Variable = Variable {
    name: "CLICOLOR_FORCE",
    help: "With a value but 0 or false, colours also where no terminal is",
};
/// `FORCE_COLOR`.
pub const FORCE_COLOR: Variable = Variable { name: "FORCE_COLOR", help: "The same" };
/// `BUTLER_MIRROR_USER`.
pub const MIRROR_USER: Variable = Variable {
    name: "BUTLER_MIRROR_USER",
    help: "Who asks at the mirror, with BUTLER_MIRROR_PASSWORD",
};
/// `BUTLER_MIRROR_PASSWORD`.
pub const MIRROR_PASSWORD: Variable = Variable {
    name: "BUTLER_MIRROR_PASSWORD",
    help: "The password for it; sent to the mirror's origin only",
};
/// `BUTLER_MIRROR_TOKEN`.
pub const MIRROR_TOKEN: Variable = Variable {
    name: "BUTLER_MIRROR_TOKEN",
    help: "A bearer token for the mirror, instead; sent to the mirror's origin only",
};
/// `NETRC`.
pub const NETRC: Variable = Variable {
    name: "NETRC",
    help: "A file with logins by host, for mirrors that have no other; by default ~/.netrc",
};
/// `TFENV_REMOTE`.
pub const TFENV_REMOTE: Variable = Variable {
    name: "TFENV_REMOTE",
    help: "A mirror for Terraform, as tfenv and tenv read it, where there is no --mirror",
};
/// `TFENV_REMOTE_USER`.
pub const TFENV_REMOTE_USER: Variable =
    Variable { name: "TFENV_REMOTE_USER", help: "Who asks at that mirror" };
/// `TFENV_REMOTE_PASSWORD`.
pub const TFENV_REMOTE_PASSWORD: Variable =
    Variable { name: "TFENV_REMOTE_PASSWORD", help: "The password for it" };
/// `TFENV_HASHICORP_PGP_KEY`.
pub const TFENV_HASHICORP_PGP_KEY: Variable = Variable {
    name: "TFENV_HASHICORP_PGP_KEY",
    help: "A file with a further key that may sign Terraform",
};
/// `ATLANTIS_TF_DOWNLOAD_URL`.
pub const ATLANTIS_TF_DOWNLOAD_URL: Variable = Variable {
    name: "ATLANTIS_TF_DOWNLOAD_URL",
    help: "A mirror for Terraform, as Atlantis reads it, where there is neither --mirror nor TFENV_REMOTE",
};
/// `TOFUENV_URL_TEMPLATE`.
pub const TOFUENV_URL_TEMPLATE: Variable = Variable {
    name: "TOFUENV_URL_TEMPLATE",
    help: "Where files of OpenTofu are, as tenv reads it, where there is no --mirror",
};
/// `TOFUENV_REMOTE`.
pub const TOFUENV_REMOTE: Variable = Variable {
    name: "TOFUENV_REMOTE",
    help: "A mirror for OpenTofu, as tofuenv and tenv read it, where there is neither --mirror nor TOFUENV_URL_TEMPLATE",
};
/// `TOFUENV_REMOTE_USER`.
pub const TOFUENV_REMOTE_USER: Variable =
    Variable { name: "TOFUENV_REMOTE_USER", help: "Who asks at that mirror" };
/// `TOFUENV_REMOTE_PASSWORD`.
pub const TOFUENV_REMOTE_PASSWORD: Variable =
    Variable { name: "TOFUENV_REMOTE_PASSWORD", help: "The password for it" };
/// `TOFUENV_OPENTOFU_PGP_KEY`.
pub const TOFUENV_OPENTOFU_PGP_KEY: Variable = Variable {
    name: "TOFUENV_OPENTOFU_PGP_KEY",
    help: "A file with a further key that may sign OpenTofu",
};
/// `TG_REMOTE`.
pub const TG_REMOTE: Variable = Variable {
    name: "TG_REMOTE",
    help: "A mirror for Terragrunt, as tenv reads it, where there is no --mirror",
};
/// `TG_REMOTE_USER`.
pub const TG_REMOTE_USER: Variable =
    Variable { name: "TG_REMOTE_USER", help: "Who asks at that mirror" };
/// `TG_REMOTE_PASSWORD`.
pub const TG_REMOTE_PASSWORD: Variable =
    Variable { name: "TG_REMOTE_PASSWORD", help: "The password for it" };
/// `TERM`.
pub const TERM: Variable = Variable {
    name: "TERM",
    help: "What the terminal can: with the value dumb neither colours nor a live line",
};
/// `COLORTERM`.
pub const COLORTERM: Variable =
    Variable { name: "COLORTERM", help: "Says of a terminal that it has colours" };
/// `OTEL_EXPORTER_OTLP_ENDPOINT`.
pub const OTLP_ENDPOINT: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    help: "An OpenTelemetry collector that is told of phases, requests and durations; without one nothing is told",
};
/// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
pub const OTLP_TRACES_ENDPOINT: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    help: "Another address for traces alone",
};
/// `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`.
pub const OTLP_METRICS_ENDPOINT: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    help: "Another address for metrics alone",
};
/// `OTEL_EXPORTER_OTLP_PROTOCOL`.
pub const OTLP_PROTOCOL: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_PROTOCOL",
    help: "What the collector speaks; with anything but http/protobuf nothing is told",
};
/// `OTEL_SERVICE_NAME`.
pub const OTEL_SERVICE_NAME: Variable = Variable {
    name: "OTEL_SERVICE_NAME",
    help: "What the runner is called there; by default butler-runner",
};
/// `OTEL_SDK_DISABLED`.
pub const OTEL_SDK_DISABLED: Variable =
    Variable { name: "OTEL_SDK_DISABLED", help: "With the value true, nothing is told" };
/// `TRACEPARENT`.
pub const TRACEPARENT: Variable = Variable {
    name: "TRACEPARENT",
    help: "What the run is a part of (W3C Trace Context); Terraform gets the run's own",
};
