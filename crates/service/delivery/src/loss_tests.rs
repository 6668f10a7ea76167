//! Rich originals that one account drops while others have the message, or get it.

use std::sync::Mutex;

use posthaste_directory::AccountChange;
use posthaste_mail_model::{Flag, Id};
use posthaste_store::form::Form;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{Engine as _, FlagChange, IncomingMessage, MemoryEngine};
use posthaste_tnef::samples;

use super::tests::{deliver, forms, run, to};
use super::*;
use crate::DeliveryOptions;
use crate::rich::{Shape, as_mime_blocking};
use crate::tests::{add, content, delivery, delivery_on, open};

#[tokio::test]
async fn a_loss_is_refused_unless_it_is_wanted() {
    use Form::{Plain, Rich};
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let before = content(&delivery, &ana, "INBOX").await;
    let report = run(&delivery, &ana, to(Format::Mime)).await;
    assert_eq!((report.would_lose, report.converted), (1, 0));
    assert_eq!(forms(&delivery, &ana).await, [Plain, Rich, Plain]);
    let report = run(&delivery, &ana, ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) }).await;
    assert_eq!((report.would_lose, report.converted), (0, 1));
    assert_eq!(forms(&delivery, &ana).await, [Plain, Plain, Plain]);
    assert_eq!(content(&delivery, &ana, "INBOX").await, before);
}

/// One message of two accounts: a conversion of the one is not the other's.
#[tokio::test]
async fn an_account_that_keeps_originals_has_them_whatever_others_do() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let sent = Bytes::from(samples::mail(&samples::note()));
    let message = delivery.incoming(sent.clone(), vec![], None).await.unwrap();
    for account in [&ana, &ben] {
        delivery.mailboxes(account).await.unwrap();
        let mailbox = open(&delivery, account, "INBOX").await;
        mailbox.destination().append(vec![message.clone()]).await.unwrap();
    }
    let lossy = ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) };
    assert_eq!(run(&delivery, &ana, lossy).await.renumbered, 1);
    assert_eq!(run(&delivery, &ben, to(Format::Keep)).await.renumbered, 1);
    assert_eq!(forms(&delivery, &ana).await, [Form::Plain]);
    assert_eq!(forms(&delivery, &ben).await, [Form::Rich]);
}

/// A delivery to two accounts shares a body. Its original is lost with the last one who has it.
#[tokio::test]
async fn a_loss_is_that_of_one_account() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let sent = Bytes::from(samples::mail(&samples::note()));
    let recipients = [delivery.resolve(&ana.name).await.unwrap(), delivery.resolve(&ben.name).await.unwrap()];
    for outcome in delivery.deliver(sent, &recipients).await {
        outcome.unwrap();
    }
    let before = content(&delivery, &ana, "INBOX").await;
    // A copy of Ben's.
    let inbox = open(&delivery, &ben, "INBOX").await;
    open(&delivery, &ben, "Archive").await.copy_from(&inbox, &NumSet::range(1, 1)).await.unwrap();
    let lossy = ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) };
    let dry = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..lossy }).await;
    let report = run(&delivery, &ana, lossy).await;
    // Clients see the same bytes, so she keeps the UID. Ben needs the original.
    assert_eq!((report.converted, report.renumbered, report.would_lose), (1, 0, 0));
    assert_eq!(dry, report, "a dry run says what happens");
    for account in [&ana, &ben] {
        assert_eq!(forms(&delivery, account).await, [Form::WithOriginal]);
    }
    assert_eq!(content(&delivery, &ana, "INBOX").await, before);
    let inbox = open(&delivery, &ana, "INBOX").await;
    assert_eq!(inbox.view().last_uid(), Uid::new(1));
    // As long as Ana has it, Ben's lossy run leaves it as it is.
    let report = run(&delivery, &ben, lossy).await;
    assert_eq!((report.converted, report.renumbered, report.would_lose), (0, 0, 0));
    inbox.store_flags(&NumSet::range(1, 1), FlagChange::Add, &[Flag::Deleted], None).await.unwrap();
    inbox.expunge(None).await.unwrap();
    // Both messages are Ben's now: they keep their UIDs.
    let report = run(&delivery, &ben, lossy).await;
    assert_eq!((report.converted, report.renumbered), (1, 0));
    assert_eq!(forms(&delivery, &ben).await, [Form::Plain]);
    assert_eq!(content(&delivery, &ben, "INBOX").await, before);
    assert_eq!(content(&delivery, &ben, "Archive").await, before);
}

/// An engine on which something happens just before a body takes another form.
struct Meanwhile {
    inner: MemoryEngine,
    happens: Mutex<Option<Happens>>,
}

type Happens = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[async_trait::async_trait]
impl Layer for Meanwhile {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn recode(
        &self,
        body: BodyId,
        bytes: Bytes,
        holders: Holders,
    ) -> Result<CommitOutcome, StoreError> {
        let happens = self.happens.lock().unwrap().take();
        if let Some(happens) = happens {
            happens.await;
        }
        self.inner.recode(body, bytes, holders).await
    }
}

