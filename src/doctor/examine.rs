//! Runs all checks and sorts their findings.

use std::time::SystemTime;

use super::finding::Finding;
use super::network::ClockReading;
use super::{cli_configuration, directories, keys, machine, network, registry, tools};
use crate::run::{register_settings, tool_options};
use crate::settings::{DoctorSettings, Settings};
use crate::tool::{ToolOptions, expiring_keys};
use butler_base::http;
use butler_base::secret::Redactor;

/// Runs all checks. The most important findings come first.
pub async fn examine(settings: &DoctorSettings, redactor: &Redactor) -> Vec<Finding> {
    let findings = match &settings.run {
        Ok(run) => examine_run(settings, run, redactor).await,
        // The other checks need valid settings.
        Err(error) => vec![Finding::error("settings", error)],
    };
    let mut findings: Vec<_> =
        findings.into_iter().map(|finding| finding.masked(redactor)).collect();
    findings.push(machine::describe_system(&settings.systems, settings.run.as_ref().ok()));
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
    let ((registry, registry_clock), (tools, releases), sites, configuration) = tokio::join!(
        registry::check_registry(settings.registry.as_ref(), run),
        tools::check_tools(&options),
        network::probe_sites(&options),
        cli_configuration::check_cli_configuration(run, &options.http),
    );
    let clocks: Vec<ClockReading> =
        registry_clock.into_iter().chain(sites.iter().filter_map(network::Site::clock)).collect();
    let mut findings = vec![Finding::ok("settings", "all settings are valid")];
    findings.extend(run.warnings.iter().map(|it| Finding::warning("settings", it)));
    findings.extend(registry);
    findings.push(network::check_tls(run));
    findings.push(network::describe_proxies(settings, &sites, run));
    findings.push(network::check_clock(&clocks));
    findings.extend(sites.iter().map(|site| site.finding(releases)));
    findings.extend(tools);
    findings.extend(tools::check_version_files(run));
    findings.extend(configuration);
    findings.extend(keys::check_keys(&expiring_keys(SystemTime::now()), SystemTime::now()));
    findings.extend(directories::check_directories(run));
    findings.extend(machine::check_machine(&options));
    findings
}
