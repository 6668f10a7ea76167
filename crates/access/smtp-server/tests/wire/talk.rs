//! A server with accounts, and transcripts.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::{MailboxName, Secret, Uid};
use posthaste_net::{
    Accounts, ByteBudget, Certificates, Endpoint, Listener, Mode, ServeOptions, Shutdown, ShutdownTrigger,
};
use posthaste_smtp_server::{MailSink, Role, SmtpOptions, SmtpService};
use posthaste_store::{Store, StoreOptions};
use posthaste_testkit::TestEngine;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Longest that anything may take: only a failure waits for it.
pub const LONG: Duration = Duration::from_secs(30);

pub const PASSWORD: &str = "correct horse";

/// A server in this process, with `ana@example.org` (alias `info@example.org`) and
/// `ben@example.org`, who has room for 100,000 octets.
pub struct Server {
    pub address: SocketAddr,
    pub certificates: Certificates,
    pub delivery: Delivery,
    pub trigger: ShutdownTrigger,
}

/// What a test wants to be different.
pub struct Setup {
    pub role: Role,
    pub mode: Mode,
    pub options: SmtpOptions,
    pub budget: Option<ByteBudget>,
    pub accounts: Accounts,
    /// Stands between the session and delivery.
    pub sink: Option<fn(Delivery) -> Arc<dyn MailSink>>,
}

impl Setup {
    pub fn new(role: Role) -> Self {
        let options = SmtpOptions::new("mail.example.org");
        Self { role, mode: Mode::Plain, options, budget: None, accounts: Accounts::default(), sink: None }
    }

    pub async fn start(self) -> Server {
        let engine = TestEngine::new().await.engine;
        let directory = Arc::new(Directory::with_policy(engine.clone(), Policy::cheap_for_tests()).unwrap());
        let store = Store::new(engine, StoreOptions::default());
        let password = Secret::new(PASSWORD.to_owned());
        directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        directory.add_alias("info@example.org", "ana@example.org").await.unwrap();
        let small = NewAccount { quota_bytes: Some(100_000), ..NewAccount::default() };
        directory.add("ben@example.org", &password, small).await.unwrap();
        let delivery = Delivery::new(store, directory.clone(), DeliveryOptions::default());

        let (trigger, token) = Shutdown::new();
        let certificates = Certificates::self_signed_in_memory("mail.example.org").unwrap();
        let sink: Arc<dyn MailSink> = match self.sink {
            Some(wrap) => wrap(delivery.clone()),
            None => Arc::new(delivery.clone()),
        };
        let mut service = SmtpService::new(self.role, self.options, directory, sink)
            .with_certificates(certificates.clone())
            .with_accounts(self.accounts);
        if let Some(budget) = self.budget {
            service = service.with_budget(budget);
        }
        let service = Arc::new(service);
        let endpoint = Endpoint { address: "127.0.0.1:0".parse().unwrap(), mode: self.mode };
        let listener = Listener::bind(&endpoint).unwrap();
        let address = listener.local_addr();
        let options =
            ServeOptions { certificates: Some(certificates.clone()), ..ServeOptions::new(token.clone()) };
        let session = move |connection| Arc::clone(&service).serve(connection, token.clone());
        tokio::spawn(listener.serve(options, session));
        Server { address, certificates, delivery, trigger }
    }
}

impl Server {
    pub async fn connect(&self) -> Talk<TcpStream> {
        Talk { stream: TcpStream::connect(self.address).await.unwrap(), input: Vec::new() }
    }

    pub async fn connect_tls(&self) -> Talk<TlsStream<TcpStream>> {
        self.connect().await.handshake(&self.certificates).await
    }

    /// All messages of an account's INBOX, with our headers.
    pub async fn inbox(&self, name: &str) -> Vec<String> {
        let account = self.delivery.directory().account(name).await.unwrap().unwrap();
        let list = self.delivery.mailboxes(account.id).await.unwrap();
        let inbox = list.find(&MailboxName::inbox()).unwrap().id;
        let mailbox = self.delivery.store().open(inbox).await.unwrap();
        let mut found = Vec::new();
        for uid in 1_u32.. {
            let uid = Uid::new(uid).unwrap();
            let Some(body) = mailbox.body_of(uid).await.unwrap() else { break };
            let bytes = mailbox.read_body(uid, body, 0..u64::MAX).await.unwrap();
            found.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        found
    }

    /// The only message of an INBOX: our headers, and what the client sent.
    pub async fn only_message(&self, name: &str) -> (String, String) {
        let messages = self.inbox(name).await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        let received = messages[0].find("Received: ").unwrap();
        let ends = messages[0][received..].find("+0000\r\n").unwrap();
        let (head, message) = messages[0].split_at(received + ends + "+0000\r\n".len());
        (head.to_owned(), message.to_owned())
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

    /// The stream below, for what only it knows.
    pub fn stream(&self) -> &T {
        &self.stream
    }

    /// Plays a transcript.
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

    async fn read(&mut self) -> usize {
        let mut piece = [0; 4096];
        let count = within(self.stream.read(&mut piece)).await.unwrap();
        self.input.extend_from_slice(&piece[..count]);
        count
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
