//! Sends the reports of a run to the registry, to a directory, to both, or to neither.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::notices::Notices;
use super::report_error::ReportError;
use super::report_files::replace;
use super::status_report::StatusReport;
use crate::engine::{read_junit, readable_junit};
use crate::registry::{
    Body, Callback, Callbacks, Client, Part, Patience, RegistryError, RunStatus,
};
use crate::report::{Batch, Delivery, LogSink};
use crate::run::directory::descriptors::DescriptorReserve;
use crate::run::plan::detail_level::{BodyLimit, DetailLevel};
use crate::run::plan::plan_report::PlanReport;
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::error::chain;
use butler_base::secret::{Redactor, redact_xml};
use butler_protocol::configuration::StopStatus;
use butler_result::{PlanCheck, RunResult};

/// If a larger plan, in bytes, is not delivered, a smaller form of it is tried.
const LARGE: u64 = 1024 * 1024;

/// The remark on a plan if the registry rejects all forms of it.
const REFUSED: &str = "the registry refused every form of the plan as too large";

/// The registry as the receiver of reports.
#[derive(Debug)]
pub(in crate::run) struct RegistryReports {
    client: Arc<Client>,
    callbacks: OnceLock<Callbacks>,
    stop_status: OnceLock<StopStatus>,
    stop: Stop,
}

impl RegistryReports {
    pub(in crate::run) const fn new(client: Arc<Client>, stop: Stop) -> Self {
        Self { client, callbacks: OnceLock::new(), stop_status: OnceLock::new(), stop }
    }

    /// Sets what the configuration says about reports: where they go, and the status after a signal.
    pub(in crate::run) fn configure(&self, callbacks: Callbacks, stop_status: StopStatus) {
        let _ = self.callbacks.set(callbacks);
        let _ = self.stop_status.set(stop_status);
    }

    /// Downloads the archive `what`, at the callback `url`, to `file`.
    pub(in crate::run) async fn archive(
        &self,
        what: &'static str,
        url: &str,
        file: &File,
    ) -> Result<(), RegistryError> {
        self.stop_if_over(self.client.archive(what, url, file).await)
    }

    /// Sends a saved plan to the callback `url`.
    pub(in crate::run) async fn send_plan_file(
        &self,
        url: &str,
        path: &Path,
    ) -> Result<(), RegistryError> {
        self.stop_if_over(self.client.send_plan_file(url, path).await)
    }

    /// Waits for the registry's answer whether the run goes on, and stops the run if not.
    ///
    /// # Errors
    /// The registry gives no answer in the time for important requests, refuses the request, or the run is
    /// over.
    pub(in crate::run) async fn confirm(&self) -> Result<(), RegistryError> {
        match self.client.status(Patience::Long).await? {
            RunStatus::Open(_) => Ok(()),
            RunStatus::Over(status) | RunStatus::Reported(status) => {
                self.stop.request(StopReason::RunOver { status });
                Err(RegistryError::RunOver)
            }
        }
    }

    /// Stops the run if the registry has answered that it is over.
    fn stop_if_over(&self, answer: Result<(), RegistryError>) -> Result<(), RegistryError> {
        if matches!(answer, Err(RegistryError::RunOver)) {
            self.stop.request(StopReason::RunOver { status: "409".to_owned() });
        }
        answer
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
        self.stop_if_over(self.client.post(callback, callbacks, body.into(), patience).await)
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
                let retry_after = error.retry_after().unwrap_or_default();
                Delivery::Unreachable { reason: chain(&error), retry_after }
            }
            Err(error) => Delivery::Refused { reason: chain(&error) },
        }
    }
}

/// The receivers of a run's reports.
#[derive(Debug, Default)]
pub(in crate::run) struct Reports {
    pub(in crate::run) registry: Option<Arc<RegistryReports>>,
    pub(in crate::run) directory: Option<PathBuf>,
    /// Whether the directory contains the outputs, in clear text.
    pub(in crate::run) keeps_outputs: bool,
    pub(in crate::run) redactor: Arc<Redactor>,
    /// The receivers of the result beside the registry.
    pub(in crate::run) notices: Arc<Notices>,
    /// File descriptors that are reserved for the teardown; dropped when it begins.
    pub(in crate::run) reserve: Option<DescriptorReserve>,
}

impl Reports {
    /// Reports that the run has begun.
    pub(in crate::run) async fn running(&self) -> Result<(), ReportError> {
        self.status(&StatusReport::running(), Patience::Short).await
    }

    /// Reports the final status. Nothing may be reported after this.
    pub(in crate::run) async fn finish(&self, result: &RunResult) -> Result<(), ReportError> {
        self.status(&self.final_status(result), Patience::Long).await
    }

