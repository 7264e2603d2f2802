//! The trace of a run: a span for the run, one for each phase, one for each request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use reqwest::Response;
use reqwest::header::{HeaderName, HeaderValue};

use super::exporter::{SERVICE, Transport};
use super::metrics::Metrics;
use butler_base::event::Phase;
use butler_base::http::{Exchange, Observer, OutgoingRequest, Peer};
use butler_result::RunResult;
use butler_result::timeline::Watcher;

/// The header with the parent of a request (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace of one run.
pub(super) struct Trace {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    run: Context,
    phases: Mutex<BTreeMap<&'static str, Context>>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Trace")
    }
}

impl Trace {
    /// Starts the span of the run, below `parent` if that is a valid `traceparent`.
    pub(super) fn start(
        transport: Transport,
        resource: Resource,
        parent: Option<&str>,
    ) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder().with_http().with_http_client(transport).build()?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer(SERVICE);
        let parent = parent.and_then(span_context);
        let parent =
            parent.map_or_else(Context::new, |it| Context::new().with_remote_span_context(it));
        let run = tracer.build_with_context(tracer.span_builder("run"), &parent);
        let run = Context::new().with_span(run);
        Ok(Self { provider, tracer, run, phases: Mutex::default() })
    }

    /// The `traceparent` of the run's span.
    pub(super) fn traceparent(&self) -> String {
        traceparent(self.run.span().span_context())
    }

    /// Ends the span of the run.
    pub(super) fn end(&self, result: &RunResult) {
        let span = self.run.span();
        let operation = result.operation.map(|operation| operation.to_string());
        let status = result.status.to_string();
        let texts = [
            ("butler.run.id", result.run_id.as_ref()),
            ("butler.run.operation", operation.as_ref()),
            ("butler.run.status", Some(&status)),
            ("butler.run.tool", result.tool.as_ref()),
            ("vcs.ref.head.revision", result.source_commit.as_ref()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                span.set_attribute(KeyValue::new(name, text.clone()));
            }
        }
        span.set_attribute(KeyValue::new("process.exit.code", i64::from(result.exit_code)));
        if let Some(operation) = &operation {
            span.update_name(format!("run {operation}"));
        }
        span.set_status(match &result.error {
            Some(problem) => Status::error(problem.message.clone()),
            None if result.exit_code != 0 => Status::error(result.status.name()),
            None => Status::Ok,
        });
        span.end();
    }

    /// Sends the remaining spans. Blocks for at most `timeout`.
    pub(super) fn shut_down(&self, timeout: Duration) -> OTelSdkResult {
        self.provider.shutdown_with_timeout(timeout)
    }

    fn phases(&self) -> MutexGuard<'_, BTreeMap<&'static str, Context>> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parent span of a request: the open phase that makes such requests, otherwise the run, which
    /// sends log lines and requests its status in every phase.
    fn parent_of(&self, peer: Peer) -> Context {
        let phases: &[Phase] = match peer {
            Peer::Registry => &[Phase::Config, Phase::Report],
            Peer::Releases => &[Phase::Tool],
        };
        let open = self.phases();
        phases.iter().find_map(|phase| open.get(phase.name()).cloned()).unwrap_or(self.run.clone())
    }
}

/// Creates a span for each phase.
pub(super) struct PhaseSpans(pub(super) Arc<Trace>);

impl Watcher for PhaseSpans {
    fn begun(&mut self, phase: Phase) {
        let builder = self.0.tracer.span_builder(phase.name());
        let span = self.0.tracer.build_with_context(builder, &self.0.run);
        self.0.phases().insert(phase.name(), Context::new().with_span(span));
    }

    fn ended(&mut self, phase: Phase) {
        if let Some(context) = self.0.phases().remove(phase.name()) {
            context.span().end();
        }
    }
}

/// Creates a span for each request, and records it in the metrics.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) trace: Arc<Trace>,
    pub(super) metrics: Arc<Metrics>,
}

