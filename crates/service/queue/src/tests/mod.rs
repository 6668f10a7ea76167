//! The queue and its runner on the in-memory engine, with hosts that do what a test says.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_authentication::Origin;
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::{Id, MailboxId, MailboxName, Secret};
use posthaste_store::{Engine, MemoryEngine, Place, Store, StoreOptions};
use tokio::sync::{mpsc, oneshot};

use crate::*;

mod bounds;
mod copy;
mod dsn;
mod kills;
mod local;
mod long_records;
mod nodes;
mod octets;
mod report_ways;
mod reports;
mod slow_hosts;
mod transactions;
mod waiting;

const MESSAGE: &[u8] = b"Received: by a\r\nSubject: hello\r\n\r\nwords\r\n";
/// Memory for messages that are being sent.
const BODIES_BYTES: u64 = 1 << 20;
const START: i64 = 1_700_000_000;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A host's answer to the next connection or message.
#[derive(Debug, Clone)]
enum Script {
    Unreachable(Failure),
    /// It takes the connection and says nothing.
    Silent,
    /// It takes the message and says nothing.
    Mute,
    /// It takes nothing of the message, which stays in memory.
    Stuck,
    /// It takes the message after a minute.
    Late,
    /// To each recipient of a transaction.
    Answers(Vec<Result<(), Failure>>),
    /// The same of mailboxes here, with what is reported of it.
    Takes(Vec<Option<Success>>),
    /// The same, and then it ends the connection.
    Ends(Vec<Result<(), Failure>>),
}

/// Something that happened at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Tried(Destination),
    Got(Destination, Vec<Address>, Bytes),
}

type BoxFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// All hosts there are. Without a script they take everything.
struct Hosts {
    scripts: Mutex<HashMap<Destination, VecDeque<Script>>>,
    /// An action while the next message is sent.
    meanwhile: Mutex<Option<BoxFuture>>,
    events: mpsc::UnboundedSender<Event>,
    /// Whether they know DSN.
    report: AtomicBool,
    /// Recipients of a transaction.
    recipients_max: AtomicUsize,
    /// Transactions on a connection.
    mails_max: AtomicUsize,
}

impl Hosts {
    fn next(&self, destination: &str, is_connection: bool) -> Option<Script> {
        let mut scripts = self.scripts.lock();
        let scripts = scripts.get_mut(destination)?;
        let of_connection = matches!(scripts.front()?, Script::Unreachable(_) | Script::Silent);
        let fits = of_connection == is_connection;
        if fits { scripts.pop_front() } else { None }
    }
}

struct Line {
    hosts: Arc<Hosts>,
    destination: Destination,
    mails: usize,
}

#[async_trait]
impl Transport for Arc<Hosts> {
    async fn connect(&self, destination: &Destination) -> Result<Box<dyn Channel>, Unreachable> {
        let _ = self.events.send(Event::Tried(destination.clone()));
        match self.next(destination, true) {
            Some(Script::Unreachable(failure)) => Err(Unreachable(failure)),
            Some(Script::Silent) => std::future::pending().await,
            _ => Ok(Box::new(Line { hosts: Arc::clone(self), destination: destination.clone(), mails: 0 })),
        }
    }
}

#[async_trait]
impl Channel for Line {
    fn transactions(&self, item: &Item) -> Vec<Vec<usize>> {
        let places: Vec<usize> = item.waiting_places().collect();
        let max = self.hosts.recipients_max.load(Ordering::SeqCst);
        places.chunks(max).map(<[usize]>::to_vec).collect()
    }

    fn is_spent(&self) -> bool {
        self.mails >= self.hosts.mails_max.load(Ordering::SeqCst)
    }

