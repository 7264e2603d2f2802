//! The contract of the border to the engines: Terraform and `OpenTofu`, each in whole runs.
//!
//! `BUTLER_TEST_ENGINES` names the executables, separated as in PATH. An engine that is named and missing is a failure.
//! Without it, the engines on PATH are tested. Each test runs the same steps with each engine, and names the one that
//! fails. `recorded` replays the output of other engines in such steps.

mod changes;
mod engine;
mod failures;
mod recorded;
mod secrets;
mod stops;
