//! Stored mail in another form on engines that cannot change the form of each stored message. That
//! of a cluster changes the form of short ones alone.

use posthaste_mail_model::Flag;
use posthaste_store::form::Form;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{Engine as _, FlagChange, MemoryEngine};

use super::tests::{NeverRecodes, deliver, forms, run, to};
use super::*;
use crate::DeliveryOptions;
use crate::tests::{content, delivery_on, open};

/// The messages without their order: a new one is the last one.
async fn shown(delivery: &Delivery, account: &Account) -> Vec<(u32, String, String)> {
    let mut all = content(delivery, account, "INBOX").await;
    all.sort();
    all
}

#[tokio::test]
async fn a_form_that_cannot_change_is_that_of_a_new_message_if_that_is_wanted() {
    use Form::{Enriched, Plain, Rich, WithOriginal};
    let engine = Arc::new(NeverRecodes(MemoryEngine::new()));
    let (delivery, ana) = delivery_on(engine, DeliveryOptions::default()).await;
    let ana = deliver(&delivery, &ana, (Format::Mime, true)).await;
    let inbox = open(&delivery, &ana, "INBOX").await;
    inbox.store_flags(&NumSet::range(1, 1), FlagChange::Add, &[Flag::Flagged], None).await.unwrap();
    let before = shown(&delivery, &ana).await;
    let report = run(&delivery, &ana, to(Format::Rich)).await;
    assert_eq!((report.refused, report.renumbered, report.converted), (2, 0, 0));
    assert_eq!(forms(&delivery, &ana).await, [Plain, WithOriginal, Plain]);
    // The signed message has one form alone, and keeps its UID.
    for (format, expected, renumbered, uids) in [
        (Format::Rich, [Plain, Enriched, Rich], 2, "3:5"),
        (Format::Rich, [Plain, Enriched, Rich], 0, "3:5"),
        (Format::Mime, [Plain, Plain, WithOriginal], 2, "3,6:7"),
        (Format::Keep, [Plain, Plain, Rich], 1, "3,6,8"),
    ] {
        let renew = ConvertOptions { uids: Uids::Renew, ..to(format) };
        let dry = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..renew }).await;
        let report = run(&delivery, &ana, renew).await;
        assert_eq!((report.renumbered, report.refused, report.failed), (renumbered, 0, 0), "{format:?}");
        assert_eq!(dry, report, "a dry run says what happens");
        assert_eq!(forms(&delivery, &ana).await, expected, "{format:?}");
        assert_eq!(shown(&delivery, &ana).await, before, "{format:?}");
        let view = inbox.current().await.unwrap();
        assert_eq!(view.uids_of_seqs(&view.all()).to_string(), uids, "{format:?}");
    }
}

/// An engine that changes forms needs no new UIDs.
#[tokio::test]
async fn a_form_that_can_change_leaves_uids_alone() {
    let (delivery, ana) = delivery_on(Arc::new(MemoryEngine::new()), DeliveryOptions::default()).await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let renew = ConvertOptions { uids: Uids::Renew, ..to(Format::Rich) };
    let report = run(&delivery, &ana, renew).await;
    assert_eq!((report.converted, report.renumbered), (1, 0));
}

/// An engine that changes the form of short bodies, as on a cluster.
struct RecodesShort(MemoryEngine);

const SHORT: u64 = 4096;

#[async_trait::async_trait]
impl Layer for RecodesShort {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.0
    }

    fn recodes(&self) -> Recodes {
        Recodes::Short(SHORT)
    }

    async fn recode(
        &self,
        body: BodyId,
        bytes: Bytes,
        holders: Holders,
    ) -> Result<CommitOutcome, StoreError> {
        let stored = self.0.read_body(body, 0..u64::MAX).await?;
        let fits = Recodes::Short(SHORT).fits(stored.len() as u64, bytes.len() as u64);
        match holders == Holders::Any && fits {
            true => self.0.recode(body, bytes, holders).await,
            false => Err(StoreError::Refused("it is too long")),
        }
    }
}

#[tokio::test]
async fn a_short_body_changes_its_form_and_a_long_one_is_that_of_a_new_message() {
    use Form::{Enriched, Plain};
    let engine = Arc::new(RecodesShort(MemoryEngine::new()));
    let (delivery, ana) = delivery_on(engine, DeliveryOptions::default()).await;
    let recipients = [delivery.resolve("ana@example.org").await.unwrap()];
    for lines in [1, 1_000] {
        let message = format!("Subject: x\r\n\r\n{}", "a line of text\r\n".repeat(lines));
        delivery.deliver(message.into(), &recipients).await.remove(0).unwrap();
    }
    let before = shown(&delivery, &ana).await;
    let renew = |to| ConvertOptions { uids: Uids::Renew, ..to };
    for (options, expected, counts) in [
        (to(Format::Rich), [Enriched, Plain], (1, 0, 1)),
        (to(Format::Keep), [Plain, Plain], (1, 0, 0)),
        (renew(to(Format::Rich)), [Enriched, Enriched], (1, 1, 0)),
        (renew(to(Format::Keep)), [Plain, Plain], (1, 1, 0)),
    ] {
        let dry = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..options }).await;
        let report = run(&delivery, &ana, options).await;
        assert_eq!((report.converted, report.renumbered, report.refused), counts, "{options:?}");
        assert_eq!(dry, report, "a dry run says what happens");
        assert_eq!(forms(&delivery, &ana).await, expected, "{options:?}");
        assert_eq!(shown(&delivery, &ana).await, before, "{options:?}");
    }
}
