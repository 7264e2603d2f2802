//! Hears of entries of the journal that other servers have appended.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_postgres::{AsyncMessage, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tables::{COUNTER, JOURNAL};

/// How often the sequence is read without a notification: one can be lost with its connection.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long a connection that failed is waited for.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps `last` at the newest entry, over connections of its own. Never ends.
pub(super) async fn listen(config: Config, tls: MakeRustlsConnect, last: watch::Sender<u64>) {
    loop {
        if let Err(error) = hear(&config, tls.clone(), &last).await {
            tracing::debug!(%error, "the connection for notifications of the store has ended");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear(
    config: &Config,
    tls: MakeRustlsConnect,
    last: &watch::Sender<u64>,
) -> Result<(), Error> {
    let (client, mut connection) = config.connect(tls).await?;
    let woken = Notify::new();
    let receive = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message?, AsyncMessage::Notification(_)) {
                woken.notify_one();
            }
        }
        Ok(())
    };
    let read = async {
        client.batch_execute("LISTEN butler_journal").await?;
        loop {
            // A notification only says that there is something new.
            if let Some(row) = client.query_opt(COUNTER, &[&JOURNAL]).await? {
                advance(last, row.try_get::<_, i64>(0)?.unsigned_abs());
            }
            // Either way, the sequence is read.
            let _ = tokio::time::timeout(INTERVAL, woken.notified()).await;
        }
    };
    tokio::select! {
        ended = receive => ended,
        ended = read => ended,
    }
}

/// Records the sequence of an entry of the journal that can be read. Transactions can end in another order than
/// that in which this hears of them.
pub(super) fn advance(last: &watch::Sender<u64>, sequence: u64) {
    last.send_if_modified(|last| {
        let is_newer = sequence > *last;
        *last = sequence.max(*last);
        is_newer
    });
}
