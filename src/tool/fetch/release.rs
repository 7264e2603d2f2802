//! Downloads the archive of a release and verifies it against the vendor's signature.
//!
//! A [`VerifiedArchive`] is created only here, and only it can be unpacked. The checksum file is
//! parsed after its signature was verified, and the archive is returned only if its checksum is in
//! that file. The value owns the open file, so no process can replace the archive between
//! verification and unpacking. If the user gave both the URL of an archive and its checksum, that
//! checksum is verified instead of a signature. If the vendor did not sign yet, the runner logs that
//! and accepts only the vendor's own site. An existing signature must always be valid.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use url::Url;

use crate::tool::digest::Sha256Sum;
use crate::tool::error::{ChecksumSource, ToolError};
use crate::tool::fetch::download::{BEGINNING, Fetcher, web_page};
use crate::tool::fetch::login::redacted;
use crate::tool::fetch::transfer::Watch;
use crate::tool::options::ToolOptions;
use crate::tool::store::record::Trusted;
use crate::tool::vendor::checksums::Checksums;
use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::release_urls::Release;
use crate::tool::vendor::verify::{Signed, TrustedCertificates};
use butler_base::blocking::blocking;
use butler_protocol::spec::ToolRequest;

/// A checksum file has about 4 kB, a signature less than 1 kB.
const MAX_CHECKSUM_FILE: u64 = 1024 * 1024;

/// Archives have about 30 MB.
const MAX_ARCHIVE: u64 = 512 * 1024 * 1024;

/// An archive whose checksum comes from a trusted source.
#[derive(Debug)]
pub(in crate::tool) struct VerifiedArchive {
    /// The archive, to be read from its beginning.
    pub(in crate::tool) file: File,
    /// Its checksum.
    pub(in crate::tool) sha256: Sha256Sum,
    /// Its URL, without credentials.
    pub(in crate::tool) url: String,
    /// Why its checksum is trusted.
    pub(in crate::tool) trusted: Trusted,
}

/// A verified checksum file. It may be unsigned only if the vendor did not sign the release.
pub(in crate::tool) struct ChecksumFile {
    /// The file as it was signed.
    pub(in crate::tool) bytes: Vec<u8>,
    /// The URL of its signature, and the signature, if it is signed.
    pub(in crate::tool) signature: Option<(Url, Vec<u8>)>,
    /// Its content.
    pub(in crate::tool) sums: Checksums,
    /// Why it is trusted.
    pub(in crate::tool) trusted: Trusted,
}

