//! Messages that get new UIDs while others write, on the in-memory engine.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use posthaste_directory::Account;
use posthaste_mail_model::{BodyId, Flag, MailboxId, MailboxName, NumSet, Uid};
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    BodyRange, CommitOutcome, Engine, IncomingMessage, Mailbox, MailboxCommit, MemoryEngine, StoreError,
    Unreadable, View, Visit,
};
use posthaste_tnef::{Outcome, convert, samples};

use crate::export::{ExportReport, MailFormat};
use crate::replace::{MessageLocation, replacement_id};
use crate::rich::{Shape, as_mime_blocking};
use crate::tests::{content, delivery_on, message, node_on, open};
use crate::{Delivery, DeliveryOptions, Quota};

/// The bytes that an earlier program served of a message.
const SHOWN_EARLIER: &[u8] = b"Subject: earlier\r\n\r\nas it was shown\r\n";

fn note() -> Bytes {
    samples::mail(&samples::note()).into()
}

fn as_mime(sent: &[u8]) -> String {
    let Ok(Outcome::Converted(mime)) = convert(sent) else { panic!("the sample is rich") };
    String::from_utf8(mime).unwrap()
}

/// A message whose conversion gave other bytes in an earlier program.
async fn append_superseded(delivery: &Delivery, mailbox: &Mailbox) {
    let (sent, served_len) = (note(), SHOWN_EARLIER.len() as u32);
    let superseded = IncomingMessage {
        bytes: FormHeader { form: Form::Rich, served_len, digest: [7; 8] }.before(&sent),
        summary: crate::summarize(SHOWN_EARLIER).into(),
        body: delivery.store().new_body_id(),
        flags: vec![Flag::Flagged],
        date: 1_700_000_000,
        saved: Some(9),
    };
    mailbox.destination().append(vec![superseded]).await.unwrap();
}

/// Reads a message as a client does.
async fn read(mailbox: &Mailbox, uid: u32) -> Result<Bytes, StoreError> {
    let uid = Uid::new(uid).unwrap();
    let body = mailbox.body_of(uid).await.unwrap().expect("the message is there");
    mailbox.read_body(uid, body, 0..u64::MAX).await
}

/// Reads a message that is superseded: that gives it a new UID.
async fn finds_superseded(mailbox: &Mailbox, uid: u32) {
    let read = read(mailbox, uid).await;
    assert!(matches!(read, Err(StoreError::Superseded(_))), "{read:?}");
}

fn options() -> DeliveryOptions {
    DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() }
}

/// An account on this engine, and its INBOX.
async fn inbox_on(engine: Arc<dyn Engine>, options: DeliveryOptions) -> (Delivery, Account, Arc<Mailbox>) {
    let (delivery, ana) = delivery_on(engine, options).await;
    delivery.mailboxes(&ana).await.unwrap();
    let inbox = open(&delivery, &ana, "INBOX").await;
    (delivery, ana, inbox)
}

fn uids(view: &View) -> String {
    view.uids_of_seqs(&view.all()).to_string()
}

/// One takes the place of another one: the folder and the account have the same number as before.
#[tokio::test]
async fn a_new_uid_needs_no_room() {
    let quota = Quota { bytes: Some(1), messages: Some(1) };
    let engine = Arc::new(MemoryEngine::new());
    let (delivery, ana, inbox) = inbox_on(engine, DeliveryOptions { quota, ..options() }).await;
    for _ in 0..2 {
        append_superseded(&delivery, &inbox).await;
    }
    inbox.destination().note_owner_limit(Some(2));
    for uid in [1, 2] {
        finds_superseded(&inbox, uid).await;
    }
    assert_eq!(uids(&inbox.view()), "3:4");
    let kept = (1_700_000_000, "\\Flagged".to_owned(), as_mime(&note()));
    assert_eq!(content(&delivery, &ana, "INBOX").await, [kept.clone(), kept]);
    // The folder is as full as it was.
    let more = delivery.incoming(message("more"), vec![], None).await.unwrap();
    let refused = inbox.destination().append(vec![more]).await;
    assert!(matches!(refused, Err(StoreError::FolderFull { limit: 2 })), "{refused:?}");
}