    async fn send(&mut self, item: &Item, to: &[usize], body: Body) -> Sent {
        self.mails += 1;
        let message = body.bytes().clone();
        let to: Vec<_> = item.at(to).map(|r| r.address.clone()).collect();
        let meanwhile = self.hosts.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile.await;
        }
        let script = self.hosts.next(&self.destination, false);
        match script {
            Some(Script::Stuck) => std::future::pending().await,
            Some(Script::Late) => tokio::time::sleep(Duration::from_secs(60)).await,
            _ => {}
        }
        if let Some(Script::Mute) = script {
            let _ = self.hosts.events.send(Event::Got(self.destination.clone(), to, message));
            drop(body);
            return std::future::pending().await;
        }
        if body.lease_end().is_over() {
            // As SMTP: the end of the message is not sent.
            return Sent { outcomes: vec![Err(busy()); to.len()], usable: false };
        }
        let usable = !matches!(script, Some(Script::Ends(_)));
        let reports = self.hosts.report.load(Ordering::SeqCst);
        let is_here = Local::of(TlsRequirement::split(&self.destination).0).is_some();
        let usual = if is_here { Success::Delivered } else { Success::SentOn };
        let success = || (!reports).then_some(usual);
        let outcomes = match script {
            Some(Script::Takes(taken)) => taken.into_iter().map(Ok).collect(),
            Some(Script::Answers(answers) | Script::Ends(answers)) => {
                answers.into_iter().map(|one| one.map(|()| success())).collect()
            }
            _ => vec![Ok(success()); to.len()],
        };
        let _ = self.hosts.events.send(Event::Got(self.destination.clone(), to, message));
        Sent { outcomes, usable }
    }
    async fn close(self: Box<Self>) {}
}

/// The signal that stops a runner, and its end.
type Running = (oneshot::Sender<()>, tokio::task::JoinHandle<()>);

/// A queue with its runner, and a clock that is stopped until it is set.
struct World {
    relay: Relay,
    hosts: Arc<Hosts>,
    events: mpsc::UnboundedReceiver<Event>,
    now: Arc<AtomicI64>,
    running: Option<Running>,
    lease_times: Option<LeaseTimes>,
    bodies_bytes: u64,
    connections: Connections,
    /// The last one that was started.
    runner: Option<Arc<Runner>>,
}

impl World {
    async fn new() -> Self {
        Self::with_folders_of(None).await
    }

