//! Estimates of conversions whose messages share bodies, on the in-memory engine.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use posthaste_directory::{Account, AccountChange, Format, Precompute};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{Engine, MemoryEngine, Unreadable, Visit};
use posthaste_tnef::samples;

use super::*;
use crate::DeliveryOptions;
use crate::body_change::LossPolicy;
use crate::convert::{ConvertMode, ConvertOptions, Items, Uids};
use crate::sample::Sample;
use crate::shared_bodies::SharedBodies;
use crate::tests::{add, delivery, delivery_on, message, open};

const FOLDERS: [&str; 2] = ["INBOX", "Archive"];

/// Converts the mail of accounts, and returns the sum of what was done.
async fn run(delivery: &Delivery, accounts: &[&Account], options: ConvertOptions) -> ConvertReport {
    let (run, mut sum) = (SharedBodies::default(), ConvertReport::default());
    for account in accounts {
        let shared = run.of_another_account();
        for name in FOLDERS {
            let mailbox = open(delivery, account, name).await;
            let mut converter = delivery.converter(account, mailbox, options, &shared).await.unwrap();
            while converter.advance().await.unwrap() {}
            sum = sum.plus(*converter.report());
        }
    }
    sum
}

/// An estimate from this number of the accounts' messages.
async fn estimate(
    delivery: &Delivery,
    accounts: &[&Account],
    (wanted, of): (u64, u64),
    options: ConvertOptions,
) -> Estimate {
    let (mut estimator, mut sample) = (Estimator::new(delivery), Sample::new(wanted, of));
    let (shared, mut ids) = (SharedBodies::default(), Vec::new());
    for account in accounts {
        for name in FOLDERS {
            let mailbox = open(delivery, account, name).await;
            ids.push(mailbox.id());
            let converter = delivery.converter(account, mailbox, options, &shared).await.unwrap();
            estimator.add(converter.sampled(&mut sample)).await.unwrap();
        }
    }
    estimator.finish(&ids).await.unwrap()
}

fn is_about(a: f64, b: u64) -> bool {
    (a - b as f64).abs() < 0.01
}

#[tokio::test]
async fn a_shared_body_counts_once() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    let rich = AccountChange { format: Some(Some(Format::Keep)), ..AccountChange::default() };
    let ana = delivery.directory().set(&ana.name, rich).await.unwrap();
    let mut recipients = Vec::new();
    for name in [&ana.name, &ben.name] {
        recipients.push(delivery.resolve(name).await.unwrap());
    }
    let note = Bytes::from(samples::mail(&samples::note()));
    let meeting = Bytes::from(samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request")));
    // Both have the note, Ana with eight copies. She alone has a meeting, without copies.
    for (sent, to) in
        [(note, &recipients[..]), (meeting, &recipients[..1]), (message("plain"), &recipients[..1])]
    {
        for delivered in delivery.deliver(sent, to).await {
            delivered.unwrap();
        }
    }
    let inbox = open(&delivery, &ana, "INBOX").await;
    let archive = open(&delivery, &ana, "Archive").await;
    for to in [&inbox, &archive] {
        for _ in 0..4 {
            to.copy_from(&inbox, &NumSet::range(1, 1)).await.unwrap();
        }
    }
    let both = [&ana, &ben];
    let (to, items, loss, uids) = (Some(Format::Mime), Items::Leave, LossPolicy::Allow, Uids::Keep);
    let options = |mode| ConvertOptions { to, items, mode, loss, uids };
    let dry = options(ConvertMode::DryRun);
    let all = estimate(&delivery, &both, (12, 12), dry).await;
    let would = run(&delivery, &both, dry).await;
    let done = run(&delivery, &both, options(ConvertMode::Apply)).await;
    assert_eq!((done.examined, done.converted, done.failed), (12, 2, 0));
    assert_eq!(would, done, "a dry run says what happens");
    assert_eq!(all.examined, 12);
    assert!(is_about(all.converted.sum, done.converted), "{all:?}");
    assert!((all.changed - 2.0).abs() < 0.01, "{all:?}");
    assert!(is_about(all.bytes_before.sum, done.bytes_before), "{all:?}, {done:?}");
    assert!(is_about(all.bytes_after.sum, done.bytes_after), "{all:?}, {done:?}");
}

