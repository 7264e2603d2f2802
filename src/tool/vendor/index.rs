//! The vendors' lists of released versions. A mirror without a list is asked for the listing of its directory.
//!
//! They are not signed. That is acceptable for choosing a version, because the download must be signed
//! and must be that version.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::tool::error::ToolError;
use crate::tool::fetch::download::Fetcher;
use crate::tool::fetch::login::redacted;
use crate::tool::options::ToolOptions;
use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::product::Vendored as _;
use crate::tool::vendor::release_urls::Release;
use butler_base::blocking::blocking;
use butler_protocol::spec::{Product, ToolRequest};

/// The largest list, Terraform's, has about 7 MB and grows.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The largest number of releases on one page of GitHub.
const PER_PAGE: usize = 100;

/// The largest number of pages. Terragrunt had about 1,000 releases in ten years.
const MAX_PAGES: usize = 40;

/// All released versions of `product`, in no particular order.
pub(in crate::tool) async fn released(
    product: Product,
    options: &ToolOptions,
) -> Result<Vec<Version>, ToolError> {
    let (url, is_paged) = product.index(options.sites.mirror(product));
    let fetcher = Fetcher::new(product, options);
    if !is_paged {
        let page = fetch_page(&url, &fetcher).await;
        return or_listing(page.map(|page| page.versions), product, options, &fetcher).await;
    }
    let mut versions = BTreeSet::new();
    for page in 1..=MAX_PAGES {
        let mut url = url.clone();
        url.query_pairs_mut()
            .append_pair("per_page", &PER_PAGE.to_string())
            .append_pair("page", &page.to_string());
        let Page { versions: more, entries } = match fetch_page(&url, &fetcher).await {
            Ok(page) => page,
            Err(error) if page == 1 => {
                return or_listing(Err(error), product, options, &fetcher).await;
            }
            Err(error) => return Err(error),
        };
        let known = versions.len();
        versions.extend(more);
        // A mirror of plain files returns the whole list for every page.
        if entries < PER_PAGE || versions.len() == known {
            break;
        }
    }
    Ok(versions.into_iter().collect())
}

/// The versions of the list; if a mirror has no list, those that the listing of its directory names.
async fn or_listing(
    versions: Result<Vec<Version>, ToolError>,
    product: Product,
    options: &ToolOptions,
    fetcher: &Fetcher<'_>,
) -> Result<Vec<Version>, ToolError> {
    match versions {
        Err(ToolError::Download(error)) if error.is_missing() => {
            match directory_listing(product, options, fetcher).await {
                Some(versions) if !versions.is_empty() => {
                    tracing::info!(%product, "the mirror has no list of versions; using the listing of its directory");
                    Ok(versions)
                }
                _ => Err(error.into()),
            }
        }
        other => other,
    }
}

/// The versions that have a directory on the mirror of `product`, from a local directory or from a web server's listing
/// of one. `None` without a mirror, or if there is no listing.
async fn directory_listing(
    product: Product,
    options: &ToolOptions,
    fetcher: &Fetcher<'_>,
) -> Option<Vec<Version>> {
    let mirror = options.sites.mirror(product)?;
    let request = ToolRequest { product, version: Version::new(0, 0, 0) };
    let release = Release::of(&request, Platform::current().ok()?, Some(mirror));
    // Above the directory of the version.
    let above = release.checksums.join("../").ok()?;
    if above.scheme() != "file" {
        let page = fetcher.fetch_any_small(&above, LARGEST).await.ok()?;
        return Some(versions_in_page(&String::from_utf8_lossy(&page)));
    }
    let directory = above.to_file_path().ok()?;
    let names = blocking(move |_| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.path().is_dir());
        directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    });
    let names: Vec<String> = names.await;
    Some(names.iter().filter_map(|name| version_of(name)).collect())
}

