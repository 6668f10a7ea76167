//! The filter with a queue, on an engine in memory whose directory fails on demand.

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, Forward, NewAccount, Policy};
use posthaste_mail_model::{MailboxName, Secret};
use posthaste_queue::{Item, Queue, Relay, TlsWish};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{DirectoryEntry, Engine, MemoryEngine, Result, Store, StoreError, StoreOptions};
use std::sync::Arc;

use crate::{Envelope, Filter, Form, Refusals, Undelivered};

const ANA: &str = "ana@example.org";
const MESSAGE: &[u8] = b"Received: by a\r\nFrom: bo@b.test\r\nSubject: hello\r\n\r\nwords\r\n";

/// Cannot be read for a while.
#[derive(Default)]
struct Away {
    inner: MemoryEngine,
    /// The beginning of the names of records that cannot be listed.
    prefix: Mutex<Option<String>>,
}

#[async_trait]
impl Layer for Away {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn directory_scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        if self.prefix.lock().as_ref().is_some_and(|away| prefix.starts_with(away.as_str())) {
            return Err(StoreError::Unavailable("no answer in time".into()));
        }
        self.inner.directory_scan(prefix, after, limit).await
    }
}

struct World {
    engine: Arc<Away>,
    directory: Arc<Directory>,
    filter: Filter,
    queue: Queue,
}

impl World {
    /// With one account, ana, and a way to other domains.
    async fn new() -> Self {
        let engine = Arc::new(Away::default());
        let shared = Arc::clone(&engine) as Arc<dyn Engine>;
        let directory = Directory::with_policy(Arc::clone(&shared), Policy::cheap_for_tests()).unwrap();
        let directory = Arc::new(directory);
        let store = Store::new(shared, StoreOptions::default());
        let delivery = Delivery::new(store, Arc::clone(&directory), DeliveryOptions::default());
        let queue = Queue::open(delivery.clone()).await.unwrap();
        let relay = Relay::new(queue.clone(), delivery.clone(), "mail.example.org");
        let filter = Filter::new(delivery, Some(relay), "mail.example.org");
        let world = Self { engine, directory, filter, queue };
        world.add(ANA).await;
        world
    }

    async fn add(&self, name: &str) {
        self.directory.add(name, &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
    }

    async fn use_script(&self, text: &str) {
        let account = self.directory.account(ANA).await.unwrap().unwrap();
        self.directory.put_script(&account, "main", text).await.unwrap();
        self.directory.activate_script(&account, Some("main")).await.unwrap();
    }

    /// Delivers a message from `bo@b.test` to an address here.
    async fn deliver(
        &self,
        message: &'static [u8],
        form: Form,
        to: &str,
    ) -> std::result::Result<(), Undelivered> {
        let target = self.filter.target(to).await.unwrap();
        let (from, refusals, tls) = ("bo@b.test", Refusals::Never, TlsWish::Policy);
        let envelope = Envelope { from, refusals, is_quarantined: false, tls, form };
        let message = Bytes::from([&b"Return-Path: <bo@b.test>\r\n"[..], message].concat());
        self.filter.deliver_to(message, envelope, &[target]).await.remove(0)
    }

    /// Messages in the INBOX of ana.
    async fn inbox(&self) -> u32 {
        let delivery = self.filter.delivery();
        let ana = delivery.resolve(ANA).await.unwrap();
        let list = delivery.mailboxes(ana.account.id).await.unwrap();
        let inbox = list.find(&MailboxName::inbox()).unwrap().id;
        delivery.store().open(inbox).await.unwrap().current().await.unwrap().exists()
    }

    async fn queued(&self) -> Vec<Item> {
        self.queue.page(None).await.unwrap().map_or_else(Vec::new, |page| page.items)
    }
}

/// The message waits for the script, instead of being filed as if there were none.
#[tokio::test]
async fn a_script_that_cannot_be_read_for_now_puts_the_message_off() {
    let world = World::new().await;
    world.use_script("discard;").await;
    *world.engine.prefix.lock() = Some("sieve/".into());
    let outcome = world.deliver(MESSAGE, Form::default(), ANA).await;
    assert!(matches!(&outcome, Err(Undelivered::Delivery(error)) if error.is_temporary()), "{outcome:?}");
    assert_eq!(world.inbox().await, 0);
    *world.engine.prefix.lock() = None;
    world.deliver(MESSAGE, Form::default(), ANA).await.unwrap();
    assert_eq!(world.inbox().await, 0);
    // One that does not compile is no reason to wait.
    world.use_script("nonsense").await;
    world.deliver(MESSAGE, Form::default(), ANA).await.unwrap();
    assert_eq!(world.inbox().await, 1);
}

/// RFC 3030 §3, RFC 6531 §3.4: a host that cannot take the message as it is must not get it.
#[tokio::test]
async fn what_is_sent_on_keeps_its_form() {
    let world = World::new().await;
    let forward = Forward { to: vec!["x@c.test".into()], keep: false };
    world.add("fo@example.org").await;
    world.directory.set_forward("fo@example.org", Some(forward)).await.unwrap();
    let members = [ANA, "y@c.test"].map(str::to_owned).to_vec();
    world.directory.set_group("all@example.org", &members, None).await.unwrap();
    world.use_script("redirect \"z@c.test\"; keep;").await;
    let forms = [(true, false), (false, true), (false, false)];
    for form in forms.map(|(binary, smtputf8)| Form { binary, smtputf8 }) {
        for (to, count) in [("fo@example.org", 1), (ANA, 1), ("all@example.org", 2)] {
            world.deliver(MESSAGE, form, to).await.unwrap();
            let items = world.queued().await;
            assert_eq!(items.len(), count, "{to}");
            for item in items {
                assert_eq!(Form { binary: item.binary, smtputf8: item.smtputf8 }, form, "{to}");
                world.queue.remove(&item).await.unwrap();
            }
        }
    }
    // What is made here has a form of its own.
    world.use_script("require \"vacation\"; vacation \"away\";").await;
    let to_ana: &[u8] =
        b"Received: by a\r\nFrom: bo@b.test\r\nTo: ana@example.org\r\nSubject: hi\r\n\r\n\0\n";
    world.deliver(to_ana, Form { binary: true, smtputf8: true }, ANA).await.unwrap();
    let reply = world.queued().await.remove(0);
    assert!(!reply.binary && !reply.smtputf8, "{reply:?}");
}
