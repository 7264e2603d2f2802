//! Fetches files of one product: small ones into memory, archives into an unnamed file.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use reqwest::Response;
use tokio::time::Instant;
use url::Url;

use super::error::DownloadError;
use super::local::{copy_to_unnamed, read_local};
use super::partial::Partial;
use super::remote::{self, SiteClient};
use super::web_page::web_page;
use crate::tool::digest::Sha256Sum;
use crate::tool::fetch::login::{Credentials, redacted};
use crate::tool::fetch::transfer::Watch;
use crate::tool::options::ToolOptions;
use butler_protocol::spec::Product;

/// How often a request is retried without progress.
const RETRIES: usize = 4;

/// The longest `Retry-After` that the runner waits for.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// The longest time without data from the site: before the headers, and between two chunks of the body.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Fetches the releases of one product, with the login for its mirror if there is one.
pub(in crate::tool) struct Fetcher<'a> {
    client: SiteClient<'a>,
    /// The time for all requests of this fetcher together, and its end.
    timeout: Duration,
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
        let client = SiteClient { http: &options.http, credentials, idle_timeout: IDLE_TIMEOUT };
        let (timeout, deadline) = (options.timeout, Instant::now() + options.timeout);
        Self { client, timeout, deadline }
    }

    /// Requests `url`. Returns the URL after all redirects, and the response.
    pub(in crate::tool) async fn follow_redirects(
        &self,
        url: &Url,
    ) -> Result<(Url, Response), DownloadError> {
        self.with_deadline(url, remote::request_following_redirects(&self.client, url, None)).await
    }

    /// Checks once whether `url` exists, and returns the head of the response; `None` for a local file.
    pub(in crate::tool) async fn probe(
        &self,
        url: &Url,
    ) -> Result<Option<Response>, DownloadError> {
        if url.scheme() == "file" {
            return self.with_deadline(url, read_local(url, 0, |_| Ok(()))).await.map(|()| None);
        }
        let (_, response) = self.follow_redirects(url).await?;
        Ok(Some(response))
    }

    /// Fetches a file of at most `limit` bytes into memory. A web page in place of the file is an error.
    pub(in crate::tool) async fn fetch_small(
        &self,
        url: &Url,
        limit: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        let content = self.fetch_any_small(url, limit).await?;
        web_page(url, &content).map_or(Ok(content), Err)
    }

    /// As [`Self::fetch_small`], but the file can be a web page.
    pub(in crate::tool) async fn fetch_any_small(
        &self,
        url: &Url,
        limit: u64,
    ) -> Result<Vec<u8>, DownloadError> {
        if url.scheme() == "file" {
            let reading = read_local(url, limit, |file| {
                let mut content = Vec::new();
                file.read_to_end(&mut content).map(|_| content)
            });
            return self.with_deadline(url, reading).await;
        }
        let trying = async {
            let mut pauses = RetryPauses::new();
            loop {
                match self.fetch_small_once(url, limit).await {
                    Ok(content) => return Ok(content),
                    Err(error) => pauses.pause(error).await?,
                }
            }
        };
        self.with_deadline(url, trying).await
    }

    async fn fetch_small_once(&self, url: &Url, limit: u64) -> Result<Vec<u8>, DownloadError> {
        let mut response = remote::request_file(&self.client, url, None).await?;
        let expected = response.content_length().and_then(NonZeroU64::new);
        if expected.is_some_and(|expected| expected.get() > limit) {
            return Err(DownloadError::TooLarge { url: redacted(url), limit });
        }
        let mut content = Vec::new();
        loop {
            let chunk = remote::next_chunk(&self.client, url, &mut response).await?;
            let received = content.len() as u64;
            let broken =
                |source| DownloadError::Broken { url: redacted(url), received, expected, source };
            let Some(chunk) = chunk.map_err(broken)? else { return Ok(content) };
            if received + chunk.len() as u64 > limit {
                return Err(DownloadError::TooLarge { url: redacted(url), limit });
            }
            content.extend_from_slice(&chunk);
            if remote::is_compressed(&response, &content) {
                return Err(DownloadError::Compressed { url: redacted(url) });
            }
        }
    }

    /// Fetches a file of at most `limit` bytes into an unnamed file in `directory`, and computes its checksum.
    pub(in crate::tool) async fn fetch_large(
        &self,
        url: &Url,
        limit: u64,
        directory: &Path,
        mut watch: Watch<'_>,
    ) -> Result<(File, Sha256Sum), DownloadError> {
        if url.scheme() == "file" {
            return self.with_deadline(url, copy_to_unnamed(url, limit, directory)).await;
        }
        let mut partial = Partial::new(directory)?;
        let trying = async {
            let mut pauses = RetryPauses::new();
            loop {
                let before = partial.received();
                match partial.download_rest(&self.client, url, limit, &mut watch).await {
                    Ok(()) => return Ok(()),
                    Err(error) => {
                        if partial.received() > before {
                            pauses = RetryPauses::new();
                        }
                        pauses.pause(error).await?;
                    }
                }
            }
        };
        self.with_deadline(url, trying).await?;
        Ok(partial.finish().await)
    }

    async fn with_deadline<T>(
        &self,
        url: &Url,
        trying: impl Future<Output = Result<T, DownloadError>>,
    ) -> Result<T, DownloadError> {
        match tokio::time::timeout_at(self.deadline, trying).await {
            Ok(result) => result,
            Err(_) => Err(DownloadError::TimedOut { url: redacted(url), after: self.timeout }),
        }
    }
}

