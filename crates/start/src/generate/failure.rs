//! The shell code that reports a job's failure to the registry if the runner did not start.
//!
//! The registry calls a run `running` from the moment it asks the CI system for a job. If installing,
//! masking or logging in fails, nothing else would end the run. The shell never reports once the runner
//! has taken over: there is exactly one final status.

use askama::Template;

use super::{Options, filters, text};

/// The function `report_failure`, for a POSIX shell with curl.
#[derive(Template)]
#[template(path = "report-failure.sh", escape = "none", syntax = "ci")]
struct Function<'a> {
    /// The address of the job, as text of a shell between double quotes.
    job: &'static str,
    ca_bundle: Option<&'a str>,
}

/// The same, with the traps that call it if the shell ends before it becomes the runner.
#[derive(Template)]
#[template(path = "report-failure-trap.sh", escape = "none", syntax = "ci")]
struct Trap {
    function: String,
}

impl Options {
    /// Defines `report_failure EXIT_CODE WHAT_THE_JOB_WAS_DOING`. It reads `BUTLER_ENDPOINT`,
    /// `BUTLER_RUN_ID` and `BUTLER_TOKEN`; `job` is where the job's log is, as text of a shell between
    /// double quotes.
    #[must_use]
    pub fn failure_function(&self, job: &'static str) -> String {
        text(&Function { job, ca_bundle: self.network.ca_bundle.as_deref() })
    }

    /// The same, and has the shell call it when it ends, with the variable `stage` as what the job was
    /// doing. `exec` leaves the traps behind; a shell that waits for the runner has to reset them first.
    #[must_use]
    pub fn failure_trap(&self, job: &'static str) -> String {
        text(&Trap { function: self.failure_function(job) })
    }
}
