//! Tools that are installed already: which version is the executable that PATH leads to?
//!
//! Only the executable knows, so it is asked once; the answer is remembered in the cache as long
//! as its file looks the same. What a runner installed itself, as into an image, is not asked at all.
//! A script is asked each time: what it starts may change without it.
//! Where an executable may be but a way to others ([`package`]), its answer counts where it was given:
//! a run asks again in its module's directory.
//! Whatever cannot be asked is passed over, because it is somebody else's program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::tool::choice::package;
use crate::tool::error::ToolError;
use crate::tool::store::elsewhere::recorded_version;
use crate::tool::store::record::{self, Identity};
use crate::tool::vendor::product::Vendored as _;
use butler_base::cancel::Stop;
use butler_base::platform::NULL_DEVICE;
use butler_base::platform::fs::{AccessFlags, access};
use butler_base::process::{
    self, Command, Discard, Environment, Grace, Output, ProcessError, supervise,
};
use butler_protocol::spec::{Product, ToolRequest};

/// How long an executable may think about its version; Terraform needs about 0.1 s.
const LONGEST_ANSWER: Duration = Duration::from_secs(20);

/// The answer has about 200 bytes.
const LARGEST_ANSWER: usize = 64 * 1024;

/// How often an executable is started that somebody still has open for writing. A process that
/// was just forked holds such a file for a moment, until it starts its own program.
const BUSY_RETRIES: usize = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// More executables than this nobody has on PATH; the memory does not grow beyond it.
const MEMORY: usize = 64;

/// An executable on PATH and its version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) struct Found {
    pub(in crate::tool) path: PathBuf,
    pub(in crate::tool) version: Version,
    /// Whether it is the product itself, and so of this version wherever it is started.
    pub(in crate::tool) is_itself: bool,
}

/// Where versions are looked for, and where they are remembered.
pub(in crate::tool) struct SearchPath<'a> {
    path: Option<&'a OsStr>,
    memory: PathBuf,
}

/// What one executable said about itself when its file looked like this.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Answer {
    identity: Identity,
    version: Version,
    is_itself: bool,
}

impl<'a> SearchPath<'a> {
    /// Searches `path`, a list as in the PATH variable; remembers in the file `memory`.
    pub(in crate::tool) fn new(path: Option<&'a OsStr>, memory: PathBuf) -> Self {
        Self { path, memory }
    }

    /// The first executable of `product` that is as `wanted`.
    pub(in crate::tool) async fn find(
        &self,
        product: Product,
        mut wanted: impl FnMut(&Found) -> bool,
    ) -> Option<Found> {
        for path in self.candidates(product) {
            if let Some(found) = self.look(path, product).await
                && wanted(&found)
            {
                return Some(found);
            }
        }
        None
    }

    /// Learns the version of the first executable of the first of `products` that is there at all.
    /// A script is left alone: what it says is not remembered.
    pub(in crate::tool) async fn learn(&self, products: &[Product]) {
        for product in products {
            if let Some(path) = self.candidates(*product).into_iter().next() {
                if !is_script(&path) {
                    self.look(path, *product).await;
                }
                return;
            }
        }
    }

    /// Executables of the right name. What is relative depends on where the runner was started,
    /// and is passed over.
    fn candidates(&self, product: Product) -> Vec<PathBuf> {
        std::env::split_paths(self.path.unwrap_or_default())
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(product.file_name()))
            .filter(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
            .filter(|path| !leads_to_another(path, product))
            .collect()
    }

    async fn look(&self, path: PathBuf, product: Product) -> Option<Found> {
        if let Some(version) = recorded_version(&path, product) {
            return Some(Found { path, version, is_itself: true });
        }
        let identity = Identity::from(&std::fs::metadata(&path).ok()?);
        if let Some(answer) = path.to_str().and_then(|path| self.recall().remove(path))
            && answer.identity == identity
        {
            let Answer { version, is_itself, .. } = answer;
            return Some(Found { path, version, is_itself });
        }
        match ask(&path, product, self.path.unwrap_or_default()).await {
            Ok(Some(version)) => {
                let is_itself = package::of(&path).as_deref() == Some(product.package());
                if !is_script(&path) {
                    let version = version.clone();
                    self.remember(&path, Answer { identity, version, is_itself });
                }
                Some(Found { path, version, is_itself })
            }
            Ok(None) => {
                tracing::warn!(path = %path.display(), "does not tell its version; passing over it");
                None
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), error = butler_base::error::chain(&error), "cannot be asked for its version; passing over it");
                None
            }
        }
    }

    fn recall(&self) -> BTreeMap<String, Answer> {
        match crate::tool::store::cache::inspect(&self.memory) {
            Ok(Some(_)) => record::read(&self.memory).unwrap_or_default(),
            _ => BTreeMap::new(),
        }
    }

    /// Two runs at once may forget what the other learned; then it is asked again.
    fn remember(&self, path: &Path, answer: Answer) {
        let Some(path) = path.to_str() else { return };
        let mut answers = self.recall();
        answers.retain(|known, _| Path::new(known).exists());
        while answers.len() >= MEMORY {
            answers.pop_first();
        }
        answers.insert(path.to_owned(), answer);
        if let Err(error) =
            crate::tool::store::cache::make_private(self.memory.parent().unwrap_or(&self.memory))
                .and_then(|()| record::write(&self.memory, &answers))
        {
            tracing::debug!(path = %self.memory.display(), %error, "cannot remember the version");
        }
    }
}

