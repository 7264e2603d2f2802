//! The shell code that starts the runner in its image.
//!
//! CI systems with container jobs run the steps with `docker exec`, which does not forward signals: a
//! cancelled job could not stop Terraform gracefully. So the shell runs the container itself.

use askama::Template;

use super::{Options, filters, text};

/// What of the job's machine and environment the container gets.
#[derive(Template)]
#[template(path = "docker-run.sh", escape = "none", syntax = "ci")]
pub(super) struct Container {
    image: String,
    /// A directory for temporary files, as text of a shell between double quotes.
    temporary: &'static str,
    /// As `docker run` takes them, as text of a shell between double quotes.
    volumes: Vec<String>,
    /// Variables with the path of a file that may not be there, which the container gets where it is.
    optional_files: Vec<&'static str>,
    /// Names of variables.
    handed_on: Vec<String>,
    /// What the shell does last, when nothing but the container's start is left.
    last: Option<&'static str>,
}

/// What says where the run is told of, and what it is a part of.
const TELEMETRY: [&str; 10] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "TRACEPARENT",
];

impl Container {
    /// The container that `options` ask for, if they do.
    pub(super) fn new(options: &Options, temporary: &'static str) -> Option<Self> {
        let mut container = Self {
            image: options.image()?,
            temporary,
            volumes: Vec::new(),
            optional_files: Vec::new(),
            handed_on: Vec::new(),
            last: None,
        };
        container.hand_on(["CI", "BUTLER_ENDPOINT", "BUTLER_RUN_ID", "BUTLER_TOKEN"]);
        container.hand_on(TELEMETRY);
        let network = options.network_variables();
        container.hand_on(network.iter().map(|(name, _)| *name));
        container.hand_on(options.secrets.iter().map(|secret| secret.variable.as_str()));
        if options.network.ca_bundle.is_some() {
            container.mount("$BUTLER_CA_BUNDLE", ":ro");
        }
        Some(container)
    }

    /// Shows the directory or file that a text of the shell names under the same name.
    pub(super) fn mount(&mut self, path: &str, how: &str) {
        self.volumes.push(format!("{path}:{path}{how}"));
    }

    /// Sets variables as they are outside.
    pub(super) fn hand_on<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.handed_on.extend(names.into_iter().map(ToOwned::to_owned));
    }

    /// Shows the file that the variable names, where it is set, and sets the variable.
    pub(super) fn hand_on_file(&mut self, variable: &'static str) {
        self.optional_files.push(variable);
        self.hand_on([variable]);
    }

    /// Has the shell do this last, when nothing but the container's start is left.
    pub(super) fn announce(&mut self, last: &'static str) {
        self.last = Some(last);
    }

    /// The shell that becomes the container.
    pub(super) fn script(&self) -> String {
        text(self)
    }
}
