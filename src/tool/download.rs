//! Fetches files from a release site: small ones into memory, archives into an unnamed file.
//!
//! Whatever goes wrong on the way is tried again a few times; what the site refuses is not. An
//! archive is summed up while it streams. Its file has no name, so that nothing is left of it,
//! however the runner ends. Errors show URLs without user names, passwords and queries.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use reqwest::StatusCode;
use tokio::io::AsyncWriteExt;
use url::Url;

use super::digest::{Sha256Sum, Summing};

/// How often a request is tried again.
const RETRIES: usize = 4;

/// How long the site may say nothing: for the headers, and between two pieces of the body.
const SILENCE: Duration = Duration::from_secs(30);

/// How long one file may take as a whole: 30 MB at 25 kB/s.
const LONGEST: Duration = Duration::from_mins(20);

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The site does not have it.
    #[error("`{url}` does not exist")]
    NotFound {
        /// The file.
        url: String,
    },
    /// The site answered something else than the file.
    #[error("`{url}` was answered with {status}")]
    Status {
        /// The file.
        url: String,
        /// The answer.
        status: StatusCode,
    },
    /// The site could not be reached, or the connection broke.
    #[error("cannot fetch `{url}`")]
    Request {
        /// The file.
        url: String,
        /// What went wrong.
        #[source]
        source: reqwest::Error,
    },
    /// The site went silent, or took too long.
    #[error("gave up on `{url}` after {} s", after.as_secs())]
    TimedOut {
        /// The file.
        url: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The file is larger than anything that is expected there.
    #[error("`{url}` is larger than {limit} bytes")]
    TooLarge {
        /// The file.
        url: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file cannot be kept.
    #[error("cannot store a download in `{}`", directory.display())]
    Store {
        /// Where.
        directory: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
}

impl DownloadError {
    /// Whether the same request may do better in a moment.
    fn is_transient(&self) -> bool {
        match self {
            Self::Request { source, .. } => !source.is_builder() && !source.is_redirect(),
            Self::TimedOut { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(status)
            }
            Self::NotFound { .. } | Self::TooLarge { .. } | Self::Store { .. } => false,
        }
    }

    /// Whether the site says that there is no such file; some object stores forbid what is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::Status { status: StatusCode::FORBIDDEN | StatusCode::GONE, .. }
        )
    }
}

impl crate::error::Advice for DownloadError {
    fn advice(&self) -> Option<String> {
        Some(
            match self {
                Self::Store { .. } => "check that --cache-dir is writable and has room",
                Self::Request { .. } | Self::TimedOut { .. } => {
                    "check the network, HTTPS_PROXY and --ca-bundle, or name a site that can be reached with --mirror"
                }
                Self::NotFound { .. } | Self::Status { .. } | Self::TooLarge { .. } => {
                    "check that --mirror keeps the paths of the vendor's site"
                }
            }
            .to_owned(),
        )
    }
}

/// `url` as it may be shown: without user name, password and query.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have these parts.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// Fetches a file of at most `limit` bytes into memory.
pub(super) async fn small(
    client: &reqwest::Client,
    url: &Url,
    limit: u64,
) -> Result<Vec<u8>, DownloadError> {
    let attempt = || async {
        let mut body = Body::open(client, url, limit).await?;
        let mut content = Vec::new();
        while let Some(chunk) = body.chunk().await? {
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    };
    persistently(url, attempt).await
}

/// Fetches a file of at most `limit` bytes into an unnamed file in `directory`, and sums it up.
pub(super) async fn large(
    client: &reqwest::Client,
    url: &Url,
    limit: u64,
    directory: &Path,
) -> Result<(File, Sha256Sum), DownloadError> {
    let store = |source| DownloadError::Store { directory: directory.to_owned(), source };
    let attempt = || async {
        let mut body = Body::open(client, url, limit).await?;
        let file = tempfile::tempfile_in(directory).map_err(store)?;
        let mut file = tokio::fs::File::from_std(file);
        let mut summing = Summing::default();
        while let Some(chunk) = body.chunk().await? {
            summing.update(&chunk);
            file.write_all(&chunk).await.map_err(store)?;
        }
        file.flush().await.map_err(store)?;
        Ok((file.into_std().await, summing.finish()))
    };
    persistently(url, attempt).await
}

/// Tries again what may be better in a moment, with growing pauses: about 8 s in all.
async fn persistently<T, A>(url: &Url, attempt: impl FnMut() -> A) -> Result<T, DownloadError>
where
    A: Future<Output = Result<T, DownloadError>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_times(RETRIES)
        .with_jitter();
    let trying =
        attempt.retry(pauses).sleep(tokio::time::sleep).when(DownloadError::is_transient).notify(
            |error, pause| {
                tracing::warn!(
                    error = crate::error::chain(error),
                    ?pause,
                    "download failed, trying again"
                );
            },
        );
    match tokio::time::timeout(LONGEST, trying).await {
        Ok(result) => result,
        Err(_) => Err(DownloadError::TimedOut { url: shown(url), after: LONGEST }),
    }
}

/// The body of an answer, as it comes in.
struct Body<'url> {
    response: reqwest::Response,
    url: &'url Url,
    limit: u64,
    read: u64,
}

impl<'url> Body<'url> {
    async fn open(
        client: &reqwest::Client,
        url: &'url Url,
        limit: u64,
    ) -> Result<Self, DownloadError> {
        let response = speaking(url, client.get(url.clone()).send()).await?;
        match response.status() {
            status if status.is_success() => Ok(Self { response, url, limit, read: 0 }),
            StatusCode::NOT_FOUND => Err(DownloadError::NotFound { url: shown(url) }),
            status => Err(DownloadError::Status { url: shown(url), status }),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, DownloadError> {
        let chunk = speaking(self.url, self.response.chunk()).await?;
        self.read += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        if self.read > self.limit {
            return Err(DownloadError::TooLarge { url: shown(self.url), limit: self.limit });
        }
        Ok(chunk)
    }
}

/// Waits for the site, but not for ever.
async fn speaking<T>(
    url: &Url,
    answer: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, DownloadError> {
    match tokio::time::timeout(SILENCE, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            Err(DownloadError::Request { url: shown(url), source: error.without_url() })
        }
        Err(_) => Err(DownloadError::TimedOut { url: shown(url), after: SILENCE }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_urls_carry_no_credentials() {
        let url = "https://user:password@mirror.example/a/b.zip?sig=secret#c".parse().unwrap();
        assert_eq!(shown(&url), "https://mirror.example/a/b.zip");
    }

    #[tokio::test]
    async fn error_for_a_closed_port_names_the_file_but_no_password() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let client = crate::http::client(None, crate::http::Redirects::Follow).unwrap();
        let url = format!("http://user:secret@{address}/file").parse().unwrap();
        let error = small(&client, &url, 10).await.unwrap_err();
        let chain = crate::error::chain(&error);
        assert!(chain.contains(&format!("http://{address}/file")), "{chain}");
        assert!(!chain.contains("secret"), "{chain}");
    }
}
