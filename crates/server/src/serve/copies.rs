//! The files of attempts, and their copies in an object store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::artifacts::{ArtifactsSettings, AttemptFiles, Bucket, BucketError, Copier, NotCopied};
use crate::data::DataDirectory;
use crate::store::Store;

/// How long a server that ends waits for the object store.
const LAST_COPIES: Duration = Duration::from_secs(20);

/// The files of attempts, and what copies them.
#[derive(Debug)]
pub(super) struct Copies<S> {
    pub(super) files: Arc<AttemptFiles>,
    /// The object store, if there is one.
    pub(super) bucket: Option<Arc<Bucket>>,
    /// The attempts that wait for the object store.
    pub(super) not_copied: Arc<NotCopied>,
    /// Locked by the one that copies.
    copier: Mutex<Option<Copier<S>>>,
}

impl<S: Store + 'static> Copies<S> {
    /// The files of attempts in `data`. Those at `place` are copied as `settings` say.
    ///
    /// # Errors
    /// If the settings cannot be used.
    pub(super) fn open(
        settings: Option<&ArtifactsSettings>,
        ca_bundle: Option<&Path>,
        store: &Arc<S>,
        data: &DataDirectory,
        place: &str,
    ) -> Result<Self, BucketError> {
        let bucket = settings.map(|settings| Bucket::open(settings, ca_bundle)).transpose()?;
        let (bucket, not_copied) = (bucket.map(Arc::new), Arc::<NotCopied>::default());
        let place = place.to_owned();
        let files = AttemptFiles::new(data.attempts(), place.clone(), bucket.clone());
        let copier = bucket.clone().map(|bucket| {
            let (store, not_copied) = (Arc::clone(store), Arc::clone(&not_copied));
            Copier::new(store, bucket, data.attempts(), place, not_copied)
        });
        Ok(Self { files: Arc::new(files), bucket, not_copied, copier: Mutex::new(copier) })
    }

    /// Copies what attempts leave, until the future is dropped.
    pub(super) async fn run(&self) {
        match &mut *self.copier.lock().await {
            Some(copier) => copier.run().await,
            None => std::future::pending().await,
        }
    }

    /// Copies what is left, as far as the object store answers soon.
    pub(super) async fn finish(&self) {
        if let Some(copier) = &mut *self.copier.lock().await
            && tokio::time::timeout(LAST_COPIES, copier.pass()).await.is_err()
        {
            tracing::warn!(
                "files of attempts were not copied; the next server with this data directory copies them"
            );
        }
    }
}
