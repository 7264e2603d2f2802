//! Terraform or `OpenTofu` behind Terragrunt: the commands stay theirs, the program is Terragrunt.
//!
//! What differs from version to version of Terragrunt stands in the tables below, and nowhere else:
//! its settings lost the prefix `TERRAGRUNT_` with 0.73, and since 0.88 arguments go to the tool
//! behind `run --` only. It is told not to do on its own what the runner does (`init`, trying
//! again), to hand the tool's output on as it is, and to keep its copies of a clone in the run's
//! directory. In a directory of the user's own they stay where Terragrunt has them: there may be a
//! state in them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use semver::Version;

use butler_base::process::Environment;
use butler_protocol::spec::ToolRequest;

/// The oldest version that can be kept from asking questions and from `init`s of its own.
pub const OLDEST_WRAPPER: Version = Version::new(0, 48, 7);

/// The first version whose settings begin with `TG_`.
const SHORT_NAMES: Version = Version::new(0, 73, 0);

/// The first version that hands arguments on behind `run --` only, whatever the command.
const RUN_COMMAND: Version = Version::new(0, 88, 0);

/// What a setting is set to.
#[derive(Clone, Copy)]
enum Value {
    /// The executable of the tool behind it.
    Tool,
    /// Where it keeps its copies.
    Downloads,
    True,
}

/// The names of its settings, present and former.
const SETTINGS: [(&str, &str, Value); 7] = [
    ("TG_TF_PATH", "TERRAGRUNT_TFPATH", Value::Tool),
    ("TG_DOWNLOAD_DIR", "TERRAGRUNT_DOWNLOAD", Value::Downloads),
    ("TG_NON_INTERACTIVE", "TERRAGRUNT_NON_INTERACTIVE", Value::True),
    ("TG_NO_AUTO_INIT", "TERRAGRUNT_NO_AUTO_INIT", Value::True),
    ("TG_NO_AUTO_RETRY", "TERRAGRUNT_NO_AUTO_RETRY", Value::True),
    ("TG_NO_COLOR", "TERRAGRUNT_NO_COLOR", Value::True),
    // As JSON, `show` and `output` must not be mixed with lines of its log.
    ("TG_TF_FORWARD_STDOUT", "TERRAGRUNT_FORWARD_TF_STDOUT", Value::True),
];

/// What would make it run the command in other units too, or in another one. With `*` at its end it
/// is what names begin with.
const STACKS: [&str; 12] = [
    "TG_ALL",
    "TG_GRAPH*",
    "TG_FILTER*",
    "TG_NO_FILTER*",
    "TG_QUEUE_*",
    "TERRAGRUNT_ALL",
    "TERRAGRUNT_GRAPH*",
    "TERRAGRUNT_FILTER*",
    "TERRAGRUNT_QUEUE_*",
    "TERRAGRUNT_INCLUDE_*",
    "TERRAGRUNT_EXCLUDE_*",
    "TERRAGRUNT_STRICT_INCLUDE",
];

/// Terragrunt around a tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wrapper {
    /// Terragrunt's own version.
    pub version: Version,
    /// Its executable.
    pub program: PathBuf,
    /// Where it keeps its copies of modules, in which it runs the tool; none where that is left to
    /// it and the user.
    pub downloads: Option<PathBuf>,
}

impl Wrapper {
    /// The arguments that make it run the tool with `arguments`.
    pub(super) fn arguments(&self, arguments: Vec<OsString>) -> Vec<OsString> {
        if self.version < RUN_COMMAND {
            return arguments;
        }
        ["run", "--"].into_iter().map(OsString::from).chain(arguments).collect()
    }

