//! A pass that changes nothing: it decides on a copy of the facts, and starts no attempt.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use butler_base::cancel::Stop;
use butler_cluster::KnownResources;
use tokio::sync::mpsc;
use url::Url;

use super::desired::Desired;
use super::options::{Options, ServeError};
use super::poller::{PollSettings, Poller, poll_each};
use super::read_includes::recall;
use super::scheduler::{Capacity, Scheduler};
use super::view::Views;
use crate::attempts;
use crate::controller::{Executor, ExecutorError, Probe};
use crate::data::DataDirectory;
use crate::model::{AttemptToken, LayerName, RunId};
use crate::store::{AttemptId, SqliteStore, StoreError, StoreResult, backup};

/// What a pass would do.
#[derive(Debug)]
pub struct DryRun {
    /// The runs that it would start. Each is the last run of a layer.
    pub would_start: Vec<RunId>,
    /// Why repositories cannot be read, by their names.
    pub unread: BTreeMap<String, String>,
    /// What is wrong with included configuration.
    pub include_errors: Vec<String>,
    /// The layers, as if these runs had been started.
    pub views: Arc<Views>,
}

/// Reads the repositories into a temporary directory, and decides on a copy of the store. Nothing is
/// written into the data directory, which a server may use meanwhile and which does not have to exist.
///
/// # Errors
/// If the temporary directory cannot be used, or the store cannot be read.
pub async fn dry_run(options: Options, stop: &Stop) -> Result<DryRun, ServeError> {
    let temporary = std::env::temp_dir();
    let failed = |source| ServeError::Data { path: temporary.clone(), source };
    let root = tempfile::Builder::new().prefix("butler-dry-run-").tempdir().map_err(failed)?;
    let decided = decide(options, root.path(), stop).await;
    root.close().map_err(failed)?;
    decided
}

async fn decide(mut options: Options, root: &Path, stop: &Stop) -> Result<DryRun, ServeError> {
    let failed = |path: &Path, source| ServeError::Data { path: path.to_owned(), source };
    let data = std::path::absolute(&options.data).map_err(|error| failed(&options.data, error))?;
    let data = DataDirectory::at(&data);
    let copy = DataDirectory::create(root).map_err(|error| failed(root, error))?;
    copy_store(&data.store(), &copy.store())?;
    let store = Arc::new(SqliteStore::open(&copy.store())?);
    // A pass starts what waits for a slot as soon as another run has ended.
    for repository in options.config.repositories.values_mut() {
        repository.entry.concurrency = None;
    }
    let desired = Arc::new(Desired::new(options.config, options.limits));
    recall(&desired, &data, KnownResources::default());
    let views = Arc::new(Views::default());
    let (sender, mut events) = mpsc::unbounded_channel();
    let polls = Arc::new(PollSettings {
        data: copy,
        secrets: options.secrets,
        git_of_includes: options.git.without_credentials(),
        git: options.git,
        mirror_memory: options.mirror_memory,
        deliveries: Arc::default(),
        durations: Arc::default(),
    });
    let poller = |name: &str| {
        let (store, polls) = (Arc::clone(&store), Arc::clone(&polls));
        Poller::new(name, store, polls, Arc::clone(&desired), sender.clone())
    };
    let unread = poll_each(&desired, poller, stop).await;
    let mut scheduler = Scheduler::new(
        store,
        Arc::new(NoStarts { attempts: data.attempts() }),
        Capacity { concurrency: u32::MAX, starts_per_minute: u32::MAX },
        data.root().to_owned(),
        Arc::clone(&desired),
        Arc::clone(&views),
    );
    scheduler.started = Some(Vec::new());
    scheduler.find_attempts().await?;
    scheduler.wake_all().await;
    scheduler.work_off(&mut events).await;
    let include_errors = desired.include_errors();
    let would_start = scheduler.started.unwrap_or_default();
    Ok(DryRun { would_start, unread, include_errors, views })
}

/// Copies the store, if there is one, without a change in its directory.
fn copy_store(store: &Path, copy: &Path) -> StoreResult<()> {
    let exists = |suffix: &str| {
        let mut path = store.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path).exists()
    };
    if !exists("") {
        return Ok(());
    }
    let failed =
        || StoreError::Open { path: store.to_owned(), why: "the path has no URL".to_owned() };
    let mut url = Url::from_file_path(store).map_err(|()| failed())?;
    // A reader makes the files of the journal if they do not exist. If they do, it notes in one of
    // them what it reads. SQLite does neither with these parameters of its URLs. Without a journal,
    // no process writes.
    let parameter = if exists("-wal") { "readonly_shm" } else { "immutable" };
    url.query_pairs_mut().append_pair(parameter, "1");
    backup(Path::new(url.as_str()), copy)
}

/// Finds the attempts of the data directory, and starts and stops none.
#[derive(Debug)]
struct NoStarts {
    attempts: PathBuf,
}

impl Executor for NoStarts {
    async fn launch(
        &self,
        _: &AttemptId,
        _: &AttemptToken,
        _: std::time::Duration,
    ) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn stop(&self, _: &AttemptId) -> Result<(), ExecutorError> {
        Ok(())
    }

    fn remove_plan(&self, _: &AttemptId) {}

    fn move_files(&self, _: &[LayerName], _: &LayerName) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn probe(&self, attempt: &AttemptId) -> Probe {
        attempts::probe(&self.attempts, attempt, &attempts::DriftRules::default())
    }

    fn place(&self) -> &'static str {
        "nowhere"
    }
}