    /// The final status. A registry whose configuration is not known gets one that every registry takes.
    fn final_status<'a>(&self, result: &'a RunResult) -> StatusReport<'a> {
        let stop_status = match &self.registry {
            Some(registry) => registry.stop_status.get().copied().unwrap_or_default(),
            None => StopStatus::Cancelled,
        };
        StatusReport::of(result, stop_status)
    }

    /// Whether the registry has not answered a `running` that it may have received.
    pub(in crate::run) fn has_unanswered_running(&self) -> bool {
        self.registry.as_ref().is_some_and(|registry| registry.client.has_unanswered_status())
    }

    /// Whether the run is open in the registry.
    pub(in crate::run) async fn is_open(&self) -> bool {
        match &self.registry {
            Some(registry) => {
                matches!(registry.client.status(Patience::Once).await, Ok(RunStatus::Open(_)))
            }
            None => false,
        }
    }

    /// Reports a plan in the largest form that the registry accepts. Returns a remark on omitted parts.
    pub(in crate::run) async fn plan(
        &self,
        plan: &PlanReport,
    ) -> Result<Option<&'static str>, ReportError> {
        self.keep_part("plan.json", &plan.json)?;
        self.keep_part("plan.txt", &plan.text.shown)?;
        let Some(registry) = &self.registry else { return Ok(None) };
        let mut room = BodyLimit::new(plan.limit.unwrap_or(u64::MAX));
        let mut form = plan.fitting_level(DetailLevel::Everything, room);
        loop {
            let body = plan.body(form, room).map_err(ReportError::Read)?;
            let length = body.length();
            match registry.post(Callback::Plan, body, Patience::Short).await {
                Ok(()) => return Ok(form.note()),
                Err(error) => {
                    let refused = matches!(&error, RegistryError::Refused { status, .. } if status.as_u16() == 413);
                    // A slow connection or a proxy may not transfer this much; a smaller form may pass.
                    let stuck = error.is_transient() && length > LARGE;
                    if !refused && !stuck {
                        return Err(error.into());
                    }
                    tracing::warn!(error = %chain(&error), length, "the plan is too large");
                    let Some(smaller) = form.smaller() else { return Ok(Some(REFUSED)) };
                    room = if refused {
                        BodyLimit::after_refusal(length)
                    } else {
                        BodyLimit::new(LARGE)
                    };
                    form = plan.fitting_level(smaller, room);
                }
            }
        }
    }

    /// Keeps what the program has said that checks the plan. The registry gets it in the log.
    pub(in crate::run) fn plan_check(&self, check: &PlanCheck) -> Result<(), ReportError> {
        self.keep("after-plan.json", check.document().as_slice())
    }

    /// Keeps the outputs, a JSON object, in the report directory only, unless nothing reads them there.
    pub(in crate::run) fn keep_outputs(&self, json: &[u8]) -> Result<(), ReportError> {
        if self.keeps_outputs { self.keep("outputs.json", json) } else { Ok(()) }
    }

    /// Reports the outputs, a JSON object, in full.
    pub(in crate::run) async fn outputs(&self, json: &[u8]) -> Result<(), ReportError> {
        self.keep_outputs(json)?;
        let Some(registry) = &self.registry else { return Ok(()) };
        let body = [br#"{"outputs":"#.as_slice(), json.trim_ascii(), b"}"].concat();
        Ok(registry.post(Callback::Outputs, body, Patience::Short).await?)
    }

    /// Reports the account of the run, if the registry takes it. It is not important: an error is only logged.
    pub(in crate::run) async fn result(&self, result: &RunResult, stop: &Stop) {
        let Some(registry) = self.registry.as_ref().filter(|_| !stop.run_is_over()) else { return };
        let body = match serde_json::to_vec(result) {
            Ok(body) => body,
            Err(error) => return tracing::warn!(%error, "no JSON of the result (a bug)"),
        };
        let sent = registry.post(Callback::Result, body, Patience::Short);
        if let Some(Err(error)) = stop.within(Step::Outputs, sent).await {
            tracing::warn!(error = %chain(&error), "the registry does not have the account of the run");
        }
    }

    /// Keeps the `JUnit` file of a test, with secrets masked: failed checks quote their input.
    pub(in crate::run) fn junit(&self, file: &Path) -> Result<(), ReportError> {
        if self.notices.keeps_files() {
            let content = read_junit(file).map_err(ReportError::Read)?;
            let masked = redact_xml(&self.redactor, &content);
            self.notices.write("junit.xml", readable_junit(masked.as_bytes()).as_bytes());
        }
        Ok(())
    }

    /// Writes the final status into the directory, if the registry did not get it.
    pub(in crate::run) fn keep_status(&self, result: &RunResult) {
        if let Err(error) = self.keep("status.json", self.final_status(result).json().as_slice()) {
            tracing::error!("{}", chain(&error));
        }
    }

    async fn status(
        &self,
        status: &StatusReport<'_>,
        patience: Patience,
    ) -> Result<(), ReportError> {
        let body = status.json();
        self.keep("status.json", body.as_slice())?;
        let Some(registry) = &self.registry else { return Ok(()) };
        Ok(registry.post(Callback::Status, body, patience).await?)
    }

    /// Writes a report into the directory. With a registry, an error is only logged, because the registry
    /// must get the report anyway.
    fn keep(&self, name: &str, content: impl Read) -> Result<(), ReportError> {
        match self.write(name, content) {
            Err(error) if self.registry.is_some() => {
                tracing::error!("{}", chain(&error));
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
