//! Connections in the clear: reading, writing, deadlines, limits, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_net::{Connection, ConnectionLimits, LoginEnd, Mode, NetError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::peer::{LONG, Server, echo, expect, noise, within};

#[tokio::test]
async fn echoes_and_counts() {
    let (said, mut heard) = mpsc::channel(1);
    let server = Server::start(
        Mode::Plain,
        |_| {},
        move |mut connection: Connection| {
            let said = said.clone();
            async move {
                connection.fill(100, LONG).await.unwrap();
                assert_eq!(connection.input(), b"hello");
                connection.consume(5);
                assert!(!connection.has_input() && !connection.is_encrypted() && connection.tls().is_none());
                connection.write_all_within(b"goodbye", LONG).await.unwrap();
                said.send((connection.peer(), connection.local(), connection.traffic())).await.unwrap();
            }
        },
    );
    let mut client = server.connect().await;
    client.write_all(b"hello").await.unwrap();
    expect(&mut client, b"goodbye").await;
    let (peer, local, traffic) = within(heard.recv()).await.unwrap();
    assert_eq!((peer, local), (client.local_addr().unwrap(), server.address));
    assert_eq!((traffic.bytes_in, traffic.bytes_out), (5, 7));
}

/// Connects, lets `work` have the server's side, and returns its result.
async fn one<T, W, F>(work: W, client: impl AsyncFnOnce(&mut TcpStream)) -> T
where
    T: Send + 'static,
    W: Fn(Connection) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (said, mut heard) = mpsc::channel(1);
    let server = Server::start(
        Mode::Plain,
        |_| {},
        move |connection: Connection| {
            let (said, work) = (said.clone(), work.clone());
            async move {
                let _ = said.send(work(connection).await).await;
            }
        },
    );
    let mut stream = server.connect().await;
    client(&mut stream).await;
    within(heard.recv()).await.unwrap()
}

#[tokio::test]
async fn a_silent_peer_runs_into_the_deadline() {
    let found = one(
        |mut connection: Connection| async move { connection.fill(10, Duration::from_millis(10)).await },
        async |_| {},
    )
    .await;
    assert!(matches!(found, Err(error @ NetError::TimedOut(_)) if error.is_ordinary()));
}

#[tokio::test]
async fn a_peer_that_does_not_read_runs_into_the_deadline() {
    let found = one(
        |mut connection: Connection| async move {
            let chunk = vec![b'x'; 1 << 20];
            // More than the kernel buffers for both ends.
            for _ in 0..256 {
                connection.write_all_within(&chunk, Duration::from_millis(100)).await?;
            }
            Ok(())
        },
        async |_| {},
    )
    .await;
    assert!(matches!(found, Err(NetError::TimedOut(_))));
}

/// Whether the login ends before the answer or during it: it is longer than the kernel's buffers.
#[tokio::test]
async fn an_answer_that_nobody_reads_ends_with_the_login() {
    let found = one(
        |mut connection: Connection| async move {
            let (end, ended) = watch::channel(false);
            connection.ends_with(LoginEnd::new(ended));
            let answer = async {
                let chunk = vec![b'x'; 1 << 20];
                for _ in 0..256 {
                    connection.write_all_within(&chunk, LONG).await?;
                }
                Ok::<_, NetError>(())
            };
            let ends = async {
                tokio::task::yield_now().await;
                end.send_replace(true);
            };
            tokio::join!(answer, ends).0
        },
        async |_| {},
    )
    .await;
    assert!(matches!(found, Err(NetError::LoginEnded)), "{found:?}");
}

/// A peer that reads learns why its session ends.
#[tokio::test]
async fn the_last_words_are_sent_after_the_login() {
    let said = one(
        |mut connection: Connection| async move {
            connection.ends_with(LoginEnd::new(watch::channel(true).1));
            connection.write_all_within(b"BYE", LONG).await
        },
        async |client| expect(client, b"BYE").await,
    )
    .await;
    assert!(said.is_ok(), "{said:?}");
}

#[tokio::test]
async fn input_is_bounded() {
    let found = one(
        |mut connection: Connection| async move {
            let mut fills = Vec::new();
            while let Ok(count) = connection.fill(10, LONG).await {
                fills.push(count);
            }
            let full = connection.fill(10, LONG).await;
            (fills.iter().sum::<usize>(), connection.input().to_vec(), full)
        },
        async |client| client.write_all(b"0123456789abcdef").await.unwrap(),
    )
    .await;
    assert_eq!((found.0, &found.1[..]), (10, &b"0123456789"[..]));
    assert!(matches!(found.2, Err(NetError::InputFull { max: 10 })));
}

#[tokio::test]
async fn the_end_of_the_stream_is_an_ordinary_error() {
    let found = one(
        |mut connection: Connection| async move {
            connection.fill(10, LONG).await.unwrap();
            (connection.fill(10, LONG).await, connection.fill_rest(10, LONG).await)
        },
        async |client| {
            client.write_all(b"abc").await.unwrap();
            client.shutdown().await.unwrap();
        },
    )
    .await;
    assert!(matches!(found.0, Err(NetError::Closed)));
    assert!(matches!(found.1, Err(NetError::Closed)));
}

