//! Recognises web pages among downloads: login pages and the pages of proxies have the status 200 too.

use super::error::DownloadError;
use crate::tool::fetch::login::redacted;
use butler_base::error::visible;
use url::Url;

/// How many bytes of a file are looked at.
pub(in crate::tool) const BEGINNING: usize = 4096;

/// The longest title that is shown, in characters.
const LONGEST_TITLE: usize = 80;

/// The error for a download that begins as a web page does; `None` if it does not.
pub(in crate::tool) fn web_page(url: &Url, content: &[u8]) -> Option<DownloadError> {
    let beginning = String::from_utf8_lossy(content.get(..BEGINNING).unwrap_or(content));
    let text = beginning.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let lower = text.to_ascii_lowercase();
    let is_page = lower.starts_with("<!doctype html")
        || lower.starts_with("<html")
        || (lower.starts_with("<?xml") && lower.contains("<html"));
    is_page.then(|| {
        let begin = lower.find("<title>").map(|at| at + "<title>".len());
        let end = lower.find("</title>");
        let title = begin.zip(end).and_then(|(begin, end)| text.get(begin..end));
        let title =
            title.map(|title| visible(title.trim()).take(LONGEST_TITLE).collect::<String>());
        let title = title.filter(|title| !title.is_empty());
        DownloadError::WebPage { url: redacted(url), title }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_named_by_its_title() {
        let url: Url = "https://user:hunter2@mirror.example/a".parse().unwrap();
        for (content, expected) in [
            (
                "<!DOCTYPE html><html><head><title> Sign in\n</title>",
                Some("`https://mirror.example/a` returned a web page (\"Sign in\"), not the file"),
            ),
            (
                "\u{feff}\r\n<html>",
                Some("`https://mirror.example/a` returned a web page, not the file"),
            ),
            (
                "<?xml version=\"1.0\"?><html>",
                Some("`https://mirror.example/a` returned a web page, not the file"),
            ),
            ("<?xml version=\"1.0\"?><Error/>", None),
            ("{\"a\": \"<html>\"}", None),
            ("PK\u{3}\u{4}", None),
            ("", None),
        ] {
            let found = web_page(&url, content.as_bytes()).map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected, "{content}");
        }
    }
}