/// Downloads and verifies the archive of `request`; it is kept in an unnamed file in `directory`.
pub(in crate::tool) async fn fetch_release(
    request: &ToolRequest,
    platform: Platform,
    options: &ToolOptions,
    directory: &Path,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<VerifiedArchive, ToolError> {
    let sites = &options.sites;
    let release = Release::of(request, platform, sites.mirror(request.product));
    let release = match sites.archive() {
        Some(url) => release.next_to(url.clone()),
        None => release,
    };
    let fetcher = Fetcher::new(request.product, options);
    let given = sites.checksum();
    if let (Some(_), Some(sum)) = (sites.archive(), given) {
        tracing::info!(%request, "verifying the archive with the given checksum, not with a signature");
        let wanted =
            ExpectedChecksum { sum, origin: ChecksumSource::Given, trusted: Trusted::Checksum };
        return fetch_archive(&fetcher, &release, wanted, options, directory, progress).await;
    }
    let checksums = match fetch_checksum_file(request, &release, &fetcher, options, progress).await
    {
        Err(ToolError::UnknownVersion { request, source, .. }) if sites.archive().is_some() => {
            return Err(ToolError::NoChecksumFile { request, source });
        }
        other => other?,
    };
    let sum = archive_checksum(request, &release, &checksums)?;
    if let Some(given) = given.filter(|given| *given != sum) {
        // Before the download: the signed archive is not the one that the user expects.
        let url = redacted(&release.archive);
        return Err(ToolError::Checksum {
            url,
            origin: ChecksumSource::Given,
            expected: given,
            actual: sum,
        });
    }
    let origin = match &checksums.trusted {
        Trusted::Unsigned => ChecksumSource::Published,
        _ => ChecksumSource::Signed,
    };
    let wanted = ExpectedChecksum { sum, origin, trusted: checksums.trusted };
    fetch_archive(&fetcher, &release, wanted, options, directory, progress).await
}

/// Downloads the checksum file of a release and verifies it.
pub(in crate::tool) async fn fetch_checksum_file(
    request: &ToolRequest,
    release: &Release,
    fetcher: &Fetcher<'_>,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<ChecksumFile, ToolError> {
    // Before the download: a key file may be missing.
    let keys = [&options.signing_keys, options.sites.keys(request.product)].concat();
    let certificates = TrustedCertificates::new(request.product, &keys)?;
    let bytes = match fetcher.fetch_small(&release.checksums, MAX_CHECKSUM_FILE).await {
        Err(error) if error.is_missing() => {
            return Err(ToolError::UnknownVersion {
                request: request.clone(),
                url: redacted(&release.checksums),
                source: Box::new(error),
            });
        }
        other => other?,
    };
    let (signature, trusted) = match fetch_signature(request, fetcher, &release.signatures).await {
        Err(ToolError::Unsigned { .. }) if release.may_be_unsigned => {
            let text = "published without a signature; verifying only its checksum";
            tracing::warn!(%request, "{text}");
            progress(&format!("{request}: {text}"));
            (None, Trusted::Unsigned)
        }
        signature => {
            let (url, signature) = signature?;
            let data = bytes.clone();
            let (signature, signed) = blocking(move |_| {
                let signed = certificates.verify(&data, &signature);
                (signature, signed)
            })
            .await;
            let signed = signed.map_err(|source| ToolError::Signature {
                request: request.clone(),
                url: redacted(&release.checksums),
                source,
            })?;
            log_signature(request, &signed);
            (Some((url, signature)), Trusted::Signature { fingerprint: signed.signer })
        }
    };
    let sums = Checksums::parse(&bytes)?;
    Ok(ChecksumFile { bytes, signature, sums, trusted })
}

/// The checksum of the archive in the checksum file.
pub(in crate::tool) fn archive_checksum(
    request: &ToolRequest,
    release: &Release,
    file: &ChecksumFile,
) -> Result<Sha256Sum, ToolError> {
    file.sums.of(&release.archive_name).ok_or_else(|| ToolError::NotReleased {
        request: request.clone(),
        archive: release.archive_name.clone(),
    })
}

/// The expected checksum of an archive and its source.
pub(in crate::tool) struct ExpectedChecksum {
    pub(in crate::tool) sum: Sha256Sum,
    pub(in crate::tool) origin: ChecksumSource,
    pub(in crate::tool) trusted: Trusted,
}

/// Downloads an archive, and checks its checksum.
pub(in crate::tool) async fn fetch_archive(
    fetcher: &Fetcher<'_>,
    release: &Release,
    wanted: ExpectedChecksum,
    options: &ToolOptions,
    directory: &Path,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<VerifiedArchive, ToolError> {
    let url = redacted(&release.archive);
    progress(&format!("downloading {url}"));
    let watch = Watch::new(options.meter.as_ref(), progress);
    let (mut file, sha256) =
        fetcher.fetch_large(&release.archive, MAX_ARCHIVE, directory, watch).await?;
    let ExpectedChecksum { sum: expected, origin, trusted } = wanted;
    if sha256 != expected {
        let mut beginning = Vec::new();
        let is_read = file
            .rewind()
            .and_then(|()| file.by_ref().take(BEGINNING as u64).read_to_end(&mut beginning));
        if let Some(error) = is_read.ok().and_then(|_| web_page(&release.archive, &beginning)) {
            return Err(error.into());
        }
        return Err(ToolError::Checksum { url, origin, expected, actual: sha256 });
    }
    Ok(VerifiedArchive { file, sha256, url, trusted })
}

/// Fetches the first of the signatures that exists.
async fn fetch_signature(
    request: &ToolRequest,
    fetcher: &Fetcher<'_>,
    urls: &[Url],
) -> Result<(Url, Vec<u8>), ToolError> {
    let (last, others) = urls.split_last().expect("every product has a signature");
    for url in others {
        match fetcher.fetch_small(url, MAX_CHECKSUM_FILE).await {
            Err(error) if error.is_missing() => {}
            other => return Ok((url.clone(), other?)),
        }
    }
    match fetcher.fetch_small(last, MAX_CHECKSUM_FILE).await {
        Err(source) if source.is_missing() => Err(ToolError::Unsigned {
            request: request.clone(),
            url: redacted(last),
            source: Box::new(source),
        }),
        other => Ok((last.clone(), other?)),
    }
}

fn log_signature(request: &ToolRequest, signed: &Signed) {
    let key = &signed.signer;
    if signed.revoked {
        tracing::warn!(%request, signer = key, "the signing key was revoked later, as retired and not as compromised; the older signature remains valid");
    } else if signed.outdated {
        tracing::warn!(%request, signer = key, "the signing key expired later; the older signature remains valid");
    } else {
        tracing::info!(%request, signer = key, "the signature is valid");
    }
    if let Some(expires) = signed.expires.filter(|_| !signed.outdated) {
        let expires = humantime::format_rfc3339_seconds(expires);
        tracing::warn!(%request, signer = key, %expires, "the signing key of these releases expires soon: before then, update butler-runner or the key given with --signing-key");
    }
}
