//! The OpenTelemetry collector that receives the traces and metrics of a run.

use std::path::PathBuf;

use super::variable::{
    OTEL_SDK_DISABLED, OTEL_SERVICE_NAME, OTLP_ENDPOINT, OTLP_METRICS_ENDPOINT, OTLP_PROTOCOL,
    OTLP_TRACES_ENDPOINT, TRACEPARENT,
};
use super::{Environment, Variable, parse};
use crate::telemetry::Collector;

/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// `None` if no collector is configured, or if its protocol is not supported.
pub(super) fn collector(
    environment: &Environment,
    ca_bundle: Option<&PathBuf>,
    warnings: &mut Vec<String>,
) -> Option<Collector> {
    let text = |variable: &Variable| {
        let text = environment.value(variable.name)?.to_str()?.trim();
        (!text.is_empty()).then_some(text)
    };
    let endpoints = [&OTLP_ENDPOINT, &OTLP_TRACES_ENDPOINT, &OTLP_METRICS_ENDPOINT];
    endpoints.into_iter().find_map(text)?;
    // The specification accepts any case, and no other value.
    if text(&OTEL_SDK_DISABLED).is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return None;
    }
    if let Some(other) = text(&OTLP_PROTOCOL).filter(|protocol| *protocol != PROTOCOL) {
        warnings.push(format!(
            "{} is {}, but the runner only supports {PROTOCOL}: nothing is exported",
            OTLP_PROTOCOL.name,
            parse::shown(other)
        ));
        return None;
    }
    Some(Collector {
        parent: text(&TRACEPARENT).map(str::to_owned),
        names_service: text(&OTEL_SERVICE_NAME).is_some(),
        ca_bundle: ca_bundle.cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector_of(variables: &[(&str, &str)]) -> (Option<Collector>, Vec<String>) {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::new(variables.collect(), "/butler-runner".into());
        let mut warnings = Vec::new();
        (collector(&environment, None, &mut warnings), warnings)
    }

    #[test]
    fn collector_is_used_if_an_endpoint_is_set_and_the_protocol_is_supported() {
        let named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        let parent = ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let (collector, warnings) = collector_of(&[named, parent]);
        assert_eq!(collector.unwrap().parent.as_deref(), Some(parent.1));
        assert!(warnings.is_empty());
        for not in [
            &[parent][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[named, ("OTEL_SDK_DISABLED", "True")],
        ] {
            assert_eq!(collector_of(not), (None, Vec::new()), "{not:?}");
        }
        let (collector, warnings) = collector_of(&[named, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert_eq!(collector, None);
        assert!(warnings[0].contains("`grpc`"), "{warnings:?}");
    }
}
