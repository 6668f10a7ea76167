//! One type for every kind of connection: TCP, TLS over TCP, and either of them compressed.
//!
//! Optional parts are boxed, so that a plain connection stays small. Layers are added in place
//! (STARTTLS, COMPRESS). Only compression can end before the connection does.

use std::fmt;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::Active;
use crate::deflate::Deflate;
use crate::proxy::Endpoints;
use crate::socket::{Awaits, ByteStream, Socket};
use crate::turns::Turns;
use crate::{Certificates, ChannelBinding, ClientCertificate, NetError, Traffic, channel_binding};

/// TLS bytes that may wait for the socket before a write waits too: four records. It is rustls'
/// default; it is set here because it bounds the memory of a slow reader.
const TLS_OUTPUT_MAX: usize = 64 * 1024;

/// Handshakes that compute before other tasks have a turn, for each processor. A signature by an
/// RSA key takes 1 ms and more, and thousands of peers may send their first message at the same
/// time. With half of them, a busy server would take fewer logins than its processors could.
const HANDSHAKES_AT_ONCE: usize = 4;

/// The turns of all handshakes.
static HANDSHAKES: LazyLock<Turns> =
    LazyLock::new(|| Turns::new(HANDSHAKES_AT_ONCE * available_parallelism().map_or(1, usize::from)));

/// The address of both ends of a Unix socket: limits, throttles and log lines know the peer as a
/// process of this machine.
pub(crate) const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A connection that can be read and written through all its layers.
pub struct Stream {
    transport: Transport,
    deflate: Option<Box<Deflate>>,
    /// The peer's compressed stream ended, and marks of its end may still come.
    skips_marks: bool,
    peer: SocketAddr,
    local: SocketAddr,
}

enum Transport {
    Plain(Socket),
    Tls(Box<Tls>),
    /// During and after a failed handshake.
    Closed,
}

struct Tls {
    stream: TlsStream<Socket>,
    /// The certificates at the handshake, which a reload may have replaced since.
    shown: Arc<Active>,
}

/// The outcome of the TLS handshake, for logs and `Received:` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// Such as `TLSv1.3`.
    pub version: &'static str,
    /// Such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
}

impl Stream {
    /// Wraps an accepted socket, in the clear.
    pub fn plain(tcp: TcpStream) -> io::Result<Self> {
        let (peer, local) = (tcp.peer_addr()?, tcp.local_addr()?);
        // Answers are written whole and then flushed: waiting for more to send (Nagle) only delays
        // them.
        tcp.set_nodelay(true)?;
        Ok(Self {
            transport: Transport::Plain(Socket::new(tcp)),
            deflate: None,
            skips_marks: false,
            peer,
            local,
        })
    }

    /// Wraps an accepted Unix socket, in the clear. Both ends are loopback with port 0: the peer is
    /// a process of this machine.
    pub fn unix(unix: UnixStream) -> Self {
        Self {
            transport: Transport::Plain(Socket::unix(unix)),
            deflate: None,
            skips_marks: false,
            peer: LOCAL,
            local: LOCAL,
        }
    }

    /// Wraps a connection that is no socket, in the clear. So a test runs whole sessions in memory.
    pub fn over(bytes: impl ByteStream, peer: SocketAddr, local: SocketAddr) -> Self {
        let transport = Transport::Plain(Socket::over(Box::new(bytes)));
        Self { transport, deflate: None, skips_marks: false, peer, local }
    }

    /// Takes the ends that a proxy's header named for those of the socket. Bytes of that header
    /// came, so the kernel may owe an acknowledgement.
    pub(crate) fn set_ends(&mut self, ends: Endpoints) {
        (self.peer, self.local) = (ends.peer, ends.local);
        if let Transport::Plain(socket) = &mut self.transport {
            socket.note_arrived();
        }
    }

    /// The peer's address: behind a proxy the one that its header names.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address the peer connected to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The counts so far.
    pub fn traffic(&self) -> Traffic {
        match &self.transport {
            Transport::Plain(socket) => socket.traffic,
            Transport::Tls(tls) => tls.stream.get_ref().0.traffic,
            Transport::Closed => Traffic::default(),
        }
    }

    /// Returns once the peer has closed its side, even if some of its bytes are unread.
    pub(crate) async fn left(&self) {
        match &self.transport {
            Transport::Plain(socket) => socket.left().await,
            Transport::Tls(tls) => tls.stream.get_ref().0.left().await,
            Transport::Closed => {}
        }
    }

    /// Names the event for which the next reads wait. It reaches the socket below every layer.
    pub(crate) fn set_awaits(&mut self, awaits: Awaits) {
        match &mut self.transport {
            Transport::Plain(socket) => socket.awaits = awaits,
            Transport::Tls(tls) => tls.stream.get_mut().0.awaits = awaits,
            Transport::Closed => {}
        }
    }