/// Copies in the archive are links: they have the summaries of the messages in INBOX.
struct Linking(MemoryEngine, Arc<Mutex<Option<MailboxId>>>);

#[async_trait::async_trait]
impl Layer for Linking {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.0
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable, StoreError> {
        let is_shared = *self.1.lock().unwrap() == Some(mailbox);
        let mut link = |stored: Stored<'_>| visit(Stored { is_shared, ..stored });
        self.0.summaries(mailbox, uids, &mut link).await
    }
}

#[tokio::test]
async fn the_items_of_links_count_once() {
    let archive = Arc::new(Mutex::new(None));
    let options = DeliveryOptions {
        message_len_max: 1 << 20,
        precompute: Precompute::Never,
        ..DeliveryOptions::default()
    };
    let engine = Linking(MemoryEngine::new(), Arc::clone(&archive));
    let (delivery, ana) = delivery_on(Arc::new(engine), options).await;
    let recipients = [delivery.resolve(&ana.name).await.unwrap()];
    let note = Bytes::from(samples::mail(&samples::note()));
    for _ in 0..2 {
        delivery.deliver(note.clone(), &recipients).await.remove(0).unwrap();
    }
    let (inbox, linked) = (open(&delivery, &ana, "INBOX").await, open(&delivery, &ana, "Archive").await);
    linked.copy_from(&inbox, &NumSet::range(1, 2)).await.unwrap();
    linked.copy_from(&inbox, &NumSet::range(1, 1)).await.unwrap();
    *archive.lock().unwrap() = Some(linked.id());
    let (mode, loss, uids) = (ConvertMode::DryRun, LossPolicy::Refuse, Uids::Keep);
    let dry = ConvertOptions { to: None, items: Items::Make, mode, loss, uids };
    let all = estimate(&delivery, &[&ana], (5, 5), dry).await;
    let would = run(&delivery, &[&ana], dry).await;
    assert_eq!((all.examined, would.examined, would.items), (5, 5, 2));
    let (shared, mut reversed) = (SharedBodies::default(), 0);
    for mailbox in [&linked, &inbox] {
        let mut converter = delivery.converter(&ana, Arc::clone(mailbox), dry, &shared).await.unwrap();
        while converter.advance().await.unwrap() {}
        reversed += converter.report().items;
    }
    assert_eq!(reversed, 2, "in each order of the folders");
    assert!(is_about(all.items.sum, 2) && is_about(all.items_bytes.sum, would.items_bytes), "{all:?}");
}

#[test]
fn a_figure_has_the_interval_of_its_sample() {
    let (mut some, mut none) = (Figure::default(), Figure::default());
    for n in 0..100 {
        some.add(if n % 4 == 0 { 1.0 } else { 0.0 });
        none.add(0.0);
    }
    // A quarter of 1,000. The variance is 0.25 * 0.75 * 100 / 99, and 900 of 1,000 are unseen.
    let (count, within) = some.of_all(100, 1_000);
    assert!((count - 250.0).abs() < 0.01 && (within - 80.9).abs() < 0.1, "{count} {within}");
    // Nothing is unknown of what was examined.
    assert_eq!(some.of_all(100, 100), (25.0, 0.0));
    assert_eq!(none.count_of_all(100, 100), (0.0, 0.0));
    // A sample of 100 messages without an exception.
    assert_eq!(none.count_of_all(100, 1_000), (0.0, 30.0));
    assert_eq!(Figure::default().of_all(0, 0), (0.0, 0.0));
}
