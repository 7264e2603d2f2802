//! Responses of a CI system: status, headers and message.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;

/// The largest body that is read, in bytes: a page of a hundred workflow runs is about a megabyte.
const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// A response that is neither a rate limit nor a server error.
pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The URL of the request.
    pub(super) url: Url,
    body: Vec<u8>,
}

impl ApiResponse {
    /// Reads a response. The body is cut after [`LARGEST_BODY`].
    pub(super) async fn read(mut response: Response) -> Result<Self, reqwest::Error> {
        let mut body = Vec::with_capacity(64 * 1024);
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > LARGEST_BODY {
                break;
            }
            body.extend_from_slice(&chunk);
        }
        let (status, url) = (response.status(), response.url().clone());
        Ok(Self { status, headers: std::mem::take(response.headers_mut()), url, body })
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The trimmed text of a header; `None` if it is empty.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
    }

    /// The target of a redirect or the address of a created resource, from the header `Location`.
    pub(super) fn location(&self) -> Option<Url> {
        self.url.join(self.header(LOCATION.as_str())?).ok()
    }

    /// Whether the response is a web page: a sign-in page or a proxy's error page.
    pub(super) fn is_page(&self) -> bool {
        let is_html =
            |value: &HeaderValue| value.to_str().is_ok_and(|value| value.starts_with("text/html"));
        self.headers.get(CONTENT_TYPE).is_some_and(is_html)
            || self.body.trim_ascii_start().starts_with(b"<")
    }

    /// The error message in the body: of a JSON object, the title of a web page, or the text itself.
    pub(super) fn message(&self) -> Option<String> {
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => {
                let parts = ["message", "error", "error_description", "errors"];
                let parts = parts.iter().filter_map(|key| value.get(key)).filter_map(text_of);
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

/// The strings in `value`, also in nested lists and objects.
fn text_of(value: &Value) -> Option<String> {
    let join = |parts: Vec<String>| Some(parts.join(", ")).filter(|text| !text.is_empty());
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => join(values.iter().filter_map(text_of).collect()),
        Value::Object(values) => match values.get("message") {
            Some(message) => text_of(message),
            None => join(values.values().filter_map(text_of).collect()),
        },
        _ => None,
    }
}

/// The title of a web page.
fn title(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let (_, after) = text.split_once("<title>")?;
    after.split_once("</title>").map(|(title, _)| title.to_owned())
}
