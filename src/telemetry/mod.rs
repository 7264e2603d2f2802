//! Exports a run to an OpenTelemetry collector: one trace with a span for each phase and each
//! request, and metrics of durations and sizes.
//!
//! Nothing is exported unless a collector is configured (`OTEL_EXPORTER_OTLP_ENDPOINT`). The data
//! contain names, times, counts and URLs without their queries, but never log lines or variables. An
//! unreachable collector only delays the end of a run by a few seconds.

mod exporter;
mod metrics;
mod run_telemetry;
mod trace;

pub use run_telemetry::{Collector, Telemetry};
