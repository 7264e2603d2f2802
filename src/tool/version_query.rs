//! Reads the product and the version of an executable by starting it. Its name says neither.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use semver::Version;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::tool::error::ToolError;
use crate::tool::vendor::product::Vendored as _;
use butler_base::cancel::Stop;
use butler_base::error::visible;
use butler_base::platform::NULL_DEVICE;
use butler_base::process::{
    self, Command, Discard, Environment, Grace, Output, ProcessError, supervise,
};
use butler_protocol::spec::{Product, ToolRequest};

/// The timeout for printing the version; Terraform needs about 0.1 s.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The largest accepted output, in bytes; real ones have about 200.
const MAX_OUTPUT: usize = 64 * 1024;

/// How many characters of an output are quoted.
const LONGEST_QUOTE: usize = 100;

/// How often an executable is started that a process still has open for writing. A process that
/// was just forked holds such a file for a moment, until it starts its own program.
const BUSY_RETRIES: usize = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Makes sure that `path`, a verified executable from `url`, prints the version of `request`. Blocks:
/// must be called in a blocking thread of a runtime.
pub(in crate::tool) fn confirm_version(
    request: &ToolRequest,
    path: &Path,
    url: &str,
    abandoned: &CancellationToken,
) -> Result<(), ToolError> {
    let query = async {
        tokio::select! {
            found = query_version(path, request.product, OsStr::new("")) => found,
            () = abandoned.cancelled() => Ok(Err(NoVersion::Hung)),
        }
    };
    let found = match tokio::runtime::Handle::current().block_on(query) {
        Ok(found) => found,
        Err(source) => return Err(ToolError::NotStarted { request: request.clone(), source }),
    };
    if found.as_ref().is_ok_and(|found| found.is(request)) {
        return Ok(());
    }
    let found = found.ok().map(|found| found.describe());
    Err(ToolError::AnotherVersion { request: request.clone(), url: url.to_owned(), found })
}

/// The product and version that an executable prints about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) struct Printed {
    /// Absent if it prints the version alone.
    pub(in crate::tool) product: Option<Product>,
    pub(in crate::tool) version: Version,
}

impl Printed {
    /// Whether it is of this product, as far as it says so.
    pub(in crate::tool) fn is_of(&self, product: Product) -> bool {
        self.product.is_none_or(|printed| printed == product)
    }

    /// Whether it is this version of this product.
    pub(in crate::tool) fn is(&self, request: &ToolRequest) -> bool {
        self.is_of(request.product) && self.version == request.version
    }

    /// The product, if it is known, and the version.
    pub(in crate::tool) fn describe(&self) -> String {
        let version = &self.version;
        self.product
            .map_or_else(|| format!("version {version}"), |product| format!("{product} {version}"))
    }
}

/// An executable did not print a version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) enum NoVersion {
    /// It did not exit in time, now or at an earlier start by this process.
    Hung,
    /// It printed something else, or nothing.
    Other(String),
}

impl fmt::Display for NoVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hung => {
                write!(formatter, "it does not exit within {} s", TIMEOUT.as_secs())
            }
            Self::Other(text) if text.is_empty() => formatter.write_str("it prints nothing"),
            Self::Other(text) => write!(formatter, "it prints \"{text}\""),
        }
    }
}

/// The executables that did not exit in time, with the directory in which each was started. The process waits for each
/// only once.
static HUNG: Mutex<BTreeSet<(PathBuf, PathBuf)>> = Mutex::new(BTreeSet::new());

/// Reads the version of `path`, without the configuration of the user or a module.
pub(in crate::tool) async fn query_version(
    path: &Path,
    product: Product,
    search_path: &OsStr,
) -> Result<Result<Printed, NoVersion>, ProcessError> {
    let mut environment = Environment::default();
    environment.set("CHECKPOINT_DISABLE", "1");
    // The user's configuration does not affect the version, and may be slow or broken.
    environment.set("TF_CLI_CONFIG_FILE", NULL_DEVICE);
    environment.set("HOME", "/nonexistent");
    environment.set("PATH", search_path);
    run_version_command(path, product, "/".as_ref(), environment).await
}

/// Reads the version of `path` in the directory and environment of a run.
pub(in crate::tool) async fn query_version_in(
    path: &Path,
    product: Product,
    directory: &Path,
    environment: &Environment,
) -> Result<Result<Printed, NoVersion>, ProcessError> {
    // The version command refuses flags of other commands.
    let is_for_version = |name: &OsStr| !name.as_encoded_bytes().starts_with(b"TF_CLI_ARGS");
    let environment = environment.iter().filter(|(name, _)| is_for_version(name));
    let mut environment: Environment =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    environment.set("CHECKPOINT_DISABLE", "1");
    run_version_command(path, product, directory, environment).await
}

