//! The URLs of the registry's endpoints for one run.

use percent_encoding::percent_decode_str;
use url::Url;

use butler_protocol::spec::RunId;

/// A URL of the registry cannot be formed.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a URL below the registry's endpoint")]
pub struct AddressError {
    text: String,
}

/// An endpoint for reports.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Callback {
    /// The run's status.
    Status,
    /// Its log lines.
    Logs,
    /// Its plan.
    Plan,
    /// Its outputs.
    Outputs,
    /// Its account: `result.json`.
    Result,
}

impl Callback {
    /// The last segment of the callback's usual path.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Logs => "logs",
            Self::Plan => "plan",
            Self::Outputs => "outputs",
            Self::Result => "result",
        }
    }
}

/// The callback URLs of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Callbacks {
    /// For POST of the status.
    pub status: Url,
    /// For POST of log lines.
    pub logs: Url,
    /// For POST of the plan.
    pub plan: Url,
    /// For POST of the outputs.
    pub outputs: Url,
    /// For POST of the account of the run, if the registry takes it.
    pub result: Option<Url>,
}

impl Callbacks {
    /// The URL of one callback. `None`: the registry does not take this report.
    #[must_use]
    pub const fn url(&self, callback: Callback) -> Option<&Url> {
        match callback {
            Callback::Status => Some(&self.status),
            Callback::Logs => Some(&self.logs),
            Callback::Plan => Some(&self.plan),
            Callback::Outputs => Some(&self.outputs),
            Callback::Result => self.result.as_ref(),
        }
    }
}

/// The registry's endpoint and a run.
#[derive(Clone, Debug)]
pub struct Address {
    endpoint: Url,
    run_id: RunId,
}

impl Address {
    /// The run `run_id` at `endpoint`, such as `https://portal.example.com/api/registry`.
    #[must_use]
    pub const fn new(endpoint: Url, run_id: RunId) -> Self {
        Self { endpoint, run_id }
    }

    /// The run's id.
    #[must_use]
    pub const fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// `<endpoint>/v1/ci/module-runs/<run id>/<name>` (ADR-001, New API Endpoint for Runner).
    ///
    /// # Errors
    /// When that is not a URL.
    pub fn of_run(&self, name: &str) -> Result<Url, AddressError> {
        let run_id = self.run_id.path_segment();
        self.below_endpoint(&format!("/v1/ci/module-runs/{run_id}/{name}"))
    }

    /// The URL that a configuration gives for a callback: appended to the endpoint's own path,
    /// because resolving it by RFC 3986 would lose that path. An absolute URL must be on the endpoint's
    /// origin.
    ///
    /// # Errors
    /// When it is on another origin, which must not receive the token, leaves the endpoint's path with
    /// `..`, or is not a URL.
    pub fn callback(&self, text: &str) -> Result<Url, AddressError> {
        let error = || AddressError { text: text.to_owned() };
        if has_dot_segment(text) {
            return Err(error());
        }
        if text.contains("://") {
            let url = Url::parse(text).map_err(|_| error())?;
            return if url.origin() == self.endpoint.origin() { Ok(url) } else { Err(error()) };
        }
        self.below_endpoint(text)
    }

    fn below_endpoint(&self, path: &str) -> Result<Url, AddressError> {
        let error = || AddressError { text: path.to_owned() };
        let base = self.endpoint.as_str().trim_end_matches('/');
        let url =
            Url::parse(&format!("{base}/{}", path.trim_start_matches('/'))).map_err(|_| error())?;
        let stays = url.path().starts_with(self.endpoint.path().trim_end_matches('/'));
        if stays && url.origin() == self.endpoint.origin() { Ok(url) } else { Err(error()) }
    }
}

/// Whether a segment of the path of `url` is `.` or `..` for the most lenient proxy on the way: decoded
/// more than once, with `\` for `/`, and without parameters (`..;x`).
fn has_dot_segment(url: &str) -> bool {
    let mut path = url.split(['?', '#']).next().unwrap_or_default().to_owned();
    // URL parsers leave these out wherever they are.
    path.retain(|character| !matches!(character, '\t' | '\n' | '\r'));
    loop {
        let decoded = percent_decode_str(&path).decode_utf8_lossy().into_owned();
        let is_step = |segment: &str| {
            let name = segment.split(';').next().unwrap_or_default();
            matches!(name.trim(), "." | "..")
        };
        if path.split(['/', '\\']).any(is_step) {
            return true;
        }
        if decoded == path {
            return false;
        }
        path = decoded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(run_id: &str) -> Address {
        let endpoint = Url::parse("https://portal.example.com/api/registry").unwrap();
        Address::new(endpoint, run_id.parse().unwrap())
    }

    #[test]
    fn callback_is_appended_to_the_endpoint_path() {
        let url = address("7").callback("/v1/ci/module-runs/7/logs").unwrap();
        assert_eq!(
            url.as_str(),
            "https://portal.example.com/api/registry/v1/ci/module-runs/7/logs"
        );
    }

    #[test]
    fn callback_on_another_origin_is_refused() {
        for text in [
            "https://evil.example.com/x",
            "http://portal.example.com/api",
            "https://portal.example.com:444/",
        ] {
            assert!(address("7").callback(text).is_err(), "{text}");
        }
        for text in ["@evil.example.com/x", "//evil.example.com/x", "\\\\evil.example.com"] {
            let url = address("7").callback(text).unwrap();
            assert_eq!(url.host_str(), Some("portal.example.com"), "{text}");
        }
    }

    #[test]
    fn callback_outside_the_endpoint_path_is_refused() {
        for text in [
            "/../../admin",
            "/v1/../../../admin",
            "..",
            "%2e%2E/admin",
            "/v1/.%2e/.%2e/admin",
            "/%252e%252e/admin",
            "\\..\\admin",
            "/v1/..%2f..%2fadmin",
            "/v1/..%5cadmin",
            "/..;a=b/admin",
            "/.\t./admin",
            "https://portal.example.com/api/registry/../admin",
        ] {
            assert!(address("7").callback(text).is_err(), "{text}");
        }
        for text in ["/v1/a..b/...", "/v1/x?next=/../y", "https://portal.example.com/reports/7"] {
            assert!(address("7").callback(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn run_id_is_one_path_segment() {
        let url = address("a/../b?c#d e").of_run("config").unwrap();
        assert_eq!(
            url.as_str(),
            "https://portal.example.com/api/registry/v1/ci/module-runs/a%2F..%2Fb%3Fc%23d%20e/config"
        );
    }
}
