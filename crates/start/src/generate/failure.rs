//! The shell code that reports a job's failure to the registry if the runner did not start.
//!
//! The registry sets a run to `running` when it requests the job from the CI system. If installing, masking or
//! logging in fails, nothing else would end the run. The shell does not report after the runner has started, so
//! that there is exactly one final status.

use askama::Template;

use super::render::render_template;
use super::{Options, filters};

/// The function `report_failure`, for a POSIX shell with curl.
#[derive(Template)]
#[template(path = "report-failure.sh", escape = "none", syntax = "ci")]
struct Function<'a> {
    /// The address of the job, as shell text between double quotes.
    job: &'static str,
    ca_bundle: Option<&'a str>,
}

/// The function `report_failure`, with traps that call it if the shell ends before the runner starts.
#[derive(Template)]
#[template(path = "report-failure-trap.sh", escape = "none", syntax = "ci")]
struct Trap {
    function: String,
}

impl Options {
    /// Shell code that defines `report_failure EXIT_CODE WHAT_THE_JOB_WAS_DOING`. The function reads
    /// `BUTLER_ENDPOINT`, `BUTLER_RUN_ID` and `BUTLER_TOKEN`. `job` is the address of the job's log, as shell text
    /// between double quotes.
    #[must_use]
    pub fn failure_function(&self, job: &'static str) -> String {
        render_template(&Function { job, ca_bundle: self.network.ca_bundle.as_deref() })
    }

    /// The function, and traps that call it when the shell ends, with the variable `stage` as its second argument.
    /// `exec` drops the traps; a shell that waits for the runner must reset them first.
    #[must_use]
    pub fn failure_trap(&self, job: &'static str) -> String {
        render_template(&Trap { function: self.failure_function(job) })
    }
}