/// The versions that are the last parts of links in a page.
fn versions_in_page(page: &str) -> Vec<Version> {
    let links = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        rest[1..].split(quote).next()
    });
    let last = |link: &str| link.trim_end_matches('/').rsplit('/').next().and_then(version_of);
    let versions: BTreeSet<Version> = links.filter_map(last).collect();
    versions.into_iter().collect()
}

fn version_of(name: &str) -> Option<Version> {
    name.strip_prefix('v').unwrap_or(name).parse().ok()
}

async fn fetch_page(url: &url::Url, fetcher: &Fetcher<'_>) -> Result<Page, ToolError> {
    let list = fetcher.fetch_small(url, LARGEST).await?;
    parse(&list).map_err(|source| ToolError::Index { url: redacted(url), source })
}

/// One page of a list.
struct Page {
    versions: Vec<Version>,
    /// How many releases it lists, whether or not their names are versions.
    entries: usize,
}

/// `{"versions":{"1.9.8":{…}}}` at `HashiCorp`, `{"versions":[{"id":"1.8.5",…}]}` at `OpenTofu`,
/// `[{"tag_name":"v0.99.1",…}]` at GitHub.
#[derive(Deserialize)]
#[serde(untagged)]
#[expect(
    clippy::zero_sized_map_values,
    reason = "the list is a map of which only the keys are needed"
)]
enum Index {
    ByName { versions: BTreeMap<String, IgnoredAny> },
    List { versions: Vec<Listed> },
    Releases(Vec<Tagged>),
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

#[derive(Deserialize)]
struct Tagged {
    tag_name: String,
    #[serde(default)]
    draft: bool,
}

fn parse(list: &[u8]) -> Result<Page, serde_json::Error> {
    let names: Vec<String> = match serde_json::from_slice(list)? {
        Index::ByName { versions } => versions.into_keys().collect(),
        Index::List { versions } => versions.into_iter().map(|version| version.id).collect(),
        Index::Releases(releases) => {
            // A draft has no files yet, but counts as an entry of the page.
            let name =
                |release: Tagged| if release.draft { String::new() } else { release.tag_name };
            releases.into_iter().map(name).collect()
        }
    };
    // All lists contain old names that are not semantic versions.
    let versions = names.iter().filter_map(|name| version_of(name)).collect();
    Ok(Page { versions, entries: names.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_links_of_a_directory_listing() {
        let page = "<html><a href=\"../\">../</a> <a href=\"1.9.8/\">1.9.8/</a>\n<A href='/terraform/1.10.0/'>x</A>\n\
                    <a href=\"v1.8.5/\">v</a><a href=\"index.html\">i</a><a href=\"1.9.8/\">again</a> href=1.0.0";
        let found: Vec<_> = versions_in_page(page).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["1.8.5", "1.9.8", "1.10.0"]);
    }

    #[test]
    fn every_kind_of_list_is_read() {
        let hashicorp =
            br#"{"name":"terraform","versions":{"1.9.8":{"builds":[{"os":"linux"}]},"odd":{}}}"#;
        let opentofu = br#"{"versions":[{"id":"1.8.5","files":["a"]},{"id":"v1.9.0-rc1"}]}"#;
        let github = br#"[{"tag_name":"v1.0.0","draft":true},{"tag_name":"v0.99.1","draft":false},
            {"tag_name":"alpha2026010101","prerelease":true},{"tag_name":"v0.99.0"}]"#;
        let texts = |list: &[u8]| -> Vec<String> {
            parse(list).unwrap().versions.iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(hashicorp), ["1.9.8"]);
        assert_eq!(texts(opentofu), ["1.8.5", "1.9.0-rc1"]);
        assert_eq!(texts(github), ["0.99.1", "0.99.0"]);
        assert_eq!(parse(github).unwrap().entries, 4);
        assert!(parse(b"<html>").is_err());
        assert!(parse(br#"{"message":"API rate limit exceeded"}"#).is_err());
    }
}