/// An export reads as a client does. It has the new message in the place of the old one.
#[tokio::test]
async fn an_export_has_messages_that_it_gave_new_uids() {
    let (delivery, ana, inbox) = inbox_on(Arc::new(MemoryEngine::new()), options()).await;
    for _ in 0..2 {
        append_superseded(&delivery, &inbox).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("inbox.mbox");
    let name = MailboxName::inbox();
    let exported = delivery.export(ana.id, Some(&name), MailFormat::Mbox, &target, &mut |_| {}).await;
    let report = exported.unwrap();
    assert_eq!((report.messages, report.failed), (2, 0), "{:?}", report.faults);
    let text = std::fs::read_to_string(&target).unwrap();
    assert_eq!(text.matches("\nSubject: Outer\n").count(), 2, "{text}");
    assert!(!text.contains("winmail.dat"), "{text}");
    assert_eq!(uids(&inbox.view()), "3:4");
}

/// An engine on which something happens just before messages are looked up, or before a body is
/// read that is removed then.
#[derive(Default)]
struct MeanwhileListed {
    inner: MemoryEngine,
    happens: Mutex<VecDeque<Happens>>,
    removes: Mutex<Option<Happens>>,
}

#[async_trait::async_trait]
impl Layer for MeanwhileListed {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable, StoreError> {
        let happens = self.happens.lock().unwrap().pop_front();
        if let Some(happens) = happens {
            happens.await;
        }
        self.inner.summaries(mailbox, uids, visit).await
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes, StoreError> {
        let removes = self.removes.lock().unwrap().take();
        if let Some(removes) = removes {
            removes.await;
            return Err(StoreError::Corrupt(format!("there is no body {body}")));
        }
        self.inner.read_body(body, range).await
    }
}

/// Exports INBOX while another process changes it. Each change is made after the messages were
/// listed, and before they are looked up.
async fn exported_meanwhile(changes: &[fn(Delivery, Account) -> Happens]) -> (ExportReport, String) {
    let engine = Arc::new(MeanwhileListed::default());
    let (delivery, ana, inbox) = inbox_on(Arc::clone(&engine) as _, options()).await;
    append_superseded(&delivery, &inbox).await;
    let other = node_on(Arc::new(engine.inner.another_process()), options());
    let changes = changes.iter().map(|change| change(other.clone(), ana.clone()));
    *engine.happens.lock().unwrap() = changes.collect();
    let folder = tempfile::tempdir().unwrap();
    let (target, name) = (folder.path().join("inbox.mbox"), MailboxName::inbox());
    let exported = delivery.export(ana.id, Some(&name), MailFormat::Mbox, &target, &mut |_| {}).await;
    assert!(engine.happens.lock().unwrap().is_empty(), "all has happened");
    (exported.unwrap(), std::fs::read_to_string(&target).unwrap())
}

/// Another process gives the message of UID 1 a new UID.
fn renews(other: Delivery, ana: Account) -> Happens {
    Box::pin(async move {
        let inbox = open(&other, &ana, "INBOX").await;
        finds_superseded(&inbox, 1).await;
    })
}

/// Another process adds a message, and expunges the one before it.
fn replaces(other: Delivery, ana: Account) -> Happens {
    Box::pin(async move {
        let inbox = open(&other, &ana, "INBOX").await;
        let last = inbox.current().await.unwrap().last_uid().unwrap().value();
        let again = other.incoming(message("again"), vec![], None).await.unwrap();
        inbox.destination().append(vec![again]).await.unwrap();
        inbox.remove(&NumSet::range(last, last)).await.unwrap();
    })
}

/// An export has a message that gets a new UID after it was listed.
#[tokio::test]
async fn an_export_has_messages_that_another_process_gave_new_uids() {
    let (report, text) = exported_meanwhile(&[renews]).await;
    assert_eq!((report.messages, report.failed), (1, 0), "{:?}", report.faults);
    assert_eq!(text.matches("\nSubject: Outer\n").count(), 1, "{text}");
    let (report, text) = exported_meanwhile(&[renews, replaces]).await;
    assert_eq!((report.messages, report.failed), (1, 0), "{:?}", report.faults);
    assert_eq!(text.matches("\nSubject: again\n").count(), 1, "{text}");
}

/// An export lists a mailbox ten times at most. Then it reports what it did not find.
#[tokio::test]
async fn an_export_reports_messages_that_it_cannot_find_again() {
    let (report, text) = exported_meanwhile(&[replaces as fn(Delivery, Account) -> Happens; 10]).await;
    assert_eq!((report.messages, report.failed), (0, 1), "{text}");
    assert!(report.faults[0].contains("message 10 was left out"), "{:?}", report.faults);
}

/// A message that is expunged, and its body removed, after it was looked up, is no failure.
#[tokio::test]
async fn an_export_leaves_out_what_is_expunged_before_it_is_read() {
    let engine = Arc::new(MeanwhileListed::default());
    let (delivery, ana, inbox) = inbox_on(Arc::clone(&engine) as _, options()).await;
    let one = delivery.incoming(message("one"), vec![], None).await.unwrap();
    inbox.destination().append(vec![one]).await.unwrap();
    let (other, owner) = (node_on(Arc::new(engine.inner.another_process()), options()), ana.clone());
    *engine.removes.lock().unwrap() = Some(Box::pin(async move {
        open(&other, &owner, "INBOX").await.remove(&NumSet::range(1, 1)).await.unwrap();
    }));
    let folder = tempfile::tempdir().unwrap();
    let (target, name) = (folder.path().join("inbox.mbox"), MailboxName::inbox());
    let exported = delivery.export(ana.id, Some(&name), MailFormat::Mbox, &target, &mut |_| {}).await;
    let report = exported.unwrap();
    assert_eq!((report.messages, report.failed), (0, 0), "{:?}", report.faults);
    assert!(engine.removes.lock().unwrap().is_none(), "it has happened");
}

/// An engine on which something happens just before a commit.
#[derive(Default)]
struct Meanwhile {
    inner: MemoryEngine,
    happens: Mutex<Option<Happens>>,
}

type Happens = Pin<Box<dyn Future<Output = ()> + Send>>;

#[async_trait::async_trait]
impl Layer for Meanwhile {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome, StoreError> {
        let happens = self.happens.lock().unwrap().take();
        if let Some(happens) = happens {
            happens.await;
        }
        self.inner.commit(commit).await
    }
}

/// Something happens on another node just before this one adds the new message.
async fn other_node(does: impl FnOnce(Delivery, Account) -> Happens) {
    let engine = Arc::new(Meanwhile::default());
    let (delivery, ana, inbox) = inbox_on(Arc::clone(&engine) as _, options()).await;
    append_superseded(&delivery, &inbox).await;
    let other = node_on(Arc::new(engine.inner.another_process()), options());
    *engine.happens.lock().unwrap() = Some(does(other.clone(), ana.clone()));
    finds_superseded(&inbox, 1).await;
    assert!(engine.happens.lock().unwrap().is_none(), "it has happened");
    for node in [&delivery, &other] {
        let mailbox = open(node, &ana, "INBOX").await;
        assert!(mailbox.current().await.unwrap().row_of_uid(Uid::MIN).is_none());
        let all = content(node, &ana, "INBOX").await;
        let all: Vec<_> = all.into_iter().filter(|(_, flags, _)| flags == "\\Flagged").collect();
        assert_eq!(all, [(1_700_000_000, "\\Flagged".to_owned(), as_mime(&note()))]);
    }
}

#[tokio::test]
async fn two_nodes_make_one_new_message() {
    // The other one did the same.
    other_node(|other, ana| {
        Box::pin(async move {
            let inbox = open(&other, &ana, "INBOX").await;
            finds_superseded(&inbox, 1).await;
            assert_eq!(uids(&inbox.view()), "2");
        })
    })
    .await;
}

#[tokio::test]
async fn a_message_that_another_node_added_is_not_added_again() {
    // The other one has added the message, and expunged nothing yet.
    other_node(|other, ana| {
        Box::pin(async move {
            let inbox = open(&other, &ana, "INBOX").await;
            let body = inbox.body_of(Uid::MIN).await.unwrap().unwrap();
            let place = MessageLocation { account: ana.id, mailbox: inbox.id(), uid: Uid::MIN };
            let rich = as_mime_blocking(&ana.name, &note(), 1 << 20).unwrap();
            let added = IncomingMessage {
                bytes: rich.stored(Shape::AsSent, &note()).unwrap(),
                summary: crate::summarize(&rich.mime).into(),
                body: replacement_id(body, place, Shape::AsSent),
                flags: vec![Flag::Flagged],
                date: 1_700_000_000,
                saved: Some(9),
            };
            inbox.destination().append(vec![added]).await.unwrap();
        })
    })
    .await;
}

/// Mail that comes meanwhile delays nothing.
#[tokio::test]
async fn a_message_that_comes_meanwhile_stays() {
    other_node(|other, ana| {
        Box::pin(async move {
            let inbox = open(&other, &ana, "INBOX").await;
            let more = other.incoming(message("more"), vec![], None).await.unwrap();
            inbox.destination().append(vec![more]).await.unwrap();
        })
    })
    .await;
}

/// A client expunges the message that is about to be replaced: nothing takes its place.
#[tokio::test]
async fn an_expunged_message_is_not_added_again() {
    let engine = Arc::new(Meanwhile::default());
    let (delivery, ana, inbox) = inbox_on(Arc::clone(&engine) as _, options()).await;
    append_superseded(&delivery, &inbox).await;
    let other = node_on(Arc::new(engine.inner.another_process()), options());
    let owner = ana.clone();
    *engine.happens.lock().unwrap() = Some(Box::pin(async move {
        open(&other, &owner, "INBOX").await.remove(&NumSet::range(1, 1)).await.unwrap();
    }));
    finds_superseded(&inbox, 1).await;
    assert_eq!(inbox.current().await.unwrap().exists(), 0);
}

/// An engine that counts the summaries that are asked for over several messages at once.
#[derive(Default)]
struct Counted {
    inner: MemoryEngine,
    listed: AtomicU64,
}

#[async_trait::async_trait]
impl Layer for Counted {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable, StoreError> {
        self.listed.fetch_add(uids.count(), Ordering::Relaxed);
        self.inner.summaries(mailbox, uids, visit).await
    }
}

/// The next message of a folder finds the bodies that were read for the one before.
#[tokio::test]
async fn messages_of_a_folder_are_renewed_at_the_cost_of_each() {
    const COUNT: u32 = 40;
    let engine = Arc::new(Counted::default());
    let (delivery, _, inbox) = inbox_on(Arc::clone(&engine) as _, options()).await;
    for _ in 0..COUNT {
        append_superseded(&delivery, &inbox).await;
    }
    engine.listed.store(0, Ordering::Relaxed);
    for uid in 1..=COUNT {
        finds_superseded(&inbox, uid).await;
    }
    assert_eq!(uids(&inbox.view()), format!("{}:{}", COUNT + 1, 2 * COUNT));
    // Each asks for its own summary some times, and for that of the one that was added before.
    let listed = engine.listed.load(Ordering::Relaxed);
    assert!(listed <= 10 * u64::from(COUNT), "{listed}");
}