    /// A folder may have this many messages.
    async fn with_folders_of(messages_max: Option<u32>) -> Self {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let options = StoreOptions { folder_messages_max: messages_max, ..StoreOptions::default() };
        let world = Self::with_options(engine, options).await;
        let directory = world.relay.delivery().directory();
        directory.add("ana@example.org", &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
        world
    }

    /// A node of its own on an engine.
    async fn of(engine: Arc<dyn Engine>) -> Self {
        Self::with_options(engine, StoreOptions::default()).await
    }

    async fn with_options(engine: Arc<dyn Engine>, options: StoreOptions) -> Self {
        let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
        let now = Arc::new(AtomicI64::new(START));
        let clock = Arc::clone(&now);
        let clock_unix_ms = Arc::new(move || u64::try_from(clock.load(Ordering::SeqCst)).unwrap() * 1_000);
        let store = Store::new(engine, StoreOptions { clock_unix_ms, ..options });
        let delivery = Delivery::new(store, Arc::new(directory), DeliveryOptions::default());
        let queue = Queue::open(delivery.clone()).await.unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let hosts = Arc::new(Hosts {
            scripts: Mutex::default(),
            meanwhile: Mutex::default(),
            events: sender,
            report: AtomicBool::new(false),
            recipients_max: AtomicUsize::new(100),
            mails_max: AtomicUsize::new(usize::MAX),
        });
        let relay = Relay::new(queue, delivery, "mail.example.org");
        Self {
            relay,
            hosts,
            events,
            now,
            running: None,
            lease_times: None,
            bodies_bytes: BODIES_BYTES,
            connections: Connections::default(),
            runner: None,
        }
    }

    fn script(&self, destination: &str, scripts: impl IntoIterator<Item = Script>) {
        self.hosts.scripts.lock().entry(destination.into()).or_default().extend(scripts);
    }

    async fn accept(&self, from: &str, to: &[&str]) -> Vec<Item> {
        let envelope = Envelope::new(from, to);
        self.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap()
    }

    fn start(&mut self) {
        let now = Arc::clone(&self.now);
        let clock: Clock = Arc::new(move || now.load(Ordering::SeqCst));
        let options = RunnerOptions {
            times: RetryTimes::default(),
            lease_times: self.lease_times,
            bodies_bytes: self.bodies_bytes,
            connections: self.connections.clone(),
        };
        let runner = Runner::new(self.relay.clone(), Arc::new(Arc::clone(&self.hosts)), clock, options);
        self.runner = Some(Arc::clone(&runner));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(runner.run(async move {
            let _ = stopped.await;
        }));
        self.running = Some((stop, task));
    }

    /// Stops the runner, which ends what it does first.
    async fn stop(&mut self) {
        let (stop, task) = self.running.take().unwrap();
        let _ = stop.send(());
        task.await.unwrap();
    }

    /// Starts a runner at a time, and stops it after this many events.
    async fn run_at(&mut self, now: i64, events: usize) -> Vec<Event> {
        self.now.store(now, Ordering::SeqCst);
        self.start();
        let mut seen = Vec::new();
        for _ in 0..events {
            seen.push(self.events.recv().await.unwrap());
        }
        self.stop().await;
        assert!(self.events.try_recv().is_err(), "nothing more happened");
        seen
    }

    async fn items(&self) -> Vec<Item> {
        let page = self.relay.queue().page(None).await.unwrap();
        page.map_or_else(Vec::new, |page| page.items)
    }

    /// The subjects and texts in ana's INBOX.
    async fn inbox(&self) -> Vec<String> {
        let delivery = self.relay.delivery();
        let ana = delivery.resolve("ana@example.org").await.unwrap();
        let list = delivery.mailboxes(&ana.account).await.unwrap();
        let inbox = delivery.store().open(list.find(&MailboxName::inbox()).unwrap().id).await.unwrap();
        let view = inbox.current().await.unwrap();
        let mut texts = Vec::new();
        for uid in view.uids_of_seqs(&view.all()).iter() {
            let uid = posthaste_mail_model::Uid::new(uid).unwrap();
            let body = inbox.body_of(uid).await.unwrap().unwrap();
            let bytes = inbox.read_body(uid, body, 0..u64::MAX).await.unwrap();
            texts.push(String::from_utf8(bytes.to_vec()).unwrap());
        }
        texts
    }
}

fn tried(destination: &str) -> Event {
    Event::Tried(destination.into())
}

fn got(destination: &str, to: &[&str]) -> Event {
    Event::Got(destination.into(), to.iter().map(|t| (*t).into()).collect(), Bytes::from_static(MESSAGE))
}

fn busy() -> Failure {
    Failure::temporary("4.3.2", "421 4.3.2 busy")
}

fn no_such_user() -> Failure {
    Failure::permanent("5.1.1", "550 5.1.1 no such user")
}

#[tokio::test]
async fn a_message_for_two_domains_is_two_items_with_one_body() {
    let mut world = World::new().await;
    let items = world.accept("ana@example.org", &["a@x.test", "b@y.test", "c@X.Test"]).await;
    let of: Vec<_> = items.iter().map(|i| (i.destination.as_str(), i.recipients.len())).collect();
    assert_eq!(of, [("x.test", 2), ("y.test", 1)]);
    assert_eq!(items[0].body, items[1].body);
    let mut seen = world.run_at(START, 4).await;
    seen.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(
        seen,
        [
            got("x.test", &["a@x.test", "c@X.Test"]),
            got("y.test", &["b@y.test"]),
            tried("x.test"),
            tried("y.test")
        ]
    );
    assert!(world.items().await.is_empty());
    let body = items[0].body;
    while world.relay.delivery().store().engine().maintain().await.unwrap().examined > 0 {}
    let reader = Place::Mailbox(MailboxId(Id::new(1, 1)));
    let read = world.relay.delivery().store().read_body(reader, body, 0..9).await;
    assert!(read.is_err(), "nothing holds the body");
}

#[tokio::test]
async fn mail_accepted_while_the_runner_works_is_sent_at_once() {
    let mut world = World::new().await;
    world.start();
    world.accept("ana@example.org", &["a@x.test"]).await;
    assert_eq!(world.events.recv().await, Some(tried("x.test")));
    assert_eq!(world.events.recv().await, Some(got("x.test", &["a@x.test"])));
    world.stop().await;
    assert!(world.items().await.is_empty());
}

/// Hosts that take connections and say nothing have all slots, and more of them wait.
#[tokio::test(start_paused = true)]
async fn silent_hosts_keep_no_mail_to_others_waiting() {
    let mut world = World::new().await;
    for n in 0..200 {
        let host = format!("silent{n}.test");
        world.script(&host, [Script::Silent]);
        world.accept("ana@example.org", &[&format!("a@{host}")]).await;
    }
    world.accept("ana@example.org", &["a@x.test"]).await;
    world.start();
    let sent = async { while world.events.recv().await != Some(got("x.test", &["a@x.test"])) {} };
    tokio::time::timeout(Duration::from_secs(60), sent).await.expect("sent while the others are silent");
}

/// Slow visits have all their slots, too.
#[tokio::test(start_paused = true)]
async fn a_thousand_silent_hosts_keep_no_mail_to_others_waiting() {
    let mut world = World::new().await;
    for n in 0..1_000 {
        let host = format!("silent{n}.test");
        world.script(&host, [Script::Silent]);
        world.accept("", &[&format!("a@{host}")]).await;
    }
    world.accept("ana@example.org", &["a@x.test"]).await;
    world.start();
    let sent = async { while world.events.recv().await != Some(got("x.test", &["a@x.test"])) {} };
    tokio::time::timeout(Duration::from_secs(240), sent).await.expect("sent while the others are silent");
}

/// Both destinations are visited, and the second message is not read before the first has left.
#[tokio::test]
async fn messages_wait_for_the_memory_that_others_have() {
    let mut world = World::new().await;
    world.bodies_bytes = 1;
    world.accept("ana@example.org", &["a@x.test"]).await;
    world.accept("ana@example.org", &["a@y.test"]).await;
    let (release, released) = oneshot::channel::<()>();
    *world.hosts.meanwhile.lock() = Some(Box::pin(async move {
        let _ = released.await;
    }));
    world.start();
    for _ in 0..2 {
        assert!(matches!(world.events.recv().await, Some(Event::Tried(_))));
    }
    // The engine is in memory: this number of turns is enough for all possible work.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(world.events.try_recv().is_err(), "the second message was sent beside the first");
    release.send(()).unwrap();
    for _ in 0..2 {
        assert!(matches!(world.events.recv().await, Some(Event::Got(..))));
    }
    world.stop().await;
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn a_refused_recipient_is_reported_and_the_others_get_the_message() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test", "no@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Ok(()), Err(no_such_user())])]);
    world.run_at(START, 2).await;
    assert!(world.items().await.is_empty());
    let inbox = world.inbox().await;
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].starts_with("Return-Path: <>\r\nReceived: by mail.example.org"));
    assert!(inbox[0].contains("Final-Recipient: rfc822; no@x.test\r\nAction: failed\r\nStatus: 5.1.1\r\n"));
    assert!(!inbox[0].contains("Final-Recipient: rfc822; a@x.test") && !inbox[0].contains("words"));
}

