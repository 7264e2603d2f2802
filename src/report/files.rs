//! Names of the files that a run writes. Code that removes or refuses these files uses this list.

/// The files that are also written to the directory from which the CI system collects reports.
pub const PICKED_UP: [&str; 5] =
    ["result.json", "timings.txt", "terraform.json", "outputs.env", "junit.xml"];

/// Further files in a report directory.
pub const REPORTS: [&str; 6] =
    ["status.json", "plan.json", "plan.txt", "after-plan.json", "outputs.json", "log.txt"];
