//! Checks the versions on PATH, and the checksums of those in the cache.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::Finding;
use super::time_limit::{CHECK_TIMEOUT, with_timeout};
use crate::run::{required_version_warnings, unread_warnings, variable_warnings};
use crate::settings::{RunSource, Settings};
use crate::tool::{
    AuditResult, AuditedVersion, ToolError, ToolOptions, audit, default_version, on_path,
};
use butler_protocol::spec::Product;
use butler_source::module::Module;
use butler_source::{IgnoredVersionFile, version_files};

const CHECK: &str = "tools";

/// Warns of sources of a version that a run in its directory, or in the current one, does not read: version files of
/// another owner, files and variables of other version managers, and a computed `required_version`.
pub(super) fn check_version_files(run: &Settings) -> Vec<Finding> {
    let (directory, is_named) = match &run.source {
        RunSource::Local { module_dir, tool, .. } => (module_dir.as_path(), tool.is_some()),
        RunSource::Registry { .. } | RunSource::File { .. } => (Path::new("."), false),
    };
    // A directory that cannot be read is the finding of another check.
    let files = version_files(directory).unwrap_or_default();
    let names_version = is_named || !files.counted.is_empty();
    let mut unread = unread_warnings(&files);
    unread.extend(variable_warnings(&run.environment, None, names_version));
    if let Ok(module) = Module::read(directory) {
        unread.extend(required_version_warnings(&module));
    }
    let found = |file: IgnoredVersionFile| {
        Finding::warning(CHECK, file.to_string()).hint(IgnoredVersionFile::ADVICE)
    };
    let ignored = files.ignored.into_iter().map(found);
    ignored.chain(unread.into_iter().map(|text| Finding::warning(CHECK, text))).collect()
}

/// Whether a run has to download its tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Releases {
    /// No version is installed.
    Needed,
    /// A version is installed, but a run may need another one.
    Spare,
}

/// The findings about all tools, and whether a run must download one.
pub(super) async fn check_tools(options: &ToolOptions) -> (Vec<Finding>, Releases) {
    let mut findings = Vec::new();
    let mut releases = Releases::Needed;
    for product in Product::ALL {
        // One product after the other, because hashing uses all processors.
        let Some(looked) = with_timeout(check_product(product, options)).await else {
            let message = format!("{product}: not done after {} s", CHECK_TIMEOUT.as_secs());
            let hint = format!(
                "run `butler-runner tool verify --product {product}`, which has no time limit"
            );
            findings.push(Finding::warning(CHECK, message).hint(hint));
            continue;
        };
        match looked {
            Ok((found, is_there)) => {
                findings.extend(found);
                if is_there && Product::ENGINES.contains(&product) {
                    releases = Releases::Spare;
                }
            }
            Err(error) => findings.push(Finding::error(CHECK, &error)),
        }
    }
    if findings.is_empty() {
        let note = "no tool on PATH or in the cache: each run downloads its version";
        findings.push(Finding::note(CHECK, note));
    }
    (findings, releases)
}

/// The findings about `product`, and whether a run could use one of its versions.
async fn check_product(
    product: Product,
    options: &ToolOptions,
) -> Result<(Vec<Finding>, bool), ToolError> {
    let mut findings = Vec::new();
    if let Some((path, version)) = on_path(product, options).await? {
        let message = format!("{product} {version} on PATH: `{}`", path.display());
        findings.push(Finding::ok(CHECK, message));
    }
    let default = default_version(product, options)?;
    let mut of_default = None;
    let mut by_verdict: BTreeMap<bool, Vec<AuditedVersion>> = BTreeMap::new();
    for version in audit(product, options).await? {
        if default.as_ref() == Some(&version.version) {
            of_default = Some(version.state);
        }
        if version.state != AuditResult::OtherPlatform {
            by_verdict.entry(version.state.is_bad()).or_default().push(version);
        }
    }
    if let Some(good) = by_verdict.get(&false) {
        let versions: Vec<_> = good.iter().map(|it| it.version.to_string()).collect();
        let message = format!("{product} {} in the cache, unchanged", versions.join(", "));
        findings.push(Finding::ok(CHECK, message));
    }
    let is_there = !findings.is_empty();
    for bad in by_verdict.get(&true).into_iter().flatten() {
        let problem = bad.problem.as_deref().unwrap_or_default();
        let message = format!("{product} {} in the cache: {problem}", bad.version);
        let hint = format!(
            "runs do not use it; reinstall it with `butler-runner tool install {product}-{}`",
            bad.version
        );
        findings.push(Finding::warning(CHECK, message).hint(hint));
    }
    match (default, of_default) {
        (Some(version), Some(AuditResult::Ok)) => {
            findings.push(Finding::ok(CHECK, format!("{product} {version} is the default")));
        }
        (Some(version), Some(verdict)) => {
            let message = format!("{product} {version} is the default, but {verdict}");
            let hint = format!("run `butler-runner tool install {product}-{version}`");
            findings.push(Finding::warning(CHECK, message).hint(hint));
        }
        _ => {}
    }
    Ok((findings, is_there))
}
