//! A server with accounts, and transcripts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::{MailboxName, Secret, Uid};
use posthaste_net::{
    Accounts, ByteBudget, Certificates, Endpoint, Listener, Mode, ServeOptions, Shutdown, ShutdownTrigger,
};
use posthaste_smtp_server::{MailSink, Role, SmtpOptions, SmtpService};
use posthaste_store::{Store, StoreOptions};
use posthaste_testkit::TestEngine;
pub use posthaste_testkit::{Talk, within};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Longest that anything may take: only a failure waits for it.
pub const LONG: Duration = Duration::from_secs(30);

pub const PASSWORD: &str = "correct horse";

/// The initial response of AUTH PLAIN: base64("\0ana@example.org\0correct horse").
pub const ANA: &str = "AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl";

/// A server in this process, with `ana@example.org` (alias `info@example.org`) and
/// `ben@example.org`, who has room for 100,000 octets.
pub struct Server {
    pub address: SocketAddr,
    pub certificates: Certificates,
    pub delivery: Delivery,
    pub trigger: ShutdownTrigger,
}

/// The settings that a test changes.
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
        directory.aliases().add("info@example.org", "ana@example.org").await.unwrap();
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
        Talk::new(TcpStream::connect(self.address).await.unwrap())
    }

    pub async fn connect_tls(&self) -> Talk<TlsStream<TcpStream>> {
        self.connect().await.handshake(self.certificates.leaf()).await
    }

    /// All messages of an account's INBOX, with our headers.
    pub async fn inbox(&self, name: &str) -> Vec<String> {
        let account = self.delivery.directory().account(name).await.unwrap().unwrap();
        let list = self.delivery.mailboxes(&account).await.unwrap();
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
