//! The CI job around the process: its system, its paths, and the time that it leaves after a signal.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, variable};
use crate::ci::{Job, JobVariables, StopTimes, System};

/// The directory for reports below the one that the system collects.
const REPORTS_DIRECTORY: &str = "butler-report";

/// The times on a machine that does not limit them.
const DEFAULT_TIMES: StopTimes =
    StopTimes { grace: Duration::from_mins(1), report: Duration::from_secs(10) };

/// Kubernetes kills 30 s after its SIGTERM. One second remains for the process to end.
const KUBERNETES_TIMES: StopTimes =
    StopTimes { grace: Duration::from_secs(20), report: Duration::from_secs(9) };

/// The CI system whose job this process is in.
pub(super) fn detect_system(environment: &Environment) -> System {
    let has = |name: &str| environment.value(name).is_some_and(|value| value != "false");
    System::detect(has, |path| Path::new(path).exists())
}

/// The job of `system`, from the variables that the system sets.
pub(super) fn job(system: System, environment: &Environment, report_dir: Option<&Path>) -> Job {
    let path = |name: Option<&str>| environment.value(name?).map(PathBuf::from);
    let text =
        |name: Option<&str>| environment.value(name?).and_then(OsStr::to_str).map(str::to_owned);
    let JobVariables {
        summary,
        outputs,
        workspace,
        repository,
        address,
        commit,
        collected_directory,
    } = system.description().job_variables;
    let collected = path(collected_directory).map(|it| it.join(REPORTS_DIRECTORY));
    Job {
        system,
        summary: path(summary),
        outputs: path(outputs),
        workspace: path(workspace),
        repository: text(repository),
        address: text(address),
        commit: text(commit),
        reports: report_dir.map(Path::to_owned).or(collected),
    }
}

/// The time between a signal and the end of the process, which depends on the system that sends the signal.
pub(super) fn stop_times(environment: &Environment) -> StopTimes {
    // The system that was detected, not the one in `--ci`: a user can select another log format, but the detected
    // system kills the process.
    let system = detect_system(environment).description().stop_times;
    system.unwrap_or_else(|| {
        let in_kubernetes = environment.value(variable::KUBERNETES_SERVICE_HOST.name).is_some();
        if in_kubernetes { KUBERNETES_TIMES } else { DEFAULT_TIMES }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::VARIABLES;
    use crate::settings::setting::GRACE_PERIOD;

    #[test]
    fn documented_grace_period_names_each_system_that_shortens_it() {
        for system in System::ALL {
            let is_named = GRACE_PERIOD.default.contains(system.title());
            let shortens = system.description().stop_times.is_some();
            assert_eq!(is_named, shortens, "{}", system.title());
        }
    }

    #[test]
    fn variables_of_all_systems_are_listed_for_the_documentation() {
        for system in System::ALL {
            let it = system.description().job_variables;
            let names = [
                it.summary,
                it.outputs,
                it.workspace,
                it.repository,
                it.address,
                it.commit,
                it.collected_directory,
            ];
            for name in names.into_iter().flatten() {
                let is_listed = VARIABLES.iter().any(|variable| variable.name == name);
                assert!(is_listed, "{name}");
            }
        }
    }
}
