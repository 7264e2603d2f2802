//! Applies the rules for names to the environment variables of a run.

use super::error::VariableError;
use butler_protocol::name_rules::{VariableTreatment, is_harmless, rule_for};

/// Applies the rules to a variable. `Ok(None)` means that it is passed to Terraform. `Ok` with a text means that it is
/// ignored; the text is a line for the log.
///
/// # Errors
/// If the run must not set the variable.
pub(super) fn check_name(name: &str, value: &str) -> Result<Option<String>, VariableError> {
    let rule = rule_for(name);
    let refuse = || VariableError::Refused { name: name.to_owned(), reason: rule.reason };
    match rule.treatment {
        VariableTreatment::Allowed => Ok(None),
        VariableTreatment::OptionsOnly if value.split_whitespace().all(is_harmless) => Ok(None),
        VariableTreatment::Ignored => Ok(Some(format!(
            "The environment variable `{name}` of the run is ignored: {}",
            rule.reason
        ))),
        VariableTreatment::OptionsOnly | VariableTreatment::Refused => Err(refuse()),
    }
}

/// The reason why the variable is refused, if it is.
pub(in crate::workspace) fn refusal(name: &str, value: &str) -> Option<&'static str> {
    check_name(name, value).is_err().then(|| rule_for(name).reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_protocol::name_rules::NAME_RULES;

    fn treatment(name: &str, value: &str) -> VariableTreatment {
        match check_name(name, value) {
            Ok(None) => VariableTreatment::Allowed,
            Ok(Some(_)) => VariableTreatment::Ignored,
            Err(_) => VariableTreatment::Refused,
        }
    }

    #[test]
    fn name_that_breaks_a_guarantee_is_refused() {
        for (name, expected) in [
            ("LD_PRELOAD", VariableTreatment::Refused),
            ("DYLD_INSERT_LIBRARIES", VariableTreatment::Refused),
            ("PATH", VariableTreatment::Refused),
            ("PATHS", VariableTreatment::Allowed),
            ("GIT_SSH_COMMAND", VariableTreatment::Refused),
            ("GIT_CONFIG_COUNT", VariableTreatment::Refused),
            ("GIT_AUTHOR_NAME", VariableTreatment::Allowed),
            ("GITHUB_TOKEN", VariableTreatment::Allowed),
            ("GITLAB_TOKEN", VariableTreatment::Allowed),
            ("BASH_FUNC_git%%", VariableTreatment::Refused),
            ("BUTLER_TOKEN", VariableTreatment::Ignored),
            ("TF_DATA_DIR", VariableTreatment::Ignored),
            ("TF_LOG_PATH", VariableTreatment::Refused),
            ("TF_LOG_PROVIDER", VariableTreatment::Allowed),
            ("TF_VAR_x", VariableTreatment::Allowed),
            ("TG_ALL", VariableTreatment::Ignored),
            ("TG_ALLOW", VariableTreatment::Allowed),
            ("TG_QUEUE_INCLUDE_DIR", VariableTreatment::Ignored),
            ("TG_SOURCE_MAP", VariableTreatment::Refused),
            ("TG_ENGINE_CACHE_PATH", VariableTreatment::Refused),
            ("TG_LOG_LEVEL", VariableTreatment::Allowed),
            ("TF_TOKEN_app_terraform_io", VariableTreatment::Allowed),
            ("https_proxy", VariableTreatment::Allowed),
            ("AWS_SECRET_ACCESS_KEY", VariableTreatment::Allowed),
        ] {
            assert_eq!(treatment(name, ""), expected, "{name}");
        }
    }

    #[test]
    fn arguments_may_only_contain_harmless_options() {
        for (value, harmless) in [
            ("", true),
            ("-parallelism=30 -lock-timeout=5m", true),
            ("-target=module.a[\"b\"]", true),
            ("-destroy", false),
            ("-parallelism=30 -destroy", false),
            ("-parallelism=30\t-state=/tmp/x", false),
            ("-target", false),
            ("-target module.a", false),
            ("'-destroy'", false),
            ("\"-target=x\" -out=y", false),
            ("-lock=false", false),
            ("--destroy", false),
            ("plan", false),
        ] {
            let expected =
                if harmless { VariableTreatment::Allowed } else { VariableTreatment::Refused };
            assert_eq!(treatment("TF_CLI_ARGS_plan", value), expected, "{value}");
        }
    }

    #[test]
    fn every_rule_is_reachable() {
        for expected in NAME_RULES {
            let example = match expected.name.strip_prefix('*') {
                Some(end) => format!("X{end}"),
                None => expected.name.replace('*', "X"),
            };
            assert_eq!(rule_for(&example).name, expected.name);
        }
    }
}