/// Growing pauses: about 8 s in all.
struct RetryPauses {
    left: ExponentialBackoff,
    /// The error before the last pause; the same error is not logged again.
    last_logged: Option<String>,
}

impl RetryPauses {
    fn new() -> Self {
        let left = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_times(RETRIES)
            .with_jitter()
            .build();
        Self { left, last_logged: None }
    }

    /// Waits before the next attempt, or returns `error` if it is permanent or no attempts are left.
    async fn pause(&mut self, error: DownloadError) -> Result<(), DownloadError> {
        let may_help = error.is_transient() && error.after() <= MAX_RETRY_AFTER;
        let Some(pause) = may_help.then(|| self.left.next()).flatten() else {
            return Err(error);
        };
        let pause = pause.max(error.after());
        let problem = butler_base::error::chain(&error);
        if self.last_logged.as_ref() == Some(&problem) {
            tracing::debug!(error = problem, ?pause, "download failed again");
        } else {
            tracing::warn!(error = problem, ?pause, "download failed; retrying");
            self.last_logged = Some(problem);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::http::LazyClient;

    fn fetcher(http: &LazyClient, idle_timeout: Duration) -> Fetcher<'_> {
        let timeout = Duration::from_mins(10);
        let deadline = Instant::now() + timeout;
        let client = SiteClient { http, credentials: None, idle_timeout };
        Fetcher { client, timeout, deadline }
    }

    #[tokio::test(start_paused = true)]
    async fn error_for_a_closed_port_names_the_file_but_no_password() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let http = LazyClient::new(None);
        let url = format!("http://user:secret@{address}/file").parse().unwrap();
        let error = fetcher(&http, IDLE_TIMEOUT).fetch_small(&url, 10).await.unwrap_err();
        let chain = butler_base::error::chain(&error);
        assert!(chain.contains(&format!("http://{address}/file")), "{chain}");
        assert!(!chain.contains("secret"), "{chain}");
    }

    #[tokio::test]
    async fn timeout_applies_to_local_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        // A sparse file: it takes no space, but its checksum takes long.
        std::fs::File::create(&path).unwrap().set_len(1 << 34).unwrap();
        let http = LazyClient::new(None);
        let fetcher = Fetcher { deadline: Instant::now(), ..fetcher(&http, IDLE_TIMEOUT) };
        let url = Url::from_file_path(&path).unwrap();
        let watch = Watch::new(None, &|_| ());
        let error = fetcher.fetch_large(&url, 1 << 35, directory.path(), watch).await.unwrap_err();
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
        let fetcher = fetcher(&http, IDLE_TIMEOUT);
        let error = tokio::select! {
            result = fetcher.fetch_small(&url, 10) => result.unwrap_err(),
            () = hold => unreachable!("it accepts for ever"),
        };
        assert!(
            matches!(error, DownloadError::TimedOut { after, .. } if after == IDLE_TIMEOUT),
            "{error:?}"
        );
    }
}
