//! The vendors' lists of released versions.
//!
//! They are not signed. That is enough for choosing a version: what is downloaded then has to be
//! signed for under exactly that version's name.

use std::collections::BTreeMap;

use semver::Version;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ToolOptions;
use super::download::{self, Fetcher};
use super::error::ToolError;
use crate::spec::Product;

/// The larger list, Terraform's, has about 7 MB and grows.
const LARGEST: u64 = 64 * 1024 * 1024;

/// All released versions of `product`, in no particular order.
pub(super) async fn released(
    product: Product,
    options: &ToolOptions,
) -> Result<Vec<Version>, ToolError> {
    let url = product.index(options.sites.mirror(product));
    let list = Fetcher::new(product, options).small(&url, LARGEST).await?;
    parse(&list).map_err(|source| ToolError::Index { url: download::shown(&url), source })
}

/// `{"versions":{"1.9.8":{…}}}` at `HashiCorp`, `{"versions":[{"id":"1.8.5",…}]}` at `OpenTofu`.
#[derive(Deserialize)]
struct Index {
    versions: Versions,
}

#[derive(Deserialize)]
#[serde(untagged)]
#[expect(clippy::zero_sized_map_values, reason = "a map is what the list is, whatever it maps to")]
enum Versions {
    ByName(BTreeMap<String, IgnoredAny>),
    List(Vec<Listed>),
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

fn parse(list: &[u8]) -> Result<Vec<Version>, serde_json::Error> {
    let names: Vec<String> = match serde_json::from_slice::<Index>(list)?.versions {
        Versions::ByName(versions) => versions.into_keys().collect(),
        Versions::List(versions) => versions.into_iter().map(|version| version.id).collect(),
    };
    // Both lists begin with names from before there was an order in them.
    Ok(names.iter().filter_map(|name| name.trim_start_matches('v').parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_list_are_read() {
        let hashicorp =
            br#"{"name":"terraform","versions":{"1.9.8":{"builds":[{"os":"linux"}]},"odd":{}}}"#;
        let opentofu = br#"{"versions":[{"id":"1.8.5","files":["a"]},{"id":"v1.9.0-rc1"}]}"#;
        let texts = |list: &[u8]| -> Vec<String> {
            parse(list).unwrap().iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts(hashicorp), ["1.9.8"]);
        assert_eq!(texts(opentofu), ["1.8.5", "1.9.0-rc1"]);
        assert!(parse(b"<html>").is_err());
    }
}
