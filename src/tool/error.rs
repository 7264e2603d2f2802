//! Errors between the choice of a version and its executable, and what to do about them.

use std::path::PathBuf;

use semver::Version;

use crate::tool::digest::Sha256Sum;
use crate::tool::fetch::bundle::error::BundleError;
use crate::tool::fetch::download::DownloadError;
use crate::tool::store::archive::ArchiveError;
use crate::tool::store::error::CacheError;
use crate::tool::vendor::checksums::ChecksumsError;
use crate::tool::vendor::platform::UnknownPlatform;
use crate::tool::vendor::product::Vendored as _;
use crate::tool::vendor::verify::VerifyError;
use butler_base::error::Advice;
use butler_base::http::HttpError;
use butler_base::process::ProcessError;
use butler_protocol::spec::{ConstraintError, Product, ToolRequest, VersionFileKind};

/// A tool cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// No version is requested.
    #[error("no tool version is known")]
    NoVersion,
    /// `required_version` cannot be read.
    #[error("cannot read the module's `required_version`")]
    RequiredVersion(#[source] ConstraintError),
    /// A version file cannot be read.
    #[error("cannot read the version in `{name}`")]
    VersionFile {
        /// The file's name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: ConstraintError,
    },
    /// No version satisfies the constraints.
    #[error("no released version of {product} satisfies `{constraint}`")]
    NoneSatisfies {
        /// The product.
        product: Product,
        /// All constraints.
        constraint: String,
        /// The newest that is released.
        newest: Option<Version>,
    },
    /// No installed version satisfies the constraints.
    #[error("no installed version of {product} satisfies `{constraint}`")]
    NoneInstalled {
        /// The product.
        product: Product,
        /// All constraints.
        constraint: String,
        /// The installed versions, in order.
        installed: Vec<Version>,
    },
    /// The list of released versions cannot be fetched.
    #[error("cannot list the released versions of {product}")]
    Unlisted {
        /// The product.
        product: Product,
        /// The installed versions, in order.
        installed: Vec<Version>,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// A version file leaves the decision to `required_version`, which the module does not have.
    #[error("`{place}` says `{word}`, but the module has no `required_version`")]
    NothingRequired {
        /// The file.
        place: String,
        /// What it says.
        word: &'static str,
    },
    /// Neither a version file nor `required_version` requests a version.
    #[error("no version of {} is requested in `{}`", either(*product), directory.display())]
    NoVersionRequested {
        /// The directory.
        directory: PathBuf,
        /// The product, where only one is meant.
        product: Option<Product>,
    },
    /// It must be installed already.
    #[error("{request} is not installed")]
    NotInstalled {
        /// The wanted version.
        request: ToolRequest,
    },
    /// The installed executable was changed.
    #[error("`{}` is not the executable that was verified", path.display())]
    Tampered {
        /// The wanted version.
        request: ToolRequest,
        /// The executable.
        path: PathBuf,
    },
    /// No version is the default.
    #[error("{product} has no default version")]
    NoDefault {
        /// The product.
        product: Product,
    },
    /// The list of versions cannot be read.
    #[error("cannot read the list of versions at `{url}`")]
    Index {
        /// Where it is.
        url: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Tools are not released for this platform.
    #[error(transparent)]
    Platform(#[from] UnknownPlatform),
    /// The site does not have this version.
    #[error("{request} was not found at `{url}`")]
    UnknownVersion {
        /// The wanted version.
        request: ToolRequest,
        /// The checksum file that every release has.
        url: String,
        /// The response of the site.
        #[source]
        source: Box<DownloadError>,
    },
    /// An archive was given only by its URL, and no checksum file is next to it.
    #[error("cannot find a checksum file next to the archive of {request}")]
    Unvouched {
        /// The wanted version.
        request: ToolRequest,
        /// The response of the site.
        #[source]
        source: Box<DownloadError>,
    },
    /// The release has no signature that can be checked.
    #[error("{request} has no OpenPGP signature at `{url}`")]
    Unsigned {
        /// The wanted version.
        request: ToolRequest,
        /// Where the signature should be.
        url: String,
        /// The response of the site.
        #[source]
        source: Box<DownloadError>,
    },
    /// The version exists, but not for this platform.
    #[error("the checksum file of {request} does not name `{archive}`")]
    NotReleased {
        /// The wanted version.
        request: ToolRequest,
        /// The archive that it would be in.
        archive: String,
    },
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Something could not be fetched.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// A key file cannot be read.
    #[error(transparent)]
    Key(#[from] VerifyError),
    /// The checksum file is not signed by a trusted key.
    #[error("cannot trust {request} from `{url}`")]
    Signature {
        /// The wanted version.
        request: ToolRequest,
        /// The checksum file.
        url: String,
        /// What is wrong with its signature.
        #[source]
        source: VerifyError,
    },
    /// The checksum file is signed, but not valid.
    #[error(transparent)]
    Checksums(#[from] ChecksumsError),
    /// The archive does not have the expected checksum.
    #[error("`{url}` is not the archive {}: its SHA-256 is {actual}, not {expected}", meant.what())]
    Checksum {
        /// The archive.
        url: String,
        /// The source of the expected checksum.
        meant: ChecksumSource,
        /// The expected checksum.
        expected: Sha256Sum,
        /// The checksum of the download.
        actual: Sha256Sum,
    },
    /// The executable is not of the version that it was published as.
    #[error("`{url}` is published as {request} but contains {}", found.as_ref().map_or_else(|| "a program that does not print its version".to_owned(), |version| format!("version {version}")))]
    AnotherVersion {
        /// The wanted version.
        request: ToolRequest,
        /// The archive.
        url: String,
        /// The version that it printed, if any.
        found: Option<Version>,
    },
    /// The executable cannot be started to read its version.
    #[error("cannot start {request} to read its version")]
    NotStarted {
        /// The wanted version.
        request: ToolRequest,
        /// What went wrong.
        #[source]
        source: ProcessError,
    },
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The version is installed, but from an archive with another checksum.
    #[error("{request} is installed from another archive: its SHA-256 is {installed}, not {given}")]
    OtherArchive {
        /// The wanted version.
        request: ToolRequest,
        /// The sum of the archive that it was installed from.
        installed: Sha256Sum,
        /// The sum that was given.
        given: Sha256Sum,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A bundle cannot be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// The source of the expected checksum.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChecksumSource {
    /// The checksum file that its vendor signed.
    Signed,
    /// The checksum file on the vendor's own site, from before the vendor signed.
    Published,
    /// The user, with `--checksum`.
    Given,
}

impl ChecksumSource {
    const fn what(self) -> &'static str {
        match self {
            Self::Signed => "that was signed",
            Self::Published => "that the vendor's checksum file names",
            Self::Given => "that was asked for with --checksum",
        }
    }
}

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
                let installed = listing(installed);
                return Some(format!("{}; {installed}", install(*product, constraint)));
            }
            Self::Unlisted { installed, source, .. } if installed.is_empty() => {
                return source.advice();
            }
            Self::Unlisted { installed, .. } => {
                return Some(format!("name an exact version; {}", listing(installed)));
            }
            Self::NothingRequired { .. } => "write a version such as `1.9.8` into the file",
            Self::NoVersionRequested { product, .. } => return Some(looked_for(*product)),
            Self::NotInstalled { request } => {
                return Some(install(request.product, &request.version.to_string()));
            }
            Self::Tampered { request, .. } => {
                let command = install(request.product, &request.version.to_string());
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
            Self::Unvouched { .. } => {
                "give the archive's sum with --checksum sha256:HEX, or put the vendor's checksum file and its signature beside it"
            }
            Self::Unsigned { request, .. } => return Some(unsigned(request)),
            Self::NotReleased { .. } => {
                "choose a version that is released for this platform, or put this one on PATH"
            }
            Self::Http(_) => "check the file that --ca-bundle names",
            Self::Download(error) => return error.advice(),
            Self::Key(error) | Self::Signature { source: error, .. } => return error.advice(),
            Self::Checksum { meant: ChecksumSource::Given, .. } => {
                "do not use this download; check the URL and the checksum, which must be that of the archive, not of the executable inside it"
            }
            Self::Checksums(_) | Self::Checksum { .. } | Self::Archive(_) => {
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
}

/// The command that installs `version`.
fn install(product: Product, version: &str) -> String {
    let quote = if version.contains([' ', '<', '>', '!', '^']) { "'" } else { "" };
    let version = product.spelled(version);
    format!("install it with `butler-runner tool install {quote}{version}{quote}`")
}

fn listing(installed: &[Version]) -> String {
    if installed.is_empty() {
        return "nothing is installed".to_owned();
    }
    let versions: Vec<_> = installed.iter().map(ToString::to_string).collect();
    format!("installed: {}", versions.join(", "))
}

fn either(product: Option<Product>) -> String {
    product.map_or_else(|| Product::ENGINES.map(Product::name).join(" or "), |it| it.to_string())
}

/// Where it could stand which version is wanted.
fn looked_for(product: Option<Product>) -> String {
    let engines = Product::ENGINES.as_slice();
    let products = product.as_ref().map_or(engines, std::slice::from_ref);
    let about = |kind: &VersionFileKind| match kind {
        VersionFileKind::Of(product) => products.contains(product),
        VersionFileKind::ToolVersions => true,
    };
    let files = VersionFileKind::ALL.into_iter().filter(about);
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
        // Object stores forbid what is not there; others mean it.
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
