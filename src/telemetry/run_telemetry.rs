//! The trace and the metrics of one run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;

use super::exporter::{SERVICE, Transport};
use super::metrics::Metrics;
use super::trace::{PhaseSpans, Requests, Trace};
use butler_base::http::Observed;
use butler_result::RunResult;
use butler_result::timeline::Watcher;

/// How long the collector may take for what is left at the end of a run.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// Whom to tell. The endpoint, headers and limits are the libraries' to read from the environment
/// (OpenTelemetry specification, OTLP exporter).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Collector {
    /// What the run is part of: the value of `TRACEPARENT` (W3C Trace Context).
    pub parent: Option<String>,
    /// Whether `OTEL_SERVICE_NAME` says what the run is to the collector.
    pub names_service: bool,
    /// Certificates to trust beside the system's.
    pub ca_bundle: Option<PathBuf>,
}

/// What is told of one run.
#[derive(Debug)]
pub struct Telemetry {
    trace: Arc<Trace>,
    metrics: Arc<Metrics>,
    transport: Transport,
}

impl Telemetry {
    /// Begins to tell. Must be called within the runtime that carries the run out.
    ///
    /// # Errors
    /// When the endpoint, the headers or the limits in the environment cannot be.
    pub fn start(collector: &Collector) -> Result<Self, ExporterBuildError> {
        let transport = Transport::new(collector.ca_bundle.clone());
        let resource = || {
            let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
            let resource = Resource::builder().with_attribute(version);
            let named = if collector.names_service {
                resource
            } else {
                resource.with_service_name(SERVICE)
            };
            named.build()
        };
        let trace = Trace::start(transport.clone(), resource(), collector.parent.as_deref())?;
        let metrics = Metrics::start(transport.clone(), resource())?;
        Ok(Self { trace: Arc::new(trace), metrics: Arc::new(metrics), transport })
    }

    /// Watches the phases of the run.
    #[must_use]
    pub fn watcher(&self) -> Box<dyn Watcher> {
        Box::new(PhaseSpans(Arc::clone(&self.trace)))
    }

    /// Watches the requests of the run.
    #[must_use]
    pub fn observed(&self) -> Observed {
        Observed::by(Arc::new(Requests {
            trace: Arc::clone(&self.trace),
            metrics: Arc::clone(&self.metrics),
        }))
    }

    /// The run's place in the trace, for those that it starts: a value for `TRACEPARENT`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.trace.traceparent()
    }

    /// Tells how the run ended, and waits until the collector has it all, but not for long.
    pub async fn finish(&self, result: &RunResult) {
        self.trace.end(result);
        self.metrics.record(result);
        let (trace, metrics) = (Arc::clone(&self.trace), Arc::clone(&self.metrics));
        // The libraries wait in the calling thread for requests that this runtime carries out.
        let told = tokio::task::spawn_blocking(move || {
            trace.shut_down(LAST_EXPORT).and(metrics.shut_down(LAST_EXPORT))
        });
        let told = tokio::time::timeout(LAST_EXPORT, told).await;
        match (told, self.transport.refusal()) {
            // Also what was refused on the way: nothing is sent again.
            (_, Some(refusal)) => {
                tracing::warn!("the collector was not told everything: {refusal}");
            }
            (Ok(Ok(Ok(()))), None) => {}
            (Ok(Ok(Err(error))), None) => {
                tracing::warn!(%error, "the collector was not told everything");
            }
            (Ok(Err(_)) | Err(_), None) => {
                let origin = self.transport.origin().unwrap_or_default();
                tracing::warn!(
                    "the collector `{origin}` did not take everything in {LAST_EXPORT:?}"
                );
            }
        }
    }
}
