//! A TCP or Unix socket, or another stream of bytes in its place. It counts bytes. It makes the
//! kernel acknowledge the beginning of a command or literal at once.
//!
//! The kernel delays an acknowledgement (40 ms on Linux) in the hope that an answer will carry it.
//! A peer that sends the rest in a small write waits for that acknowledgement (Nagle, RFC 896),
//! while we wait for the rest. So each reader names the event that it awaits
//! ([`Awaits`]). If it awaits the rest of a command, the socket makes the kernel acknowledge before
//! it waits.
//!
//! Invariants: at most one such system call for each wait that follows a read, and none if
//! nothing of a command is missing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Connections the kernel completes while we are busy. A login storm of some thousand clients a
/// second and a pause of a quarter of a second fit. The kernel lowers it to `net.core.somaxconn`
/// (4,096 as Linux ships).
pub const ACCEPT_BACKLOG: i32 = 4096;

/// The counts of a connection since it was accepted. Bytes are as on the wire: after
/// compression and encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from the peer.
    pub bytes_in: u64,
    /// Bytes to the peer.
    pub bytes_out: u64,
    /// How often the kernel was asked to acknowledge at once. Always 0 where the system has no such
    /// call.
    pub prompt_acks: u64,
}

/// The event for which a reader waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Any input. The kernel chooses when to acknowledge.
    #[default]
    Anything,
    /// The rest of a command or literal that has begun to arrive. The peer may hold it back until
    /// we acknowledge the beginning.
    Rest,
}

/// Bytes in both directions, below TLS and compression. `tokio::io::DuplexStream` is one.
pub trait ByteStream: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Sync + Unpin + 'static> ByteStream for T {}

/// The medium of the bytes.
#[derive(Debug)]
enum Medium {
    Tcp(TcpStream),
    /// A process of this machine.
    Unix(UnixStream),
    /// Anything else: tests run sessions in memory.
    Other(Box<dyn ByteStream>),
}

/// Calls a method on any kind of medium.
macro_rules! on_medium {
    ($socket:expr, $medium:ident => $call:expr) => {
        match &mut $socket.medium {
            Medium::Tcp($medium) => $call,
            Medium::Unix($medium) => $call,
            Medium::Other($medium) => $call,
        }
    };
}

#[derive(Debug)]
pub(crate) struct Socket {
    medium: Medium,
    pub(crate) traffic: Traffic,
    pub(crate) awaits: Awaits,
    /// Bytes came since we last sent any or requested an acknowledgement: the kernel may still owe
    /// one.
    unacknowledged: bool,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream) -> Self {
        Self::on(Medium::Tcp(tcp))
    }

    pub(crate) fn unix(unix: UnixStream) -> Self {
        Self::on(Medium::Unix(unix))
    }

    /// Over something that is no socket.
    pub(crate) fn over(bytes: Box<dyn ByteStream>) -> Self {
        Self::on(Medium::Other(bytes))
    }

    fn on(medium: Medium) -> Self {
        Self { medium, traffic: Traffic::default(), awaits: Awaits::default(), unacknowledged: false }
    }

    /// Notes that bytes came before this socket was made of the connection.
    pub(crate) fn note_arrived(&mut self) {
        self.unacknowledged = true;
    }

    /// Returns once the peer has closed its side, or the connection is broken. Reads nothing, so it
    /// works while bytes wait to be read. Where there is no socket, only reading shows it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) async fn left(&self) {
        use tokio::io::Interest;
        // No peer here sends urgent data, and nobody registered for it. The task that waits for it
        // is woken by the events of every interest in reading: EPOLLRDHUP and EPOLLHUP.
        loop {
            let ready = match &self.medium {
                Medium::Tcp(tcp) => tcp.ready(Interest::PRIORITY).await,
                Medium::Unix(unix) => unix.ready(Interest::PRIORITY).await,
                Medium::Other(_) => std::future::pending().await,
            };
            if ready.map_or(true, |ready| ready.is_read_closed()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Elsewhere only reading shows it.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) async fn left(&self) {
        std::future::pending().await
    }

    /// Has the kernel acknowledge at once, if it may owe an acknowledgement.
    pub(crate) fn acknowledge(&mut self) {
        if std::mem::take(&mut self.unacknowledged)
            && let Medium::Tcp(tcp) = &self.medium
            && ask_for_ack(tcp)
        {
            self.traffic.prompt_acks += 1;
        }
    }

    /// Counts bytes sent: their segments acknowledge all earlier bytes.
    fn sent(&mut self, bytes: usize) {
        self.traffic.bytes_out += bytes as u64;
        self.unacknowledged = false;
    }
}

/// Asks the kernel to acknowledge now (`TCP_QUICKACK`, tcp(7)); whether it was asked. Linux
/// forgets the option again, so it is repeated for each wait. A socket that refuses is one that
/// fails at the next read.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn ask_for_ack(tcp: &TcpStream) -> bool {
    socket2::SockRef::from(tcp).set_tcp_quickack(true).is_ok()
}

/// Elsewhere there is no such call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn ask_for_ack(_: &TcpStream) -> bool {
    false
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match on_medium!(self, io => Pin::new(io).poll_read(cx, buf)) {
            Poll::Pending => {
                if self.awaits == Awaits::Rest {
                    self.acknowledge();
                }
                Poll::Pending
            }
            Poll::Ready(outcome) => {
                outcome?;
                let count = buf.filled().len() - before;
                self.traffic.bytes_in += count as u64;
                self.unacknowledged |= count > 0;
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(on_medium!(self, io => Pin::new(io).poll_write(cx, buf)))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(on_medium!(self, io => Pin::new(io).poll_write_vectored(cx, bufs)))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.medium {
            Medium::Tcp(tcp) => tcp.is_write_vectored(),
            Medium::Unix(unix) => unix.is_write_vectored(),
            Medium::Other(bytes) => bytes.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_medium!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_medium!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}
