//! Checks certificates, proxies, release sites, and the clock of this machine.

use std::time::{Duration, SystemTime};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::StatusCode;

use super::finding::{Finding, FindingState};
use super::time_limit::{CHECK_TIMEOUT, with_timeout};
use super::tools::Releases;
use crate::settings::{DoctorSettings, Settings};
use crate::tool::{Probe, ToolError, ToolOptions, list_url, probe};
use butler_base::error::{Advice, chain};
use butler_base::http::has_system_certificates;
use butler_base::process::Environment;
use butler_protocol::spec::Product;

const RELEASES: &str = "releases";
const PROXY: &str = "proxy";
const CLOCK: &str = "clock";

/// Cloud providers refuse tokens and signed requests if the clocks differ by more than this.
const MAX_CLOCK_ERROR: Duration = Duration::from_mins(5);

/// A clock that is synchronized or set manually has a smaller error.
const SMALL_CLOCK_ERROR: Duration = Duration::from_secs(30);

/// The clocks of a server and of this machine at the same moment.
pub(super) struct ClockReading {
    pub(super) server: String,
    pub(super) there: SystemTime,
    pub(super) here: SystemTime,
}

/// The release site of a product, and its response.
pub(super) struct Site {
    product: Product,
    /// The URL of the list of versions.
    url: String,
    answer: Option<Result<Probe, ToolError>>,
    probed_at: SystemTime,
}

/// Probes all release sites concurrently.
pub(super) async fn probe_sites(options: &ToolOptions) -> Vec<Site> {
    let probe_site = |product| async move {
        let answer = with_timeout(probe(product, options)).await;
        Site { product, url: list_url(product, options), answer, probed_at: SystemTime::now() }
    };
    futures_util::future::join_all(Product::ALL.map(probe_site)).await
}

impl Site {
    pub(super) fn clock(&self) -> Option<ClockReading> {
        let Some(Ok(Probe { date: Some(date), .. })) = &self.answer else { return None };
        Some(ClockReading { server: format!("`{}`", self.url), there: *date, here: self.probed_at })
    }

    /// The finding about the site.
    pub(super) fn finding(&self, releases: Releases) -> Finding {
        let Self { product, url, .. } = self;
        let bad = |message| match releases {
            // Most runs do not need Terragrunt.
            Releases::Needed if *product != Product::Terragrunt => {
                Finding::failed(RELEASES, message)
            }
            _ => Finding::warning(RELEASES, message),
        };
        match &self.answer {
            None => bad(format!(
                "{product}: `{url}` did not respond within {} s",
                CHECK_TIMEOUT.as_secs()
            ))
            .hint("check the network, HTTPS_PROXY and --mirror (BUTLER_MIRROR)"),
            Some(Err(error)) => {
                Finding { hint: error.advice(), ..bad(format!("{product}: {}", chain(error))) }
            }
            Some(Ok(Probe { status, .. })) if status.is_success() => {
                Finding::ok(RELEASES, format!("{product}: `{url}` answers"))
            }
            Some(Ok(Probe { status, .. })) => {
                let finding = bad(format!("{product}: `{url}` answers {status}"));
                match *status {
                    StatusCode::UNAUTHORIZED
                    | StatusCode::FORBIDDEN
                    | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                        finding.hint("check the credentials for the mirror or the proxy")
                    }
                    // Mirrors often have archives only.
                    StatusCode::NOT_FOUND => Finding { state: FindingState::Warning, ..finding }
                        .hint("without the list of versions only exact versions can be installed"),
                    _ => finding.hint("check --mirror (BUTLER_MIRROR)"),
                }
            }
        }
    }
}

/// The trusted certificates.
pub(super) fn check_tls(run: &Settings) -> Finding {
    let bundle = run.tool.ca_bundle.as_ref();
    let bundle = bundle.map(|path| format!("the certificates in `{}`", path.display()));
    let system = has_system_certificates().then(|| "the system's certificates".to_owned());
    let trusted: Vec<_> = system.into_iter().chain(bundle).collect();
    if trusted.is_empty() {
        Finding::warning("tls", "this system has no certificates to trust")
            .hint("install ca-certificates, or name a PEM file with --ca-bundle (BUTLER_CA_BUNDLE)")
    } else {
        Finding::ok("tls", format!("trusts {}", trusted.join(" and ")))
    }
}