/// Makes sure that `path`, an executable that was verified and that came from `url`, is `request`, by
/// asking it. Blocks, beside a runtime.
pub(in crate::tool) fn confirm(
    request: &ToolRequest,
    path: &Path,
    url: &str,
    abandoned: &CancellationToken,
) -> Result<(), ToolError> {
    let asking = async {
        tokio::select! {
            answer = ask(path, request.product, OsStr::new("")) => answer,
            () = abandoned.cancelled() => Ok(None),
        }
    };
    let found = match tokio::runtime::Handle::current().block_on(asking) {
        Ok(found) => found,
        Err(source) => return Err(ToolError::NotStarted { request: request.clone(), source }),
    };
    if found.as_ref() == Some(&request.version) {
        return Ok(());
    }
    Err(ToolError::AnotherVersion { request: request.clone(), url: url.to_owned(), found })
}

/// Whether `path` is a link to an executable of another product: `terraform` may be a link to
/// `tofu`, and the two answer the question for their version alike.
fn leads_to_another(path: &Path, product: Product) -> bool {
    let target = std::fs::canonicalize(path).ok();
    let name = target.as_deref().and_then(Path::file_name);
    Product::ALL
        .into_iter()
        .any(|other| other != product && name == Some(OsStr::new(&other.file_name())))
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_err()
        || start == *b"#!"
}

/// Asks `path` for its version where nothing that a user or a module has configured counts.
async fn ask(
    path: &Path,
    product: Product,
    search_path: &OsStr,
) -> Result<Option<Version>, ProcessError> {
    let mut environment = Environment::default();
    environment.set("CHECKPOINT_DISABLE", "1");
    // What the user configured has nothing to do with the version, and may be slow or broken.
    environment.set("TF_CLI_CONFIG_FILE", NULL_DEVICE);
    environment.set("HOME", "/nonexistent");
    environment.set("PATH", search_path);
    put_question(path, product, "/".as_ref(), environment).await
}

/// Asks `path` for its version where a run is going to start it.
pub(in crate::tool) async fn ask_there(
    path: &Path,
    product: Product,
    directory: &Path,
    environment: &Environment,
) -> Result<Option<Version>, ProcessError> {
    // Flags for other commands would make it refuse to answer.
    let is_for_question = |name: &OsStr| !name.as_encoded_bytes().starts_with(b"TF_CLI_ARGS");
    let environment = environment.iter().filter(|(name, _)| is_for_question(name));
    let mut environment: Environment =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    environment.set("CHECKPOINT_DISABLE", "1");
    put_question(path, product, directory, environment).await
}

/// Starts `path` and reads its version off its answer; none if there is no answer in time.
async fn put_question(
    path: &Path,
    product: Product,
    directory: &Path,
    mut environment: Environment,
) -> Result<Option<Version>, ProcessError> {
    environment.collect_less_garbage();
    let command = Command {
        program: path.to_owned(),
        arguments: product.version_question().iter().map(Into::into).collect(),
        environment,
        directory: Some(directory.to_owned()),
        output: Output::Memory(LARGEST_ANSWER),
        ..Command::default()
    };
    let mut attempts = 0;
    let exit = loop {
        // The stop of the run drops this future, and with it the child.
        let stop = Stop::new();
        let grace = Grace { normal: Duration::ZERO, urgent: Duration::ZERO };
        let answer = supervise(&command, &Discard, &stop, grace);
        match tokio::time::timeout(LONGEST_ANSWER, answer).await {
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
    Ok(exit.status.success().then(|| answered(&exit.output)).flatten())
}

/// Reads the version out of JSON, or off the end of the first line of text, as Terraform before 0.13
/// (`Terraform v0.12.31`) and Terragrunt (`terragrunt version v0.99.1`) answer.
fn answered(output: &[u8]) -> Option<Version> {
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

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