    /// The outcome of the TLS handshake; none in the clear.
    pub fn tls(&self) -> Option<TlsFacts> {
        let Transport::Tls(tls) = &self.transport else { return None };
        let session = tls.stream.get_ref().1;
        Some(TlsFacts {
            version: match session.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLS",
            },
            cipher: session
                .negotiated_cipher_suite()
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or("unknown"),
        })
    }

    /// Whether COMPRESS is active.
    pub fn is_compressed(&self) -> bool {
        self.deflate.is_some()
    }

    /// The bytes that tie an authentication exchange to this TLS connection; none in the clear, or
    /// if the kind is not defined for it.
    pub fn channel_binding(&self, kind: ChannelBinding) -> Option<Vec<u8>> {
        let Transport::Tls(tls) = &self.transport else { return None };
        match kind {
            ChannelBinding::TlsServerEndPoint => {
                let name = tls.stream.get_ref().1.server_name();
                tls.shown.shown.choose(name).end_point.clone()
            }
            ChannelBinding::TlsExporter => channel_binding::exporter(tls.stream.get_ref().1),
        }
    }

    /// The values of the peer's certificate, if it showed one. The handshake verified it.
    pub fn client_certificate(&self) -> Option<ClientCertificate> {
        let Transport::Tls(tls) = &self.transport else { return None };
        let leaf = tls.stream.get_ref().1.peer_certificates()?.first()?;
        Some(ClientCertificate::parse(leaf))
    }

    /// Does the server's side of a TLS handshake, within a deadline. After an error the stream is
    /// closed. The caller must hold no byte read before;
    /// [`Connection::start_tls`](crate::Connection::start_tls) checks this.
    pub async fn accept_tls(
        &mut self,
        certificates: &Certificates,
        within: Duration,
    ) -> Result<(), NetError> {
        // RFC 3501 §6.2.1, RFC 3207 §4.2: not twice; RFC 4978 §3: not inside compression.
        if self.deflate.is_some() || !matches!(self.transport, Transport::Plain(_)) {
            return Err(NetError::TlsActive);
        }
        let Transport::Plain(mut socket) = mem::replace(&mut self.transport, Transport::Closed) else {
            return Err(NetError::Closed);
        };
        socket.awaits = Awaits::Rest;
        let shown = certificates.active();
        let acceptor = TlsAcceptor::from(certificates.config_of(&shown));
        // Boxed: the handshake's state is large and would otherwise be part of the session's task
        // for good.
        let accepting =
            acceptor.accept_with(socket, |session| session.set_buffer_limit(Some(TLS_OUTPUT_MAX)));
        let handshake = Box::pin(HANDSHAKES.run(accepting));
        let mut stream = tokio::time::timeout(within, handshake)
            .await
            .map_err(|_| NetError::TimedOut(within))?
            .map_err(NetError::Handshake)?;
        // The client's part may have been the last one, and its first command comes after it.
        let socket = stream.get_mut().0;
        socket.acknowledge();
        socket.awaits = Awaits::Anything;
        self.transport = Transport::Tls(Box::new(Tls { stream, shown }));
        Ok(())
    }

    /// From here on all bytes are compressed, both ways (RFC 4978). The answer that promises it
    /// must have been flushed.
    pub fn start_deflate(&mut self) -> Result<(), NetError> {
        if self.deflate.is_some() {
            return Err(NetError::CompressionActive);
        }
        self.deflate = Some(Box::new(Deflate::new()));
        Ok(())
    }

    /// Ends compression both ways, once the answer that says so was written: RFC 8437 §4.1. Our
    /// stream gets its mark of the end. Returns the bytes that the peer sent after the end of its
    /// stream.
    pub async fn end_deflate(&mut self) -> io::Result<Vec<u8>> {
        if let Some(deflate) = &mut self.deflate {
            std::future::poll_fn(|cx| deflate.poll_finish(Pin::new(&mut self.transport), cx)).await?;
        }
        let Some(deflate) = self.deflate.take() else { return Ok(Vec::new()) };
        let mut rest = deflate.into_rest();
        self.skips_marks = true;
        self.skip_marks(&mut rest);
        Ok(rest)
    }

    /// Drops marks of the end of the peer's compressed stream. Some peers finish the stream, others
    /// only flush it, and the marks may come in a later segment. No text begins with such bytes.
    fn skip_marks(&mut self, bytes: &mut Vec<u8>) {
        if self.skips_marks {
            let marks = bytes.iter().take_while(|byte| matches!(byte, 0 | 1 | 3 | 0xff)).count();
            bytes.drain(..marks);
            self.skips_marks = bytes.is_empty();
        }
    }

    /// Gives back memory that an idle session does not need. Costs the next answer a little
    /// compression.
    pub fn rest(&mut self) {
        if let Some(deflate) = &mut self.deflate {
            deflate.rest();
        }
    }
}

impl Stream {
    fn poll_read_after_marks(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            std::task::ready!(Pin::new(&mut self.transport).poll_read(cx, buf))?;
            let mut came = buf.filled()[before..].to_vec();
            if came.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.skip_marks(&mut came);
            buf.set_filled(before);
            if !came.is_empty() {
                buf.put_slice(&came);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("peer", &self.peer)
            .field("tls", &self.tls())
            .field("compressed", &self.is_compressed())
            .finish()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match &mut this.deflate {
            Some(deflate) => deflate.poll_read(Pin::new(&mut this.transport), cx, buf),
            None if this.skips_marks => this.poll_read_after_marks(cx, buf),
            None => Pin::new(&mut this.transport).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        match &mut this.deflate {
            Some(deflate) => deflate.poll_write(Pin::new(&mut this.transport), cx, data),
            None => Pin::new(&mut this.transport).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match &mut this.deflate {
            Some(deflate) => deflate.poll_flush(Pin::new(&mut this.transport), cx),
            None => Pin::new(&mut this.transport).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deflate.is_some() {
            std::task::ready!(self.as_mut().poll_flush(cx))?;
        }
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_read(cx, buf),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, data),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_write(cx, data),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_flush(cx),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(&mut tls.stream).poll_shutdown(cx),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}
