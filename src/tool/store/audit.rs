//! Computes the checksum of everything that is installed and compares it with the verified one.
//!
//! A run trusts a file whose metadata did not change; the audit reads every byte. It deletes and
//! repairs nothing. It marks a changed executable so that later runs check it in full and do not
//! start it. The reference is the record next to the executable: the audit finds damage and
//! changes, but not an attacker who can also rewrite the record.

use std::fs::File;
use std::path::Path;

use futures_util::{StreamExt, stream};
use semver::Version;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::tool::digest::Sha256Sum;
use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::{Cache, inspect};
use crate::tool::store::status::Signer;
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_protocol::spec::{Product, ToolRequest};

/// The result of the audit of one version.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditedVersion {
    /// The product.
    pub product: &'static str,
    /// The version.
    pub version: Version,
    /// The result.
    pub state: AuditResult,
    /// Its executable.
    pub path: String,
    /// The signer in its record.
    pub signed_by: Option<Signer>,
    /// The problem, if there is one.
    pub problem: Option<String>,
}

/// Whether an installed version is the verified one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditResult {
    /// It is the verified one.
    Ok,
    /// Its executable has another checksum.
    Changed,
    /// It cannot be read, or another user could have written it.
    Unreadable,
    /// It is for another platform that shares this cache.
    OtherPlatform,
    /// Its record is missing.
    NoRecord,
}

impl AuditResult {
    /// Whether the user must act.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Changed | Self::Unreadable | Self::NoRecord)
    }
}

/// The same words as in JSON.
impl std::fmt::Display for AuditResult {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Ok => "ok",
            Self::Changed => "changed",
            Self::Unreadable => "unreadable",
            Self::OtherPlatform => "other-platform",
            Self::NoRecord => "no-record",
        })
    }
}

/// Computes the checksums of all installed versions of `product`, the newest first.
///
/// # Errors
/// When there can be no cache, or it cannot be read or trusted.
pub async fn audit(
    product: Product,
    options: &ToolOptions,
) -> Result<Vec<AuditedVersion>, ToolError> {
    let cache = Cache::of(options)?;
    let mut requests = cache.directories(product)?;
    requests.sort_unstable_by(|one, other| other.version.cmp(&one.version));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let audits = stream::iter(requests).map(|request| {
        let cache = cache.clone();
        blocking(move |abandoned| audit_version(&cache, &request, abandoned))
    });
    Ok(audits.buffered(cores).collect().await)
}

fn audit_version(
    cache: &Cache,
    request: &ToolRequest,
    abandoned: &CancellationToken,
) -> AuditedVersion {
    let path = cache.executable(request);
    let record = cache.record_of_any_platform(request);
    let (state, problem) = match &record {
        None => (AuditResult::NoRecord, Some("its install record is missing".to_owned())),
        Some(record) if !cache.is_for_this_platform(record) => {
            (AuditResult::OtherPlatform, Some(format!("it is for {}", record.platform)))
        }
        Some(record) => match executable_checksum(cache, request, &path, abandoned) {
            Err(problem) => (AuditResult::Unreadable, Some(problem)),
            Ok(sum) if sum == record.executable_sha256 => (AuditResult::Ok, None),
            Ok(sum) => {
                cache.force_rehash(request);
                let expected = record.executable_sha256;
                (AuditResult::Changed, Some(format!("its SHA-256 is {sum}, not {expected}")))
            }
        },
    };
    AuditedVersion {
        product: request.product.name(),
        version: request.version.clone(),
        state,
        path: path.display().to_string(),
        signed_by: record
            .and_then(|record| Signer::of(request.product, record.signer.fingerprint())),
        problem,
    }
}

/// The checksum of an executable, or why the executable cannot be used.
fn executable_checksum(
    cache: &Cache,
    request: &ToolRequest,
    path: &Path,
    abandoned: &CancellationToken,
) -> Result<Sha256Sum, String> {
    for directory in [cache.product(request.product), cache.version(request)] {
        inspect(&directory).map_err(|error| chain(&error))?;
    }
    match inspect(path).map_err(|error| chain(&error))? {
        Some(metadata) if metadata.is_file() => {}
        Some(_) => return Err("it is not a regular file".to_owned()),
        None => return Err("it does not exist".to_owned()),
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    Sha256Sum::of(&file, abandoned).map_err(|error| error.to_string())
}
