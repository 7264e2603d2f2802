//! Errors of choosing, downloading, verifying and installing a tool.

use std::path::PathBuf;

use semver::Version;

use crate::tool::digest::Sha256Sum;
use crate::tool::fetch::bundle::error::BundleError;
use crate::tool::fetch::download::DownloadError;
use crate::tool::store::archive::ArchiveError;
use crate::tool::store::error::CacheError;
use crate::tool::vendor::checksums::ChecksumsError;
use crate::tool::vendor::platform::UnknownPlatform;
use crate::tool::vendor::verify::VerifyError;
use butler_base::http::HttpError;
use butler_base::process::ProcessError;
use butler_protocol::spec::{ConstraintError, Product, ToolRequest};

/// A tool cannot be chosen, downloaded, verified or installed.
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
        /// The problem.
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
        /// The word in the file.
        word: &'static str,
    },
    /// Neither a version file nor `required_version` requests a version.
    #[error("no version of {} is requested in `{}`", either(*product), directory.display())]
    NoVersionRequested {
        /// The directory.
        directory: PathBuf,
        /// The product, if only one is possible.
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
        /// The URL of the list.
        url: String,
        /// The problem.
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
    NoChecksumFile {
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
    /// The version is not released for this platform.
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
        /// The problem of its signature.
        #[source]
        source: VerifyError,
    },
    /// The checksum file is signed, but not valid.
    #[error(transparent)]
    Checksums(#[from] ChecksumsError),
    /// The archive does not have the expected checksum.
    #[error("`{url}` is not the archive {}: its SHA-256 is {actual}, not {expected}", origin.describe())]
    Checksum {
        /// The archive.
        url: String,
        /// The source of the expected checksum.
        origin: ChecksumSource,
        /// The expected checksum.
        expected: Sha256Sum,
        /// The checksum of the download.
        actual: Sha256Sum,
    },
    /// The executable is not of the version that it was published as.
    #[error("`{url}` is published as {request} but contains {}", found.as_deref().unwrap_or("a program that does not print its version"))]
    AnotherVersion {
        /// The wanted version.
        request: ToolRequest,
        /// The archive.
        url: String,
        /// The product and version that it printed, if any.
        found: Option<String>,
    },
    /// The executable cannot be started to read its version.
    #[error("cannot start {request} to read its version")]
    NotStarted {
        /// The wanted version.
        request: ToolRequest,
        /// The error.
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
        /// The checksum of the archive that it was installed from.
        installed: Sha256Sum,
        /// The checksum that the user gave.
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
    const fn describe(self) -> &'static str {
        match self {
            Self::Signed => "that was signed",
            Self::Published => "that the vendor's checksum file names",
            Self::Given => "that was asked for with --checksum",
        }
    }
}

fn either(product: Option<Product>) -> String {
    product.map_or_else(|| Product::ENGINES.map(Product::name).join(" or "), |it| it.to_string())
}
