//! A download that may need several requests.
//!
//! Its checksum is computed while it streams. After a lost connection it resumes from the last good
//! byte if the site supports ranges and still has the same file; otherwise it restarts. The file
//! has no name, so the operating system removes it however the runner ends.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use reqwest::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED};
use reqwest::{Response, StatusCode};
use tokio::io::AsyncWriteExt;
use url::Url;

use super::error::DownloadError;
use super::remote::{MissingRange, SiteClient, is_compressed, next_chunk, request_file};
use crate::tool::digest::{Sha256Sum, Summing};
use crate::tool::fetch::login::redacted;
use crate::tool::fetch::transfer::{Transfer, Watch};

/// The part of a file that was downloaded.
pub(super) struct Partial {
    directory: PathBuf,
    file: tokio::fs::File,
    summing: Summing,
    done: u64,
    total: Option<u64>,
    validator: Option<String>,
}

impl Partial {
    pub(super) fn new(directory: &Path) -> Result<Self, DownloadError> {
        let file = tempfile::tempfile_in(directory)
            .map_err(|source| DownloadError::Store { directory: directory.to_owned(), source })?;
        Ok(Self {
            directory: directory.to_owned(),
            file: tokio::fs::File::from_std(file),
            summing: Summing::default(),
            done: 0,
            total: None,
            validator: None,
        })
    }

    /// How many bytes were received.
    pub(super) fn received(&self) -> u64 {
        self.done
    }

    /// Fetches the missing bytes.
    pub(super) async fn download_rest(
        &mut self,
        client: &SiteClient<'_>,
        url: &Url,
        limit: u64,
        watch: &mut Watch<'_>,
    ) -> Result<(), DownloadError> {
        let mut response = self.request_rest(client, url).await?;
        if self.total.is_some_and(|total| total > limit) {
            return Err(DownloadError::TooLarge { url: redacted(url), limit });
        }
        loop {
            let chunk = match next_chunk(client, url, &mut response).await? {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    self.file.flush().await.map_err(|source| self.store_error(source))?;
                    let (url, received) = (redacted(url), self.done);
                    return match self.total.filter(|total| received < *total) {
                        Some(expected) => Err(DownloadError::Short { url, received, expected }),
                        None => Ok(()),
                    };
                }
                Err(source) => {
                    let (received, expected) = (self.done, self.total.and_then(NonZeroU64::new));
                    return Err(DownloadError::Broken {
                        url: redacted(url),
                        received,
                        expected,
                        source,
                    });
                }
            };
            if self.done + chunk.len() as u64 > limit {
                return Err(DownloadError::TooLarge { url: redacted(url), limit });
            }
            if self.done == 0 && is_compressed(&response, &chunk) {
                return Err(DownloadError::Compressed { url: redacted(url) });
            }
            self.file.write_all(&chunk).await.map_err(|source| self.store_error(source))?;
            self.summing.update(&chunk);
            self.done += chunk.len() as u64;
            watch.moved(Transfer { done: self.done, total: self.total });
        }
    }

    /// The file, at any position, and its checksum.
    pub(super) async fn finish(self) -> (File, Sha256Sum) {
        (self.file.into_std().await, self.summing.finish())
    }

    /// Requests the missing part, or the whole file if the site does not send the part.
    async fn request_rest(
        &mut self,
        client: &SiteClient<'_>,
        url: &Url,
    ) -> Result<Response, DownloadError> {
        let mut whole = None;
        if let Some(validator) = self.validator.as_deref().filter(|_| self.done > 0) {
            let response =
                request_file(client, url, Some(MissingRange { from: self.done, validator }))
                    .await?;
            if self.is_continued_by(&response) {
                tracing::info!(url = redacted(url), from = self.done, "resuming the download");
                return Ok(response);
            }
            whole = (response.status() == StatusCode::OK).then_some(response);
        }
        self.restart().await?;
        let response = match whole {
            Some(response) => response,
            None => request_file(client, url, None).await?,
        };
        self.total = response.content_length();
        self.validator = validator(response.headers());
        Ok(response)
    }

    /// Whether a response contains exactly the missing part.
    fn is_continued_by(&self, response: &Response) -> bool {
        let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        response.status() == StatusCode::PARTIAL_CONTENT
            && range.is_some_and(|range| is_rest(range, self.done, self.total))
    }

    async fn restart(&mut self) -> Result<(), DownloadError> {
        if self.done == 0 {
            return Ok(());
        }
        self.file.flush().await.map_err(|source| self.store_error(source))?;
        self.summing = Summing::default();
        self.done = 0;
        let copy = self.file.try_clone().await.map_err(|source| self.store_error(source))?;
        let mut file = copy.into_std().await;
        let emptied = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        emptied.map(drop).map_err(|source| self.store_error(source))
    }

    fn store_error(&self, source: std::io::Error) -> DownloadError {
        DownloadError::Store { directory: self.directory.clone(), source }
    }
}

/// The tag or time by which the site can recognize the same file later; none if it does not support
/// ranges. A weak tag is not used, because it does not compare bytes.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if text(ACCEPT_RANGES).is_some_and(|ranges| ranges == "none") {
        return None;
    }
    text(ETAG).filter(|tag| !tag.starts_with("W/")).or_else(|| text(LAST_MODIFIED))
}

/// Whether `bytes FROM-LAST/TOTAL` is the missing range.
fn is_rest(range: &str, from: u64, total: Option<u64>) -> bool {
    let parts = range.strip_prefix("bytes ").and_then(|range| range.split_once('/'));
    let Some(((first, last), size)) =
        parts.and_then(|(range, size)| Some((range.split_once('-')?, size)))
    else {
        return false;
    };
    let (first, last, size) = (first.parse::<u64>(), last.parse::<u64>(), size.parse::<u64>());
    let is_last = last.ok().zip(size.clone().ok()).is_none_or(|(last, size)| last + 1 == size);
    first == Ok(from) && is_last && total.is_none_or(|total| size.is_err() || size == Ok(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_missing_part_of_the_same_file_continues_a_download() {
        for (range, is) in [
            ("bytes 5-9/10", true),
            ("bytes 5-9/*", true),
            ("bytes 4-9/10", false),
            ("bytes 5-8/10", false),
            ("bytes 5-10/11", false),
            ("bytes */10", false),
            ("5-9/10", false),
            ("", false),
        ] {
            assert_eq!(is_rest(range, 5, Some(10)), is, "{range}");
        }
        assert!(is_rest("bytes 5-10/11", 5, None));
    }

    #[test]
    fn download_is_not_resumed_with_a_weak_tag_or_without_ranges() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (name.parse().unwrap(), reqwest::header::HeaderValue::from_static(value))
            });
            validator(&pairs.collect())
        };
        assert_eq!(of(&[("etag", "\"a\""), ("last-modified", "b")]).as_deref(), Some("\"a\""));
        assert_eq!(of(&[("etag", "W/\"a\""), ("last-modified", "b")]).as_deref(), Some("b"));
        assert_eq!(of(&[("etag", "W/\"a\"")]), None);
        assert_eq!(of(&[("etag", "\"a\""), ("accept-ranges", "none")]), None);
    }
}
