//! Reads the version of an executable by starting it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use semver::Version;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::tool::error::ToolError;
use crate::tool::vendor::product::Vendored as _;
use butler_base::cancel::Stop;
use butler_base::platform::NULL_DEVICE;
use butler_base::process::{
    self, Command, Discard, Environment, Grace, Output, ProcessError, supervise,
};
use butler_protocol::spec::{Product, ToolRequest};

/// The timeout for printing the version; Terraform needs about 0.1 s.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The largest accepted output, in bytes; real ones have about 200.
const MAX_OUTPUT: usize = 64 * 1024;

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
            () = abandoned.cancelled() => Ok(None),
        }
    };
    let found = match tokio::runtime::Handle::current().block_on(query) {
        Ok(found) => found,
        Err(source) => return Err(ToolError::NotStarted { request: request.clone(), source }),
    };
    if found.as_ref() == Some(&request.version) {
        return Ok(());
    }
    Err(ToolError::AnotherVersion { request: request.clone(), url: url.to_owned(), found })
}

/// Reads the version of `path`, without the configuration of the user or a module.
pub(in crate::tool) async fn query_version(
    path: &Path,
    product: Product,
    search_path: &OsStr,
) -> Result<Option<Version>, ProcessError> {
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
) -> Result<Option<Version>, ProcessError> {
    // The version command refuses flags of other commands.
    let is_for_version = |name: &OsStr| !name.as_encoded_bytes().starts_with(b"TF_CLI_ARGS");
    let environment = environment.iter().filter(|(name, _)| is_for_version(name));
    let mut environment: Environment =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    environment.set("CHECKPOINT_DISABLE", "1");
    run_version_command(path, product, directory, environment).await
}

/// Starts `path` and parses its output; `None` if it does not exit in time.
async fn run_version_command(
    path: &Path,
    product: Product,
    directory: &Path,
    mut environment: Environment,
) -> Result<Option<Version>, ProcessError> {
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
            Err(_) => return Ok(None),
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
    Ok(exit.status.success().then(|| parse_version(&exit.output)).flatten())
}

/// Parses the version from JSON, or from the end of the first line of text, as Terraform before 0.13
/// (`Terraform v0.12.31`) and Terragrunt (`terragrunt version v0.99.1`) print it.
fn parse_version(output: &[u8]) -> Option<Version> {
    #[derive(Deserialize)]
    struct Json {
        terraform_version: Version,
    }
    if let Ok(json) = serde_json::from_slice::<Json>(output) {
        return Some(json.terraform_version);
    }
    let text = std::str::from_utf8(output).ok()?;
    let (_, version) = text.lines().next()?.trim_end().rsplit_once(' ')?;
    version.strip_prefix('v').unwrap_or(version).parse().ok()
}
