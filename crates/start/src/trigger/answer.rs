//! Responses of a CI system: status, headers and message.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;
use zeroize::Zeroizing;

use butler_base::secret::append;

/// The largest answer that is taken: a page of a hundred workflow runs is about a megabyte.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// A response that is neither a rate limit nor a server error.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// What was asked for.
    pub(super) url: Url,
    body: Zeroizing<Vec<u8>>,
}

impl Answer {
    /// Reads an answer into memory that is zeroed when it is dropped; of one that is too long, the
    /// beginning.
    pub(super) async fn read(mut response: Response) -> Result<Self, reqwest::Error> {
        let mut body = Zeroizing::new(Vec::with_capacity(64 * 1024));
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                break;
            }
            append(&mut body, &chunk);
        }
        let (status, url) = (response.status(), response.url().clone());
        Ok(Self { status, headers: std::mem::take(response.headers_mut()), url, body })
    }

    /// All that it says.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// A header's text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
    }

    /// Where it sends to, if it does.
    pub(super) fn location(&self) -> Option<Url> {
        self.url.join(self.header(LOCATION.as_str())?).ok()
    }

    /// Whether it is for people.
    pub(super) fn is_page(&self) -> bool {
        let is_html =
            |value: &HeaderValue| value.to_str().is_ok_and(|value| value.starts_with("text/html"));
        self.headers.get(CONTENT_TYPE).is_some_and(is_html)
            || self.body.trim_ascii_start().starts_with(b"<")
    }

    /// What it says to people.
    pub(super) fn message(&self) -> Option<String> {
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => {
                let parts = ["message", "error", "error_description", "errors"];
                let parts = parts.iter().filter_map(|key| value.get(key)).filter_map(said);
                Some(parts.collect::<Vec<_>>().join(": "))
            }
            Err(_) if self.is_page() => title(&self.body),
            Err(_) => Some(String::from_utf8_lossy(&self.body).into_owned()),
        }
    }

    /// Whether the body contains `words` (lower case), ignoring case.
    pub(super) fn body_contains(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.body).to_lowercase().contains(words)
    }
}

/// Strings, and what is in lists and objects.
fn said(value: &Value) -> Option<String> {
    let join = |parts: Vec<String>| Some(parts.join(", ")).filter(|text| !text.is_empty());
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => join(values.iter().filter_map(said).collect()),
        Value::Object(values) => match values.get("message") {
            Some(message) => said(message),
            None => join(values.values().filter_map(said).collect()),
        },
        _ => None,
    }
}

/// The title of a page.
fn title(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let (_, after) = text.split_once("<title>")?;
    after.split_once("</title>").map(|(title, _)| title.to_owned())
}
