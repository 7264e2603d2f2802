//! The manifest of a saved plan, as JSON.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::ArtifactError;
use super::{LOCK_FILE, digest::Copied};
use butler_protocol::spec::{Operation, ToolRequest};

/// The version of the format that is written. Earlier ones are read too: version 1 has no `sha256Before`.
pub const FORMAT_VERSION: u64 = 2;

/// The entry with the manifest itself; the first of the file.
pub(super) const MANIFEST: &str = "manifest.json";

/// The entry with the digest of the manifest; the second of the file.
pub(super) const MANIFEST_DIGEST: &str = "manifest.json.sha256";

/// The entry with Terraform's own plan.
pub(super) const PLAN: &str = "plan.tfplan";

/// The prefix of entries with files that the plan created. The rest is the path in the module.
pub(super) const FILES: &str = "files/";

/// Directories in a module that no saved plan writes into.
pub(super) const EXCLUDED_DIRECTORIES: [&str; 2] = [".git", ".terraform"];

/// The operation, tool and directory of a saved plan.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// The operation of its apply: [`Operation::Apply`] or [`Operation::Destroy`].
    pub operation: Operation,
    /// The tool that made it, which is the only one that can apply it.
    pub tool: ToolRequest,
    /// The module's directory, absolute.
    pub directory: PathBuf,
    /// The workspace that it was made in.
    pub workspace: String,
    /// The commit that was checked out, if the directory is in a git repository.
    pub commit: Option<String>,
}

/// The manifest as it is written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) format_version: u64,
    /// The program and its version, for information.
    created_by: String,
    /// The time by RFC 3339, for information.
    created: String,
    operation: String,
    tool: String,
    directory: String,
    workspace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    pub(super) entries: Vec<ManifestEntry>,
}

/// An entry other than the manifest.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ManifestEntry {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) sha256: String,
    /// The digest of the file before `init` and the plan, which have changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256_before: Option<String>,
    /// Whether it is a program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) executable: bool,
}

/// The part of a manifest that distinguishes a later format from a damaged file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    format_version: u64,
}

impl Manifest {
    /// A manifest with the current time.
    pub(super) fn new(head: &Head, entries: Vec<ManifestEntry>) -> Result<Self, ArtifactError> {
        let directory = head.directory.to_str();
        let directory =
            directory.ok_or_else(|| ArtifactError::Name { path: head.directory.clone() })?;
        let ToolRequest { product, version } = &head.tool;
        Ok(Self {
            format_version: FORMAT_VERSION,
            created_by: concat!("butler-runner ", env!("CARGO_PKG_VERSION")).to_owned(),
            created: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            operation: head.operation.to_string(),
            tool: format!("{product}-{version}"),
            directory: directory.to_owned(),
            workspace: head.workspace.clone(),
            commit: head.commit.clone(),
            entries,
        })
    }

    /// Reads the manifest of the file `path`.
    pub(super) fn read(json: &[u8], path: &Path) -> Result<(Self, Head), ArtifactError> {
        let damaged = |what: String| ArtifactError::damaged(path, what);
        let syntax = |error| damaged(format!("cannot parse its manifest: {error}"));
        let Versioned { format_version } = serde_json::from_slice(json).map_err(syntax)?;
        if !(1..=FORMAT_VERSION).contains(&format_version) {
            return Err(ArtifactError::Newer { path: path.to_owned(), version: format_version });
        }
        let manifest: Self = serde_json::from_slice(json).map_err(syntax)?;
        let unknown = |what: &str, value: &str| damaged(format!("it names the {what} `{value}`"));
        let operation = manifest.operation.parse();
        let operation =
            operation.ok().filter(|operation: &Operation| operation.changes_infrastructure());
        let head = Head {
            operation: operation.ok_or_else(|| unknown("operation", &manifest.operation))?,
            tool: manifest.tool.parse().map_err(|_| unknown("tool", &manifest.tool))?,
            directory: PathBuf::from(&manifest.directory),
            workspace: manifest.workspace.clone(),
            commit: manifest.commit.clone(),
        };
        if !head.directory.is_absolute() {
            return Err(unknown("directory", &manifest.directory));
        }
        manifest.check_names().map_err(|name| {
            damaged(format!("it contains the forbidden or duplicate entry `{name}`"))
        })?;
        if !manifest.entries.iter().any(|entry| entry.name == PLAN) {
            return Err(damaged("it does not contain a plan".to_owned()));
        }
        Ok((manifest, head))
    }

    /// Checks that the entries have allowed and unique names. The error is the wrong name.
    fn check_names(&self) -> Result<(), String> {
        let mut seen = std::collections::BTreeSet::new();
        for ManifestEntry { name, .. } in &self.entries {
            let is_known = name == PLAN || name == LOCK_FILE || file_path(name).is_some();
            if !is_known || !seen.insert(name) {
                return Err(butler_base::error::visible(name).collect());
            }
        }
        Ok(())
    }
}

impl ManifestEntry {
    pub(super) fn new(name: String, copied: Copied, executable: bool) -> Self {
        Self { name, size: copied.size, sha256: copied.sha256, sha256_before: None, executable }
    }

    /// Its path in the module's directory; `None` if it is not a file of the module.
    pub(super) fn module_path(&self) -> Option<PathBuf> {
        if self.name == LOCK_FILE { Some(LOCK_FILE.into()) } else { file_path(&self.name) }
    }
}

/// The path, in the module's directory, of the file in an entry of this name. `None` if the name
/// does not have the prefix, or leads out of the directory or into a closed one.
fn file_path(name: &str) -> Option<PathBuf> {
    let path = Path::new(name.strip_prefix(FILES)?);
    let mut components = path.components();
    let is_inside = components.clone().all(|component| matches!(component, Component::Normal(_)));
    let first = components.next()?.as_os_str();
    let is_open = !EXCLUDED_DIRECTORIES.iter().any(|closed| first == *closed) && first != LOCK_FILE;
    // `components` skips parts (`a//b`, `a/.`) that the runner does not write.
    let is_plain = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    let has_control = name.chars().any(char::is_control) || name.contains('\\');
    (is_inside && is_open && is_plain && !has_control).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_module_directory_are_files() {
        for (name, expected) in [
            ("files/build/a b.zip", Some("build/a b.zip")),
            ("files/a", Some("a")),
            ("files/../a", None),
            ("files/a/../../b", None),
            ("files//etc/passwd", None),
            ("files/./a", None),
            ("files/a/", None),
            ("files/", None),
            ("files/.git/hooks/post-checkout", None),
            ("files/.terraform/providers/x", None),
            ("files/.terraform.lock.hcl", None),
            ("files/a\\..\\b", None),
            ("files/a\nb", None),
            ("/etc/passwd", None),
            ("other/a", None),
        ] {
            assert_eq!(file_path(name), expected.map(PathBuf::from), "{name:?}");
        }
    }
}
