//! Rules for the names of the environment variables that a run may set.
//!
//! A module is code, so these rules do not isolate it. They prevent a run's configuration from breaking
//! the guarantees of the runner: the tool is the verified one, its output is masked, its files are
//! deleted, and logins are only sent to their hosts. Users who start the runner may set any
//! of these names in the runner's environment; these rules do not apply there.

/// How the runner treats a variable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VariableTreatment {
    /// It is passed to Terraform.
    Allowed,
    /// It is passed to Terraform if it only contains [`HARMLESS_OPTIONS`].
    OptionsOnly,
    /// It is not passed to Terraform, and the log contains a line about it.
    Ignored,
    /// The run fails before it fetches the source.
    Refused,
}

/// A rule for a name, or for all names with the same beginning or end.
#[derive(Clone, Copy, Debug)]
pub struct NameRule {
    /// The name. `*` at the end or beginning matches any text.
    pub name: &'static str,
    /// How the runner treats the variable.
    pub treatment: VariableTreatment,
    /// The reason, as the end of a sentence.
    pub reason: &'static str,
}

const fn refused(name: &'static str, reason: &'static str) -> NameRule {
    NameRule { name, treatment: VariableTreatment::Refused, reason }
}

const fn ignored(name: &'static str, reason: &'static str) -> NameRule {
    NameRule { name, treatment: VariableTreatment::Ignored, reason }
}

const fn allowed(name: &'static str, reason: &'static str) -> NameRule {
    NameRule { name, treatment: VariableTreatment::Allowed, reason }
}

const LOADER: &str = "it loads other code into the verified tool, git, and ssh";
const SHELL: &str = "it changes the behaviour of shells that git and Terraform start";
const GIT: &str =
    "it decides to which hosts git and ssh connect, and which of them receive the logins";
const PROVIDERS: &str = "it decides where providers come from, and how they are checked";
const TERRAGRUNT: &str = "it makes Terragrunt start other commands, or leave the clone";
const ENGINE: &str = "it makes Terragrunt run another program than the verified tool";
const ONE_UNIT: &str = "a run is one unit";
const TRACES: &str = "it writes unmasked traces to a file that is not deleted";

/// All rules. The first one that matches is applied.
pub const NAME_RULES: &[NameRule] = &[
    ignored("BUTLER_*", "it is a setting of the runner, which reads none from the run"),
    refused("LD_*", LOADER),
    refused("DYLD_*", LOADER),
    refused("GCONV_PATH", LOADER),
    refused("GLIBC_TUNABLES", LOADER),
    refused("OPENSSL_*", LOADER),
    refused("PATH", "it decides which git, ssh and shell are started"),
    refused("BASH_ENV", SHELL),
    refused("BASH_FUNC_*", SHELL),
    refused("BASHOPTS", SHELL),
    refused("SHELLOPTS", SHELL),
    refused("IFS", SHELL),
    refused("PS4", SHELL),
    allowed("GIT_AUTHOR_*", "it only names a person"),
    allowed("GIT_COMMITTER_*", "it only names a person"),
    ignored("GIT_TERMINAL_PROMPT", "no user can answer a question during a run"),
    refused("GIT_*", GIT),
    refused("SSH_ASKPASS*", GIT),
    refused("SSH_AUTH_SOCK", GIT),
    refused("SSH_PKCS11_HELPER", GIT),
    refused("SSH_SK_*", GIT),
    NameRule {
        name: "TF_CLI_ARGS*",
        treatment: VariableTreatment::OptionsOnly,
        reason: "other options change what is planned, where state is kept or what is printed",
    },
    refused("TF_CLI_CONFIG_FILE", PROVIDERS),
    refused("TERRAFORM_CONFIG", PROVIDERS),
    refused("TOFU_CLI_CONFIG_FILE", PROVIDERS),
    refused("TF_PLUGIN_CACHE_*", PROVIDERS),
    refused("TF_REATTACH_PROVIDERS", PROVIDERS),
    ignored("TF_DATA_DIR", "the data directory is the run's own, and wiped"),
    refused("TF_LOG_PATH*", TRACES),
    refused("TF_TEMP_LOG_PATH", TRACES),
    ignored("TF_INPUT", "no user can answer a question during a run"),
    ignored("TF_IN_AUTOMATION", "the runner sets it"),
    refused("TG_AUTH_PROVIDER_CMD", TERRAGRUNT),
    refused("TERRAGRUNT_AUTH_PROVIDER_CMD", TERRAGRUNT),
    refused("TG_WORKING_DIR", TERRAGRUNT),
    refused("TERRAGRUNT_WORKING_DIR", TERRAGRUNT),
    refused("TG_CONFIG", TERRAGRUNT),
    refused("TERRAGRUNT_CONFIG", TERRAGRUNT),
    refused("TG_SOURCE*", TERRAGRUNT),
    refused("TERRAGRUNT_SOURCE*", TERRAGRUNT),
    refused("TG_EXPERIMENTAL_ENGINE*", ENGINE),
    refused("TERRAGRUNT_EXPERIMENTAL_ENGINE*", ENGINE),
    refused("TG_ENGINE_*", ENGINE),
    refused("TERRAGRUNT_ENGINE_*", ENGINE),
    ignored("TG_ALL", ONE_UNIT),
    ignored("TG_GRAPH*", ONE_UNIT),
    ignored("TG_FILTER*", ONE_UNIT),
    ignored("TG_NO_FILTER*", ONE_UNIT),
    ignored("TG_QUEUE_*", ONE_UNIT),
    refused("TG_PROVIDER_CACHE*", PROVIDERS),
    refused("TERRAGRUNT_PROVIDER_CACHE*", PROVIDERS),
    allowed("TF_VAR_*", "it is an input variable of the module"),
    allowed("TF_WORKSPACE", "it chooses among the states of one backend"),
    allowed("TF_LOG*", "what it adds to the log is masked like the rest"),
    allowed("HOME", "it is for Terraform and the module; the runner uses its own"),
    allowed("ENV", "only interactive shells read it"),
    allowed("*_PROXY", "it is for Terraform and git; the runner uses its own"),
    allowed("SSL_CERT_*", "it is for Terraform and git; the runner uses its own"),
    allowed("*", "it is the module's and its providers' own"),
];

/// The options that a run may give to Terraform in `TF_CLI_ARGS*`. None of them takes the
/// next word as its value: otherwise an option of the run could swallow an option of the runner.
pub const HARMLESS_OPTIONS: &[&str] = &[
    "-compact-warnings",
    "-exclude=",
    "-lock-timeout=",
    "-no-color",
    "-parallelism=",
    "-refresh=",
    "-replace=",
    "-target=",
    "-upgrade",
];

/// The rule for `name`: the first one that matches.
///
/// # Panics
/// Never: the last rule matches every name.
#[must_use]
pub fn rule_for(name: &str) -> &'static NameRule {
    let matches =
        |rule: &&NameRule| match (rule.name.strip_prefix('*'), rule.name.strip_suffix('*')) {
            (Some(end), _) => name.to_ascii_uppercase().ends_with(end),
            (None, Some(beginning)) => name.starts_with(beginning),
            (None, None) => name == rule.name,
        };
    NAME_RULES.iter().find(matches).expect("the last rule matches every name")
}

/// Whether a word is one of [`HARMLESS_OPTIONS`], with its value if it has one.
#[must_use]
pub fn is_harmless(word: &str) -> bool {
    HARMLESS_OPTIONS.iter().any(|option| {
        if option.ends_with('=') { word.starts_with(option) } else { word == *option }
    })
}
