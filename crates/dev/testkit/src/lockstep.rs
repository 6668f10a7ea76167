//! A session and its client in one task, in lockstep. Between two writes of the client, the session
//! does the same in every run, independent of the machine's load.

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Longest that one step may take: only a failure waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at what another thread or the kernel has yet to do.
const PAUSE: Duration = Duration::from_millis(1);

/// The client's side of a session that is polled by the test itself.
#[derive(Debug)]
pub struct Lockstep {
    client: TcpStream,
    /// A second handle of the server's socket, to see octets that the session has not read yet.
    server: TcpStream,
    heard: Vec<u8>,
}

impl Lockstep {
    /// A pair of connected sockets: the server's (non-blocking, for the session) and the client's.
    pub fn connect() -> Result<(TcpStream, Self)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        for socket in [&client, &server] {
            socket.set_nonblocking(true)?;
        }
        client.set_nodelay(true)?;
        Ok((server.try_clone()?, Self { client, server, heard: Vec::new() }))
    }

    /// Sends a text of the client. Then runs the session until it has read the text, has answered
    /// `answer` (empty if no answer is due), and waits. Panics if the session ends, or says nothing
    /// of the kind in time.
    pub async fn say<F: Future>(&mut self, session: &mut Pin<Box<F>>, text: &str, answer: &str) {
        let deadline = Instant::now() + TIMEOUT;
        self.client.write_all(text.as_bytes()).expect("the session hung up");
        // The session is not polled before all of it is there, so one read takes it.
        while !text.is_empty() && self.unread() < text.len() {
            pause(deadline, text).await;
        }
        loop {
            let ended = poll_fn(|cx| Poll::Ready(session.as_mut().poll(cx).is_ready())).await;
            assert!(!ended, "the session ended after {text:?}");
            if self.unread() == 0 && self.has_heard(answer) {
                self.heard.clear();
                return;
            }
            pause(deadline, text).await;
        }
    }

    /// Unread bytes of the server's socket.
    fn unread(&self) -> usize {
        let mut bytes = [0; 4096];
        match self.server.peek(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("the server's socket: {error}"),
        }
    }

    fn has_heard(&mut self, answer: &str) -> bool {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.client.read(&mut bytes) {
            self.heard.extend_from_slice(&bytes[..count]);
        }
        let heard = String::from_utf8_lossy(&self.heard);
        heard.contains(answer)
    }
}

async fn pause(deadline: Instant, text: &str) {
    assert!(Instant::now() < deadline, "nothing came of {text:?}");
    tokio::time::sleep(PAUSE).await;
}
