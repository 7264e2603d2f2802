//! What the API needs of a store of runs.

use std::error::Error;

use axum::body::Body;
use serde_json::Value;

use super::{Report, TokenHash};

/// A store of runs behind the API.
///
/// [`router`](crate::router) calls [`find`](Self::find) for each request, compares the token, and calls
/// another method only if it is the run's. A request for a run that is over reaches only
/// [`status`](Self::status).
pub trait Registry: Send + Sync + 'static {
    /// A run that was found: what the other methods need of it.
    type Run: Send + Sync;

    /// Finds the run with this id, which is any text. `None`: such a run does not exist (404).
    ///
    /// # Errors
    /// When the store fails (500), here and below.
    fn find(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<Option<Found<Self::Run>>, RegistryFailure>> + Send;

    /// The status of the run, for `GET status`.
    fn status(
        &self,
        run: &Self::Run,
    ) -> impl Future<Output = Result<String, RegistryFailure>> + Send;

    /// The configuration of the run, a JSON object. It is secret, and the same each time.
    fn configuration(
        &self,
        run: &Self::Run,
    ) -> impl Future<Output = Result<Value, RegistryFailure>> + Send;

    /// The files of the module as a tar archive, which is sent as it is read. `None`: the run does not
    /// have an archive (404).
    fn source(
        &self,
        run: &Self::Run,
    ) -> impl Future<Output = Result<Option<Body>, RegistryFailure>> + Send;

    /// The saved plan that the run applies, as a tar archive. `None`: the run applies none (404).
    fn plan_file(
        &self,
        run: &Self::Run,
    ) -> impl Future<Output = Result<Option<Body>, RegistryFailure>> + Send;

    /// Stores the saved plan of the run, which is read as it arrives: at most
    /// [`PLAN_FILE_LIMIT`](crate::PLAN_FILE_LIMIT) bytes. It contains secrets. A repeated request replaces
    /// what an earlier one has stored. `None`: the run saves no plan (404).
    fn save_plan_file(
        &self,
        run: &Self::Run,
        file: Body,
    ) -> impl Future<Output = Result<Option<Recorded>, RegistryFailure>> + Send;

    /// Stores a report, which has passed all checks.
    fn record(
        &self,
        run: &Self::Run,
        report: Report,
    ) -> impl Future<Output = Result<Recorded, RegistryFailure>> + Send;
}

/// A run that was found, for a request that is not authorized yet.
#[derive(Clone, Debug)]
pub struct Found<R> {
    /// The run.
    pub run: R,
    /// The hash of its callback token.
    pub token: TokenHash,
    /// Whether the run is over: everything but `GET status` is answered with 409.
    pub is_over: bool,
    /// The final status that was reported, if the run is over because of that. A runner that missed
    /// the answer reports it again, and gets the same answer.
    pub reported: Option<String>,
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recorded {
    /// The report is stored.
    Recorded,
    /// The run has ended since it was found, and takes no more reports (409).
    Over,
}

/// Why a request has no answer, although the store works.
#[derive(Debug)]
pub enum NoAnswer {
    /// The run was ended for this reason, because it can never get what it asks for.
    Ended(String),
    /// The answer is not known yet. The runner asks again.
    NotYet(String),
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Ended(why) | Self::NotYet(why)) = self;
        formatter.write_str(why)
    }
}

impl Error for NoAnswer {}

/// Why a store cannot answer. The cause is logged, and never sent to the runner.
#[derive(Debug)]
pub struct RegistryFailure(Box<dyn Error + Send + Sync>);

impl RegistryFailure {
    /// The error and its causes in one line.
    pub(crate) fn chain(&self) -> String {
        butler_base::error::chain(&*self.0)
    }

    /// Why there is no answer, if the store works.
    pub(crate) fn no_answer(&self) -> Option<&NoAnswer> {
        self.0.downcast_ref()
    }
}

// Like `anyhow::Error`, the type is not an error itself: only so can `?` convert any error to it.
impl<E: Error + Send + Sync + 'static> From<E> for RegistryFailure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}