/// Starts `path` and parses its output.
async fn run_version_command(
    path: &Path,
    product: Product,
    directory: &Path,
    mut environment: Environment,
) -> Result<Result<Printed, NoVersion>, ProcessError> {
    let key = (path.to_owned(), directory.to_owned());
    let hung = || HUNG.lock().unwrap_or_else(PoisonError::into_inner);
    if hung().contains(&key) {
        return Ok(Err(NoVersion::Hung));
    }
    environment.collect_less_garbage();
    let command = Command {
        program: path.to_owned(),
        arguments: product.version_arguments().iter().map(Into::into).collect(),
        environment,
        directory: Some(directory.to_owned()),
        output: Output::Memory(MAX_OUTPUT),
        ..Command::default()
    };
    let mut attempts = 0;
    let exit = loop {
        // The stop of the run drops this future, and with it the child.
        let stop = Stop::new();
        let grace = Grace { normal: Duration::ZERO, urgent: Duration::ZERO };
        let ended = supervise(&command, &Discard, &stop, grace);
        match tokio::time::timeout(TIMEOUT, ended).await {
            Err(_) => {
                hung().insert(key);
                return Ok(Err(NoVersion::Hung));
            }
            Ok(Ok(exit)) => break exit,
            Ok(Err(process::ProcessError::Start { source, .. }))
                if source.kind() == std::io::ErrorKind::ExecutableFileBusy
                    && attempts < BUSY_RETRIES =>
            {
                attempts += 1;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Ok(Err(error)) => return Err(error),
        }
    };
    let printed = exit.status.success().then(|| parse(&exit.output)).flatten();
    Ok(printed.ok_or_else(|| NoVersion::Other(first_line(&exit.output))))
}

/// The first line that is not empty, for messages.
fn first_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    visible(line).take(LONGEST_QUOTE).collect()
}

/// The beginnings of the lines in which products print their version.
const LINES: [(&str, Product); 3] = [
    ("Terraform v", Product::Terraform),
    ("OpenTofu v", Product::OpenTofu),
    ("terragrunt version ", Product::Terragrunt),
];

/// Parses the line with product and version. Programs that stand in for a tool print the version as JSON, or at the end
/// of their first line.
fn parse(output: &[u8]) -> Option<Printed> {
    #[derive(Deserialize)]
    struct Json {
        terraform_version: Version,
    }
    if let Ok(json) = serde_json::from_slice::<Json>(output) {
        return Some(Printed { product: None, version: json.terraform_version });
    }
    let version = |text: &str| text.strip_prefix('v').unwrap_or(text).parse().ok();
    let text = std::str::from_utf8(output).ok()?;
    let named = text.lines().find_map(|line| {
        let (begin, product) = LINES.iter().find(|(begin, _)| line.starts_with(begin))?;
        let version = version(line[begin.len()..].trim_end())?;
        Some(Printed { product: Some(*product), version })
    });
    named.or_else(|| {
        let (_, last) = text.lines().next()?.trim_end().rsplit_once(' ')?;
        Some(Printed { product: None, version: version(last)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_without_a_version_is_quoted_by_its_first_line() {
        for (output, expected) in [
            ("\n  Welcome to ACME\u{1b}[0m \nmore", "it prints \"Welcome to ACME\\u{1b}[0m\""),
            ("", "it prints nothing"),
        ] {
            assert_eq!(NoVersion::Other(first_line(output.as_bytes())).to_string(), expected);
        }
        assert_eq!(first_line("x".repeat(500).as_bytes()).len(), LONGEST_QUOTE);
    }

    #[test]
    fn product_and_version_are_those_of_the_output() {
        for (output, expected) in [
            ("Terraform v1.11.4\non linux_amd64\n", Some("terraform 1.11.4")),
            ("OpenTofu v1.8.3\non linux_amd64\n+ provider x v1.2.3\n", Some("opentofu 1.8.3")),
            ("OpenTofu v1.12.0-dev\n", Some("opentofu 1.12.0-dev")),
            (
                "Terraform v0.12.31\n\nYour version of Terraform is out of date!",
                Some("terraform 0.12.31"),
            ),
            ("terragrunt version v0.99.1\n", Some("terragrunt 0.99.1")),
            ("terragrunt version 0.55.1\n", Some("terragrunt 0.55.1")),
            ("Welcome to ACME.\nTerraform v1.9.8\r\n", Some("terraform 1.9.8")),
            ("{\"terraform_version\": \"1.9.8\"}", Some("version 1.9.8")),
            ("acme-terraform v1.9.8", Some("version 1.9.8")),
            ("Terraform v1.9", None),
            ("Terraform\n", None),
            ("", None),
        ] {
            let found = parse(output.as_bytes()).map(|printed| printed.describe());
            assert_eq!(found.as_deref(), expected, "{output}");
        }
    }
}