impl Observer for Requests {
    fn begin(&self, request: &OutgoingRequest<'_>) -> Box<dyn Exchange> {
        let method = request.method.as_str().to_owned();
        // A span name must have few values: there are few callbacks, but many files of releases.
        let last = request.url.path_segments().and_then(|mut segments| segments.next_back());
        let name = match (request.peer, last) {
            (Peer::Registry, Some(last)) => format!("{method} {last}"),
            _ => method.clone(),
        };
        let server = request.url.host_str().unwrap_or_default().to_owned();
        let mut attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("server.address", server),
            KeyValue::new("url.full", without_secrets(request.url)),
        ];
        if let Some(port) = request.url.port_or_known_default() {
            attributes.push(KeyValue::new("server.port", i64::from(port)));
        }
        if let Some(length) = request.length {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            attributes.push(KeyValue::new("http.request.body.size", length));
        }
        let tracer = &self.trace.tracer;
        let builder =
            tracer.span_builder(name).with_kind(SpanKind::Client).with_attributes(attributes);
        let span = tracer.build_with_context(builder, &self.trace.parent_of(request.peer));
        Box::new(RequestSpan {
            span,
            begun: Instant::now(),
            peer: request.peer,
            length: request.length,
            metrics: Arc::clone(&self.metrics),
            answered: false,
        })
    }
}

/// A request in progress.
struct RequestSpan {
    span: Span,
    begun: Instant,
    peer: Peer,
    length: Option<u64>,
    metrics: Arc<Metrics>,
    answered: bool,
}

impl Exchange for RequestSpan {
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let value = HeaderValue::from_str(&traceparent(self.span.span_context())).ok()?;
        Some((TRACEPARENT, value))
    }

    fn ended(mut self: Box<Self>, answer: &reqwest::Result<Response>) {
        self.answered = true;
        let problem = match answer {
            Ok(response) => {
                let status = response.status();
                let code = KeyValue::new("http.response.status_code", i64::from(status.as_u16()));
                self.span.set_attribute(code);
                let is_problem = status.is_client_error() || status.is_server_error();
                is_problem.then(|| status.as_u16().to_string())
            }
            Err(error) if error.is_timeout() => Some("timeout".to_owned()),
            Err(error) if error.is_connect() => Some("connect".to_owned()),
            Err(_) => Some("request".to_owned()),
        };
        if let Some(problem) = &problem {
            self.span.set_attribute(KeyValue::new("error.type", problem.clone()));
            self.span.set_status(Status::error(problem.clone()));
        }
        let status = answer.as_ref().ok().map(|response| response.status().as_u16());
        self.metrics.request(self.peer, status, problem, self.begun.elapsed(), self.length);
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if !self.answered {
            let given_up = "given_up".to_owned();
            self.span.set_status(Status::error(given_up.clone()));
            let (took, length) = (self.begun.elapsed(), self.length);
            self.metrics.request(self.peer, None, Some(given_up), took, length);
        }
        self.span.end();
    }
}

/// The URL without login, query and fragment, which may be secret.
fn without_secrets(url: &url::Url) -> String {
    let mut url = url.clone();
    // A URL without a host has no login either.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// `00-<trace>-<span>-<flags>`.
fn traceparent(context: &SpanContext) -> String {
    let flags = context.trace_flags().to_u8();
    format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
}

/// Reads a `traceparent` of any version (W3C Trace Context, section 3.2).
fn span_context(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let fits = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    if !fits || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_a_parent() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = span_context(text).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(traceparent(&context), text);
        assert!(span_context(&text.replacen("00", "01", 1)).is_some());
        assert!(span_context(&(text.replacen("00", "cc", 1) + "-more")).is_some());
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        ] {
            assert!(span_context(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn url_attribute_has_no_login_and_no_query() {
        let url = "https://me:hunter2@host:8443/path?token=x#y".parse().unwrap();
        assert_eq!(without_secrets(&url), "https://host:8443/path");
    }
}
