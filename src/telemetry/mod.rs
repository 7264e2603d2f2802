//! Tells an OpenTelemetry collector how a run goes: one trace with a span for each phase and each
//! request, and metrics of what it took.
//!
//! There is nothing of this unless a collector is named (`OTEL_EXPORTER_OTLP_ENDPOINT`). What is told
//! are names, times, counts and addresses without their queries: no line of the log, no variable. A
//! collector that is gone costs the run nothing but a moment at its end.

mod exporter;
mod metrics;
mod run_telemetry;
mod trace;

pub use run_telemetry::{Collector, Telemetry};
