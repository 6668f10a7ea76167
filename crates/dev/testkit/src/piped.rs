//! A session over a pipe, whose clock the test advances.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use posthaste_net::{Clock, ClockHand, Connection, Shutdown, ShutdownTrigger, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

/// Longest that anything may take: only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The client of such a session. Every method panics where a test fails.
pub struct Piped {
    client: DuplexStream,
    hand: ClockHand,
    trigger: ShutdownTrigger,
    session: JoinHandle<()>,
}

impl fmt::Debug for Piped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piped").finish_non_exhaustive()
    }
}

impl Piped {
    /// A session that serves a pipe of this many octets each way, as a listener of this
    /// port would.
    pub fn begin<S>(octets: usize, port: u16, serve: impl FnOnce(Connection, Shutdown) -> S) -> Self
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let (client, server) = tokio::io::duplex(octets);
        let (clock, hand) = Clock::manual();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let stream = Stream::over(server, address(40_000), address(port));
        let (trigger, shutdown) = Shutdown::new();
        let session = tokio::spawn(serve(Connection::with_clock(stream, clock), shutdown));
        Self { client, hand, trigger, session }
    }

    /// Sends octets of the client.
    pub async fn send(&mut self, octets: &[u8]) {
        let sent = tokio::time::timeout(TIMEOUT, self.client.write_all(octets)).await;
        sent.expect("the session reads").expect("the session goes on");
    }

    /// The session's output up to the moment when it waits for input or time. On a runtime of one
    /// thread only.
    pub async fn said(&mut self) -> String {
        // More than enough: the session is the only other task, and most waits are over at once.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        let mut said = vec![0; 1 << 16];
        let count = {
            let mut read = std::pin::pin!(tokio::task::unconstrained(self.client.read(&mut said)));
            std::future::poll_fn(|cx| {
                let count = match read.as_mut().poll(cx) {
                    Poll::Ready(count) => count.expect("the session goes on"),
                    Poll::Pending => 0,
                };
                Poll::Ready(count)
            })
            .await
        };
        said.truncate(count);
        String::from_utf8(said).expect("an answer in UTF-8")
    }

    /// The session's output until `is_whole` accepts it.
    pub async fn hear(&mut self, is_whole: impl Fn(&[u8]) -> bool) -> String {
        let mut said = Vec::new();
        while !is_whole(&said) {
            let read = tokio::time::timeout(TIMEOUT, self.client.read_u8()).await;
            said.push(read.expect("an answer comes").expect("the session goes on"));
        }
        String::from_utf8(said).expect("an answer in UTF-8")
    }

    /// Sends a command 52 times before a login. The session must answer 50 at once, and each later
    /// one after another 50 ms. `answers` counts the answers in what it says.
    pub async fn first_commands_do_not_wait(&mut self, command: &str, answers: impl Fn(&str) -> usize) {
        self.send(command.repeat(52).as_bytes()).await;
        assert_eq!(answers(&self.said().await), 50);
        for _ in 0..2 {
            self.advance(Duration::from_millis(49)).await;
            assert_eq!(self.said().await, "");
            self.advance(Duration::from_millis(1)).await;
            assert_eq!(answers(&self.said().await), 1);
        }
    }

    /// Sends commands whose answers do not fit the pipe, and reads none. The session must end after
    /// this time.
    pub async fn unread_session_ends(mut self, command: &str, within: Duration) {
        self.send(command.repeat(10).as_bytes()).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.advance(within).await;
        self.ends_unheard().await;
    }

    /// Advances the clock of the session.
    pub async fn advance(&mut self, by: Duration) {
        self.hand.advance(by).await;
    }

    /// Has the server stop.
    pub fn stop(&self) {
        self.trigger.request();
    }

    /// The session's output until it ends.
    pub async fn rest(mut self) -> String {
        let mut said = String::new();
        let read = tokio::time::timeout(TIMEOUT, self.client.read_to_string(&mut said)).await;
        read.expect("the session ends").expect("it ends in order");
        said
    }

    /// Waits until the session has ended, though nobody reads what it says.
    pub async fn ends_unheard(self) {
        let ended = tokio::time::timeout(TIMEOUT, self.session).await;
        ended.expect("the session ends").expect("it does not panic");
    }
}
