//! The shell code that installs the runner on the job's machine, for all targets.

use askama::Template;

use super::options::RELEASES;
use super::render::render_template;
use super::{Install, Options, Version, filters};

/// The script, for a POSIX shell. It installs the verified release as `$directory/butler-runner`, or fails
/// without executing any part of the download.
#[derive(Template)]
#[template(path = "install.sh", escape = "none")]
struct Script {
    version: String,
    /// The address of the version's files.
    from: String,
    /// The allowed digests, separated by spaces.
    pinned: String,
    /// Whether to verify the project's attestation.
    attested: bool,
    ca_bundle: Option<String>,
    directory: &'static str,
}

impl Options {
    /// The script that installs the runner into `directory` (shell text between double quotes); `None` if the job
    /// uses the image.
    #[must_use]
    pub fn install_script(&self, directory: &'static str) -> Option<String> {
        let Install::Binary { sha256, releases } = &self.install else { return None };
        let base = releases.as_ref().map_or(RELEASES, |url| url.as_str().trim_end_matches('/'));
        let from = match &self.version {
            Version::Exactly(version) => format!("{base}/download/v{version}"),
            Version::Latest => format!("{base}/latest/download"),
        };
        let script = Script {
            version: self.version.to_string(),
            from,
            pinned: sha256.join(" "),
            attested: releases.is_none(),
            ca_bundle: self.network.ca_bundle.clone(),
            directory,
        };
        Some(render_template(&script))
    }
}
