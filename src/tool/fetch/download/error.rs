//! Errors of a download, and what to do about them.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::StatusCode;

use butler_base::error::{Advice, FailureClass, chain, is_about_certificate};
use butler_base::http::HttpError;

/// The settings with a login for a mirror.
const LOGINS: &str = "BUTLER_MIRROR_USER and BUTLER_MIRROR_PASSWORD, BUTLER_MIRROR_TOKEN, or an entry for the host in ~/.netrc";

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The site does not have it.
    #[error("`{url}` does not exist")]
    NotFound {
        /// The file.
        url: String,
    },
    /// The site returned an error.
    #[error("`{url}` returned {status}")]
    Status {
        /// The file.
        url: String,
        /// The status of the response.
        status: StatusCode,
        /// How long the site asks to wait.
        after: Option<Duration>,
    },
    /// The rate limit of the site is exceeded.
    #[error("`{url}` returned {status}: the rate limit of the site is exceeded{}", Until(*after))]
    Limited {
        /// The file.
        url: String,
        /// The status of the response: 429, or 403 with a limit.
        status: StatusCode,
        /// How long the site asks to wait.
        after: Option<Duration>,
    },
    /// The response is compressed, although the request did not ask for it.
    #[error("the site compressed `{url}` with gzip")]
    Compressed {
        /// The file.
        url: String,
    },
    /// The response was shorter than its declared length.
    #[error("`{url}` ended after {received} of {expected} bytes")]
    Short {
        /// The file.
        url: String,
        /// The number of received bytes.
        received: u64,
        /// The declared size.
        expected: u64,
    },
    /// The response is a web page, which no file of a release is: that of a login, or of a proxy.
    #[error("`{url}` returned a web page{}, not the file", Title(title))]
    WebPage {
        /// The file.
        url: String,
        /// The title of the page, if it has one.
        title: Option<String>,
    },
    /// The site requires a login, or refuses the one that was sent.
    #[error("`{url}` returned {status} to a request {login}")]
    Refused {
        /// The file, or the target of a redirect.
        url: String,
        /// The status of the response: 401 or 403.
        status: StatusCode,
        /// The login that was sent.
        login: Box<SentLogin>,
    },
    /// The proxy requires a login.
    #[error("the proxy refused to fetch `{url}`: {status}")]
    Proxy {
        /// The file.
        url: String,
        /// The status of its response.
        status: StatusCode,
    },
    /// The site could not be reached.
    #[error("cannot fetch `{url}`")]
    Request {
        /// The file.
        url: String,
        /// The error.
        #[source]
        source: reqwest::Error,
    },
    /// The connection broke in the middle of the file.
    #[error("the connection was lost after {} bytes of `{url}`", Amount(*received, *expected))]
    Broken {
        /// The file.
        url: String,
        /// The number of received bytes.
        received: u64,
        /// The declared size.
        expected: Option<NonZeroU64>,
        /// The error.
        #[source]
        source: reqwest::Error,
    },
    /// The site redirects too often.
    #[error("`{url}` is redirected more than {} times", super::remote::MOST_REDIRECTS)]
    Redirects {
        /// The file.
        url: String,
    },
    /// The site redirects to a URL that must not be followed.
    #[error("`{url}` is redirected to `{to}`, which is not followed")]
    Redirected {
        /// The file.
        url: String,
        /// The target.
        to: Box<str>,
    },
    /// The site sent no data for too long, or the download took too long.
    #[error("timed out after {} s while downloading `{url}`", (after.as_millis() + 500) / 1000)]
    TimedOut {
        /// The file.
        url: String,
        /// The timeout.
        after: Duration,
    },
    /// The file is larger than the limit.
    #[error("`{url}` is larger than {limit} bytes")]
    TooLarge {
        /// The file.
        url: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A local file cannot be read.
    #[error("cannot read `{url}`")]
    Local {
        /// The file.
        url: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The download cannot be stored.
    #[error("cannot store a download in `{}`", directory.display())]
    Store {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Client(Box<HttpError>),
}

/// The login of a refused request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SentLogin {
    /// No login is known.
    Unknown,
    /// A login was sent. The text names its source.
    From(String),
    /// No login was sent, because a redirect led away from the mirror that it is for.
    NotAfterRedirect,
}

impl fmt::Display for SentLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SentLogin::Unknown => formatter.write_str("without a login"),
            SentLogin::From(by) => write!(formatter, "with {by}"),
            SentLogin::NotAfterRedirect => formatter.write_str(
                "without a login: a redirect led here, and the login is sent only to the mirror",
            ),
        }
    }
}

/// The title of a web page, if it has one.
struct Title<'a>(&'a Option<String>);

impl fmt::Display for Title<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |title| write!(formatter, " (\"{title}\")"))
    }
}

/// A number of bytes, of a total if that is known.
struct Amount(u64, Option<NonZeroU64>);

impl fmt::Display for Amount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(received, Some(expected)) => write!(formatter, "{received} of {expected}"),
            Self(received, None) => write!(formatter, "{received}"),
        }
    }
}

