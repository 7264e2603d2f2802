//! Where a run's reports go: to the registry, into a directory, to both, or nowhere.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::notices::Notices;
use super::outcome::StatusReport;
use super::report_error::ReportError;
use super::report_files::replace;
use crate::engine::readable_junit;
use crate::registry::{
    Body, Callback, Callbacks, Client, Part, Patience, RegistryError, RunStatus,
};
use crate::report::{Batch, Delivery, LogSink};
use crate::run::directory::descriptors::DescriptorReserve;
use crate::run::plan::plan_report::{Form, PlanReport, Room};
use butler_base::cancel::{Stop, StopReason};
use butler_base::secret::{Redactor, redact_xml};

/// A plan that is larger than this, in bytes, and does not get through may do so when it is smaller.
const LARGE: u64 = 1024 * 1024;

/// What is left out of a plan when the registry takes nothing of it.
const REFUSED: &str = "the registry refused every form of the plan as too large";

/// The registry as a place to report to.
#[derive(Debug)]
pub(in crate::run) struct RegistryReports {
    client: Arc<Client>,
    callbacks: OnceLock<Callbacks>,
    stop: Stop,
}

impl RegistryReports {
    pub(in crate::run) const fn new(client: Arc<Client>, stop: Stop) -> Self {
        Self { client, callbacks: OnceLock::new(), stop }
    }

    /// Uses the callbacks that the configuration names, from now on.
    pub(in crate::run) fn use_callbacks(&self, callbacks: Callbacks) {
        let _ = self.callbacks.set(callbacks);
    }

    async fn post(
        &self,
        callback: Callback,
        body: impl Into<Body>,
        patience: Patience,
    ) -> Result<(), RegistryError> {
        if self.stop.run_is_over() {
            return Err(RegistryError::RunOver);
        }
        let callbacks = match self.callbacks.get() {
            Some(callbacks) => callbacks,
            None => &self.client.callbacks()?,
        };
        let posted = self.client.post(callback, callbacks, body.into(), patience).await;
        if matches!(posted, Err(RegistryError::RunOver)) {
            self.stop.request(StopReason::RunOver { status: "409".to_owned() });
        }
        posted
    }
}

impl LogSink for RegistryReports {
    async fn send(&self, batch: &Batch) -> Delivery {
        match self.post(Callback::Logs, batch.body(), Patience::Once).await {
            Ok(()) => Delivery::Delivered,
            Err(RegistryError::RunOver) => Delivery::RunOver,
            Err(RegistryError::Refused { status, .. }) if status.as_u16() == 413 => {
                Delivery::TooLarge
            }
            Err(error) if error.is_transient() => {
                let rest = error.retry_after().unwrap_or_default();
                Delivery::Unreachable { reason: butler_base::error::chain(&error), rest }
            }
            Err(error) => Delivery::Refused { reason: butler_base::error::chain(&error) },
        }
    }
}

/// All places that a run reports to.
#[derive(Debug, Default)]
pub(in crate::run) struct Reports {
    pub(in crate::run) registry: Option<Arc<RegistryReports>>,
    pub(in crate::run) directory: Option<PathBuf>,
    pub(in crate::run) redactor: Arc<Redactor>,
    /// Who is told beside of how the run ended.
    pub(in crate::run) notices: Arc<Notices>,
    /// Descriptors for the last reports; to be let go of when the work is done.
    pub(in crate::run) reserve: Option<DescriptorReserve>,
}

impl Reports {
    /// Says that the run has begun.
    pub(in crate::run) async fn running(&self) -> Result<(), ReportError> {
        self.status(&StatusReport::running(), Patience::Short).await
    }

    /// Says how the run ended. Nothing may be reported after this.
    pub(in crate::run) async fn finish(&self, status: &StatusReport) -> Result<(), ReportError> {
        self.status(status, Patience::Long).await
    }

    /// Whether a `running` may be on its way that nobody has answered.
    pub(in crate::run) fn has_doubtful_running(&self) -> bool {
        self.registry.as_ref().is_some_and(|registry| registry.client.has_unanswered_status())
    }

