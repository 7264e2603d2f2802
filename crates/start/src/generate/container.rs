//! The shell code that starts the runner in its image.
//!
//! CI systems with container jobs run the steps with `docker exec`, which does not forward signals: a
//! cancelled job could not stop Terraform gracefully. So the shell starts the container with `docker run`.

use askama::Template;

use super::render::render_template;
use super::{Options, filters};

/// The volumes and variables of the container.
#[derive(Template)]
#[template(path = "docker-run.sh", escape = "none", syntax = "ci")]
pub(super) struct Container {
    image: String,
    /// A directory for temporary files, as shell text between double quotes.
    temporary: &'static str,
    /// The values of `--volume`, as shell text between double quotes.
    volumes: Vec<String>,
    /// Variables with the path of a file. The file is mounted if the variable is set.
    optional_files: Vec<&'static str>,
    /// Names of variables that the container gets.
    environment: Vec<String>,
    /// The last shell command before the container's start.
    last_command: Option<&'static str>,
}

/// The variables of OpenTelemetry.
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
    /// The container, if `options` install the runner as an image.
    pub(super) fn new(options: &Options, temporary: &'static str) -> Option<Self> {
        let mut container = Self {
            image: options.image()?,
            temporary,
            volumes: Vec::new(),
            optional_files: Vec::new(),
            environment: Vec::new(),
            last_command: None,
        };
        container.pass_variables(["CI", "BUTLER_ENDPOINT", "BUTLER_RUN_ID", "BUTLER_TOKEN"]);
        container.pass_variables(TELEMETRY);
        let network = options.network_variables();
        container.pass_variables(network.iter().map(|(name, _)| *name));
        container.pass_variables(options.secrets.iter().map(|secret| secret.variable.as_str()));
        if options.network.ca_bundle.is_some() {
            container.mount("$BUTLER_CA_BUNDLE", ":ro");
        }
        Some(container)
    }

    /// Mounts a file or directory at the same path. `path` is shell text; `mode` is empty or `:ro`.
    pub(super) fn mount(&mut self, path: &str, mode: &str) {
        self.volumes.push(format!("{path}:{path}{mode}"));
    }

    /// Passes variables of the job to the container.
    pub(super) fn pass_variables<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.environment.extend(names.into_iter().map(ToOwned::to_owned));
    }

    /// Passes a variable that contains a path, and mounts the file if the variable is set.
    pub(super) fn pass_file(&mut self, variable: &'static str) {
        self.optional_files.push(variable);
        self.pass_variables([variable]);
    }

    /// Sets the last shell command before the container's start.
    pub(super) fn set_last_command(&mut self, command: &'static str) {
        self.last_command = Some(command);
    }

    /// Renders the shell code.
    pub(super) fn script(&self) -> String {
        render_template(self)
    }
}
