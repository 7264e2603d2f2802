//! Fetches files from a release site: small ones into memory, archives into an unnamed file.
//!
//! Transient errors are retried a few times; a refusal of the site is not. The checksum of an
//! archive is computed while it streams. Errors show URLs without user names, passwords and
//! queries.

mod error;
mod local;
mod partial;
mod remote;

use std::fs::File;
use std::io::{Read, Take, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use reqwest::Response;
use tokio::time::Instant;
use url::Url;

pub use error::{Asked, DownloadError};

use crate::tool::digest::{Sha256Sum, Summing, copy};
use crate::tool::fetch::login::{Credentials, redacted};
use crate::tool::fetch::transfer::Watch;
use crate::tool::options::ToolOptions;
use butler_base::blocking::blocking;
use butler_protocol::spec::Product;
use partial::Partial;
use remote::SiteClient;

/// How often a request is retried without progress.
const RETRIES: usize = 4;

/// The longest `Retry-After` that the runner waits for.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// How long the site may send nothing: before the headers, and between two pieces of the body.
const SILENCE: Duration = Duration::from_secs(30);

/// Fetches the releases of one product, with the login for its mirror if there is one.
pub(in crate::tool) struct Fetcher<'a> {
    client: SiteClient<'a>,
    /// How long everything that is fetched with this may take together, and until when.
    longest: Duration,
    deadline: Instant,
}

impl<'a> Fetcher<'a> {
    pub(in crate::tool) fn new(product: Product, options: &'a ToolOptions) -> Self {
        Self::with_credentials(options.sites.credentials(product), options)
    }

    /// Fetches releases without a login.
    pub(in crate::tool) fn anonymous(options: &'a ToolOptions) -> Self {
        Self::with_credentials(None, options)
    }

    fn with_credentials(credentials: Option<Credentials>, options: &'a ToolOptions) -> Self {
        let client = SiteClient { http: &options.http, credentials, silence: SILENCE };
        let (longest, deadline) = (options.timeout, Instant::now() + options.timeout);
        Self { client, longest, deadline }
    }

    /// The URL that `url` redirects to, and the response there.
    pub(in crate::tool) async fn led_to(
        &self,
        url: &Url,
    ) -> Result<(Url, Response), DownloadError> {
        self.in_time(url, remote::answer(&self.client, url, None)).await
    }

    /// Looks once whether `url` is there, and returns the head of the answer where there is one.
    pub(in crate::tool) async fn look(&self, url: &Url) -> Result<Option<Response>, DownloadError> {
        if url.scheme() == "file" {
            return self.in_time(url, local(url, 0, |_| Ok(()))).await.map(|()| None);
        }
        let (_, response) = self.led_to(url).await?;
        Ok(Some(response))
    }

    /// Fetches a file of at most `limit` bytes into memory.
    pub(in crate::tool) async fn small(
        &self,
        url: &Url,
        limit: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        if url.scheme() == "file" {
            let reading = local(url, limit, |file| {
                let mut content = Vec::new();
                file.read_to_end(&mut content).map(|_| content)
            });
            return self.in_time(url, reading).await;
        }
        let trying = async {
            let mut pauses = Pauses::new();
            loop {
                match self.small_once(url, limit).await {
                    Ok(content) => return Ok(content),
                    Err(error) => pauses.pause(error).await?,
                }
            }
        };
        self.in_time(url, trying).await
    }

    async fn small_once(&self, url: &Url, limit: u64) -> Result<Vec<u8>, DownloadError> {
        let mut response = remote::ask(&self.client, url, None).await?;
        let expected = response.content_length().and_then(NonZeroU64::new);
        if expected.is_some_and(|expected| expected.get() > limit) {
            return Err(DownloadError::TooLarge { url: redacted(url), limit });
        }
        let mut content = Vec::new();
        loop {
            let piece = remote::chunk(&self.client, url, &mut response).await?;
            let received = content.len() as u64;
            let broken =
                |source| DownloadError::Broken { url: redacted(url), received, expected, source };
            let Some(piece) = piece.map_err(broken)? else { return Ok(content) };
            if received + piece.len() as u64 > limit {
                return Err(DownloadError::TooLarge { url: redacted(url), limit });
            }
            content.extend_from_slice(&piece);
            if remote::is_packed(&response, &content) {
                return Err(DownloadError::Packed { url: redacted(url) });
            }
        }
    }

    /// Fetches a file of at most `limit` bytes into an unnamed file in `directory`, and sums it up.
    pub(in crate::tool) async fn large(
        &self,
        url: &Url,
        limit: u64,
        directory: &Path,
        mut watch: Watch<'_>,
    ) -> Result<(File, Sha256Sum), DownloadError> {
        if url.scheme() == "file" {
            return self.in_time(url, copied(url, limit, directory)).await;
        }
        let mut partial = Partial::new(directory)?;
        let trying = async {
            let mut pauses = Pauses::new();
            loop {
                let before = partial.done();
                match partial.download_rest(&self.client, url, limit, &mut watch).await {
                    Ok(()) => return Ok(()),
                    Err(error) => {
                        if partial.done() > before {
                            pauses = Pauses::new();
                        }
                        pauses.pause(error).await?;
                    }
                }
            }
        };
        self.in_time(url, trying).await?;
        Ok(partial.finish().await)
    }

