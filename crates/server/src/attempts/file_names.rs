//! The names of the files of an attempt that several parts of the server read.

/// The log.
pub(crate) const LOG: &str = "log.jsonl";

/// How many lines the log does not have.
pub(crate) const LOG_LEFT_OUT: &str = "log-left-out.json";

/// The plan that the attempt reported, as JSON.
pub(crate) const PLAN_JSON: &str = "plan.json";

/// The plan that the attempt reported, as text.
pub(crate) const PLAN_TEXT: &str = "plan.txt";

/// The plan that the process has written, as JSON: complete if it is too large for a report.
pub(crate) const LEFT_PLAN_JSON: &str = "reports/plan.json";

/// The plan that the process has written, as text.
pub(crate) const LEFT_PLAN_TEXT: &str = "reports/plan.txt";

/// How the run ended.
pub(crate) const RESULT: &str = "reports/result.json";

/// What the program has said that checks the plan.
pub(crate) const AFTER_PLAN: &str = "reports/after-plan.json";

/// What a saved plan was made from.
pub(crate) const PLAN_INPUTS: &str = "plan-inputs.json";

/// The saved plan, encrypted. It is removed when it is not needed any more.
pub(crate) const SAVED_PLAN: &str = "saved-plan";

/// That the attempt is a Job of a cluster, and no process.
pub(crate) const JOB: &str = "job.json";

/// Those that are copied: what another server needs to show the attempt, and to apply its plan.
pub(crate) const ALL: [&str; 10] = [
    LOG,
    LOG_LEFT_OUT,
    PLAN_JSON,
    PLAN_TEXT,
    LEFT_PLAN_JSON,
    LEFT_PLAN_TEXT,
    RESULT,
    AFTER_PLAN,
    PLAN_INPUTS,
    SAVED_PLAN,
];
