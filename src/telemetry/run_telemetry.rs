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

/// The timeout of the last export at the end of a run.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// The collector. The libraries read its endpoint, headers and limits from the environment
/// (OpenTelemetry specification, OTLP exporter).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Collector {
    /// The parent of the trace: the value of `TRACEPARENT` (W3C Trace Context).
    pub parent: Option<String>,
    /// Whether `OTEL_SERVICE_NAME` is set.
    pub names_service: bool,
    /// Certificates to trust in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
}

/// The trace and the metrics of one run.
#[derive(Debug)]
pub struct Telemetry {
    trace: Arc<Trace>,
    metrics: Arc<Metrics>,
    transport: Transport,
}

impl Telemetry {
    /// Starts the trace of a run. Must be called in the runtime that executes the run.
    ///
    /// # Errors
    /// When the endpoint, the headers or the limits in the environment are not valid.
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

    /// The value of `TRACEPARENT` for child processes of the run.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.trace.traceparent()
    }

    /// Exports the result of the run. Waits for the collector for a few seconds at most.
    pub async fn finish(&self, result: &RunResult) {
        self.trace.end(result);
        self.metrics.record(result);
        let (trace, metrics) = (Arc::clone(&self.trace), Arc::clone(&self.metrics));
        // The libraries block the calling thread until this runtime has sent their requests.
        let exported = tokio::task::spawn_blocking(move || {
            trace.shut_down(LAST_EXPORT).and(metrics.shut_down(LAST_EXPORT))
        });
        let exported = tokio::time::timeout(LAST_EXPORT, exported).await;
        match (exported, self.transport.last_error()) {
            // Includes earlier requests, because failed exports are not retried.
            (_, Some(error)) => {
                tracing::warn!("cannot export all telemetry: {error}");
            }
            (Ok(Ok(Ok(()))), None) => {}
            (Ok(Ok(Err(error))), None) => {
                tracing::warn!(%error, "cannot export all telemetry");
            }
            (Ok(Err(_)) | Err(_), None) => {
                let origin = self.transport.origin().unwrap_or_default();
                tracing::warn!(
                    "cannot export all telemetry: the collector `{origin}` did not respond within {LAST_EXPORT:?}"
                );
            }
        }
    }
}