/// How long to wait, if that is known.
struct Until(Option<Duration>);

impl fmt::Display for Until {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(after) = self.0 else { return Ok(()) };
        let after = humantime::format_duration(Duration::from_secs(after.as_secs()));
        write!(formatter, "; it accepts requests again in {after}")
    }
}

impl From<HttpError> for DownloadError {
    fn from(error: HttpError) -> Self {
        Self::Client(Box::new(error))
    }
}

impl DownloadError {
    /// Whether a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            // A retry does not make a certificate trusted.
            Self::Request { source, .. } => !source.is_builder() && Cause::of(source).is_other(),
            Self::TimedOut { .. } | Self::Broken { .. } | Self::Short { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error() || *status == StatusCode::REQUEST_TIMEOUT
            }
            Self::Limited { status, after, .. } => {
                after.is_some() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }

    /// How long the site asks to wait.
    pub(super) fn after(&self) -> Duration {
        match self {
            Self::Status { after, .. } | Self::Limited { after, .. } => after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }

    /// Whether the file does not exist; some object stores return 403 for a missing file.
    pub(in crate::tool) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::Refused { status: StatusCode::FORBIDDEN, .. }
                | Self::Status { status: StatusCode::GONE, .. }
        )
    }
}

/// The cause of an error of the HTTP library, as far as it matters for advice.
#[derive(Eq, PartialEq)]
enum Cause {
    Certificate,
    Tunnel,
    Other,
}

impl Cause {
    /// The library has no error type for a failed tunnel, so its message is searched.
    fn of(error: &reqwest::Error) -> Self {
        if is_about_certificate(error) {
            return Self::Certificate;
        }
        let text = chain(error);
        if text.contains("tunnel") || text.contains("proxy") { Self::Tunnel } else { Self::Other }
    }

    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Whether a certificate is expired, or not valid yet.
fn is_about_time(error: &reqwest::Error) -> bool {
    let text = chain(error).to_ascii_lowercase();
    ["expired", "not valid yet", "notvalidyet"].iter().any(|words| text.contains(words))
}

impl Advice for DownloadError {
    fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Store { .. } => "check that --cache-dir is writable and has enough free space",
            Self::Request { source, .. } | Self::Broken { source, .. } => match Cause::of(source) {
                Cause::Certificate if is_about_time(source) => {
                    "the certificate is not valid at the time of this machine: check its clock, which `butler-runner doctor` compares with those of servers, or renew the certificate"
                }
                Cause::Certificate => {
                    "if a private certificate authority issued the site's certificate, name the certificate of that authority with --ca-bundle"
                }
                Cause::Tunnel => PROXY,
                Cause::Other => NETWORK,
            },
            Self::Proxy { .. } => PROXY,
            Self::TimedOut { .. } => {
                "check the network and HTTPS_PROXY, increase --tool-timeout, or name a reachable site with --mirror"
            }
            Self::Refused { login, .. } => match **login {
                SentLogin::Unknown => {
                    return Some(format!(
                        "give a login with {LOGINS}; it is not sent to vendors' sites"
                    ));
                }
                SentLogin::From(_) => {
                    "check that this login has read access, and that it has not expired"
                }
                SentLogin::NotAfterRedirect => {
                    "configure the mirror to serve the files itself, or to redirect to presigned URLs"
                }
            },
            Self::WebPage { .. } => {
                return Some(format!(
                    "a login page or a proxy answers instead of the site: check --mirror and HTTPS_PROXY, and give a login with {LOGINS}"
                ));
            }
            Self::Redirects { .. } => {
                "the redirects form a loop: check the configuration of the site, and that --mirror is its address"
            }
            Self::Redirected { .. } => {
                "check the redirects of the --mirror site: from https, only redirects to https are followed; from http, both"
            }
            Self::Limited { .. } => {
                "retry later, request an exact version, which needs no list of versions, or name another site with --mirror"
            }
            Self::Compressed { .. } => {
                "configure the mirror or proxy to serve files unchanged, without `Content-Encoding`"
            }
            Self::Short { .. } => NETWORK,
            Self::Local { .. } => "check that the path in --mirror or --url exists and is readable",
            Self::NotFound { .. } | Self::Status { .. } | Self::TooLarge { .. } => {
                "check that the --mirror site uses the same paths as the vendor's site"
            }
            Self::Client(error) => return error.advice(),
        };
        Some(advice.to_owned())
    }

    fn class(&self) -> Option<FailureClass> {
        Some(match self {
            Self::Store { .. } => FailureClass::Platform,
            Self::Refused { .. } | Self::WebPage { .. } => FailureClass::Credentials,
            Self::NotFound { .. } | Self::Redirects { .. } | Self::Redirected { .. } => {
                FailureClass::Configuration
            }
            _ => FailureClass::Network,
        })
    }
}

const NETWORK: &str =
    "check the network, HTTPS_PROXY and --ca-bundle, or name a reachable site with --mirror";

const PROXY: &str = "check HTTPS_PROXY and HTTP_PROXY, with user and password in the URL if the proxy requires them, or exempt the site with NO_PROXY";
