//! An object store in memory whose requests fail, before or after they are executed.

use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// How requests fail.
#[derive(Debug)]
pub(crate) enum Faults {
    /// Never.
    None,
    /// Always.
    Away,
    /// Half of them, of which half were executed.
    Random(fastrand::Rng),
    /// Never, but others go on while they wait.
    Slow(fastrand::Rng),
    /// Never, but writes of objects whose names contain this text are not answered.
    Silent(String),
}

/// The object store.
#[derive(Debug)]
pub(crate) struct Unreliable {
    objects: InMemory,
    faults: Mutex<Faults>,
}

impl Unreliable {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { objects: InMemory::new(), faults: Mutex::new(faults) }
    }

    pub(crate) fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }

    /// Whether this request fails, and whether it is executed.
    fn fails(&self) -> (bool, bool) {
        match &mut *self.faults.lock().unwrap() {
            Faults::None | Faults::Slow(_) | Faults::Silent(_) => (false, true),
            Faults::Away => (true, false),
            Faults::Random(random) => {
                let fails = random.bool();
                (fails, !fails || random.bool())
            }
        }
    }

    async fn request<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let waits = match &mut *self.faults.lock().unwrap() {
            Faults::Slow(random) => random.u8(0..8),
            _ => 0,
        };
        for _ in 0..waits {
            tokio::task::yield_now().await;
        }
        let (fails, is_executed) = self.fails();
        let result = if is_executed { Some(work.await) } else { None };
        match result {
            Some(result) if !fails => result,
            _ => Err(failure()),
        }
    }
}

fn failure() -> Error {
    Error::Generic { store: "unreliable", source: "connection reset".into() }
}

impl fmt::Display for Unreliable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("unreliable")
    }
}

#[async_trait]
impl ObjectStore for Unreliable {
    async fn put_opts(&self, at: &Path, what: PutPayload, how: PutOptions) -> Result<PutResult> {
        let is_silent = match &*self.faults.lock().unwrap() {
            Faults::Silent(text) => at.as_ref().contains(text.as_str()),
            _ => false,
        };
        if is_silent {
            return std::future::pending().await;
        }
        self.request(self.objects.put_opts(at, what, how)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request(self.objects.put_multipart_opts(at, how)).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        self.request(self.objects.get_opts(at, how)).await
    }

    fn delete_stream(
        &self,
        which: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (fails, _) = self.fails();
        if fails {
            return futures_util::stream::iter([Err(failure())]).boxed();
        }
        self.objects.delete_stream(which)
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (fails, _) = self.fails();
        if fails {
            return futures_util::stream::iter([Err(failure())]).boxed();
        }
        self.objects.list(below)
    }

    async fn list_with_delimiter(&self, below: Option<&Path>) -> Result<ListResult> {
        self.request(self.objects.list_with_delimiter(below)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.request(self.objects.copy_opts(from, to, how)).await
    }
}
