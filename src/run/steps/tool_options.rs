//! How tools are chosen and installed, for runs and for the commands around them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::settings::ToolSettings;
use crate::tool::{ToolOptions, VersionSources, WhenBusy};
use butler_base::http::LazyClient;
use butler_protocol::spec::{Product, RequestedVersion, ToolRequest, VersionFile};
use butler_source::module::{Module, ModuleError};
use butler_source::{IgnoredVersionFile, VersionFiles, version_files};

/// The options for `owner`. Tools on PATH are ignored.
#[must_use]
pub fn tool_options(settings: &ToolSettings, http: LazyClient, owner: String) -> ToolOptions {
    ToolOptions {
        cache: settings.cache_dir.clone(),
        sites: settings.sites.clone(),
        signing_keys: settings.signing_keys.clone(),
        search_path: None,
        http,
        meter: None,
        timeout: settings.timeout,
        when_busy: WhenBusy::Wait,
        owner,
    }
}

/// The version that the module in `directory` requires, with the default of `settings`. A directory without
/// configuration is permitted.
///
/// # Errors
/// If the directory cannot be read.
pub fn version_wish(
    directory: &Path,
    settings: &ToolSettings,
) -> Result<VersionSources, ModuleError> {
    let default = settings.default_version.clone();
    match Module::read(directory) {
        Ok(mut module) => {
            module.version_files.counted = counted(std::mem::take(&mut module.version_files));
            Ok(module_wish(module, default))
        }
        Err(ModuleError::Empty { .. }) => Ok(VersionSources {
            version_files: counted(version_files(directory)?),
            default,
            ..VersionSources::default()
        }),
        Err(error) => Err(error),
    }
}

/// The version files that count. The log names the others.
fn counted(found: VersionFiles) -> Vec<VersionFile> {
    for warning in warnings(&found) {
        tracing::warn!("{warning}");
    }
    found.counted
}

/// Names the version files that do not count and would decide.
pub(in crate::run) fn warnings(found: &VersionFiles) -> Vec<String> {
    let deciding = found.ignored.iter().filter(|_| found.counted.is_empty());
    let ignored = deciding.map(|file| format!("{file}; {}", IgnoredVersionFile::ADVICE));
    ignored.chain(unread_warnings(found)).collect()
}

/// Names the files of other version managers that are not read and would decide.
#[must_use]
pub fn unread_warnings(found: &VersionFiles) -> Vec<String> {
    let deciding = found.unread.iter().filter(|_| found.counted.is_empty());
    let warning = |place: &String| {
        format!(
            "`{place}` names a version of a tool and is not read: write it into `.tool-versions`, which this version \
             manager reads too, or name the version in the run"
        )
    };
    deciding.map(warning).collect()
}

/// Variables with which other version managers choose a version: the name, the product, and whether a version file takes
/// precedence.
const MANAGER_VARIABLES: [(&str, Product, bool); 9] = [
    ("TFENV_TERRAFORM_VERSION", Product::Terraform, false),
    ("TOFUENV_TOFU_VERSION", Product::OpenTofu, false),
    ("TG_VERSION", Product::Terragrunt, false),
    ("TFENV_TERRAFORM_DEFAULT_VERSION", Product::Terraform, true),
    ("TOFUENV_TOFU_DEFAULT_VERSION", Product::OpenTofu, true),
    ("TG_DEFAULT_VERSION", Product::Terragrunt, true),
    ("TFENV_TERRAFORM_DEFAULT_CONSTRAINT", Product::Terraform, true),
    ("TOFUENV_TOFU_DEFAULT_CONSTRAINT", Product::OpenTofu, true),
    ("TG_DEFAULT_CONSTRAINT", Product::Terragrunt, true),
];

/// Names the variables of other version managers that name a version of the `used` product that is not used. `used` is
/// `None` if it is not known yet. Those of defaults count only if the module names no version.
#[must_use]
pub fn variable_warnings(
    environment: &BTreeMap<OsString, OsString>,
    used: Option<&ToolRequest>,
    module_names_version: bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, product, is_default) in MANAGER_VARIABLES {
        let value = environment.get(OsStr::new(name)).and_then(|value| value.to_str());
        let Some(value) = value else { continue };
        let is_about = used.is_none_or(|used| used.product == product);
        let wanted = RequestedVersion::of_argument(value, Some(product));
        let is_met = used.is_some_and(|used| wanted.is_ok_and(|wanted| wanted.allows(used)));
        if value.is_empty() || !is_about || is_met || (is_default && module_names_version) {
            continue;
        }
        warnings.push(format!(
            "{name} is `{value}` and is not read: name the version in the run (--tf-version), in a version file, or with \
             --default-tool-version"
        ));
    }
    warnings
}

/// Names the files whose `required_version` is not read.
#[must_use]
pub fn required_version_warnings(module: &Module) -> Vec<String> {
    let warning = |file: &String| {
        format!(
            "`required_version` in `{file}` is computed, so it does not choose the version; only the tool itself reads it"
        )
    };
    module.unread_required_versions.iter().map(warning).collect()
}

/// The version that a module requires, with the default of the machine.
pub(in crate::run) fn module_wish(module: Module, default: Option<ToolRequest>) -> VersionSources {
    VersionSources {
        required: module.required_versions,
        version_files: module.version_files.counted,
        default,
        ..VersionSources::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_other_version_managers_are_named_if_they_are_not_met() {
        let terraform: ToolRequest = "1.9.8".parse().unwrap();
        let tofu: ToolRequest = "opentofu-1.8.3".parse().unwrap();
        for (name, value, used, names_version, is_named) in [
            ("TFENV_TERRAFORM_VERSION", "1.9.7", Some(&terraform), true, true),
            ("TFENV_TERRAFORM_VERSION", "1.9.8", Some(&terraform), false, false),
            ("TFENV_TERRAFORM_VERSION", "1.9", Some(&terraform), false, false),
            ("TFENV_TERRAFORM_VERSION", "latest:^1.8", Some(&terraform), false, true),
            ("TFENV_TERRAFORM_VERSION", "", Some(&terraform), false, false),
            ("TFENV_TERRAFORM_VERSION", "1.9.7", Some(&tofu), false, false),
            ("TFENV_TERRAFORM_VERSION", "1.9.7", None, false, true),
            ("TOFUENV_TOFU_VERSION", "1.8.2", Some(&tofu), false, true),
            ("TG_VERSION", "0.99.1", None, false, true),
            ("TG_VERSION", "0.99.1", Some(&terraform), false, false),
            ("TFENV_TERRAFORM_DEFAULT_VERSION", "1.9.7", Some(&terraform), false, true),
            ("TFENV_TERRAFORM_DEFAULT_VERSION", "1.9.7", Some(&terraform), true, false),
            ("TOFUENV_TOFU_DEFAULT_CONSTRAINT", "< 1.8", Some(&tofu), false, true),
            ("OTHER", "1.9.7", Some(&terraform), false, false),
        ] {
            let environment = BTreeMap::from([(name.into(), value.into())]);
            let warnings = variable_warnings(&environment, used, names_version);
            assert_eq!(
                warnings.len(),
                usize::from(is_named),
                "{name}={value} {used:?}: {warnings:?}"
            );
            assert!(warnings.iter().all(|it| it.starts_with(name)), "{warnings:?}");
        }
    }
}
