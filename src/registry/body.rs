//! Request bodies: bytes in memory, or parts of files that are read while they are sent.

use std::io::{Cursor, Read, Result, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fs_err::File;
use futures_util::{Stream, StreamExt, stream};

use butler_base::blocking::blocking;
use butler_base::platform::fs::FileExt;

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
    /// A section of a file, which must not change until the body is sent.
    File {
        /// The file.
        path: Arc<PathBuf>,
        /// The byte range in the file.
        place: Range<u64>,
    },
}

impl Part {
    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { place, .. } => place.end - place.start,
        }
    }

    /// The bytes at `place` of the part.
    ///
    /// # Panics
    /// If the part is shorter.
    #[must_use]
    pub fn at(&self, place: Range<u64>) -> Self {
        assert!(place.end <= self.length(), "the range must be inside the part");
        match self {
            Self::Bytes(bytes) => {
                let index = |at| usize::try_from(at).expect("offsets in memory fit into usize");
                Self::Bytes(bytes.slice(index(place.start)..index(place.end)))
            }
            Self::File { path, place: own } => {
                let place = own.start + place.start..own.start + place.end;
                Self::File { path: path.clone(), place }
            }
        }
    }

    /// Reads the part from its beginning.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn open(&self) -> Result<Box<dyn Read>> {
        Ok(match self {
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes.clone())),
            Self::File { path, place } => {
                let mut file = File::open(path.as_path())?;
                file.seek(SeekFrom::Start(place.start))?;
                Box::new(file.take(place.end - place.start))
            }
        })
    }

    fn read(self) -> stream::BoxStream<'static, Result<Bytes>> {
        match self {
            Self::Bytes(bytes) => stream::once(async { Ok(bytes) }).boxed(),
            Self::File { path, place } => {
                stream::try_unfold((None, place), move |(file, place)| {
                    let path = path.clone();
                    async move {
                        let next = place.end.min(place.start.saturating_add(CHUNK));
                        let chunk = place.start..next;
                        if chunk.is_empty() {
                            return Ok(None);
                        }
                        // Opens and reads in one call, because a call to another thread costs more than both.
                        let (read, file) =
                            blocking(move |_| read_chunk(file, &path, chunk)).await?;
                        Ok(Some((read, (Some(file), next..place.end))))
                    }
                })
                .boxed()
            }
        }
    }
}

/// Reads `place` of the file at `path`, which is opened by the first call.
fn read_chunk(file: Option<File>, path: &Path, place: Range<u64>) -> Result<(Bytes, File)> {
    let file = file.map_or_else(|| File::open(path), Ok)?;
    let length = usize::try_from(place.end - place.start).expect("a chunk fits into memory");
    let mut chunk = vec![0; length];
    file.file().read_exact_at(&mut chunk, place.start)?;
    Ok((chunk.into(), file))
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
    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.0.iter().map(Part::length).sum()
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The body for one attempt. Files are opened again.
    pub(super) fn open(&self) -> reqwest::Body {
        if let [Part::Bytes(bytes)] = &*self.0 {
            return bytes.clone().into();
        }
        reqwest::Body::wrap_stream(self.read())
    }

    /// Reads the body from its beginning.
    pub(super) fn read(&self) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        stream::iter(self.0.to_vec()).map(Part::read).flatten()
    }
}
