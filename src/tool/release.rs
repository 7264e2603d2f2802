//! From a request to an archive that the vendor signed for.
//!
//! A [`VerifiedArchive`] is made here and nowhere else, and it is all that can be unpacked: the
//! checksum file is read only after its signature held, and the archive is handed on only if its
//! sum is the one in there. Where a vendor did not sign yet, that is said, and only the vendor's own
//! site is believed; a signature that is there has to hold in any case. The open file travels with the verdict, so nobody can put another
//! archive in its place between the two.

use std::fs::File;
use std::path::Path;

use url::Url;

use super::ToolOptions;
use super::blocking::blocking;
use super::checksums::Checksums;
use super::digest::Sha256Sum;
use super::download;
use super::error::ToolError;
use super::platform::Platform;
use super::product::Release;
use super::verify::{Signed, Trust};
use crate::spec::ToolRequest;

/// A checksum file has about 4 kB, a signature less than 1 kB.
const SMALL: u64 = 1024 * 1024;

/// Archives have about 30 MB.
const ARCHIVE: u64 = 512 * 1024 * 1024;

/// An archive whose sum is in a checksum file that a trusted key signed, or that is from before the
/// vendor signed.
#[derive(Debug)]
pub(super) struct VerifiedArchive {
    /// The archive, to be read from its beginning.
    pub(super) file: File,
    /// Its sum.
    pub(super) sha256: Sha256Sum,
    /// Where it came from, fit to be shown.
    pub(super) url: String,
    /// The fingerprint of the certificate that signed; none where nobody did.
    pub(super) signer: Option<String>,
}

/// Downloads and verifies the archive of `request`; it is kept in an unnamed file in `directory`.
pub(super) async fn fetch(
    request: &ToolRequest,
    platform: Platform,
    options: &ToolOptions,
    directory: &Path,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<VerifiedArchive, ToolError> {
    // Read before anything is fetched: a key file that is not there should not cost a download.
    let trust = Trust::new(request.product, &options.signing_keys)?;
    let release = Release::of(request, platform, options.sites.mirror(request.product));
    let http = options.http.get()?;
    let checksums = match download::small(http, &release.checksums, SMALL).await {
        Err(error) if error.is_missing() => {
            return Err(ToolError::UnknownVersion {
                request: request.clone(),
                url: download::shown(&release.checksums),
                source: error,
            });
        }
        other => other?,
    };
    let signer = match signature(request, http, &release.signatures).await {
        Err(ToolError::Unsigned { .. }) if release.may_be_unsigned => {
            let text = "it was published without a signature: only its checksum is checked";
            tracing::warn!(%request, "{text}");
            progress(&format!("{request}: {text}"));
            None
        }
        signature => {
            let (signature, data) = (signature?, checksums.clone());
            let signed = blocking(move |_| trust.verify(&data, &signature)).await;
            let signed = signed.map_err(|source| ToolError::Signature {
                request: request.clone(),
                url: download::shown(&release.checksums),
                source,
            })?;
            report(request, &signed);
            Some(signed.signer)
        }
    };
    let url = download::shown(&release.archive);
    let expected = Checksums::parse(&checksums)?.of(&release.archive_name).ok_or_else(|| {
        ToolError::NotReleased { request: request.clone(), archive: release.archive_name.clone() }
    })?;
    progress(&format!("downloading {url}"));
    let (file, sha256) = download::large(http, &release.archive, ARCHIVE, directory).await?;
    if sha256 != expected {
        return Err(ToolError::Checksum { url, expected, actual: sha256 });
    }
    Ok(VerifiedArchive { file, sha256, url, signer })
}

/// The first of the signatures that the site has.
async fn signature(
    request: &ToolRequest,
    client: &reqwest::Client,
    urls: &[Url],
) -> Result<Vec<u8>, ToolError> {
    let (last, others) = urls.split_last().expect("every product has a signature");
    for url in others {
        match download::small(client, url, SMALL).await {
            Err(error) if error.is_missing() => {}
            other => return Ok(other?),
        }
    }
    match download::small(client, last, SMALL).await {
        Err(source) if source.is_missing() => Err(ToolError::Unsigned {
            request: request.clone(),
            url: download::shown(last),
            source,
        }),
        other => Ok(other?),
    }
}

fn report(request: &ToolRequest, signed: &Signed) {
    let key = &signed.signer;
    if signed.outdated {
        tracing::warn!(%request, signer = key, "the key that signed this release has expired since; its signature is older and holds");
    } else {
        tracing::info!(%request, signer = key, "the signature holds");
    }
    if let Some(expires) = signed.expires.filter(|_| !signed.outdated) {
        let expires = humantime::format_rfc3339_seconds(expires);
        tracing::warn!(%request, signer = key, %expires, "the key that signs these releases expires soon: update butler-runner, or the key that --signing-key names, before");
    }
}
