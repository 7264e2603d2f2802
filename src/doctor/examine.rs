//! Runs all checks and puts their findings in order.

use std::time::SystemTime;

use super::finding::Finding;
use super::network::Clock;
use super::{keys, machine, network, registry, room, tools};
use crate::run::{register_settings, tool_options};
use crate::settings::{DoctorSettings, Settings};
use crate::tool::{ToolOptions, expiring_keys};
use butler_base::http;
use butler_base::secret::Redactor;

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
    let mut findings = vec![Finding::ok("settings", "all settings are valid")];
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
