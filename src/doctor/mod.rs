//! Says whether this machine can carry out runs: settings, registry, network, tools and room.
//!
//! Nothing is changed but what is remembered of executables: what those on PATH said, and that one in
//! the cache is not the one that was verified. Every wait has its bound. What has to be asked of others is asked at the same time. All that is said goes through the
//! redactor; a URL is shown without its login in any case.

mod keys;
mod machine;
mod network;
mod registry;
mod room;
mod tools;

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::run::{register_settings, tool_options};
use crate::settings::{DoctorSettings, Settings};
use crate::tool::{ToolOptions, expiring_keys};
use butler_base::error::{Advice, chain};
use butler_base::http;
use butler_base::secret::Redactor;
use network::Clock;

/// How long one thing may take to be looked at: whoever asks waits for the page.
const LONGEST: Duration = Duration::from_secs(15);

/// One thing that was looked at.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `registry`.
    pub check: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it has to be.
    Ok,
    /// Neither good nor bad.
    Note,
    /// Runs may suffer from it.
    Warning,
    /// No run can do without.
    Failed,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: State::Ok, message: message.into(), hint: None }
    }

    fn note(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Note, ..Self::ok(check, message) }
    }

    fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Warning, ..Self::ok(check, message) }
    }

    fn failed(check: &'static str, message: impl Into<String>) -> Self {
        Self { state: State::Failed, ..Self::ok(check, message) }
    }

    /// What `error` says, and what it advises.
    fn error(check: &'static str, error: &(impl Advice + 'static)) -> Self {
        Self { hint: error.advice(), ..Self::failed(check, chain(error)) }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn masked(self, redactor: &Redactor) -> Self {
        let mask = |text: &str| redactor.redact(text.as_bytes()).into_owned();
        Self { message: mask(&self.message), hint: self.hint.as_deref().map(mask), ..self }
    }
}

/// Looks at everything; what is most important comes first.
pub async fn examine(settings: &DoctorSettings, redactor: &Redactor) -> Vec<Finding> {
    let findings = match &settings.run {
        Ok(run) => examine_run(settings, run, redactor).await,
        // Without them nobody knows where anything is.
        Err(error) => vec![Finding::error("settings", error)],
    };
    let mut findings: Vec<_> =
        findings.into_iter().map(|finding| finding.masked(redactor)).collect();
    findings.push(machine::system(&settings.systems, settings.run.as_ref().ok()));
    findings
}

async fn examine_run(
    settings: &DoctorSettings,
    run: &Settings,
    redactor: &Redactor,
) -> Vec<Finding> {
    register_settings(redactor, run);
    if let Ok(access) = &settings.registry {
        redactor.register(&access.token);
    }
    let options = ToolOptions {
        search_path: run.environment.get(std::ffi::OsStr::new("PATH")).cloned(),
        ..tool_options(
            &run.tool,
            http::LazyClient::new(run.tool.ca_bundle.clone()),
            "butler-runner doctor".to_owned(),
        )
    };
    let ((registry, registry_clock), (tools, releases), sites) = tokio::join!(
        registry::look(settings.registry.as_ref(), run),
        tools::look(&options),
        network::sites(&options),
    );
    let clocks: Vec<Clock> =
        registry_clock.into_iter().chain(sites.iter().filter_map(network::Site::clock)).collect();
    let mut findings = vec![Finding::ok("settings", "all settings can be used")];
    findings.extend(run.warnings.iter().map(|it| Finding::warning("settings", it)));
    findings.extend(registry);
    findings.push(network::tls(run));
    findings.push(network::proxies(settings, &sites, run));
    findings.push(network::clock(&clocks));
    findings.extend(sites.iter().map(|site| site.finding(releases)));
    findings.extend(tools);
    findings.extend(keys::look(&expiring_keys(SystemTime::now()), SystemTime::now()));
    findings.extend(room::look(run));
    findings.extend(machine::look(&options));
    findings
}

/// The answer of `look`, or that there is none.
async fn bounded<T>(look: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(LONGEST, look).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_without_an_end() {
        assert_eq!(bounded(std::future::pending::<()>()).await, None);
        assert_eq!(bounded(async { 7 }).await, Some(7));
    }

    #[test]
    fn secrets_are_masked_in_messages_and_hints() {
        let redactor = Redactor::new();
        redactor.register(&[secrecy::SecretString::from("hunter22")]);
        let finding = Finding::failed("a", "said hunter22").hint("not hunter22").masked(&redactor);
        assert_eq!(
            (finding.message.as_str(), finding.hint.as_deref()),
            ("said ***", Some("not ***"))
        );
    }
}
