//! Applies the rules for names to the environment variables of a run.

use super::error::VariableError;
use super::name_rules::{Fate, is_harmless, rule};

/// Whether a variable of this name and value may be given to Terraform; if not, `Ok` says what the
/// log has to tell.
///
/// # Errors
/// When the run must not go on with it.
pub(super) fn judge(name: &str, value: &str) -> Result<Option<String>, VariableError> {
    let rule = rule(name);
    let refuse = || VariableError::Refused { name: name.to_owned(), reason: rule.reason };
    match rule.fate {
        Fate::Allowed => Ok(None),
        Fate::OptionsOnly if value.split_whitespace().all(is_harmless) => Ok(None),
        Fate::Ignored => Ok(Some(format!(
            "The environment variable `{name}` of the run is ignored: {}",
            rule.reason
        ))),
        Fate::OptionsOnly | Fate::Refused => Err(refuse()),
    }
}

/// Why a variable of this name and value may not be given to Terraform, if it may not.
pub(in crate::workspace) fn refusal(name: &str, value: &str) -> Option<&'static str> {
    judge(name, value).is_err().then(|| rule(name).reason)
}

#[cfg(test)]
mod tests {
    use super::super::name_rules::NAME_RULES;
    use super::*;

    fn fate(name: &str, value: &str) -> Fate {
        match judge(name, value) {
            Ok(None) => Fate::Allowed,
            Ok(Some(_)) => Fate::Ignored,
            Err(_) => Fate::Refused,
        }
    }

    #[test]
    fn a_name_that_takes_back_a_promise_is_refused_and_others_are_not() {
        for (name, expected) in [
            ("LD_PRELOAD", Fate::Refused),
            ("DYLD_INSERT_LIBRARIES", Fate::Refused),
            ("PATH", Fate::Refused),
            ("PATHS", Fate::Allowed),
            ("GIT_SSH_COMMAND", Fate::Refused),
            ("GIT_CONFIG_COUNT", Fate::Refused),
            ("GIT_AUTHOR_NAME", Fate::Allowed),
            ("GITHUB_TOKEN", Fate::Allowed),
            ("GITLAB_TOKEN", Fate::Allowed),
            ("BASH_FUNC_git%%", Fate::Refused),
            ("BUTLER_TOKEN", Fate::Ignored),
            ("TF_DATA_DIR", Fate::Ignored),
            ("TF_LOG_PATH", Fate::Refused),
            ("TF_LOG_PROVIDER", Fate::Allowed),
            ("TF_VAR_x", Fate::Allowed),
            ("TG_ALL", Fate::Ignored),
            ("TG_ALLOW", Fate::Allowed),
            ("TG_QUEUE_INCLUDE_DIR", Fate::Ignored),
            ("TG_SOURCE_MAP", Fate::Refused),
            ("TG_ENGINE_CACHE_PATH", Fate::Refused),
            ("TG_LOG_LEVEL", Fate::Allowed),
            ("TF_TOKEN_app_terraform_io", Fate::Allowed),
            ("https_proxy", Fate::Allowed),
            ("AWS_SECRET_ACCESS_KEY", Fate::Allowed),
        ] {
            assert_eq!(fate(name, ""), expected, "{name}");
        }
    }

    #[test]
    fn arguments_hold_harmless_options_only() {
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
            let expected = if harmless { Fate::Allowed } else { Fate::Refused };
            assert_eq!(fate("TF_CLI_ARGS_plan", value), expected, "{value}");
        }
    }

    #[test]
    fn every_rule_can_be_reached() {
        for expected in NAME_RULES {
            let example = match expected.name.strip_prefix('*') {
                Some(end) => format!("X{end}"),
                None => expected.name.replace('*', "X"),
            };
            assert_eq!(rule(&example).name, expected.name);
        }
    }
}
