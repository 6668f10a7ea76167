//! Servers to talk to, and clients to talk with.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste_net::{
    Certificates, Connection, Drained, Endpoint, Listener, Mode, NetError, ServeOptions, Shutdown,
    ShutdownTrigger,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longest that anything in these tests may take: only a failure waits for it.
pub const LONG: Duration = Duration::from_secs(30);

pub struct Server {
    pub address: SocketAddr,
    pub trigger: ShutdownTrigger,
    task: JoinHandle<Result<Drained, NetError>>,
}

/// A session without its type, so that what starts a server is compiled once.
type Session = Box<dyn Fn(Connection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl Server {
    /// Starts a listener on a port of the system's choice.
    pub fn start<S, F>(mode: Mode, change: impl FnOnce(&mut ServeOptions), session: S) -> Self
    where
        S: Fn(Connection) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (trigger, token) = Shutdown::new();
        let mut options = ServeOptions::new(token);
        change(&mut options);
        let session: Session = Box::new(move |connection| Box::pin(session(connection)));
        Self::serving(mode, options, trigger, session)
    }

    fn serving(mode: Mode, options: ServeOptions, trigger: ShutdownTrigger, session: Session) -> Self {
        let endpoint = Endpoint { address: "127.0.0.1:0".parse().unwrap(), mode };
        let listener = Listener::bind(&endpoint).unwrap();
        let address = listener.local_addr();
        let session = Arc::new(Mutex::new(session));
        let session = move |connection: Connection| {
            // A session of a test may panic.
            let session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session(connection)
        };
        Self { address, trigger, task: tokio::spawn(listener.serve(options, session)) }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub async fn stop(self) -> Drained {
        self.trigger.request();
        within(self.task).await.unwrap().unwrap()
    }
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("a deadline passed")
}

/// Reads exactly the expected bytes, and fails at the first difference.
pub async fn expect(stream: &mut (impl AsyncRead + Unpin), expected: &[u8]) {
    let mut found = vec![0; expected.len()];
    within(stream.read_exact(&mut found)).await.unwrap();
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

/// Does the client's side of a handshake, trusting this certificate and no other.
pub async fn handshake(tcp: TcpStream, trusted: &Certificates) -> std::io::Result<TlsStream<TcpStream>> {
    handshake_for(tcp, trusted, &[]).await
}

/// The same, requesting one of these protocols (RFC 7301).
pub async fn handshake_for(
    tcp: TcpStream,
    trusted: &Certificates,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.leaf()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    within(TlsConnector::from(Arc::new(config)).connect(name, tcp)).await
}

/// Sends back whatever comes, until the peer closes.
pub async fn echo(mut connection: Connection) {
    while connection.fill(1 << 20, LONG).await.is_ok() {
        let input = connection.input_mut().split();
        connection.write_all_within(&input, LONG).await.unwrap();
    }
    connection.close(LONG).await.unwrap();
}

/// Bytes no compressor can shorten, the same for each run (xorshift64).
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(length)
    .collect()
}
