//! A server with accounts, and transcripts.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::{MailboxName, NumSet, Secret};
use posthaste_net::{
    Accounts, Certificates, Endpoint, Listener, Mode, ServeOptions, Shutdown, ShutdownTrigger,
};
use posthaste_pop3_server::{Pop3Options, Pop3Service};
use posthaste_store::{Engine, Mailbox, Store, StoreOptions};
use posthaste_testkit::TestEngine;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Longest that anything may take: only a failure waits for it.
pub const LONG: Duration = Duration::from_secs(30);

pub const USER: &str = "ana@example.org";
pub const PASSWORD: &str = "correct horse";

/// A server in this process, with the account [`USER`].
pub struct Server {
    pub address: SocketAddr,
    pub certificates: Certificates,
    pub delivery: Delivery,
    pub trigger: ShutdownTrigger,
}

/// What a test wants to be different.
#[derive(Default)]
pub struct Setup {
    pub tls: bool,
    pub options: Pop3Options,
    pub accounts: Accounts,
    /// An engine with accounts and mail of another server.
    pub engine: Option<Arc<dyn Engine>>,
    /// An empty engine for this one.
    pub new_on: Option<Arc<dyn Engine>>,
}

impl Setup {
    pub async fn start(self) -> Server {
        let is_new = self.engine.is_none();
        let engine = match self.engine.or(self.new_on) {
            Some(engine) => engine,
            None => TestEngine::new().await.engine,
        };
        let directory = Arc::new(Directory::with_policy(engine.clone(), Policy::cheap_for_tests()).unwrap());
        let store = Store::new(engine, StoreOptions::default());
        let password = Secret::new(PASSWORD.to_owned());
        if is_new {
            directory.add(USER, &password, NewAccount::default()).await.unwrap();
        }
        let delivery = Delivery::new(store, directory, DeliveryOptions::default());
        let (trigger, token) = Shutdown::new();
        let certificates = Certificates::self_signed_in_memory("mail.example.org").unwrap();
        let service = Pop3Service::new(self.options, delivery.clone(), Some(certificates.clone()))
            .with_accounts(self.accounts);
        let service = Arc::new(service);
        let mode = if self.tls { Mode::ImplicitTls } else { Mode::Plain };
        let listener = Listener::bind(&Endpoint { address: "127.0.0.1:0".parse().unwrap(), mode }).unwrap();
        let address = listener.local_addr();
        let options =
            ServeOptions { certificates: Some(certificates.clone()), ..ServeOptions::new(token.clone()) };
        let session = move |connection| Arc::clone(&service).serve(connection, token.clone());
        tokio::spawn(listener.serve(options, session));
        Server { address, certificates, delivery, trigger }
    }
}

/// A server with these messages in the INBOX of [`USER`].
pub async fn server(messages: &[&str]) -> Server {
    let server = Setup::default().start().await;
    server.append(messages).await;
    server
}

impl Server {
    pub async fn connect(&self) -> Talk<TcpStream> {
        Talk { stream: TcpStream::connect(self.address).await.unwrap(), input: Vec::new() }
    }

    pub async fn connect_tls(&self) -> Talk<TlsStream<TcpStream>> {
        self.connect().await.handshake(&self.certificates).await
    }

    /// A client behind its login.
    pub async fn logged_in(&self) -> Talk<TcpStream> {
        let mut client = self.connect().await;
        client
            .play(&format!("S: +OK …\nC: USER {USER}\nS: +OK …\nC: PASS {PASSWORD}\nS: +OK Logged in: …"))
            .await;
        client
    }

    /// The INBOX, as IMAP has it.
    pub async fn inbox(&self) -> Arc<Mailbox> {
        let account = self.delivery.directory().account(USER).await.unwrap().unwrap();
        let list = self.delivery.mailboxes(account.id).await.unwrap();
        self.delivery.store().open(list.find(&MailboxName::inbox()).unwrap().id).await.unwrap()
    }

    pub async fn append(&self, messages: &[&str]) {
        let inbox = self.inbox().await;
        for message in messages {
            let bytes = Bytes::copy_from_slice(message.as_bytes());
            let message = self.delivery.incoming(bytes, Vec::new(), None).await.unwrap();
            inbox.append(vec![message]).await.unwrap();
        }
    }

    pub async fn expunge(&self, uid: u32) {
        self.inbox().await.remove(&NumSet::range(uid, uid)).await.unwrap();
    }

    /// UIDs in the INBOX.
    pub async fn uids(&self) -> Vec<u32> {
        let view = self.inbox().await.view();
        view.uids_of_seqs(&view.all()).iter().collect()
    }
}

/// One end of a conversation.
pub struct Talk<T> {
    stream: T,
    input: Vec<u8>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Talk<T> {
    /// Does the client's side of a handshake.
    pub async fn handshake(self, trusted: &Certificates) -> Talk<TlsStream<T>> {
        assert!(self.input.is_empty());
        let mut roots = RootCertStore::empty();
        roots.add(trusted.leaf()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = within(connector.connect(name, self.stream)).await.unwrap();
        Talk { stream, input: Vec::new() }
    }

    /// Plays a transcript. All `C:` lines up to the next `S:` line are sent at once.
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
                } else {
                    panic!("neither C: nor S:: {line}");
                }
            }
            self.send(pending.as_bytes()).await;
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
        within(self.stream.flush()).await.unwrap();
    }

    /// A line of the server, without its end.
    pub async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert_ne!(self.read().await, 0, "the server hung up; before that: {:?}", self.input);
        }
    }

    /// The lines of an answer behind its first one, stuffed dots and the last line taken away.
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
        let mut piece = [0; 64 * 1024];
        let count = within(self.stream.read(&mut piece)).await.unwrap();
        self.input.extend_from_slice(&piece[..count]);
        count
    }

    /// The server hangs up. It may have reset the connection, if it left input unread.
    pub async fn ends_somehow(&mut self) {
        let mut rest = Vec::new();
        let _ = within(self.stream.read_to_end(&mut rest)).await;
    }

    /// The server must hang up, and have nothing more to say.
    pub async fn ends(&mut self) {
        assert_eq!(self.read().await, 0, "{:?}", String::from_utf8_lossy(&self.input));
        assert!(self.input.is_empty(), "{:?}", String::from_utf8_lossy(&self.input));
    }
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("a deadline passed")
}

/// `…` stands for anything, at most once in a line.
fn fits(found: &str, expected: &str) -> bool {
    match expected.split_once('…') {
        None => found == expected,
        Some((start, end)) => {
            found.len() >= start.len() + end.len() && found.starts_with(start) && found.ends_with(end)
        }
    }
}
