//! Advice for users on the errors of tools.

use semver::Version;

use crate::tool::error::{ChecksumSource, ToolError};
use crate::tool::fetch::download::DownloadError;
use crate::tool::vendor::product::Vendored as _;
use butler_base::error::{Advice, FailureClass};
use butler_protocol::spec::{Product, ToolRequest, VersionFileKind};

impl Advice for ToolError {
    fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::NoVersion => {
                "name a version in the run or with --default-tool-version, or put terraform or tofu on PATH"
            }
            Self::RequiredVersion(_) => "write it like `>= 1.5.0, < 2.0.0`",
            Self::VersionFile { .. } => {
                "write an exact version such as `1.9.8`, or name the version in the run"
            }
            Self::NoneSatisfies { newest: Some(newest), .. } => {
                return Some(format!("the newest released version is {newest}"));
            }
            Self::NoneSatisfies { newest: None, .. } => "name an exact version",
            Self::NoneInstalled { product, constraint, installed } => {
                let installed = list_installed(installed);
                return Some(format!("{}; {installed}", install_command(*product, constraint)));
            }
            Self::Unlisted { installed, source, .. } if installed.is_empty() => {
                return source.advice();
            }
            Self::Unlisted { installed, .. } => {
                return Some(format!("name an exact version; {}", list_installed(installed)));
            }
            Self::NothingRequired { .. } => "write a version such as `1.9.8` into the file",
            Self::NoVersionRequested { product, .. } => {
                return Some(describe_version_files(*product));
            }
            Self::NotInstalled { request } => {
                return Some(install_command(request.product, &request.version.to_string()));
            }
            Self::Tampered { request, .. } => {
                let command = install_command(request.product, &request.version.to_string());
                return Some(format!("do not start it; {command}, which replaces it"));
            }
            Self::NoDefault { product } => {
                return Some(format!(
                    "choose one with `butler-runner tool use {}`; the first version installed with `tool install` becomes the default",
                    product.spelled("VERSION")
                ));
            }
            Self::Index { .. } => {
                "check that the --mirror site serves the list, or request an exact version"
            }
            Self::Platform(_) => "put the wanted version on PATH",
            Self::UnknownVersion { request, source, .. } => {
                return Some(unknown_version(&request.version, source));
            }
            Self::NoChecksumFile { .. } => {
                "give the archive's sum with --checksum sha256:HEX, or put the vendor's checksum file and its signature beside it"
            }
            Self::Unsigned { request, .. } => return Some(unsigned(request)),
            Self::NotReleased { .. } => {
                "choose a version that is released for this platform, or put this one on PATH"
            }
            Self::Http(_) => "check the file that --ca-bundle names",
            Self::Download(error) => return error.advice(),
            Self::Key(error) | Self::Signature { source: error, .. } => return error.advice(),
            Self::Checksum { origin: ChecksumSource::Given, .. } => {
                "do not use this download; check the URL and the checksum, which must be that of the archive, not of the executable inside it"
            }
            Self::Checksums(_) => {
                "its signature is valid, so its signer has written it: write the file with `sha256sum FILE...`, without `--tag`, and sign it again"
            }
            Self::Archive(error) => return error.advice(),
            Self::Checksum { .. } => {
                "do not use this download; check that the --mirror site and proxies do not modify files"
            }
            Self::AnotherVersion { .. } => {
                "do not use this download; check --url, and that the --mirror site and proxies do not modify files"
            }
            Self::OtherArchive { .. } => {
                "check the sum; to install from the other archive, uninstall this version first"
            }
            Self::NotStarted { .. } => {
                "check that it was built for this platform, and that --cache-dir is not mounted with `noexec`"
            }
            Self::Cache(error) => return error.advice(),
            Self::Bundle(error) => return error.advice(),
        };
        Some(advice.to_owned())
    }

    fn class(&self) -> Option<FailureClass> {
        Some(match self {
            Self::Download(error) => return error.class(),
            Self::Unlisted { source, .. } => return source.class(),
            Self::UnknownVersion { source, .. } => return source.class(),
            Self::Archive(error) => return error.class(),
            Self::Cache(_) => FailureClass::Platform,
            _ => FailureClass::Configuration,
        })
    }
}

/// The command that installs `version`.
fn install_command(product: Product, version: &str) -> String {
    let quote = if version.contains([' ', '<', '>', '!', '^']) { "'" } else { "" };
    let version = product.spelled(version);
    format!("install it with `butler-runner tool install {quote}{version}{quote}`")
}

fn list_installed(installed: &[Version]) -> String {
    if installed.is_empty() {
        return "nothing is installed".to_owned();
    }
    let versions: Vec<_> = installed.iter().map(ToString::to_string).collect();
    format!("installed: {}", versions.join(", "))
}

/// The files in which a module can request a version.
fn describe_version_files(product: Option<Product>) -> String {
    let engines = Product::ENGINES.as_slice();
    let products = product.as_ref().map_or(engines, std::slice::from_ref);
    let applies = |kind: &VersionFileKind| match kind {
        VersionFileKind::Of(product) | VersionFileKind::Switch(product) => {
            products.contains(product)
        }
        VersionFileKind::ToolVersions => true,
    };
    let files = VersionFileKind::ALL.into_iter().filter(applies);
    let files: Vec<_> = files.map(|kind| format!("`{}`", kind.name())).collect();
    let required = if products.iter().any(|product| engines.contains(product)) {
        ", and for `required_version`"
    } else {
        ""
    };
    format!(
        "name a version; looked for {}, there and in its parent directories up to the repository root{required}",
        files.join(", ")
    )
}

fn unknown_version(version: &Version, source: &DownloadError) -> String {
    let advice = format!("check that version {version} exists, and that --mirror has it");
    match source {
        // An object store also refuses a missing file.
        DownloadError::Refused { .. } => match source.advice() {
            Some(more) => format!("{advice}; or {more}"),
            None => advice,
        },
        _ => advice,
    }
}

/// What to do about a release without a signature.
fn unsigned(request: &ToolRequest) -> String {
    let is_early = request.product.signed_since().is_some_and(|since| request.version < *since);
    let more = match request.product {
        Product::OpenTofu => {
            "; OpenTofu 1.6.0 is signed with cosign only, which the runner does not verify"
        }
        _ if is_early => {
            "; the vendor did not sign this version yet, so it is installed only from the vendor's own site, or with --url and --checksum; the operator of a mirror can sign its `SHA256SUMS` and give the key with --signing-key"
        }
        _ => "",
    };
    format!(
        "choose a version that is signed with OpenPGP, put this one on PATH, or check that --mirror has the signatures{more}"
    )
}
