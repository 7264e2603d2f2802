//! Gives each receiver of the configuration an outbox.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use url::Url;

use super::delivery::{Http, Transport};
use super::outbox::{Outbox, Shared};
use super::receiver::{Receiver, receivers};
use crate::attempts::Secrets;
use crate::config::Config;
use crate::metrics::NotificationMetrics;
use crate::serve::{Desired, Timestamp};
use crate::store::Store;

/// The wait after the store did not answer.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// How long a request that was sent is waited for when the server ends. If its answer comes later, the
/// notification is sent again.
const LAST_ANSWER: Duration = Duration::from_secs(3);

/// What notifications need.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Reads the addresses and keys of receivers.
    pub secrets: Secrets,
    /// Additional certificates.
    pub ca_bundle: Option<PathBuf>,
    /// Where people reach the server, for links.
    pub public_url: Option<Url>,
    /// Counts deliveries.
    pub metrics: Arc<NotificationMetrics>,
}

/// Notifications, until it is stopped or dropped.
#[derive(Debug)]
pub struct Notifier {
    stop: oneshot::Sender<()>,
    work: AbortOnDrop,
}

#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Notifier {
    /// Notifies the receivers of the configuration, and of each later one.
    #[must_use]
    pub fn start<S: Store + 'static>(store: Arc<S>, desired: &Desired, setup: Setup) -> Self {
        let Setup { secrets, ca_bundle, public_url, metrics } = setup;
        let shared = Shared {
            store,
            transport: Http { secrets, ca_bundle },
            catalogs: desired.catalogs(),
            metrics,
            public_url,
            clock: Arc::new(|| Timestamp::of(SystemTime::now()).0),
        };
        Self::over(shared, desired.configs())
    }

    pub(super) fn over<S: Store + 'static, T: Transport>(
        shared: Shared<S, T>,
        configs: watch::Receiver<Arc<Config>>,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let work = AbortOnDrop(tokio::spawn(manage(Arc::new(shared), configs, stopped)));
        Self { stop, work }
    }

    /// Begins no further delivery, and waits a few seconds for the answer to one that was sent.
    pub async fn stop(self) {
        let Self { stop, mut work } = self;
        let _ = stop.send(());
        if timeout(LAST_ANSWER, &mut work.0).await.is_err() {
            tracing::warn!(
                "a receiver of notifications has not answered; the next server sends again"
            );
        }
    }
}

type Outboxes = BTreeMap<String, watch::Sender<Option<Arc<Receiver>>>>;

async fn manage<S: Store + 'static, T: Transport>(
    shared: Arc<Shared<S, T>>,
    mut configs: watch::Receiver<Arc<Config>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (mut outboxes, mut tasks) = (Outboxes::new(), JoinSet::new());
    loop {
        let known = receivers(&configs.borrow_and_update().clone());
        let names: Vec<String> = known.keys().cloned().collect();
        // Before the outboxes know: one that comes back is a new receiver.
        if let Err(error) = shared.store.retain_cursors(&names).await {
            tracing::warn!(%error, "notifications wait for the store");
            tokio::select! {
                () = sleep(STORE_AGAIN) => {}
                _ = &mut stopped => break,
            }
            configs.mark_changed();
        } else {
            tell(&mut outboxes, known, |receivers| {
                tasks.spawn(Outbox::new(Arc::clone(&shared), receivers).run());
            });
        }
        tokio::select! {
            changed = configs.changed() => if changed.is_err() { break },
            _ = &mut stopped => break,
        }
    }
    // The outboxes end when they are not between an acknowledgement and its record.
    drop(outboxes);
    while tasks.join_next().await.is_some() {}
}

/// Tells each outbox its receiver, and starts those of new ones.
fn tell(
    outboxes: &mut Outboxes,
    mut known: BTreeMap<String, Arc<Receiver>>,
    mut start: impl FnMut(watch::Receiver<Option<Arc<Receiver>>>),
) {
    for (name, outbox) in &*outboxes {
        let next = known.remove(name);
        outbox.send_if_modified(|receiver| {
            let is_other = *receiver != next;
            *receiver = next;
            is_other
        });
    }
    for (name, receiver) in known {
        let (sender, receivers) = watch::channel(Some(receiver));
        start(receivers);
        outboxes.insert(name, sender);
    }
}
