//! What the files are called that a run leaves: whoever removes or refuses one has to know all.

/// The files that are also written where the CI system picks them up.
pub const PICKED_UP: [&str; 5] =
    ["result.json", "timings.txt", "terraform.json", "outputs.env", "junit.xml"];

/// The files that are written into a report directory beside.
pub const REPORTS: [&str; 5] = ["status.json", "plan.json", "plan.txt", "outputs.json", "log.txt"];
