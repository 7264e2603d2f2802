//! Metrics of runs and requests: durations, bytes, failed requests, undelivered log lines.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::exporter::{SERVICE, Transport};
use butler_base::http::Peer;
use butler_protocol::spec::Operation;
use butler_result::RunResult;

/// Bounds of durations, in seconds: from a request on loopback to an apply of an hour.
const SECONDS: [f64; 15] =
    [0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0];

/// The instruments.
#[derive(Debug)]
pub(super) struct Metrics {
    provider: SdkMeterProvider,
    run: Histogram<f64>,
    phase: Histogram<f64>,
    request: Histogram<f64>,
    sent: Counter<u64>,
    failed: Counter<u64>,
    undelivered: Counter<u64>,
}

impl Metrics {
    pub(super) fn start(
        transport: Transport,
        resource: Resource,
    ) -> Result<Self, ExporterBuildError> {
        let exporter = MetricExporter::builder().with_http().with_http_client(transport).build()?;
        let provider = SdkMeterProvider::builder()
            .with_periodic_exporter(exporter)
            .with_resource(resource)
            .build();
        let meter = provider.meter(SERVICE);
        let seconds = |name, about| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let counter = |name, unit, about| {
            meter.u64_counter(name).with_unit(unit).with_description(about).build()
        };
        Ok(Self {
            run: seconds("butler.run.duration", "How long runs take, from start to end"),
            phase: seconds("butler.run.phase.duration", "How long the phases of runs take"),
            request: seconds("http.client.request.duration", "How long requests take"),
            sent: counter("butler.request.sent", "By", "Bytes sent in request bodies"),
            failed: counter(
                "butler.request.failed",
                "{request}",
                "Requests that were rejected or not answered; most of them are retried",
            ),
            undelivered: counter(
                "butler.log.undelivered",
                "{line}",
                "Log lines that were not delivered to the registry",
            ),
            provider,
        })
    }

    /// Records a request.
    pub(super) fn request(
        &self,
        peer: Peer,
        status: Option<u16>,
        problem: Option<String>,
        took: Duration,
        sent: Option<u64>,
    ) {
        let peer = KeyValue::new(
            "butler.peer",
            match peer {
                Peer::Registry => "registry",
                Peer::Releases => "releases",
            },
        );
        let mut attributes = vec![peer.clone()];
        if let Some(status) = status {
            attributes.push(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        if let Some(problem) = problem {
            attributes.push(KeyValue::new("error.type", problem));
            self.failed.add(1, &attributes);
        }
        self.request.record(took.as_secs_f64(), &attributes);
        self.sent.add(sent.unwrap_or_default(), &[peer]);
    }

    /// Records the run.
    pub(super) fn record(&self, result: &RunResult) {
        let operation = result.operation.map_or("unknown", Operation::name);
        let attributes = [
            KeyValue::new("butler.run.operation", operation),
            KeyValue::new("butler.run.status", result.status.name()),
        ];
        self.run.record(result.timings.total.as_secs_f64(), &attributes);
        for timing in &result.timings.phases {
            if let Some(duration) = timing.duration {
                let phase = KeyValue::new("butler.run.phase", timing.phase.name());
                self.phase.record(duration.as_secs_f64(), &[phase]);
            }
        }
        self.undelivered.add(result.undelivered_lines(), &[]);
    }

    /// Sends the remaining metrics. Blocks for at most `timeout`.
    pub(super) fn shut_down(&self, timeout: Duration) -> OTelSdkResult {
        self.provider.shutdown_with_timeout(timeout)
    }
}
