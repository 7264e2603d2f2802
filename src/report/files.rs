//! Names of the files that a run writes. Code that removes or refuses these files uses this list.

/// The files that are also written where the CI system picks them up.
pub const PICKED_UP: [&str; 5] =
    ["result.json", "timings.txt", "terraform.json", "outputs.env", "junit.xml"];

/// The files that are written into a report directory beside.
pub const REPORTS: [&str; 5] = ["status.json", "plan.json", "plan.txt", "outputs.json", "log.txt"];
