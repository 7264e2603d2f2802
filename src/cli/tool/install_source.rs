//! The source of one version on the command line: `--url` and `--checksum`.

use clap::Args;
use url::Url;

use super::command_output::CommandFailure;
use super::toolbox::Toolbox;
use crate::exit::Exit;
use crate::tool::Sha256Sum;

/// `--url` and `--checksum`.
#[derive(Args)]
pub(super) struct InstallSource {
    /// The http, https or file URL of an archive or a bundle. Without --checksum, the checksum file
    /// and its signature must be in the same directory
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The required SHA-256 checksum of the archive. With --url it replaces the signature, otherwise
    /// it is checked in addition to the signature
    #[arg(long, value_name = "sha256:HEX")]
    checksum: Option<String>,
}

impl InstallSource {
    /// Stores the URL and the checksum in the options.
    pub(super) fn apply(self, tools: &mut Toolbox) -> Result<(), CommandFailure> {
        let url = self
            .url
            .as_deref()
            .map(parse_url)
            .transpose()
            .map_err(|problem| usage_failure(&problem))?;
        let sum =
            self.checksum.as_deref().map(parse_checksum).transpose().map_err(usage_failure)?;
        let sites = std::mem::take(&mut tools.options.sites);
        tools.options.sites = sites.with_given(url, sum);
        Ok(())
    }
}

fn usage_failure(problem: &str) -> CommandFailure {
    let advice =
        "for example --url https://mirror.example/terraform.zip --checksum sha256:9f86d0...";
    CommandFailure {
        exit: Exit::Usage,
        message: problem.to_owned(),
        advice: Some(advice.to_owned()),
    }
}

/// A URL may contain a password, so no message shows it.
fn parse_url(text: &str) -> Result<Url, String> {
    let url =
        Url::parse(text).map_err(|problem| format!("the URL is not valid: {problem} (--url)"))?;
    let problem = match url.scheme() {
        _ if url.fragment().is_some() => "the URL holds a fragment (--url)",
        "http" | "https" => return Ok(url),
        "file" if url.to_file_path().is_ok() => return Ok(url),
        "file" => "the URL does not name a local file: write file:///PATH (--url)",
        _ => "the URL is neither http, https nor file (--url)",
    };
    Err(problem.to_owned())
}

fn parse_checksum(text: &str) -> Result<Sha256Sum, &'static str> {
    let sum = text.strip_prefix("sha256:").and_then(|sum| sum.parse().ok());
    sum.ok_or("the checksum is not sha256: and 64 hexadecimal digits (--checksum)")
}
