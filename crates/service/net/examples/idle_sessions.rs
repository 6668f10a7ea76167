//! The cost of an idle session: opens many, in the clear, with TLS and compressed, and prints the
//! server's memory for each. The server is a process of its own, so that the clients' memory does
//! not count.
//!
//! ```text
//! cargo run --release -p posthaste-net --example idle_sessions -- 10000
//! ```

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use posthaste_net::{
    Certificates, Connection, ConnectionLimits, Endpoint, Listener, Mode, ServeOptions, Shutdown,
    raise_file_limit,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Not on the stack: it would become part of each session's task.
static ANSWER: [u8; 20_000] = [b'x'; 20_000];

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Failure> {
    raise_file_limit(65_536)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let argument = std::env::args().nth(1).unwrap_or_else(|| "10000".to_owned());
    if argument == "server" {
        runtime.block_on(server())
    } else {
        runtime.block_on(client(argument.parse()?))
    }
}

/// Listens in both modes, prints the ports, and ends when its standard input does.
async fn server() -> Result<(), Failure> {
    let (trigger, token) = Shutdown::new();
    let certificates = Certificates::self_signed_in_memory("")?;
    for mode in [Mode::Plain, Mode::ImplicitTls] {
        let listener = Listener::bind(&Endpoint { address: "127.0.0.1:0".parse()?, mode })?;
        println!("{}", listener.local_addr());
        let options = ServeOptions {
            certificates: Some(certificates.clone()),
            limits: ConnectionLimits::new(100_000, 100_000),
            grace: Duration::ZERO,
            ..ServeOptions::new(token.clone())
        };
        tokio::spawn(listener.serve(options, session));
    }
    tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await?;
    trigger.request();
    Ok(())
}

/// A greeting, one command with a long answer (so that every buffer has been in use), then silence.
async fn session(mut connection: Connection) {
    let _ = connection.write_all_within(b"* OK\r\n", HOUR).await;
    while connection.fill(1 << 16, HOUR).await.is_ok() {
        let line = connection.input_mut().split();
        if line.starts_with(b"COMPRESS") {
            let _ = connection.write_all_within(b"OK\r\n", HOUR).await;
            let _ = connection.start_deflate();
        }
        let _ = connection.write_all_within(&ANSWER, HOUR).await;
        connection.rest();
    }
}

async fn client(count: usize) -> Result<(), Failure> {
    for (name, tls, compressed) in
        [("plain", false, false), ("TLS", true, false), ("TLS, compressed", true, true)]
    {
        let (mut child, plain, secure) = start()?;
        let before = memory(&child)?;
        let mut held: Vec<Box<dyn Send>> = Vec::with_capacity(count);
        let connector = TlsConnector::from(Arc::new(trusting()?));
        for _ in 0..count {
            let tcp = TcpStream::connect(if tls { &secure } else { &plain }).await?;
            if tls {
                let mut stream = connector.connect(ServerName::try_from("localhost")?, tcp).await?;
                talk(&mut stream, compressed).await?;
                held.push(Box::new(stream));
            } else {
                let mut stream = tcp;
                talk(&mut stream, compressed).await?;
                held.push(Box::new(stream));
            }
        }
        let used = memory(&child)? - before;
        println!("{count} idle sessions, {name}: {} MiB, {} bytes each", used >> 20, used / count);
        drop(child.stdin.take());
        drop(held);
        child.wait()?;
    }
    Ok(())
}

async fn talk(
    stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin),
    compressed: bool,
) -> Result<(), Failure> {
    stream.read_exact(&mut [0; 6]).await?;
    if compressed {
        stream.write_all(b"COMPRESS\r\n").await?;
        // `OK`, then a few hundred bytes of deflate that end with a sync flush.
        let mut piece = [0; 4096];
        let mut last = Vec::new();
        while !last.ends_with(&[0, 0, 0xff, 0xff]) {
            let count = stream.read(&mut piece).await?;
            last.extend_from_slice(&piece[..count]);
        }
    } else {
        stream.write_all(b"a NOOP\r\n").await?;
        stream.read_exact(&mut [0; 20_000]).await?;
    }
    Ok(())
}

fn start() -> Result<(Child, String, String), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let mut next = || lines.next().ok_or("the server said nothing");
    let (plain, secure) = (next()??, next()??);
    std::io::stdout().flush()?;
    Ok((child, plain, secure))
}

/// Resident bytes of a process (proc_pid_status(5), VmRSS).
fn memory(child: &Child) -> Result<usize, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}

fn trusting() -> Result<ClientConfig, Failure> {
    Ok(ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth())
}

/// The certificate of a process we started ourselves needs no proof.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
