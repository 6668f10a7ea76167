//! A client of a line protocol in the test's own process: it plays transcripts, also over TLS.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longest that anything may take: only a failure waits for it.
const WITHIN: Duration = Duration::from_secs(60);

/// One end of a conversation, as in POP3 and SMTP.
pub struct Talk<T> {
    stream: T,
    input: Vec<u8>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Talk<T> {
    /// Over a connection from which nothing was read.
    pub fn new(stream: T) -> Self {
        Self { stream, input: Vec::new() }
    }

    /// Does the client's side of a handshake with a host whose certificate this is.
    pub async fn handshake(self, trusted: CertificateDer<'static>) -> Talk<TlsStream<T>> {
        assert!(self.input.is_empty());
        let mut roots = RootCertStore::empty();
        roots.add(trusted).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions that the provider has")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").expect("a name");
        Talk::new(within(connector.connect(name, self.stream)).await.expect("a handshake"))
    }

    /// The stream below, for what only it knows.
    pub fn stream(&self) -> &T {
        &self.stream
    }

    /// Plays a transcript. All `C:` lines up to the next line of the server are sent at once. `S:`
    /// reads a line. `S*` reads the lines of a reply up to the one that fits. `…` matches any text,
    /// at most once in a line.
    #[track_caller]
    pub fn play(&mut self, transcript: &str) -> impl Future<Output = ()> {
        let transcript = transcript.to_owned();
        async move {
            let mut pending = String::new();
            for line in transcript.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
                if let Some(said) = line.strip_prefix("C: ") {
                    pending.push_str(said);
                    pending.push_str("\r\n");
                } else if let Some(expected) = line.strip_prefix("S: ") {
                    self.send(std::mem::take(&mut pending).as_bytes()).await;
                    let found = self.line().await;
                    assert!(
                        fits(&found, expected),
                        "expected {expected:?}, found {found:?}, in\n{transcript}"
                    );
                } else if let Some(expected) = line.strip_prefix("S* ") {
                    self.send(std::mem::take(&mut pending).as_bytes()).await;
                    let mut found = self.line().await;
                    while !fits(&found, expected) {
                        let goes_on = found.as_bytes().get(3) == Some(&b'-');
                        assert!(goes_on, "no line {expected:?} in a reply, in\n{transcript}");
                        found = self.line().await;
                    }
                } else {
                    panic!("neither C:, S: nor S*: {line}");
                }
            }
            self.send(pending.as_bytes()).await;
        }
    }

    /// Sends octets.
    pub async fn send(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.expect("the server reads");
        within(self.stream.flush()).await.expect("the server reads");
    }

    /// A line of the server, without its end.
    pub async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).expect("UTF-8");
            }
            assert_ne!(self.read().await, 0, "the server hung up; before that: {:?}", self.input);
        }
    }

    /// The lines of an answer after its first one, without stuffed dots and the last line.
    pub async fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            if line == "." {
                return lines;
            }
            lines.push(line.strip_prefix('.').unwrap_or(&line).to_owned());
        }
    }

    async fn read(&mut self) -> usize {
        // On the heap: futures of tests nest deeply.
        self.input.reserve(64 * 1024);
        within(self.stream.read_buf(&mut self.input)).await.expect("the connection holds")
    }

    /// The server hangs up. It may have reset the connection, if it left input unread.
    /// Returns how many bytes came before.
    pub async fn ends_somehow(&mut self) -> usize {
        let mut rest = Vec::new();
        let _ = within(self.stream.read_to_end(&mut rest)).await;
        rest.len()
    }

    /// The server must hang up, and send nothing more.
    pub async fn ends(&mut self) {
        assert_eq!(self.read().await, 0, "{:?}", String::from_utf8_lossy(&self.input));
        assert!(self.input.is_empty(), "{:?}", String::from_utf8_lossy(&self.input));
    }
}

/// The result of some work. Fails the test if it takes a minute.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, work).await.expect("a deadline passed")
}

fn fits(found: &str, expected: &str) -> bool {
    match expected.split_once('…') {
        None => found == expected,
        Some((start, end)) => {
            found.len() >= start.len() + end.len() && found.starts_with(start) && found.ends_with(end)
        }
    }
}
