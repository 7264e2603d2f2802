//! Variables without a flag: secrets, and variables of other programs.

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
    &NO_OUTPUTS_FILE,
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
    &CI_SERVER_HOST,
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
    &TENV_GITHUB_TOKEN,
    &OTLP_ENDPOINT,
    &OTLP_TRACES_ENDPOINT,
    &OTLP_METRICS_ENDPOINT,
    &OTLP_PROTOCOL,
    &OTEL_SERVICE_NAME,
    &OTEL_SDK_DISABLED,
    &TRACEPARENT,
];

/// Further variables that the fetch of the source inherits: proxies and certificates.
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
pub const GIT_TOKEN: Variable = Variable {
    name: "BUTLER_GIT_TOKEN",
    help: "A token for the git host; overrides all other tokens",
};
/// `GITHUB_TOKEN`.
pub const GITHUB_TOKEN: Variable = Variable {
    name: "GITHUB_TOKEN",
    help: "A token for the git host; also for the list of versions at api.github.com, unless GITHUB_SERVER_URL names another host",
};
/// `TENV_GITHUB_TOKEN`.
pub const TENV_GITHUB_TOKEN: Variable = Variable {
    name: "TENV_GITHUB_TOKEN",
    help: "A token for the list of versions at api.github.com, before GITHUB_TOKEN",
};
/// `CI_JOB_TOKEN`.
pub const CI_JOB_TOKEN: Variable =
    Variable { name: "CI_JOB_TOKEN", help: "A token for the git host, in GitLab CI" };
/// `BUTLER_GIT_HOST`.
pub const GIT_HOST: Variable = Variable {
    name: "BUTLER_GIT_HOST",
    help: "The only host that gets a token from the environment; by default the CI system's for its own token, else the repository's",
};
/// `BUTLER_CI_TOKEN`.
pub const CI_TOKEN: Variable = Variable {
    name: "BUTLER_CI_TOKEN",
    help: "The credential for the CI system that trigger and ci-status use if no reference names one: a token, or the private key of a GitHub App",
};
/// `BUTLER_CI_API_TOKEN`.
pub const CI_API_TOKEN: Variable = Variable {
    name: "BUTLER_CI_API_TOKEN",
    help: "An access token that can read GitLab pipelines, in addition to the trigger token",
};
/// `SSH_AUTH_SOCK`.
pub const SSH_AUTH_SOCK: Variable =
    Variable { name: "SSH_AUTH_SOCK", help: "The SSH agent, for ssh repositories" };
/// `HOME`.
pub const HOME: Variable =
    Variable { name: "HOME", help: "The parent of ~/.ssh and of the default cache directory" };
/// `TMPDIR`.
pub const TMPDIR: Variable = Variable { name: "TMPDIR", help: "The directory for temporary files" };
/// `PATH`.
pub const PATH: Variable =
    Variable { name: "PATH", help: "The search path for an installed terraform or tofu" };