    /// Whether the registry takes the run for an open one.
    pub(in crate::run) async fn is_open(&self) -> bool {
        match &self.registry {
            Some(registry) => {
                matches!(registry.client.status(Patience::Once).await, Ok(RunStatus::Open(_)))
            }
            None => false,
        }
    }

    /// Reports a plan in the largest form that the registry takes. Says what was left out.
    pub(in crate::run) async fn plan(
        &self,
        plan: &PlanReport,
    ) -> Result<Option<&'static str>, ReportError> {
        self.keep_part("plan.json", &plan.json)?;
        self.keep_part("plan.txt", &plan.text.shown)?;
        let Some(registry) = &self.registry else { return Ok(None) };
        let mut room = Room::new(plan.limit.unwrap_or(u64::MAX));
        let mut form = plan.form(Form::Everything, room);
        loop {
            let body = plan.body(form, room).map_err(ReportError::Read)?;
            let length = body.length();
            match registry.post(Callback::Plan, body, Patience::Short).await {
                Ok(()) => return Ok(form.note()),
                Err(error) => {
                    let refused = matches!(&error, RegistryError::Refused { status, .. } if status.as_u16() == 413);
                    // A slow line, or somebody on the way who hangs up: less may get through.
                    let stuck = error.is_transient() && length > LARGE;
                    if !refused && !stuck {
                        return Err(error.into());
                    }
                    tracing::warn!(error = %butler_base::error::chain(&error), length, "the plan is too large");
                    let Some(smaller) = form.smaller() else { return Ok(Some(REFUSED)) };
                    room = if refused { Room::after(length) } else { Room::new(LARGE) };
                    form = plan.form(smaller, room);
                }
            }
        }
    }

    /// Reports the outputs, a JSON object, in full.
    pub(in crate::run) async fn outputs(&self, json: &[u8]) -> Result<(), ReportError> {
        self.keep("outputs.json", json)?;
        let Some(registry) = &self.registry else { return Ok(()) };
        let body = [br#"{"outputs":"#.as_slice(), json.trim_ascii(), b"}"].concat();
        Ok(registry.post(Callback::Outputs, body, Patience::Short).await?)
    }

    /// Keeps the `JUnit` file that a test run has left, with its secrets masked: failed checks quote
    /// what they were given.
    pub(in crate::run) fn junit(&self, file: &Path) -> Result<(), ReportError> {
        if self.notices.keeps_files() {
            let content = std::fs::read(file).map_err(ReportError::Read)?;
            let masked = redact_xml(&self.redactor, &content);
            self.notices.write("junit.xml", readable_junit(masked.as_bytes()).as_bytes());
        }
        Ok(())
    }

    /// Writes how the run ended into the directory, where the registry did not get it.
    pub(in crate::run) fn keep_status(&self, status: &StatusReport) {
        if let Err(error) = self.keep("status.json", self.status_body(status).as_slice()) {
            tracing::error!("{}", butler_base::error::chain(&error));
        }
    }

    fn status_body(&self, status: &StatusReport) -> Vec<u8> {
        serde_json::to_vec(&status.clone().masked(&self.redactor))
            .expect("a status has no part that JSON cannot say")
    }

    async fn status(&self, status: &StatusReport, patience: Patience) -> Result<(), ReportError> {
        let body = self.status_body(status);
        self.keep("status.json", body.as_slice())?;
        let Some(registry) = &self.registry else { return Ok(()) };
        Ok(registry.post(Callback::Status, body, patience).await?)
    }

    /// Writes a report into the directory. Where there is a registry, that is what matters: what
    /// cannot be written is logged, and does not keep it from the registry.
    fn keep(&self, name: &str, content: impl Read) -> Result<(), ReportError> {
        match self.write(name, content) {
            Err(error) if self.registry.is_some() => {
                tracing::error!("{}", butler_base::error::chain(&error));
                Ok(())
            }
            written => written,
        }
    }

    fn keep_part(&self, name: &str, part: &Part) -> Result<(), ReportError> {
        if self.directory.is_none() {
            return Ok(());
        }
        self.keep(name, part.open().map_err(ReportError::Read)?)
    }

    fn write(&self, name: &str, content: impl Read) -> Result<(), ReportError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let path = directory.join(name);
        replace(&path, content).map_err(|source| ReportError::Write { path, source })
    }
}
