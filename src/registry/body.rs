//! What a request carries: bytes in memory, or parts of files that are read while they are sent.

use std::io::Result;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

use crate::blocking::blocking;
use crate::platform::fs::FileExt;

/// How much of a file is read at a time.
const CHUNK: u64 = 64 * 1024;

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

    fn read(self) -> stream::BoxStream<'static, Result<Bytes>> {
        match self {
            Self::Bytes(bytes) => stream::once(async { Ok(bytes) }).boxed(),
            Self::File { path, place } => stream::try_unfold(place, move |place| {
                let path = path.clone();
                async move {
                    let next = place.end.min(place.start.saturating_add(CHUNK));
                    let chunk = place.start..next;
                    if chunk.is_empty() {
                        return Ok(None);
                    }
                    // In one go: each time that a thread is asked to do something costs more than that.
                    let read = blocking(move |_| chunk_of(&path, chunk)).await?;
                    Ok(Some((read, next..place.end)))
                }
            })
            .boxed(),
        }
    }
}

fn chunk_of(path: &Path, place: Range<u64>) -> Result<Bytes> {
    let length = usize::try_from(place.end - place.start).expect("a chunk fits into memory");
    let mut chunk = vec![0; length];
    fs_err::File::open(path)?.file().read_exact_at(&mut chunk, place.start)?;
    Ok(chunk.into())
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
        stream::iter(self.0.to_vec()).map(Part::read).flatten()
    }
}