/// `BUTLER_NO_SELF_UPDATE`.
pub const NO_SELF_UPDATE: Variable = Variable {
    name: "BUTLER_NO_SELF_UPDATE",
    help: "The reason why `self update` must not replace the executable, and the alternative; set by images and packages",
};
/// `BUTLER_NO_OUTPUTS_FILE`.
pub const NO_OUTPUTS_FILE: Variable = Variable {
    name: "BUTLER_NO_OUTPUTS_FILE",
    help: "If set, --report-dir does not contain outputs.json, which has sensitive outputs in clear text; set by the server",
};
/// `BUTLER_COMPLETE`.
pub const COMPLETE: Variable = Variable {
    name: "BUTLER_COMPLETE",
    help: "The shell that requests completions; set by the scripts of `completions`",
};
/// `GITHUB_ACTIONS`.
pub const GITHUB_ACTIONS: Variable = Variable {
    name: "GITHUB_ACTIONS",
    help: "If true, the grace period is 5s and secrets are registered as masks of the job",
};
/// `GITHUB_STEP_SUMMARY`.
pub const GITHUB_STEP_SUMMARY: Variable = Variable {
    name: "GITHUB_STEP_SUMMARY",
    help: "The file for the summary of the step, in GitHub Actions",
};
/// `GITHUB_OUTPUT`.
pub const GITHUB_OUTPUT: Variable = Variable {
    name: "GITHUB_OUTPUT",
    help: "The file for the outputs of the step, in GitHub Actions",
};
/// `GITHUB_WORKSPACE`.
pub const GITHUB_WORKSPACE: Variable = Variable {
    name: "GITHUB_WORKSPACE",
    help: "The directory of the job's repository, for the file names in annotations, in GitHub Actions",
};
/// `GITHUB_REPOSITORY`.
pub const GITHUB_REPOSITORY: Variable = Variable {
    name: "GITHUB_REPOSITORY",
    help: "The job's repository; annotations only name files of this repository",
};
/// `GITHUB_SERVER_URL`.
pub const GITHUB_SERVER_URL: Variable = Variable {
    name: "GITHUB_SERVER_URL",
    help: "The host of the job's repository: the only one that gets GITHUB_TOKEN; annotations only name files on this host",
};
/// `GITHUB_SHA`.
pub const GITHUB_SHA: Variable = Variable {
    name: "GITHUB_SHA",
    help: "The job's commit; annotations only name files of this commit",
};
/// `GITHUB_EVENT_PATH`.
pub const GITHUB_EVENT_PATH: Variable = Variable {
    name: "GITHUB_EVENT_PATH",
    help: "Not passed to Terraform if the file contains the callback token",
};
/// `BUILD_SOURCESDIRECTORY`.
pub const BUILD_SOURCESDIRECTORY: Variable = Variable {
    name: "BUILD_SOURCESDIRECTORY",
    help: "The same as GITHUB_WORKSPACE, in Azure Pipelines",
};
/// `BUILD_REPOSITORY_NAME`.
pub const BUILD_REPOSITORY_NAME: Variable = Variable {
    name: "BUILD_REPOSITORY_NAME",
    help: "The same as GITHUB_REPOSITORY, in Azure Pipelines",
};
/// `BUILD_REPOSITORY_URI`.
pub const BUILD_REPOSITORY_URI: Variable = Variable {
    name: "BUILD_REPOSITORY_URI",
    help: "The same as GITHUB_SERVER_URL, in Azure Pipelines",
};
/// `BUILD_SOURCEVERSION`.
pub const BUILD_SOURCEVERSION: Variable =
    Variable { name: "BUILD_SOURCEVERSION", help: "The same as GITHUB_SHA, in Azure Pipelines" };
/// `CI_PROJECT_DIR`.
pub const CI_PROJECT_DIR: Variable = Variable {
    name: "CI_PROJECT_DIR",
    help: "The parent of the directory butler-report, which holds the files for GitLab if --report-dir is not set",
};
/// `CI_SERVER_HOST`.
pub const CI_SERVER_HOST: Variable = Variable {
    name: "CI_SERVER_HOST",
    help: "The host of GitLab: the only one that gets CI_JOB_TOKEN",
};
/// `KUBERNETES_SERVICE_HOST`.
pub const KUBERNETES_SERVICE_HOST: Variable =
    Variable { name: "KUBERNETES_SERVICE_HOST", help: "If set, the grace period is 20s" };
/// `KUBECONFIG`.
pub const KUBECONFIG: Variable = Variable {
    name: "KUBECONFIG",
    help: "The file with cluster configurations for --apply and trigger kubernetes; by default ~/.kube/config",
};
/// `NO_COLOR`.
pub const NO_COLOR: Variable =
    Variable { name: "NO_COLOR", help: "Disables colours; overrides all other settings" };
/// `CLICOLOR_FORCE`.
pub const CLICOLOR_FORCE: Variable = Variable {
    name: "CLICOLOR_FORCE",
    help: "Enables colours without a terminal, unless the value is 0 or false",
};
/// `FORCE_COLOR`.
pub const FORCE_COLOR: Variable =
    Variable { name: "FORCE_COLOR", help: "The same as CLICOLOR_FORCE" };
/// `BUTLER_MIRROR_USER`.
pub const MIRROR_USER: Variable = Variable {
    name: "BUTLER_MIRROR_USER",
    help: "The user name for the mirror, with BUTLER_MIRROR_PASSWORD",
};
/// `BUTLER_MIRROR_PASSWORD`.
pub const MIRROR_PASSWORD: Variable = Variable {
    name: "BUTLER_MIRROR_PASSWORD",
    help: "The password for the mirror; only sent to the mirror's origin",
};
/// `BUTLER_MIRROR_TOKEN`.
pub const MIRROR_TOKEN: Variable = Variable {
    name: "BUTLER_MIRROR_TOKEN",
    help: "A bearer token for the mirror, instead of user name and password; only sent to the mirror's origin",
};
/// `NETRC`.
pub const NETRC: Variable = Variable {
    name: "NETRC",
    help: "A file with logins by host, for mirrors without another login; by default ~/.netrc",
};
/// `TFENV_REMOTE`.
pub const TFENV_REMOTE: Variable = Variable {
    name: "TFENV_REMOTE",
    help: "A mirror for Terraform, in the format of tfenv and tenv; used if --mirror is not set",
};
/// `TFENV_REMOTE_USER`.
pub const TFENV_REMOTE_USER: Variable =
    Variable { name: "TFENV_REMOTE_USER", help: "The user name for this mirror" };
