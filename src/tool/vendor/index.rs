//! The vendors' lists of released versions.
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
use crate::tool::vendor::product::Vendored as _;
use butler_protocol::spec::Product;

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
        return Ok(fetch_page(&url, &fetcher).await?.versions);
    }
    let mut versions = BTreeSet::new();
    for page in 1..=MAX_PAGES {
        let mut url = url.clone();
        url.query_pairs_mut()
            .append_pair("per_page", &PER_PAGE.to_string())
            .append_pair("page", &page.to_string());
        let Page { versions: more, entries } = fetch_page(&url, &fetcher).await?;
        let known = versions.len();
        versions.extend(more);
        // A mirror of plain files returns the whole list for every page.
        if entries < PER_PAGE || versions.len() == known {
            break;
        }
    }
    Ok(versions.into_iter().collect())
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
    let version = |name: &String| name.strip_prefix('v').unwrap_or(name).parse().ok();
    Ok(Page { versions: names.iter().filter_map(version).collect(), entries: names.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

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
