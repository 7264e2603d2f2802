//! An order whose answer was lost, or is none of the API's: it may have been carried out, so that
//! what it made is looked for, and nothing is ordered again.

use std::time::Duration;

use tokio::time::Instant;

use super::TriggerError;
use super::server::Server;

/// For how long: servers and the gateways before them give up on a request of their own after a
/// minute.
const LOOK: Duration = Duration::from_mins(1);

/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_secs(1);

impl Server {
    /// Looks for what an order made, until it is there or there is no more time. `why` is why nobody
    /// knows, `place` where people can look.
    ///
    /// # Errors
    /// [`TriggerError::Unsure`], whatever else goes wrong: nothing here may read as if nothing had
    /// been started.
    pub(super) async fn find_lost<T>(
        &self,
        why: String,
        place: &str,
        mut look: impl AsyncFnMut() -> Result<Option<T>, TriggerError>,
    ) -> Result<T, TriggerError> {
        tracing::warn!("the answer to the order was lost ({why}); looking for the run");
        let end = Instant::now() + LOOK.min(self.left());
        loop {
            match look().await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) if Instant::now() + PAUSE < end => tokio::time::sleep(PAUSE).await,
                Ok(None) => return Err(self.unsure(why, place)),
                Err(error) => {
                    return Err(
                        self.unsure(format!("{why}; {}", crate::error::chain(&error)), place)
                    );
                }
            }
        }
    }

    /// Nobody knows, because of `why`.
    pub(super) fn unsure(&self, why: String, place: &str) -> TriggerError {
        let advice = format!("look at {place} before you start it again");
        TriggerError::Unsure { server: self.name(), why, advice }
    }
}
