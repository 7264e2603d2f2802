//! What a request carries: bytes in memory, or parts of files that are read while they are sent.

use std::io::Result;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

/// How much of a file is read at a time.
const CHUNK: usize = 64 * 1024;

/// A request's body; it can be sent more than once.
#[derive(Clone, Debug)]
pub struct Body(Arc<[Part]>);

/// A part of a body.
#[derive(Clone, Debug)]
pub enum Part {
    /// These bytes.
    Bytes(Bytes),
    /// What stands there in this file, which must not change until the body was sent.
    File {
        /// The file.
        path: Arc<PathBuf>,
        /// The bytes of it.
        place: Range<u64>,
    },
}

impl Part {
    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { place, .. } => place.end - place.start,
        }
    }

    async fn read(self) -> Result<stream::BoxStream<'static, Result<Bytes>>> {
        match self {
            Self::Bytes(bytes) => Ok(stream::once(async { Ok(bytes) }).boxed()),
            Self::File { path, place } => {
                let mut file = tokio::fs::File::open(path.as_path()).await?;
                file.seek(std::io::SeekFrom::Start(place.start)).await?;
                let part = file.take(place.end - place.start);
                Ok(ReaderStream::with_capacity(part, CHUNK).boxed())
            }
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::from(vec![Part::Bytes(bytes)])
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::from(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Vec<Part>> for Body {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts.into())
    }
}

impl Body {
    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.0.iter().map(Part::length).sum()
    }

    /// What it is made of.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The body for one attempt. Files are opened anew.
    pub(super) fn open(&self) -> reqwest::Body {
        if let [Part::Bytes(bytes)] = &*self.0 {
            return bytes.clone().into();
        }
        reqwest::Body::wrap_stream(self.read())
    }

    /// Its bytes, from their beginning.
    pub(super) fn read(&self) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        stream::iter(self.0.to_vec()).then(Part::read).try_flatten()
    }
}
