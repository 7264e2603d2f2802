//! What can go wrong between a version and its executable.

use std::path::PathBuf;

use semver::Version;

use crate::tool::digest::Sha256Sum;
use crate::tool::fetch::bundle::BundleError;
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

/// Why a tool cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Nothing says which version is wanted.
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
    /// Nothing that is installed satisfies the constraints.
    #[error("no installed version of {product} satisfies `{constraint}`")]
    NoneInstalled {
        /// The product.
        product: Product,
        /// All constraints.
        constraint: String,
        /// What is installed, in order.
        installed: Vec<Version>,
    },
    /// Which versions there are cannot be found out.
    #[error("cannot find out which versions of {product} are released")]
    Unlisted {
        /// The product.
        product: Product,
        /// What is installed, in order.
        installed: Vec<Version>,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// A version file leaves the decision to `required_version`, and there is none.
    #[error("`{place}` says `{word}`, but the module has no `required_version`")]
    NothingRequired {
        /// The file.
        place: String,
        /// What it says.
        word: &'static str,
    },
    /// Neither a version file nor `required_version` says anything.
    #[error("nothing in `{}` says which version of {} is wanted", directory.display(), either(*product))]
    NothingSays {
        /// The directory.
        directory: PathBuf,
        /// The product, where only one is meant.
        product: Option<Product>,
    },
    /// It would have to be there already.
    #[error("{request} is not installed")]
    NotInstalled {
        /// What was wanted.
        request: ToolRequest,
    },
    /// What is installed was changed.
    #[error("`{}` is not the executable that was verified", path.display())]
    Tampered {
        /// What was wanted.
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
    /// There are no tools for this platform.
    #[error(transparent)]
    Platform(#[from] UnknownPlatform),
    /// The site does not have this version.
    #[error("{request} was not found at `{url}`")]
    UnknownVersion {
        /// What was wanted.
        request: ToolRequest,
        /// The checksum file that every release has.
        url: String,
        /// What the site answered.
        #[source]
        source: Box<DownloadError>,
    },
    /// An archive was given by its URL alone, and nothing beside it says what it has to be.
    #[error("there is no checksum file beside the archive of {request}")]
    Unvouched {
        /// What was wanted.
        request: ToolRequest,
        /// What the site answered.
        #[source]
        source: Box<DownloadError>,
    },
    /// The release has no signature that can be checked.
    #[error("{request} has no OpenPGP signature at `{url}`")]
    Unsigned {
        /// What was wanted.
        request: ToolRequest,
        /// Where the signature should be.
        url: String,
        /// What the site answered.
        #[source]
        source: Box<DownloadError>,
    },
    /// The version exists, but not for this platform.
    #[error("the checksum file of {request} does not name `{archive}`")]
    NotReleased {
        /// What was wanted.
        request: ToolRequest,
        /// The archive that it would be in.
        archive: String,
    },
    /// There can be no HTTP client.
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
        /// What was wanted.
        request: ToolRequest,
        /// The checksum file.
        url: String,
        /// What is wrong with its signature.
        #[source]
        source: VerifyError,
    },
    /// The checksum file is signed, but has no right shape.
    #[error(transparent)]
    Checksums(#[from] ChecksumsError),
    /// The archive is not the one that was meant.
    #[error("`{url}` is not the archive {}: its SHA-256 is {actual}, not {expected}", meant.what())]
    Checksum {
        /// The archive.
        url: String,
        /// Who says which one is meant.
        meant: Meant,
        /// The sum of the one that is meant.
        expected: Sha256Sum,
        /// What was downloaded.
        actual: Sha256Sum,
    },
    /// The executable is not of the version that it was published as.
    #[error("what `{url}` holds as {request} is {}", found.as_ref().map_or_else(|| "a program that does not tell its version".to_owned(), |version| format!("version {version}")))]
    AnotherVersion {
        /// What was wanted.
        request: ToolRequest,
        /// The archive.
        url: String,
        /// What it says that it is, if anything.
        found: Option<Version>,
    },
    /// The executable cannot be asked for its version.
    #[error("cannot ask {request} for its version")]
    NotStarted {
        /// What was wanted.
        request: ToolRequest,
        /// What went wrong.
        #[source]
        source: ProcessError,
    },
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The version is installed, but not from the archive that was meant.
    #[error("{request} is installed from another archive: its SHA-256 is {installed}, not {given}")]
    OtherArchive {
        /// What was wanted.
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

/// Who says which archive is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meant {
    /// The checksum file that its vendor signed.
    Signed,
    /// The checksum file on the vendor's own site, from before the vendor signed.
    Published,
    /// The user, with `--checksum`.
    Given,
}

impl Meant {
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
            Self::NothingSays { product, .. } => return Some(looked_for(*product)),
            Self::NotInstalled { request } => {
                return Some(install(request.product, &request.version.to_string()));
            }
            Self::Tampered { request, .. } => {
                let command = install(request.product, &request.version.to_string());
                return Some(format!("do not start it; {command}, which replaces it"));
            }
            Self::NoDefault { product } => {
                return Some(format!(
                    "choose one with `butler-runner tool use {}`; the first that is installed with `install` becomes it",
                    product.spelled("VERSION")
                ));
            }
            Self::Index { .. } => "check that --mirror hands the list on, or name an exact version",
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
            Self::Checksum { meant: Meant::Given, .. } => {
                "do not use this download; check the URL and the sum, which is that of the archive and not of the executable in it"
            }
            Self::Checksums(_) | Self::Checksum { .. } | Self::Archive(_) => {
                "do not use this download; check that --mirror and proxies hand files on unchanged"
            }
            Self::AnotherVersion { .. } => {
                "do not use this download; check --url, and that --mirror and proxies hand files on unchanged"
            }
            Self::OtherArchive { .. } => {
                "check the sum; to install from the other archive, uninstall this version first"
            }
            Self::NotStarted { .. } => {
                "check that it is for this platform, and that programs may be started from --cache-dir (no `noexec`)"
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
        "name a version; looked for {}, there and further up in its repository{required}",
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
        Product::OpenTofu => "; OpenTofu 1.6.0 has a signature of cosign only, which is not read",
        _ if is_early => {
            "; a version from before the vendor signed is taken from the vendor's own site only, or by --url with the --checksum of its file; who runs a mirror can sign its `SHA256SUMS` with a key for --signing-key"
        }
        _ => "",
    };
    format!(
        "choose a version that is signed with OpenPGP, put this one on PATH, or check that --mirror has the signatures{more}"
    )
}