#[tokio::test]
async fn a_temporary_refusal_is_tried_again_for_those_who_wait() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test", "b@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Ok(()), Err(busy())])]);
    world.run_at(START, 2).await;
    let item = &world.items().await[0];
    assert_eq!((item.next - START, item.attempts, item.reason.as_str()), (300, 1, "421 4.3.2 busy"));
    assert_eq!(world.run_at(START + 299, 0).await, []);
    assert_eq!(world.run_at(START + 300, 2).await, [tried("x.test"), got("x.test", &["b@x.test"])]);
    assert!(world.items().await.is_empty() && world.inbox().await.is_empty());
}

#[tokio::test]
async fn items_of_an_unreachable_destination_are_not_touched() {
    let mut world = World::new().await;
    for _ in 0..5 {
        world.accept("ana@example.org", &["a@x.test"]).await;
    }
    let before = world.items().await;
    world.script("x.test", [Script::Unreachable(busy())]);
    assert_eq!(world.run_at(START, 1).await, [tried("x.test")]);
    assert_eq!(world.items().await, before);
    let wait = world.relay.queue().wait_of("x.test").await.unwrap().unwrap();
    assert_eq!((wait.reason.as_str(), wait.until), ("421 4.3.2 busy", START + 300));
    // One connection for all.
    let seen = world.run_at(START + 300, 6).await;
    assert_eq!(seen[0], tried("x.test"));
    assert!(seen[1..].iter().all(|event| *event == got("x.test", &["a@x.test"])));
    assert_eq!(world.relay.queue().wait_of("x.test").await.unwrap(), None);
}