/// `TFENV_REMOTE_PASSWORD`.
pub const TFENV_REMOTE_PASSWORD: Variable =
    Variable { name: "TFENV_REMOTE_PASSWORD", help: "The password for this mirror" };
/// `TFENV_HASHICORP_PGP_KEY`.
pub const TFENV_HASHICORP_PGP_KEY: Variable = Variable {
    name: "TFENV_HASHICORP_PGP_KEY",
    help: "A file with an additional signing key to trust for Terraform",
};
/// `ATLANTIS_TF_DOWNLOAD_URL`.
pub const ATLANTIS_TF_DOWNLOAD_URL: Variable = Variable {
    name: "ATLANTIS_TF_DOWNLOAD_URL",
    help: "A mirror for Terraform, in the format of Atlantis; used if neither --mirror nor TFENV_REMOTE is set",
};
/// `TOFUENV_URL_TEMPLATE`.
pub const TOFUENV_URL_TEMPLATE: Variable = Variable {
    name: "TOFUENV_URL_TEMPLATE",
    help: "A URL template for OpenTofu's files, in the format of tenv; used if --mirror is not set",
};
/// `TOFUENV_REMOTE`.
pub const TOFUENV_REMOTE: Variable = Variable {
    name: "TOFUENV_REMOTE",
    help: "A mirror for OpenTofu, in the format of tofuenv and tenv; used if neither --mirror nor TOFUENV_URL_TEMPLATE is set",
};
/// `TOFUENV_REMOTE_USER`.
pub const TOFUENV_REMOTE_USER: Variable =
    Variable { name: "TOFUENV_REMOTE_USER", help: "The user name for this mirror" };
/// `TOFUENV_REMOTE_PASSWORD`.
pub const TOFUENV_REMOTE_PASSWORD: Variable =
    Variable { name: "TOFUENV_REMOTE_PASSWORD", help: "The password for this mirror" };
/// `TOFUENV_OPENTOFU_PGP_KEY`.
pub const TOFUENV_OPENTOFU_PGP_KEY: Variable = Variable {
    name: "TOFUENV_OPENTOFU_PGP_KEY",
    help: "A file with an additional signing key to trust for OpenTofu",
};
/// `TG_REMOTE`.
pub const TG_REMOTE: Variable = Variable {
    name: "TG_REMOTE",
    help: "A mirror for Terragrunt, in the format of tenv; used if --mirror is not set",
};
/// `TG_REMOTE_USER`.
pub const TG_REMOTE_USER: Variable =
    Variable { name: "TG_REMOTE_USER", help: "The user name for this mirror" };
/// `TG_REMOTE_PASSWORD`.
pub const TG_REMOTE_PASSWORD: Variable =
    Variable { name: "TG_REMOTE_PASSWORD", help: "The password for this mirror" };
/// `TERM`.
pub const TERM: Variable = Variable {
    name: "TERM",
    help: "The type of the terminal; dumb disables colours and the live line",
};
/// `COLORTERM`.
pub const COLORTERM: Variable =
    Variable { name: "COLORTERM", help: "Indicates that the terminal supports colours" };
/// `OTEL_EXPORTER_OTLP_ENDPOINT`.
pub const OTLP_ENDPOINT: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    help: "The OpenTelemetry collector that receives phases, requests and durations; nothing is exported without it",
};
/// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
pub const OTLP_TRACES_ENDPOINT: Variable =
    Variable { name: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", help: "The endpoint for traces only" };
/// `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`.
pub const OTLP_METRICS_ENDPOINT: Variable =
    Variable { name: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", help: "The endpoint for metrics only" };
/// `OTEL_EXPORTER_OTLP_PROTOCOL`.
pub const OTLP_PROTOCOL: Variable = Variable {
    name: "OTEL_EXPORTER_OTLP_PROTOCOL",
    help: "The protocol of the collector; nothing is exported unless it is http/protobuf",
};
/// `OTEL_SERVICE_NAME`.
pub const OTEL_SERVICE_NAME: Variable = Variable {
    name: "OTEL_SERVICE_NAME",
    help: "The service name of the runner; by default butler-runner",
};
/// `OTEL_SDK_DISABLED`.
pub const OTEL_SDK_DISABLED: Variable =
    Variable { name: "OTEL_SDK_DISABLED", help: "If true, nothing is exported" };
/// `TRACEPARENT`.
pub const TRACEPARENT: Variable = Variable {
    name: "TRACEPARENT",
    help: "The parent of the run's trace (W3C Trace Context); Terraform receives the trace context of the run",
};
