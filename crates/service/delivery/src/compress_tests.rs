//! Mail that is stored compressed, on the in-memory engine.

use posthaste_directory::{Account, Format, NewAccount};
use posthaste_mail_model::{AccountId, Id, NumSet, Secret};
use posthaste_net::{ByteBudget, Holder};
use posthaste_tnef::samples;

use super::*;
use crate::shared_bodies::SharedBodies;
use crate::tests::{content, delivery_with, open};
use crate::{ConvertMode, ConvertOptions, ConvertReport, Delivery, DeliveryOptions, Items, LossPolicy, Uids};

fn options(compress: Compression) -> DeliveryOptions {
    DeliveryOptions { message_len_max: 2 << 20, compress, ..DeliveryOptions::default() }
}

fn letter(octets: usize) -> Bytes {
    let words = (0u64..).map(|n| format!("{:x}\r\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let mut text = "Subject: words\r\n\r\n".to_owned();
    words.take(octets / 18).for_each(|word| text.push_str(&word));
    text.into()
}

async fn add_with(delivery: &Delivery, name: &str, format: Format) -> Account {
    let new = NewAccount { format: Some(format), ..NewAccount::default() };
    delivery.directory().add(name, &Secret::new("pencil".to_owned()), new).await.unwrap()
}

/// The stored bodies of an account's inbox, in the order of their UIDs.
async fn stored(delivery: &Delivery, account: &Account) -> Vec<Bytes> {
    let mailbox = open(delivery, account, "INBOX").await;
    let mut bodies = Vec::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        bodies.push(stored.body);
        std::ops::ControlFlow::Continue(())
    };
    mailbox.summaries(&NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    let mut stored = Vec::new();
    for body in bodies {
        stored.push(delivery.store().engine().read_body(body, 0..u64::MAX).await.unwrap());
    }
    stored
}

fn forms(stored: &[Bytes]) -> Vec<Form> {
    stored.iter().map(|stored| FormHeader::of(stored).map_or(Form::Plain, |header| header.form)).collect()
}

async fn seen(delivery: &Delivery, account: &Account) -> Vec<String> {
    content(delivery, account, "INBOX").await.into_iter().map(|(_, _, text)| text).collect()
}

async fn convert_to(delivery: &Delivery, account: &Account, to: Format) -> ConvertReport {
    let (items, mode, loss, uids) = (Items::Leave, ConvertMode::Apply, LossPolicy::Refuse, Uids::Keep);
    let options = ConvertOptions { to: Some(to), items, mode, loss, uids };
    let (mailbox, shared) = (open(delivery, account, "INBOX").await, SharedBodies::default());
    let mut converter = delivery.converter(account, mailbox, options, &shared).await.unwrap();
    while converter.advance().await.unwrap() {}
    assert!(delivery.store().engine().check(&mut |_| {}).await.unwrap().faults.is_empty());
    *converter.report()
}

#[tokio::test]
async fn messages_served_as_sent_are_compressed() {
    let (delivery, ana) = delivery_with(options(Compression::Zstd)).await;
    let ben = add_with(&delivery, "ben@example.org", Format::Mime).await;
    let recipients = [
        delivery.resolve("ana@example.org").await.unwrap(),
        delivery.resolve("ben@example.org").await.unwrap(),
    ];
    let rich = Bytes::from(samples::mail(&samples::note()));
    let disguised = FormHeader { form: Form::Rich, served_len: 7, digest: [0; 8] }.before(&letter(5_000));
    let sent = [letter(300), letter(3_000), letter(900_000), rich, disguised];
    for message in &sent {
        for delivered in delivery.deliver(message.clone(), &recipients).await {
            delivered.unwrap();
        }
    }
    use Form::{Compressed, Plain, Rich};
    let (of_ana, of_ben) = (stored(&delivery, &ana).await, stored(&delivery, &ben).await);
    assert_eq!(forms(&of_ana), [Plain, Compressed, Compressed, Rich, Compressed]);
    assert_eq!(forms(&of_ben), [Plain, Compressed, Compressed, Compressed, Compressed]);
    assert!(of_ana[..3] == of_ben[..3]);
    let texts = seen(&delivery, &ana).await;
    assert_eq!(texts, seen(&delivery, &ben).await);
    for at in [0, 1, 2, 4] {
        assert!(texts[at] == String::from_utf8_lossy(&sent[at]), "{at}");
    }
    let view = open(&delivery, &ben, "INBOX").await.view();
    for ((_, row), stored) in view.rows(&view.all()).zip(&of_ben) {
        let served = served(stored).unwrap();
        assert_eq!(row.size() as usize, served.len());
        // A summary that is lost is made again as it was.
        assert_eq!(crate::summarize_stored(stored), crate::summarize(&served));
    }
    let octets: usize = sent[..3].iter().map(Bytes::len).sum();
    assert_eq!(delivery.usage(ben.id).await.unwrap().messages, 5);
    assert!(delivery.usage(ben.id).await.unwrap().bytes > octets as u64, "quotas count what clients see");
}

#[tokio::test]
async fn a_conversion_stores_mail_as_the_server_does() {
    let (delivery, ana) = delivery_with(options(Compression::Zstd)).await;
    let recipients = [delivery.resolve("ana@example.org").await.unwrap()];
    for octets in [300, 3_000, 300_000] {
        delivery.deliver(letter(octets), &recipients).await.remove(0).unwrap();
    }
    use Form::{Compressed, Enriched, Plain};
    let shown = seen(&delivery, &ana).await;
    let without = Delivery::new(
        delivery.store().clone(),
        std::sync::Arc::clone(delivery.directory()),
        options(Compression::None),
    );
    let without = without.with_summaries(ByteBudget::new(256 << 20));
    for (delivery, to, converted, expected) in [
        (&delivery, Format::Keep, 0, [Plain, Compressed, Compressed]),
        (&without, Format::Keep, 2, [Plain, Plain, Plain]),
        (&without, Format::Mime, 0, [Plain, Plain, Plain]),
        (&delivery, Format::Mime, 2, [Plain, Compressed, Compressed]),
        (&delivery, Format::Rich, 3, [Enriched, Enriched, Enriched]),
        (&without, Format::Rich, 0, [Enriched, Enriched, Enriched]),
        (&delivery, Format::Keep, 3, [Plain, Compressed, Compressed]),
    ] {
        let report = convert_to(delivery, &ana, to).await;
        assert_eq!((report.converted, report.renumbered, report.failed), (converted, 0, 0), "{to:?}");
        assert_eq!(forms(&stored(delivery, &ana).await), expected);
        assert!(seen(delivery, &ana).await == shown);
    }
}

/// Ordinary mail in rich form takes little memory. A short message waits for none.
#[tokio::test]
async fn short_ordinary_mail_in_rich_form_is_restored_at_once() {
    let conversions = Conversions::new(ByteBudget::new(1 << 20));
    let held = conversions.budget.begin(Holder::Account([0; 16]));
    held.grow_to_within(conversions.budget.largest(), std::time::Duration::ZERO).await.unwrap();
    held.complete();
    let sent = letter(3_000);
    let reader = Place::Account(AccountId(Id::new(1, 1)));
    let restored = conversions.serve(reader, enriched(&sent).unwrap());
    assert_eq!(futures_util::FutureExt::now_or_never(restored).unwrap().unwrap(), sent);
    let large = letter(200_000);
    let stored = enriched(&large).unwrap();
    assert!(memory_to_serve(&stored) < conversion_memory_max(stored.len()) / 8);
    drop(held);
    assert_eq!(conversions.serve(reader, stored).await.unwrap(), large);
}
