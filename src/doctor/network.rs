//! Whether TLS can be had, which proxies are in the way, what the release sites say, and whether
//! this machine's clock is right.

use std::time::{Duration, SystemTime};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::StatusCode;

use super::finding::{Finding, State};
use super::time_limit::{LONGEST, bounded};
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

/// Tokens and signed requests of clouds are refused beyond five minutes.
const WRONG: Duration = Duration::from_mins(5);

/// A clock that is synchronized or set manually has a smaller error.
const DOUBTFUL: Duration = Duration::from_secs(30);

/// What time it was at another machine, and here.
pub(super) struct Clock {
    pub(super) whose: String,
    pub(super) there: SystemTime,
    pub(super) here: SystemTime,
}

/// Where the releases of a product come from.
pub(super) struct Site {
    product: Product,
    /// Of its list of versions.
    url: String,
    answer: Option<Result<Probe, ToolError>>,
    asked: SystemTime,
}

/// Asks all release sites at once.
pub(super) async fn sites(options: &ToolOptions) -> Vec<Site> {
    let ask = |product| async move {
        let answer = bounded(probe(product, options)).await;
        Site { product, url: list_url(product, options), answer, asked: SystemTime::now() }
    };
    futures_util::future::join_all(Product::ALL.map(ask)).await
}

impl Site {
    pub(super) fn clock(&self) -> Option<Clock> {
        let Some(Ok(Probe { date: Some(date), .. })) = &self.answer else { return None };
        Some(Clock { whose: format!("`{}`", self.url), there: *date, here: self.asked })
    }

    /// What it says, and how bad that is.
    pub(super) fn finding(&self, releases: Releases) -> Finding {
        let Self { product, url, .. } = self;
        let bad = |message| match releases {
            // Terragrunt is only needed by runs that ask for it.
            Releases::Needed if *product != Product::Terragrunt => {
                Finding::failed(RELEASES, message)
            }
            _ => Finding::warning(RELEASES, message),
        };
        match &self.answer {
            None => {
                bad(format!("{product}: `{url}` did not respond within {} s", LONGEST.as_secs()))
                    .hint("check the network, HTTPS_PROXY and --mirror (BUTLER_MIRROR)")
            }
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
                    StatusCode::NOT_FOUND => Finding { state: State::Warning, ..finding }
                        .hint("without the list of versions only exact versions can be installed"),
                    _ => finding.hint("check --mirror (BUTLER_MIRROR)"),
                }
            }
        }
    }
}

/// What is trusted.
pub(super) fn tls(run: &Settings) -> Finding {
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

/// Which proxy is asked for what, by the variables that every HTTP client minds.
pub(super) fn proxies(settings: &DoctorSettings, sites: &[Site], run: &Settings) -> Finding {
    let proxies = Proxies::of(&run.git.variables);
    let endpoint = settings.registry.as_ref().ok().and_then(|access| access.endpoint.as_ref());
    let urls = endpoint.map(url::Url::as_str).into_iter();
    let urls = urls.chain(sites.iter().map(|site| site.url.as_str()));
    let mut ways: Vec<String> = urls.filter_map(|url| proxies.way(url)).collect();
    ways.sort();
    ways.dedup();
    if proxies.is_set {
        Finding::ok(PROXY, ways.join(", "))
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

    /// How `url` is reached; the proxy without its login.
    fn way(&self, url: &str) -> Option<String> {
        let uri: http::Uri = url.parse().ok()?;
        let host = uri.host()?;
        Some(match self.matcher.intercept(&uri) {
            Some(proxy) => format!("{host} through `{}`", proxy.uri()),
            None => format!("{host} directly"),
        })
    }
}

/// Compares the clock of this machine with the server clock that is nearest to it.
pub(super) fn clock(clocks: &[Clock]) -> Finding {
    let difference = |clock: &Clock| {
        let ahead = clock.here.duration_since(clock.there);
        ahead.unwrap_or_else(|behind| behind.duration())
    };
    let Some(nearest) = clocks.iter().min_by_key(|clock| difference(clock)) else {
        return Finding::note(CLOCK, "cannot check the clock: no server sent its time");
    };
    let (whose, off) = (&nearest.whose, difference(nearest));
    if off <= DOUBTFUL {
        let agreeing = clocks.iter().filter(|clock| difference(clock) <= DOUBTFUL).count();
        let all = clocks.len();
        return Finding::ok(CLOCK, format!("agrees with {agreeing} of {all} servers"));
    }
    let side = if nearest.here > nearest.there { "ahead of" } else { "behind" };
    let off = Duration::from_secs(off.as_secs());
    let message = format!("{} {side} {whose}", humantime::format_duration(off));
    let hint = "set the clock: certificates, tokens and signed requests of clouds depend on it";
    if off > WRONG {
        Finding::failed(CLOCK, message).hint(hint)
    } else {
        Finding::warning(CLOCK, message).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_shown_without_its_login_and_only_where_it_counts() {
        let mut variables = Environment::default();
        variables.set("HTTPS_PROXY", "http://user:hunter22@proxy.example:3128");
        variables.set("no_proxy", "internal.example");
        let proxies = Proxies::of(&variables);
        let way = |url| proxies.way(url).unwrap();
        assert_eq!(way("https://a.example/x"), "a.example through `http://proxy.example:3128/`");
        assert_eq!(way("https://internal.example/x"), "internal.example directly");
        assert_eq!(way("http://a.example/x"), "a.example directly");
    }

    #[test]
    fn a_clock_may_be_half_a_minute_off_and_not_five_minutes() {
        let now = SystemTime::now();
        let judged = |clocks: &[Clock]| {
            let finding = clock(clocks);
            (finding.state, finding.message)
        };
        let at = |there| Clock { whose: "it".to_owned(), there, here: now };
        let state = |seconds: &[u64]| {
            let clocks = seconds.iter().map(|seconds| at(now - Duration::from_secs(*seconds)));
            judged(&clocks.collect::<Vec<_>>())
        };
        assert_eq!(state(&[]).0, State::Note);
        assert_eq!(state(&[29]).0, State::Ok);
        assert_eq!(state(&[31]), (State::Warning, "31s ahead of it".to_owned()));
        assert_eq!(state(&[400]).0, State::Failed);
        assert_eq!(state(&[400, 3]).0, State::Ok, "one wrong server proves nothing");
        assert_eq!(judged(&[at(now + WRONG)]).1, "5m behind it");
    }
}
