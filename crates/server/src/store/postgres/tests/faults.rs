//! Connections that end, databases that are read-only, and servers that hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use butler_testing::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Passes connections on to a database, and ends all of them when a given number of messages was sent.
struct Proxy {
    port: u16,
    /// How many pieces may still be sent to the database.
    left: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Proxy {
    async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let count = Arc::clone(&left);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, to, Arc::clone(&count)));
            }
        });
        Self { port, left, _task: task }
    }
}

/// Ends with the connection, or when nothing more may be sent.
async fn pass(client: TcpStream, to: u16, left: Arc<AtomicUsize>) {
    let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let requests = async {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            let more =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if more.is_err() || to_server.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    let answers = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = requests => {}
        _ = answers => {}
    }
}

#[tokio::test]
async fn transaction_whose_connection_ends_is_made_entirely_or_not_at_all() {
    let server = Postgres::start();
    let direct = address(&server);
    let proxy = Proxy::start(server.port()).await;
    let through = direct.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port));
    let clock = TestClock::default();
    let other = Tested { store: open(&direct, &clock).await, clock, _directory: None };
    let cut = open(&through, &other.clock).await;
    // Statements are prepared once for a connection, so this is the same number of messages each time.
    let mut lost = 0;
    for messages in 0.. {
        let name = format!("a{messages}");
        let run = other.plan(&name).await;
        let id = AttemptId { layer: layer(&name), run, number: 1 };
        let before = other.store.events(None, Some(&id.layer), u32::MAX).await.unwrap().len();
        assert_eq!(other.try_start(&id, &[]).await, Outcome::Made);
        // The connection is up.
        cut.layers().await.unwrap();
        proxy.left.store(messages, Ordering::Relaxed);
        let end = cut.finish(&id, AttemptResult::ended(Ending::Succeeded)).await;
        proxy.left.store(usize::MAX, Ordering::Relaxed);
        let events = other.store.events(None, Some(&id.layer), u32::MAX).await.unwrap().len();
        let seen = other.store.snapshot(&id.layer, "state", &[]).await.unwrap();
        let is_free = seen.facts.lease.is_none();
        let has_ended = seen.facts.runs[0].running().is_none();
        assert_eq!(is_free, has_ended, "after {messages} messages");
        assert_eq!(events > before + 1, has_ended, "after {messages} messages");
        if let Ok(outcome) = end {
            assert!(has_ended && outcome == Outcome::Made);
            break;
        }
        lost += 1;
        // The next transaction has a new connection.
        let repeated = cut.finish(&id, AttemptResult::ended(Ending::Succeeded)).await.unwrap();
        assert_eq!(repeated == Outcome::Refused, has_ended);
    }
    assert!(lost > 5, "{lost}");
}

#[tokio::test]
async fn read_only_database_is_refused_with_advice() {
    let server = Postgres::start();
    let address = address(&server);
    let store = open(&address, &TestClock::default()).await;
    server.execute("ALTER SYSTEM SET default_transaction_read_only = on");
    server.execute("SELECT pg_reload_conf()");
    let error = PostgresStore::open(address.parse().unwrap(), None).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("connect to the primary"), "{error}");
    drop(store);
}

#[tokio::test]
async fn server_that_hangs_in_a_transaction_delays_others_for_a_limited_time() {
    let server = Postgres::start();
    let address = address(&server);
    let hangs = open(
        &format!("{address}%20-cidle_in_transaction_session_timeout%3D2s"),
        &TestClock::default(),
    )
    .await;
    let client = hangs.pool.get().await.unwrap();
    begin(&client, Access::Write).await.unwrap();
    // It is not told to end, and never ends.
    let other = open(&address, &TestClock::default()).await;
    other.pause(&layer("a"), Some("ana")).await.unwrap();
    assert!(client.batch_execute("COMMIT").await.is_err());
}

#[tokio::test]
async fn statement_that_takes_too_long_is_an_error_and_the_store_goes_on() {
    let server = Postgres::start();
    let address = address(&server);
    // First the one that has time to create the tables.
    let other = open(&address, &TestClock::default()).await;
    let store = open(&format!("{address}%20-cstatement_timeout%3D2s"), &TestClock::default()).await;
    let client = other.pool.get().await.unwrap();
    begin(&client, Access::Write).await.unwrap();
    let error = store.pause(&layer("a"), Some("ana")).await.unwrap_err().to_string();
    assert!(error.contains("within the statement timeout"), "{error}");
    // Reading waits for nobody.
    assert!(store.layers().await.unwrap().is_empty());
    client.batch_execute("ROLLBACK").await.unwrap();
    store.pause(&layer("a"), Some("ana")).await.unwrap();
}