#[tokio::test]
async fn a_late_message_is_warned_about_once_and_then_given_up() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test"]).await;
    for (at, reports) in [(0, 0), (5 * HOUR, 1), (10 * HOUR, 1), (5 * DAY, 2)] {
        world.script("x.test", [Script::Unreachable(busy())]);
        world.run_at(START + at, 1).await;
        assert_eq!(world.inbox().await.len(), reports, "after {at} s");
    }
    let inbox = world.inbox().await;
    assert!(inbox[0].contains("Action: delayed\r\n") && inbox[0].contains("Will-Retry-Until: "));
    assert!(inbox[1].contains("Action: failed\r\nStatus: 4.4.7\r\n") && inbox[1].contains("421 4.3.2 busy"));
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn a_destination_that_takes_no_mail_fails_all_at_once() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test"]).await;
    world.accept("", &["b@x.test"]).await;
    let null_mx = Failure::permanent("5.1.10", "x.test takes no mail (RFC 7505)");
    world.script("x.test", [Script::Unreachable(null_mx)]);
    world.run_at(START, 1).await;
    assert!(world.items().await.is_empty());
    // No report about a report.
    assert_eq!(world.inbox().await.len(), 1);
}

#[tokio::test]
async fn a_report_for_elsewhere_is_queued_with_the_null_sender() {
    let mut world = World::new().await;
    world.accept("bo@y.test", &["no@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
    let seen = world.run_at(START, 4).await;
    let Event::Got(destination, to, report) = &seen[3] else { panic!("{seen:?}") };
    assert_eq!((destination.as_str(), to.as_slice()), ("y.test", ["bo@y.test".to_owned()].as_slice()));
    assert!(report.starts_with(b"Received: by mail.example.org"));
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn an_administrator_holds_retries_and_drops() {
    let mut world = World::new().await;
    let held = world.accept("ana@example.org", &["a@x.test"]).await[0].id;
    let dropped = world.accept("ana@example.org", &["b@x.test"]).await[0].id;
    let queue = world.relay.queue().clone();
    queue.administer(held, |item| item.held = true).await.unwrap();
    queue.drop_item(dropped).await.unwrap();
    assert_eq!(world.run_at(START, 0).await, []);
    queue.administer(held, |item| (item.held, item.next) = (false, Item::AT_ONCE)).await.unwrap();
    assert_eq!(world.run_at(START, 2).await, [tried("x.test"), got("x.test", &["a@x.test"])]);
    let missing = queue.administer(held, |_| {}).await.unwrap_err();
    assert!(matches!(missing, QueueError::NoItem(id) if id == held));
}

/// An administrator holds an item while it is being sent: it was sent, and is not sent again.
#[tokio::test]
async fn sent_mail_is_not_sent_again_after_any_concurrent_change() {
    let mut world = World::new().await;
    let (queue, id) = {
        let items = world.accept("ana@example.org", &["a@x.test", "b@x.test"]).await;
        (world.relay.queue().clone(), items[0].id)
    };
    world.script("x.test", [Script::Answers(vec![Ok(()), Err(busy())])]);
    let hold = queue.clone();
    *world.hosts.meanwhile.lock() = Some(Box::pin(async move {
        hold.administer(id, |item| item.held = true).await.unwrap();
    }));
    world.run_at(START, 2).await;
    let [item] = world.items().await.try_into().unwrap();
    assert!(item.held);
    assert_eq!(item.waiting().map(|r| r.address.as_str()).collect::<Vec<_>>(), ["b@x.test"]);
    let retry = |item: &mut Item| (item.held, item.next) = (false, Item::AT_ONCE);
    queue.administer(id, retry).await.unwrap();
    *world.hosts.meanwhile.lock() = Some(Box::pin(async move {
        queue.administer(id, |item| item.held = true).await.unwrap();
    }));
    let seen = world.run_at(START, 2).await;
    assert_eq!(seen, [tried("x.test"), got("x.test", &["b@x.test"])]);
    assert!(world.items().await.is_empty());
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stops_no_other_mail() {
    let mut world = World::new().await;
    let first = world.accept("ana@example.org", &["a@x.test"]).await[0].clone();
    world.accept("ana@example.org", &["b@y.test"]).await;
    let (name, value) = (format!("queue/{:010}", first.id), Some(Bytes::from_static(b"{")));
    let change = posthaste_store::DirectoryChange { name, expected: 1, value };
    world.relay.delivery().store().engine().directory_commit(change).await.unwrap();
    assert_eq!(world.run_at(START, 2).await, [tried("y.test"), got("y.test", &["b@y.test"])]);
    let page = world.relay.queue().page(None).await.unwrap().unwrap();
    assert!(page.items.is_empty() && page.last == first.id);
    assert!(page.damaged[0].to_string().contains("queue/0000000001"), "{:?}", page.damaged);
}

#[tokio::test]
async fn a_message_without_an_envelope_was_never_acknowledged_and_goes() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let world = World::of(Arc::clone(&engine)).await;
    let kept = world.accept("ana@example.org", &["a@x.test"]).await[0].clone();
    // As a crash between the two leaves it.
    let list = world.relay.delivery().store().list(QUEUE_ACCOUNT).await.unwrap();
    let mailbox = list.find(&MailboxName::inbox()).unwrap().id;
    let delivery = world.relay.delivery();
    let message = delivery.incoming(Bytes::from_static(b"lost\r\n"), Vec::new(), None).await.unwrap();
    delivery.store().destination(mailbox).append(vec![message]).await.unwrap();
    // It came after this process began: one of its sessions may be adding the envelope.
    assert_eq!(world.relay.queue().remove_unfinished(None).await.unwrap(), 0);
    let mut world = World::of(engine).await;
    assert_eq!(world.relay.queue().remove_unfinished(None).await.unwrap(), 1);
    assert_eq!(world.items().await, [kept]);
    world.run_at(START, 2).await;
}

#[tokio::test]
async fn a_message_that_goes_round_is_refused() {
    let world = World::new().await;
    let message = [b"Received: x\r\n".repeat(101), b"\r\n".to_vec()].concat();
    let refused =
        world.relay.accept(message.into(), Envelope::new("a@x.test", &["b@y.test"]), Origin::Server).await;
    assert!(matches!(refused, Err(Refusal::Loop)));
    let refused =
        world.relay.accept(Bytes::new(), Envelope::new("a@x.test", &["b@[192.0.2.1]"]), Origin::Server).await;
    assert!(matches!(refused, Err(Refusal::Domain(_))));
}
