//! Terragrunt as a wrapper of Terraform or `OpenTofu`: the commands are those of the tool.
//!
//! All differences between versions of Terragrunt are in the tables below: since 0.73 its settings do not have
//! the prefix `TERRAGRUNT_` any more, and since 0.88 it passes arguments on only after `run --`. Its settings
//! turn off what the runner does itself (`init`, retries), keep the tool's output unchanged, and put its copies
//! of a clone into the run's directory. In a directory of the user, the copies stay at Terragrunt's own
//! location, because they may contain a state.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use semver::Version;

use butler_base::process::Environment;
use butler_protocol::spec::ToolRequest;

/// The oldest version with settings against questions and automatic `init`s.
pub const OLDEST_WRAPPER: Version = Version::new(0, 48, 7);

/// The first version whose settings begin with `TG_`.
const SHORT_NAMES: Version = Version::new(0, 73, 0);

/// The first version that passes arguments on only after `run --`, for all commands.
const RUN_COMMAND: Version = Version::new(0, 88, 0);

/// The value of a setting.
#[derive(Clone, Copy)]
enum SettingValue {
    /// The executable of the tool.
    Tool,
    /// The directory for its copies of modules.
    Downloads,
    True,
}

/// Its settings: present name, former name, value.
const SETTINGS: [(&str, &str, SettingValue); 7] = [
    ("TG_TF_PATH", "TERRAGRUNT_TFPATH", SettingValue::Tool),
    ("TG_DOWNLOAD_DIR", "TERRAGRUNT_DOWNLOAD", SettingValue::Downloads),
    ("TG_NON_INTERACTIVE", "TERRAGRUNT_NON_INTERACTIVE", SettingValue::True),
    ("TG_NO_AUTO_INIT", "TERRAGRUNT_NO_AUTO_INIT", SettingValue::True),
    ("TG_NO_AUTO_RETRY", "TERRAGRUNT_NO_AUTO_RETRY", SettingValue::True),
    ("TG_NO_COLOR", "TERRAGRUNT_NO_COLOR", SettingValue::True),
    // Lines of its log must not be mixed with the JSON of `show` and `output`.
    ("TG_TF_FORWARD_STDOUT", "TERRAGRUNT_FORWARD_TF_STDOUT", SettingValue::True),
];

/// Variables that would make it run the command in other units. A `*` at the end matches any rest of the name.
const STACK_VARIABLES: [&str; 12] = [
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
    /// The directory for its copies of modules, in which it runs the tool; none for its own default.
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

    /// Sets its settings in `environment`, so that it runs the executable `tool` in one unit. Inherited values
    /// are removed, under the present and the former name.
    pub fn prepare(&self, environment: &mut Environment, tool: &Path) {
        let names: Vec<_> = environment.iter().map(|(name, _)| name.to_owned()).collect();
        names
            .iter()
            .filter(|name| selects_other_units(name))
            .for_each(|name| environment.remove(name));
        for (name, former, value) in SETTINGS {
            let (name, other) =
                if self.version < SHORT_NAMES { (former, name) } else { (name, former) };
            let value = match value {
                SettingValue::Tool => tool.as_os_str(),
                SettingValue::Downloads => match &self.downloads {
                    Some(downloads) => downloads.as_os_str(),
                    None => continue,
                },
                SettingValue::True => "true".as_ref(),
            };
            environment.remove(other);
            environment.set(name, value);
        }
    }
}

fn selects_other_units(name: &OsStr) -> bool {
    STACK_VARIABLES.iter().any(|rule| match rule.strip_suffix('*') {
        Some(beginning) => name.as_encoded_bytes().starts_with(beginning.as_bytes()),
        None => name == *rule,
    })
}

/// Whether a version of Terragrunt has the settings that a run needs.
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
    fn arguments_follow_run_since_version_0_88() {
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
    fn variables_that_select_other_units_are_removed() {
        let names = STACK_VARIABLES.map(|rule| rule.replace('*', "X"));
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
    fn settings_are_set_only_under_the_name_of_the_version() {
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
        let without_downloads = Wrapper { downloads: None, ..wrapper("1.0.0") };
        let mut environment = Environment::default();
        environment.set("TG_DOWNLOAD_DIR", "/of/the/user");
        without_downloads.prepare(&mut environment, Path::new("/t/terraform"));
        assert_eq!(environment.value("TG_DOWNLOAD_DIR").unwrap(), "/of/the/user");
    }
}