/// Ben gets a message of Ana's just before her conversion drops its original.
async fn ben_gets_it_meanwhile(gets: impl FnOnce(Delivery, Account, Account) -> Happens) {
    let engine = Arc::new(Meanwhile { inner: MemoryEngine::new(), happens: None.into() });
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_on(Arc::clone(&engine) as _, options).await;
    let ben = add(&delivery, "ben@example.org").await;
    for account in [&ana, &ben] {
        delivery.mailboxes(account).await.unwrap();
    }
    append(&delivery, &ana).await;
    let before = content(&delivery, &ana, "INBOX").await;
    *engine.happens.lock().unwrap() = Some(gets(delivery.clone(), ana.clone(), ben.clone()));
    run(&delivery, &ana, ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) }).await;
    assert!(engine.happens.lock().unwrap().is_none());
    assert_eq!(forms(&delivery, &ben).await, [Form::WithOriginal]);
    for account in [&ana, &ben] {
        assert_eq!(content(&delivery, account, "INBOX").await, before);
    }
}

/// A note as it is delivered to an account that keeps mail as sent. Its body is always the same.
fn as_sent(account: &Account) -> IncomingMessage {
    let sent = Bytes::from(samples::mail(&samples::note()));
    let rich = as_mime_blocking(&account.name, &sent, 1 << 20).unwrap();
    IncomingMessage {
        bytes: rich.stored(Shape::AsSent, &sent).unwrap(),
        summary: crate::summarize(&rich.mime).into(),
        body: BodyId(Id::new(7, 7)),
        flags: vec![],
        date: 1_700_000_000,
        saved: None,
    }
}

#[tokio::test]
async fn a_copy_made_meanwhile_has_the_original() {
    ben_gets_it_meanwhile(|delivery, ana, ben| {
        Box::pin(async move {
            let from = open(&delivery, &ana, "INBOX").await;
            open(&delivery, &ben, "INBOX").await.copy_from(&from, &NumSet::range(1, 1)).await.unwrap();
        })
    })
    .await;
}

async fn append(delivery: &Delivery, account: &Account) {
    open(delivery, account, "INBOX").await.destination().append(vec![as_sent(account)]).await.unwrap();
}

/// The delivery that brought it continues with its next recipient, before that or after it.
#[tokio::test]
async fn a_message_received_meanwhile_has_its_original() {
    ben_gets_it_meanwhile(move |delivery, _, ben| Box::pin(async move { append(&delivery, &ben).await }))
        .await;
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    for account in [&ana, &ben] {
        delivery.mailboxes(account).await.unwrap();
    }
    append(&delivery, &ana).await;
    let lossy = ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) };
    assert_eq!(run(&delivery, &ana, lossy).await.converted, 1);
    assert_eq!(forms(&delivery, &ana).await, [Form::Plain]);
    append(&delivery, &ben).await;
    assert_eq!(forms(&delivery, &ben).await, [Form::Rich]);
    assert_eq!(content(&delivery, &ana, "INBOX").await, content(&delivery, &ben, "INBOX").await);
}

/// The bodies of an account's messages.
async fn bodies(delivery: &Delivery, account: &Account) -> Vec<BodyId> {
    let mut bodies = Vec::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        bodies.push(stored.body);
        ControlFlow::Continue(())
    };
    let mailbox = open(delivery, account, "INBOX").await;
    mailbox.summaries(&NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    bodies
}

/// Conversions of two accounts that share a body leave as many references as there are messages.
/// Each body is removed with its last one.
#[tokio::test]
async fn a_body_of_two_accounts_is_removed_with_its_last_message() {
    for is_as_before in [false, true] {
        let (delivery, ana) = delivery().await;
        let both = [ana, add(&delivery, "ben@example.org").await];
        let mime = AccountChange { format: Some(Some(Format::Mime)), ..AccountChange::default() };
        let mut recipients = Vec::new();
        for account in &both {
            delivery.directory().set(&account.name, mime).await.unwrap();
            delivery.mailboxes(account).await.unwrap();
            recipients.push(delivery.resolve(&account.name).await.unwrap());
        }
        let sent = Bytes::from(samples::mail(&samples::note()));
        let message = delivery.incoming(sent.clone(), vec![], None).await.unwrap();
        for account in both.iter().filter(|_| is_as_before) {
            open(&delivery, account, "INBOX")
                .await
                .destination()
                .append(vec![message.clone()])
                .await
                .unwrap();
        }
        if !is_as_before {
            for outcome in delivery.deliver(sent, &recipients).await {
                outcome.unwrap();
            }
        }
        let engine = delivery.store().engine();
        let mut all: Vec<BodyId> = Vec::new();
        for format in [Format::Keep, Format::Mime, Format::Rich, Format::Mime, Format::Keep] {
            for account in &both {
                all.extend(bodies(&delivery, account).await);
                run(&delivery, account, ConvertOptions { loss: LossPolicy::Allow, ..to(format) }).await;
            }
            let held = [bodies(&delivery, &both[0]).await, bodies(&delivery, &both[1]).await].concat();
            all.extend(&held);
            for body in &all {
                let holders = held.iter().filter(|other| *other == body).count();
                assert_eq!(engine.references(*body).await.unwrap(), holders as u64, "{format:?}");
            }
        }
        for account in &both {
            open(&delivery, account, "INBOX").await.remove(&NumSet::range(1, u32::MAX)).await.unwrap();
        }
        posthaste_store::suite::maintain(&**engine).await;
        for body in all {
            assert_eq!(engine.references(body).await.unwrap(), 0);
            assert!(engine.read_body(body, 0..u64::MAX).await.is_err());
        }
    }
}