    /// Sets what it is told by its environment, to run the executable `tool`. Nobody else decides on
    /// that, neither by the present name nor by the former one; nor on that it is one unit.
    pub fn prepare(&self, environment: &mut Environment, tool: &Path) {
        let names: Vec<_> = environment.iter().map(|(name, _)| name.to_owned()).collect();
        names.iter().filter(|name| is_for_stacks(name)).for_each(|name| environment.remove(name));
        for (name, former, value) in SETTINGS {
            let (name, other) =
                if self.version < SHORT_NAMES { (former, name) } else { (name, former) };
            let value = match value {
                Value::Tool => tool.as_os_str(),
                Value::Downloads => match &self.downloads {
                    Some(downloads) => downloads.as_os_str(),
                    None => continue,
                },
                Value::True => "true".as_ref(),
            };
            environment.remove(other);
            environment.set(name, value);
        }
    }
}

fn is_for_stacks(name: &OsStr) -> bool {
    STACKS.iter().any(|rule| match rule.strip_suffix('*') {
        Some(beginning) => name.as_encoded_bytes().starts_with(beginning.as_bytes()),
        None => name == *rule,
    })
}

/// Whether a version of Terragrunt can be told what a run needs.
#[must_use]
pub fn can_wrap(terragrunt: &ToolRequest) -> bool {
    terragrunt.version >= OLDEST_WRAPPER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapper(version: &str) -> Wrapper {
        Wrapper {
            version: version.parse().unwrap(),
            program: "/t/terragrunt".into(),
            downloads: Some("/r/terragrunt".into()),
        }
    }

    #[test]
    fn arguments_go_behind_run_since_nothing_else_hands_them_on() {
        for (version, expected) in [
            ("0.55.1", "plan|-no-color"),
            ("0.87.7", "plan|-no-color"),
            ("0.88.0", "run|--|plan|-no-color"),
            ("1.0.0", "run|--|plan|-no-color"),
        ] {
            let arguments = wrapper(version).arguments(vec!["plan".into(), "-no-color".into()]);
            assert_eq!(arguments.join("|".as_ref()), expected, "{version}");
        }
    }

    #[test]
    fn nothing_that_is_for_stacks_gets_to_it() {
        let names = STACKS.map(|rule| rule.replace('*', "X"));
        let others = ["TG_ALLOW", "TG_LOG_LEVEL", "TERRAGRUNT_FEATURE"].map(str::to_owned);
        let all = names.iter().chain(&others);
        let mut environment: Environment = all.map(|name| (name.into(), "true".into())).collect();
        wrapper("1.0.0").prepare(&mut environment, Path::new("/t/terraform"));
        for name in names {
            assert_eq!(environment.value(&name), None, "{name}");
        }
        for name in others {
            assert!(environment.value(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_setting_is_set_by_the_name_that_the_version_knows_and_by_no_other() {
        for (version, beginning) in [("0.72.9", "TERRAGRUNT_"), ("0.73.0", "TG_")] {
            let inherited = SETTINGS.iter().flat_map(|(name, former, _)| [*name, *former]);
            let mut environment: Environment =
                inherited.map(|name| (name.into(), "/evil".into())).collect();
            wrapper(version).prepare(&mut environment, Path::new("/t/terraform"));
            assert_eq!(environment.iter().count(), SETTINGS.len());
            for (name, value) in environment.iter() {
                assert!(name.to_str().unwrap().starts_with(beginning), "{version}: {name:?}");
                assert_ne!(value, "/evil", "{version}: {name:?}");
            }
        }
        let mut environment = Environment::default();
        wrapper("1.0.0").prepare(&mut environment, Path::new("/t/terraform"));
        assert_eq!(environment.value("TG_TF_PATH").unwrap(), "/t/terraform");
        assert_eq!(environment.value("TG_DOWNLOAD_DIR").unwrap(), "/r/terragrunt");
        let left_alone = Wrapper { downloads: None, ..wrapper("1.0.0") };
        let mut environment = Environment::default();
        environment.set("TG_DOWNLOAD_DIR", "/of/the/user");
        left_alone.prepare(&mut environment, Path::new("/t/terraform"));
        assert_eq!(environment.value("TG_DOWNLOAD_DIR").unwrap(), "/of/the/user");
    }
}
