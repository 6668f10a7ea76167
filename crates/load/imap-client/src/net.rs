//! Dialling a server: plain, TLS from the start, or STARTTLS; bytes counted; source addresses
//! spread.
//!
//! SMTP and POP3 drivers use the same [`Dialer`] and [`Wire`]; nothing here knows a protocol.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Error, read_buffer};

/// The protection of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    Plain,
    /// TLS from the first byte.
    Tls,
    /// TLS after STARTTLS (or POP3's STLS).
    StartTls,
}

/// The address that connections go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address, also checked against the certificate.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Plain, TLS or STARTTLS.
    pub security: Security,
}

/// A read of this many bytes is part of a flow.
const FLOW_BYTES: usize = 32 * 1024;
/// Bytes of one read at the rate of a modem, after bytes that a reader keeps: 0.6 s at 56 kbit/s.
const PACED_BYTES: usize = 4 * 1024;
/// The receive buffer of a client on a modem, so that a server waits for it: some 8,760 bytes were
/// the window of clients when modems were common. Linux doubles it (socket(7), SO_RCVBUF), and half
/// of that is its own overhead.
const PACED_BUFFER_BYTES: u32 = 8 * 1024;

/// The settings of connections: shared by all connections of a run.
#[derive(Clone)]
pub struct Dialer {
    tls: TlsConnector,
    /// Longest wait for a connection or an answer.
    pub timeout: Duration,
    /// Acknowledge segments at once. Servers that write an answer in two small segments without
    /// TCP_NODELAY otherwise wait up to 40 ms for the client's delayed acknowledgement.
    pub quick_ack: bool,
    /// Bytes a second that a connection reads at most: a client on a modem. It holds its session
    /// for as long as the modem would. Its receive buffer is small, so the kernel takes little more
    /// than what was read.
    pub pace: Option<u32>,
}

/// The certificates that a client accepts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Any: the instrument measures, it does not entrust anything to the server.
    Anyone,
    /// Servers whose certificate is signed by one of this PEM file.
    Authority(&'a Path),
}

impl Dialer {
    /// Full handshakes, no resumption: each virtual user is a device of its own.
    pub fn new(trust: Trust<'_>, timeout: Duration) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = match trust {
            Trust::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
                .with_no_client_auth(),
            Trust::Authority(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(file).map_err(io::Error::other)? {
                    roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), timeout, quick_ack: true, pace: None })
    }

    /// Connects; does the TLS handshake unless `endpoint` is plain or STARTTLS. `who` numbers the
    /// virtual user: on loopback each gets one of 60,000 source addresses, so that neither ports
    /// nor limits per address run out.
    pub async fn dial(&self, endpoint: &Endpoint, who: u32) -> Result<Wire, Error> {
        let address = format!("{}:{}", endpoint.host, endpoint.port);
        let fail = |source| Error::Connect { address: address.clone(), source };
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let connected = tokio::time::timeout(self.timeout, connect(endpoint, who, self.pace));
        let tcp = connected.await.map_err(|_| fail(late()))?.map_err(fail)?;
        let mut wire = Wire {
            stream: Stream::Plain(tcp),
            quick_ack: self.quick_ack,
            pace: self.pace,
            unacknowledged: false,
            bytes_in: 0,
            bytes_out: 0,
        };
        if endpoint.security == Security::Tls {
            wire = self.secure(wire, endpoint).await?;
        }
        Ok(wire)
    }

    /// Starts TLS on a plain connection.
    pub async fn secure(&self, wire: Wire, endpoint: &Endpoint) -> Result<Wire, Error> {
        let address = format!("{}:{}", endpoint.host, endpoint.port);
        let fail = |source| Error::Tls { address: address.clone(), source };
        let Stream::Plain(tcp) = wire.stream else {
            return Err(fail(io::Error::other("TLS is already on")));
        };
        let name = ServerName::try_from(endpoint.host.clone()).map_err(|e| fail(io::Error::other(e)))?;
        let handshake = tokio::time::timeout(self.timeout, self.tls.connect(name, tcp));
        let tls = handshake.await.map_err(|_| fail(io::ErrorKind::TimedOut.into()))?.map_err(fail)?;
        Ok(Wire { stream: Stream::Tls(Box::new(tls)), ..wire })
    }
}

