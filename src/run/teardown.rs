//! The end of a run, in one order, deaf to the stop and bounded by its own deadlines.
//!
//! Children are reaped and their pipes read before this begins. Then: reason to the log → log
//! closed → uploader and readers joined → plan → outputs → files wiped → final status.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use secrecy::zeroize::Zeroize;
use tokio::task::JoinHandle;

use super::outcome::{Exit, Failure, Outcome};
use super::phases::Findings;
use super::reports::{RegistryReports, ReportError, Reports, log_file};
use super::workspace::RunDirectory;
use crate::cancel::{Stop, StopReason};
use crate::error::{Advice, chain};
use crate::event::Phase;
use crate::registry::{Patience, RegistryError};
use crate::report::{Pace, Receiver, RunLog, UploadEnd, UploadReport, channel, upload};
use crate::secret::{Redactor, redact_json};
use crate::settings::Settings;
use crate::spec::RunSpec;

/// How long the last log lines may take after the end of the run.
const LOG_DEADLINE: Duration = Duration::from_mins(2);

/// The same when a signal has ended the run: the platform that sent it kills soon.
const LOG_DEADLINE_STOPPED: Duration = Duration::from_secs(5);

/// How much of the log each reader keeps in memory; what is more waits on the disk.
const MEMORY: usize = 2 * 1024 * 1024;

/// The log of a run and everything that reads it.
pub(super) struct Logs {
    pub(super) log: RunLog,
    upload: Option<(Arc<RegistryReports>, Receiver)>,
    uploader: Option<JoinHandle<UploadReport>>,
    readers: Vec<JoinHandle<()>>,
}