    async fn in_time<T>(
        &self,
        url: &Url,
        trying: impl Future<Output = Result<T, DownloadError>>,
    ) -> Result<T, DownloadError> {
        match tokio::time::timeout_at(self.deadline, trying).await {
            Ok(result) => result,
            Err(_) => Err(DownloadError::TimedOut { url: redacted(url), after: self.longest }),
        }
    }
}

/// Growing pauses: about 8 s in all.
struct Pauses {
    left: ExponentialBackoff,
    /// The error before the last pause; the same error is not logged again.
    said: Option<String>,
}

impl Pauses {
    fn new() -> Self {
        let left = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_times(RETRIES)
            .with_jitter()
            .build();
        Self { left, said: None }
    }

    /// Waits before the next attempt, or returns `error` if it is permanent or no attempts are left.
    async fn pause(&mut self, error: DownloadError) -> Result<(), DownloadError> {
        let may_help = error.is_transient() && error.after() <= LONGEST_REST;
        let Some(pause) = may_help.then(|| self.left.next()).flatten() else {
            return Err(error);
        };
        let pause = pause.max(error.after());
        let problem = butler_base::error::chain(&error);
        if self.said.as_ref() == Some(&problem) {
            tracing::debug!(error = problem, ?pause, "download failed again");
        } else {
            tracing::warn!(error = problem, ?pause, "download failed; retrying");
            self.said = Some(problem);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Reads a file of this machine. What follows its first `limit` bytes is too much.
async fn local<T: Send + 'static>(
    url: &Url,
    limit: u64,
    read: impl FnOnce(&mut Take<Take<File>>) -> std::io::Result<T> + Send + 'static,
) -> Result<T, DownloadError> {
    let wanted = url.clone();
    let read = blocking(move |_| -> std::io::Result<(T, bool)> {
        let mut file = local::open(&wanted)?.take(limit + 1);
        let content = read(&mut file)?;
        Ok((content, file.limit() == 0))
    });
    match read.await {
        Ok((content, false)) => Ok(content),
        Ok((_, true)) => Err(DownloadError::TooLarge { url: redacted(url), limit }),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(DownloadError::NotFound { url: redacted(url) })
        }
        Err(source) => Err(DownloadError::Local { url: redacted(url), source }),
    }
}

/// Copies a file of this machine into an unnamed one: what is summed up must be what is used.
async fn copied(
    url: &Url,
    limit: u64,
    directory: &Path,
) -> Result<(File, Sha256Sum), DownloadError> {
    let store = |source| DownloadError::Store { directory: directory.to_owned(), source };
    let mut file = tempfile::tempfile_in(directory).map_err(store)?;
    let abandoned = tokio_util::sync::CancellationToken::new();
    let _guard = abandoned.clone().drop_guard();
    let copied = local(url, limit, move |source| {
        let mut summing = Summing::default();
        let mut full = None;
        let read = copy(source, &abandoned, |bytes| {
            summing.update(bytes);
            let written = file.write_all(bytes);
            written.map_err(|error| full.insert(error).kind().into())
        });
        // A write error, such as a full disk, is not an error of the source file.
        match full {
            Some(error) => Ok(Err(error)),
            None => read.map(|()| Ok((file, summing.finish()))),
        }
    });
    copied.await?.map_err(store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::http::LazyClient;

    fn fetcher(http: &LazyClient, silence: Duration) -> Fetcher<'_> {
        let longest = Duration::from_mins(10);
        let deadline = Instant::now() + longest;
        let client = SiteClient { http, credentials: None, silence };
        Fetcher { client, longest, deadline }
    }

    #[tokio::test(start_paused = true)]
    async fn error_for_a_closed_port_names_the_file_but_no_password() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let http = LazyClient::new(None);
        let url = format!("http://user:secret@{address}/file").parse().unwrap();
        let error = fetcher(&http, SILENCE).small(&url, 10).await.unwrap_err();
        let chain = butler_base::error::chain(&error);
        assert!(chain.contains(&format!("http://{address}/file")), "{chain}");
        assert!(!chain.contains("secret"), "{chain}");
    }

    #[tokio::test]
    async fn timeout_applies_to_local_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        // Nothing is on the disk, but all of it would have to be summed up.
        std::fs::File::create(&path).unwrap().set_len(1 << 34).unwrap();
        let http = LazyClient::new(None);
        let fetcher = Fetcher { deadline: Instant::now(), ..fetcher(&http, SILENCE) };
        let url = Url::from_file_path(&path).unwrap();
        let watch = Watch::new(None, &|_| ());
        let error = fetcher.large(&url, 1 << 35, directory.path(), watch).await.unwrap_err();
        assert!(matches!(error, DownloadError::TimedOut { .. }), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_site_times_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/file", listener.local_addr().unwrap()).parse().unwrap();
        let mut connections = Vec::new();
        let hold = async {
            loop {
                connections.push(listener.accept().await.unwrap());
            }
        };
        let http = LazyClient::new(None);
        let fetcher = fetcher(&http, SILENCE);
        let error = tokio::select! {
            result = fetcher.small(&url, 10) => result.unwrap_err(),
            () = hold => unreachable!("it accepts for ever"),
        };
        assert!(
            matches!(error, DownloadError::TimedOut { after, .. } if after == SILENCE),
            "{error:?}"
        );
    }
}