#[tokio::test]
async fn the_last_answer_survives_unread_input() {
    let server = Server::start(
        Mode::Plain,
        |_| {},
        |mut connection: Connection| async move {
            connection.fill(1, LONG).await.unwrap();
            connection.write_all_within(b"BYE\r\n", LONG).await.unwrap();
            connection.close(LONG).await.unwrap();
        },
    );
    let mut client = server.connect().await;
    client.write_all(&noise(100_000)).await.unwrap();
    expect(&mut client, b"BYE\r\n").await;
    assert_eq!(within(client.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn a_peer_over_the_limit_gets_the_reason() {
    let refusal = b"* BYE Too many connections\r\n";
    let limits = ConnectionLimits::new(1, 100);
    let counted = limits.clone();
    let server = Server::start(
        Mode::Plain,
        |options| {
            options.limits = limits;
            options.refusal = refusal;
        },
        echo,
    );
    let mut first = server.connect().await;
    first.write_all(b"in").await.unwrap();
    expect(&mut first, b"in").await;
    let mut second = server.connect().await;
    expect(&mut second, refusal).await;
    assert_eq!(within(second.read(&mut [0])).await.unwrap(), 0);
    drop(first);
    // The place is free once the first session has seen its peer go.
    within(async {
        while counted.open() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let mut third = server.connect().await;
    third.write_all(b"in").await.unwrap();
    expect(&mut third, b"in").await;
}

#[tokio::test]
async fn other_tasks_run_between_accepted_connections() {
    const CONNECTIONS: usize = 64;
    let turns = Arc::new(AtomicUsize::new(0));
    let (begun, mut turns_at_begin) = mpsc::unbounded_channel();
    let seen = Arc::clone(&turns);
    let server = Server::start(
        Mode::Plain,
        |options| options.grace = Duration::ZERO,
        move |_connection: Connection| {
            begun.send(seen.load(Ordering::Relaxed)).unwrap();
            // A session that ended would wake the listener.
            std::future::pending()
        },
    );
    // This thread is the only one, and does not wait here. So all of them are in the backlog when
    // the listener first runs.
    let connect = |_| std::net::TcpStream::connect(server.address).unwrap();
    let clients: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    tokio::spawn(async move {
        loop {
            turns.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let mut found = Vec::new();
    while found.len() < clients.len() {
        found.push(within(turns_at_begin.recv()).await.unwrap());
    }
    let begun_in_one_turn = found.chunk_by(|left, right| left == right).map(<[_]>::len).max().unwrap();
    assert!(begun_in_one_turn <= 8, "{found:?}");
}

#[tokio::test]
async fn a_panic_ends_one_session() {
    let server = Server::start(
        Mode::Plain,
        |_| {},
        |mut connection: Connection| async move {
            connection.fill(10, LONG).await.unwrap();
            assert_ne!(connection.input(), b"panic");
            echo(connection).await;
        },
    );
    let mut bad = server.connect().await;
    bad.write_all(b"panic").await.unwrap();
    let ended = within(bad.read(&mut [0])).await;
    assert!(matches!(ended, Ok(0) | Err(_)));
    let mut good = server.connect().await;
    good.write_all(b"fine").await.unwrap();
    good.write_all(b"!").await.unwrap();
    good.shutdown().await.unwrap();
    let mut answer = Vec::new();
    within(good.read_to_end(&mut answer)).await.unwrap();
}

#[tokio::test]
async fn shutdown_lets_sessions_finish() {
    let (sessions, mut started) = mpsc::channel::<()>(2);
    let (token_sender, token) = tokio::sync::watch::channel(None);
    let server = Server::start(
        Mode::Plain,
        |options| {
            token_sender.send_replace(Some(options.shutdown.clone()));
            options.grace = LONG;
        },
        move |mut connection: Connection| {
            let sessions = sessions.clone();
            let mut shutdown = token.borrow().clone().unwrap();
            async move {
                sessions.send(()).await.unwrap();
                tokio::select! {
                    _ = connection.fill(10, LONG) => {}
                    () = shutdown.requested() => {
                        connection.write_all_within(b"BYE", LONG).await.unwrap();
                    }
                }
            }
        },
    );
    let (mut one, mut two) = (server.connect().await, server.connect().await);
    within(started.recv()).await.unwrap();
    within(started.recv()).await.unwrap();
    let address = server.address;
    let drained = server.stop().await;
    assert_eq!((drained.finished, drained.aborted), (2, 0));
    expect(&mut one, b"BYE").await;
    expect(&mut two, b"BYE").await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn shutdown_does_not_wait_for_ever() {
    let (sessions, mut started) = mpsc::channel::<()>(1);
    let server = Server::start(
        Mode::Plain,
        |options| options.grace = Duration::ZERO,
        move |_connection: Connection| {
            let sessions = sessions.clone();
            async move {
                sessions.send(()).await.unwrap();
                std::future::pending().await
            }
        },
    );
    let mut client = server.connect().await;
    within(started.recv()).await.unwrap();
    assert_eq!(server.stop().await.aborted, 1);
    assert!(matches!(within(client.read(&mut [0])).await, Ok(0) | Err(_)));
}

/// Counts the warnings of its thread.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_stranger_cannot_fill_the_log_with_refused_connections() {
    let warnings = Arc::new(AtomicUsize::new(0));
    let _logging = tracing::subscriber::set_default(Warnings(Arc::clone(&warnings)));
    let server = Server::start(
        Mode::Plain,
        |options| {
            options.limits = ConnectionLimits::new(1, 100);
            options.refusal = b"full";
        },
        echo,
    );
    let mut first = server.connect().await;
    first.write_all(b"x").await.unwrap();
    expect(&mut first, b"x").await;
    for _ in 0..200 {
        expect(&mut server.connect().await, b"full").await;
    }
    assert_eq!(warnings.load(Ordering::Relaxed), 1);
    drop(first);
    server.stop().await;
    assert_eq!(warnings.load(Ordering::Relaxed), 2, "the count of the others");
}