/// The proxies for the registry and the release sites, from the usual variables.
pub(super) fn describe_proxies(
    settings: &DoctorSettings,
    sites: &[Site],
    run: &Settings,
) -> Finding {
    let proxies = Proxies::of(&run.git.variables);
    let endpoint = settings.registry.as_ref().ok().and_then(|access| access.endpoint.as_ref());
    let urls = endpoint.map(url::Url::as_str).into_iter();
    let urls = urls.chain(sites.iter().map(|site| site.url.as_str()));
    let mut routes: Vec<String> = urls.filter_map(|url| proxies.route(url)).collect();
    routes.sort();
    routes.dedup();
    if proxies.is_set {
        Finding::ok(PROXY, routes.join(", "))
    } else {
        Finding::note(PROXY, "no proxy is set")
    }
}

struct Proxies {
    matcher: Matcher,
    is_set: bool,
}

impl Proxies {
    fn of(variables: &Environment) -> Self {
        let value = |upper: &str| {
            let lower = upper.to_ascii_lowercase();
            let value =
                [upper, &lower].into_iter().find_map(|name| variables.value(name)?.to_str());
            value.unwrap_or_default().to_owned()
        };
        let [http, https, all] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(value);
        let is_set = [&http, &https, &all].into_iter().any(|proxy| !proxy.is_empty());
        let matcher = Matcher::builder().http(http).https(https).all(all).no(value("NO_PROXY"));
        Self { matcher: matcher.build(), is_set }
    }

    /// The host of `url`, and its proxy without the login.
    fn route(&self, url: &str) -> Option<String> {
        let uri: http::Uri = url.parse().ok()?;
        let host = uri.host()?;
        Some(match self.matcher.intercept(&uri) {
            Some(proxy) => format!("{host} through `{}`", proxy.uri()),
            None => format!("{host} directly"),
        })
    }
}

/// Compares the clock of this machine with the server clock that is nearest to it.
pub(super) fn check_clock(clocks: &[ClockReading]) -> Finding {
    let difference = |clock: &ClockReading| {
        let ahead = clock.here.duration_since(clock.there);
        ahead.unwrap_or_else(|behind| behind.duration())
    };
    let Some(nearest) = clocks.iter().min_by_key(|clock| difference(clock)) else {
        return Finding::note(CLOCK, "cannot check the clock: no server sent its time");
    };
    let (server, off) = (&nearest.server, difference(nearest));
    if off <= SMALL_CLOCK_ERROR {
        let agreeing = clocks.iter().filter(|clock| difference(clock) <= SMALL_CLOCK_ERROR).count();
        let all = clocks.len();
        return Finding::ok(CLOCK, format!("agrees with {agreeing} of {all} servers"));
    }
    let side = if nearest.here > nearest.there { "ahead of" } else { "behind" };
    let off = Duration::from_secs(off.as_secs());
    let message = format!("{} {side} {server}", humantime::format_duration(off));
    let hint = "set the clock: certificates, tokens and signed requests of clouds depend on it";
    if off > MAX_CLOCK_ERROR {
        Finding::failed(CLOCK, message).hint(hint)
    } else {
        Finding::warning(CLOCK, message).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_shown_without_its_login_and_not_for_no_proxy_hosts() {
        let mut variables = Environment::default();
        variables.set("HTTPS_PROXY", "http://user:hunter22@proxy.example:3128");
        variables.set("no_proxy", "internal.example");
        let proxies = Proxies::of(&variables);
        let route = |url| proxies.route(url).unwrap();
        assert_eq!(route("https://a.example/x"), "a.example through `http://proxy.example:3128/`");
        assert_eq!(route("https://internal.example/x"), "internal.example directly");
        assert_eq!(route("http://a.example/x"), "a.example directly");
    }

    #[test]
    fn clock_difference_warns_above_30_seconds_and_fails_above_5_minutes() {
        let now = SystemTime::now();
        let check = |clocks: &[ClockReading]| {
            let finding = check_clock(clocks);
            (finding.state, finding.message)
        };
        let at = |there| ClockReading { server: "it".to_owned(), there, here: now };
        let state = |seconds: &[u64]| {
            let clocks = seconds.iter().map(|seconds| at(now - Duration::from_secs(*seconds)));
            check(&clocks.collect::<Vec<_>>())
        };
        assert_eq!(state(&[]).0, FindingState::Note);
        assert_eq!(state(&[29]).0, FindingState::Ok);
        assert_eq!(state(&[31]), (FindingState::Warning, "31s ahead of it".to_owned()));
        assert_eq!(state(&[400]).0, FindingState::Failed);
        assert_eq!(state(&[400, 3]).0, FindingState::Ok, "one wrong server proves nothing");
        assert_eq!(check(&[at(now + MAX_CLOCK_ERROR)]).1, "5m behind it");
    }
}