async fn connect(endpoint: &Endpoint, who: u32, pace: Option<u32>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await? {
        match connect_one(address, who, pace).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_one(address: SocketAddr, who: u32, pace: Option<u32>) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if pace.is_some() {
        // Before the connection: the handshake announces the window (tcp(7)).
        socket.set_recv_buffer_size(PACED_BUFFER_BYTES)?;
    }
    if address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        // 127.1.0.1 up to 127.1.239.250: all of 127/8 is this machine.
        let [third, fourth] = [(who / 250 % 240) as u8, (who % 250) as u8 + 1];
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 1, third, fourth), 0)))?;
    }
    socket.connect(address).await
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Appends what is there to `buffer`.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(s) => pin!(s.read_buf(buffer)).poll(cx),
            Self::Tls(s) => pin!(s.read_buf(buffer)).poll(cx),
        }
    }
}

/// Gives an empty buffer that [`Wire::read`] filled back to the thread. To be called when all of it
/// was used, and no read follows soon.
pub fn put_away(buffer: &mut Vec<u8>) {
    if buffer.is_empty() {
        read_buffer::give_back(std::mem::take(buffer));
    }
}

/// A connection that counts its bytes (those of the protocol, before TLS).
pub struct Wire {
    stream: Stream,
    quick_ack: bool,
    pace: Option<u32>,
    /// Bytes came since the last write, so what is sent next does not carry their acknowledgement
    /// in time. Reads of a flow do not count: every second full segment of it is acknowledged at
    /// once (RFC 9293 §3.8.6.3), so nobody waits for it.
    unacknowledged: bool,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

impl Wire {
    /// Writes all of it.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(s) => s.write_all(bytes).await?,
            Stream::Tls(s) => {
                s.write_all(bytes).await?;
                s.flush().await?;
            }
        }
        self.bytes_out += bytes.len() as u64;
        self.unacknowledged = false;
        Ok(())
    }

    /// Appends what has arrived to `buffer`; 0 at the end of the stream. An empty buffer is
    /// replaced by the thread's own, but not before something arrives: see [`put_away`]. Those on a
    /// modem have buffers of their own, because many of them wait with what they read.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if self.quick_ack && self.unacknowledged {
            self.acknowledge_quickly();
        }
        let got = std::future::poll_fn(|cx| {
            match self.pace {
                None if buffer.is_empty() => {
                    if buffer.capacity() < read_buffer::READ_BYTES {
                        *buffer = read_buffer::borrow();
                    }
                }
                _ => buffer.reserve(PACED_BYTES),
            }
            let polled = self.stream.poll_read(cx, buffer);
            if polled.is_pending() {
                put_away(buffer);
            }
            polled
        })
        .await?;
        self.bytes_in += got as u64;
        self.unacknowledged = got < FLOW_BYTES;
        if let Some(pace) = self.pace.filter(|pace| *pace > 0) {
            tokio::time::sleep(Duration::from_secs_f64(got as f64 / f64::from(pace))).await;
        }
        Ok(got)
    }

    /// Closes in good order.
    pub async fn shut(&mut self) {
        let _ = match &mut self.stream {
            Stream::Plain(s) => s.shutdown().await,
            Stream::Tls(s) => s.shutdown().await,
        };
    }

    /// The kernel clears the option by itself (tcp(7), TCP_QUICKACK), so it is set before each
    /// read.
    fn acknowledge_quickly(&self) {
        let tcp = match &self.stream {
            Stream::Plain(s) => s,
            Stream::Tls(s) => s.get_ref().0,
        };
        let _ = socket2::SockRef::from(tcp).set_tcp_quickack(true);
    }
}

/// Accepts any certificate, but checks that the server holds its key.
#[derive(Debug)]
struct AcceptAny(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_on_a_modem_has_a_small_receive_buffer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let endpoint = Endpoint { host: "127.0.0.1".into(), port, security: Security::Plain };
        let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(20)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let buffer = |pace: Option<u32>| {
            let dialer = Dialer { pace, ..dialer.clone() };
            let wire = runtime.block_on(dialer.dial(&endpoint, 0)).unwrap();
            let Stream::Plain(tcp) = &wire.stream else { panic!("no TLS was asked for") };
            socket2::SockRef::from(tcp).recv_buffer_size().unwrap()
        };
        let small = buffer(Some(7000));
        assert!(small <= 2 * PACED_BUFFER_BYTES as usize, "{small}");
        assert!(buffer(None) > small);
    }
}
