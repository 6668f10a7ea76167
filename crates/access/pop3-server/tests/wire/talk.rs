//! A server with accounts, and transcripts.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_delivery::{Conversions, Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy, Precompute};
use posthaste_mail_model::{MailboxName, NumSet, Secret};
use posthaste_net::{
    Accounts, ByteBudget, Certificates, Endpoint, Listener, Mode, ServeOptions, Shutdown, ShutdownTrigger,
};
use posthaste_pop3_server::{Pop3Options, Pop3Service};
use posthaste_store::{Engine, Mailbox, Serve, Store, StoreOptions};
use posthaste_testkit::TestEngine;
pub use posthaste_testkit::{Talk, within};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub const USER: &str = "ana@example.org";
pub const PASSWORD: &str = "correct horse";

/// A server in this process, with the account [`USER`].
pub struct Server {
    pub address: SocketAddr,
    pub certificates: Certificates,
    pub delivery: Delivery,
    pub trigger: ShutdownTrigger,
}

/// The settings that a test changes.
#[derive(Default)]
pub struct Setup {
    pub tls: bool,
    pub options: Pop3Options,
    pub accounts: Accounts,
    /// When the items of rich mail are made.
    pub precompute: Precompute,
    /// Conversions for the clients, and the memory for what they make.
    pub serve: Option<(Arc<dyn Serve>, usize)>,
    /// Memory for old views that sessions hold.
    pub old_views_bytes: Option<usize>,
    /// Memory for newest views.
    pub open_views_bytes: Option<usize>,
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
        let defaults = StoreOptions::default();
        let (serve, served_bytes) = self.serve.unwrap_or_else(|| {
            let serve = Conversions::new(ByteBudget::new(256 << 20)).with_precompute(self.precompute);
            let serve: Arc<dyn Serve> = Arc::new(serve);
            (serve, defaults.served_bytes)
        });
        let old_views_bytes = self.old_views_bytes.unwrap_or(defaults.old_views_bytes);
        let open_views_bytes = self.open_views_bytes.unwrap_or(defaults.open_views_bytes);
        let options = StoreOptions { serve, served_bytes, old_views_bytes, open_views_bytes, ..defaults };
        let store = Store::new(engine, options);
        let password = Secret::new(PASSWORD.to_owned());
        if is_new {
            directory.add(USER, &password, NewAccount::default()).await.unwrap();
        }
        let options = DeliveryOptions { precompute: self.precompute, ..DeliveryOptions::default() };
        let delivery = Delivery::new(store, directory, options);
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
        Talk::new(TcpStream::connect(self.address).await.unwrap())
    }

    pub async fn connect_tls(&self) -> Talk<TlsStream<TcpStream>> {
        self.connect().await.handshake(self.certificates.leaf()).await
    }

    /// A client after its login.
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
        let list = self.delivery.mailboxes(&account).await.unwrap();
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
