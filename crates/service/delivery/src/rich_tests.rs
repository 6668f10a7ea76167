//! Rich mail for accounts of each format, on the in-memory engine.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_directory::{Account, Format, FormatSettings, NewAccount};
use posthaste_mail_model::{NumSet, Secret};
use posthaste_metrics::{Counter, Metered, Registry};
use posthaste_net::{ByteBudget, Holder, given_to_compute_threads};
use posthaste_store::compressed::Compression;
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{IncomingMessage, Place, StoreError};
use posthaste_tnef::{Outcome, convert, samples};

use crate::shared_bodies::SharedBodies;
use crate::tests::{content, delivery, delivery_with, import, message, open};
use crate::{
    ConvertMode, ConvertOptions, ConvertReport, Delivery, DeliveryOptions, Items, LossPolicy, SummaryMemory,
    Uids, WorkFor,
};

/// An account of this format.
async fn add_with(delivery: &Delivery, name: &str, format: Format) -> Account {
    let new = NewAccount { format: Some(format), ..NewAccount::default() };
    delivery.directory().add(name, &Secret::new("pencil".to_owned()), new).await.unwrap()
}

async fn inbox(delivery: &Delivery, account: &Account) -> Vec<String> {
    content(delivery, account, "INBOX").await.into_iter().map(|(_, _, text)| text).collect()
}

#[tokio::test]
async fn rich_mail_is_converted_for_those_who_want_it() {
    let (delivery, ana) = delivery().await;
    let ben = add_with(&delivery, "ben@example.org", Format::Mime).await;
    let cyd = add_with(&delivery, "cyd@example.org", Format::Mime).await;
    let mut recipients = Vec::new();
    for to in ["ana@example.org", "ben@example.org", "cyd@example.org"] {
        recipients.push(delivery.resolve(to).await.unwrap());
    }
    let rich = samples::mail(&samples::note());
    let Ok(Outcome::Converted(mime)) = convert(&rich) else { panic!("the sample is rich") };
    let delivered = delivery.deliver(Bytes::from(rich.clone()), &recipients).await;
    let bodies: Vec<_> = delivered.into_iter().map(|one| one.unwrap().body).collect();
    assert!(bodies[0] != bodies[1] && bodies[1] == bodies[2], "one body for each form");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Clients of each see the same, whatever is stored.
    assert_eq!(inbox(&delivery, &ana).await, [text(&mime)]);
    let engine = delivery.store().engine();
    let stored = engine.read_body(bodies[0], 0..u64::MAX).await.unwrap();
    assert_eq!(FormHeader::of(&stored).unwrap().form, Form::Rich);
    assert_eq!(FormHeader::content(&stored), rich);
    assert_eq!(engine.read_body(bodies[1], 0..u64::MAX).await.unwrap(), mime);
    // A summary that is lost is made again as it was.
    assert_eq!(crate::summarize_stored(&stored), crate::summarize(&mime));
    assert!(engine.check(&mut |_| {}).await.unwrap().faults.is_empty());
    assert_eq!(inbox(&delivery, &ben).await, [text(&mime)]);
    assert_eq!(inbox(&delivery, &cyd).await, [text(&mime)]);
    // Recipients who all want MIME, and ordinary mail.
    delivery.deliver(Bytes::from(rich), &recipients[1..]).await;
    delivery.deliver(message("plain"), &recipients[1..2]).await;
    assert_eq!(inbox(&delivery, &ben).await[1..], [text(&mime), text(&message("plain"))]);
}

/// The server's format is that of accounts that have none of their own. The originals that it keeps
/// are those of all accounts.
#[tokio::test]
async fn the_server_has_a_format_for_all_accounts() {
    let format = FormatSettings { format: Format::Mime, keep_original: true };
    let options = DeliveryOptions { message_len_max: 1 << 20, format, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_with(options).await;
    let ben = add_with(&delivery, "ben@example.org", Format::Keep).await;
    let cyd = add_with(&delivery, "cyd@example.org", Format::Mime).await;
    let mut recipients = Vec::new();
    for account in [&ana, &ben, &cyd] {
        recipients.push(delivery.resolve(&account.name).await.unwrap());
    }
    let rich = samples::mail(&samples::note());
    let engine = delivery.store().engine();
    let mut forms = Vec::new();
    for delivered in delivery.deliver(Bytes::from(rich), &recipients).await {
        let stored = engine.read_body(delivered.unwrap().body, 0..u64::MAX).await.unwrap();
        forms.push(FormHeader::of(&stored).map(|header| header.form));
    }
    assert_eq!(forms, [Some(Form::WithOriginal), Some(Form::Rich), Some(Form::WithOriginal)]);
    assert_eq!(inbox(&delivery, &ana).await, inbox(&delivery, &ben).await);
}

/// Rich mail that is damaged, signed, and over 1 MiB as MIME: binary becomes base64.
fn without_conversion() -> [Vec<u8>; 3] {
    let rich = samples::mail(&samples::note());
    let mut damaged = rich.clone();
    let at = memchr::memmem::find(&damaged, b"eJ8+").unwrap();
    damaged[at] = b'X';
    let signed = String::from_utf8(rich).unwrap().replace("multipart/mixed", "multipart/signed");
    let mut large = samples::note();
    large.attachments.push(samples::file("large", &vec![0; 800 << 10]));
    let large = posthaste_tnef::encode(&large).unwrap();
    let head = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    [damaged, signed.into_bytes(), [&head[..], &large].concat()]
}

#[tokio::test]
async fn rich_mail_that_cannot_be_converted_is_kept_as_sent() {
    for format in [Format::Keep, Format::Mime, Format::Rich] {
        is_kept_as_sent(format).await;
    }
}

async fn is_kept_as_sent(format: Format) {
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, _) = delivery_with(options).await;
    let ben = add_with(&delivery, "ben@example.org", format).await;
    let cyd = add_with(&delivery, "cyd@example.org", format).await;
    let recipients = [delivery.resolve("ben@example.org").await.unwrap()];
    // Too little memory for any conversion of this size.
    let small = delivery.clone().with_summaries(ByteBudget::new(64 << 10));
    let rich = samples::mail(&samples::note());
    let mut bodies =
        vec![small.deliver(Bytes::from(rich.clone()), &recipients).await.remove(0).unwrap().body];
    let delivery = delivery.with_summaries(ByteBudget::new(256 << 20));
    let without = without_conversion();
    for message in &without {
        let delivered = delivery.deliver(Bytes::from(message.clone()), &recipients).await.remove(0);
        bodies.push(delivered.unwrap().body);
    }
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let sent = [&[rich][..], &without[..]].concat();
    assert_eq!(inbox(&delivery, &ben).await, sent.iter().map(text).collect::<Vec<_>>());
    for (place, (body, sent)) in bodies.into_iter().zip(&sent).enumerate() {
        let stored = delivery.store().engine().read_body(body, 0..u64::MAX).await.unwrap();
        assert!(stored == *sent, "{format:?} {place}");
    }
    // An import stores them so, too.
    let folder = tempfile::tempdir().unwrap();
    for (place, message) in without[..2].iter().enumerate() {
        let path = folder.path().join(format!("{place}.eml"));
        std::fs::write(&path, message).unwrap();
        assert_eq!(import(&delivery, &cyd, &path, None).await.messages, 1);
    }
    assert_eq!(inbox(&delivery, &cyd).await, without[..2].iter().map(text).collect::<Vec<_>>());
    for stored in stored_bodies(&delivery, &cyd).await {
        assert_eq!(FormHeader::of(&stored), None, "{format:?}");
    }
}

/// The rich form of a short message waits for no memory, and needs none of that for conversions.
#[tokio::test]
async fn short_ordinary_mail_takes_its_rich_form_at_once() {
    let options = DeliveryOptions { compress: Compression::Zstd, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_with(options).await;
    let ben = add_with(&delivery, "ben@example.org", Format::Rich).await;
    let ana_and_ben = [
        delivery.resolve("ana@example.org").await.unwrap(),
        delivery.resolve("ben@example.org").await.unwrap(),
    ];
    let small = delivery.with_summaries(ByteBudget::new(64 << 10));
    let sent = message(&"the same words again and again ".repeat(300));
    for recipients in [&ana_and_ben[..], &ana_and_ben[1..], &ana_and_ben[..1]] {
        for delivered in small.deliver(sent.clone(), recipients).await {
            delivered.unwrap();
        }
    }
    for (account, form) in [(&ana, Form::Compressed), (&ben, Form::Enriched)] {
        let bodies = stored_bodies(&small, account).await;
        assert_eq!(bodies.len(), 2);
        for stored in bodies {
            assert_eq!(FormHeader::of(&stored).unwrap().form, form);
            assert_eq!(crate::conversions::served(&stored).unwrap(), sent);
        }
    }
}

/// A later run can convert what one limit kept from it, so the form may not say more than that.
#[tokio::test]
async fn rich_mail_that_was_kept_as_sent_is_converted_once_it_can_be() {
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, _) = delivery_with(options).await;
    let ben = add_with(&delivery, "ben@example.org", Format::Rich).await;
    let recipients = [delivery.resolve("ben@example.org").await.unwrap()];
    let [damaged, _, large] = without_conversion();
    for message in [damaged, large] {
        delivery.deliver(Bytes::from(message), &recipients).await.remove(0).unwrap();
    }
    for to in [Format::Keep, Format::Mime, Format::Rich, Format::Keep] {
        let report = convert_to(&delivery, &ben, to).await;
        assert_eq!((report.examined, report.converted, report.renumbered), (2, 0, 0), "{to:?}");
        assert_eq!((report.would_lose, report.failed), (0, 0), "{to:?}");
    }
    let options = DeliveryOptions { message_len_max: 2 << 20, ..options };
    let later = Delivery::new(delivery.store().clone(), Arc::clone(delivery.directory()), options);
    let report = convert_to(&later, &ben, Format::Keep).await;
    assert_eq!((report.examined, report.converted, report.renumbered), (2, 0, 1));
}

async fn convert_to(delivery: &Delivery, account: &Account, to: Format) -> ConvertReport {
    let (items, mode, loss, uids) = (Items::Leave, ConvertMode::Apply, LossPolicy::Refuse, Uids::Keep);
    let options = ConvertOptions { to: Some(to), items, mode, loss, uids };
    let (mailbox, shared) = (open(delivery, account, "INBOX").await, SharedBodies::default());
    let mut converter = delivery.converter(account, mailbox, options, &shared).await.unwrap();
    while converter.advance().await.unwrap() {}
    *converter.report()
}

/// The stored bodies of an account's inbox.
async fn stored_bodies(delivery: &Delivery, account: &Account) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        bodies.push(stored.body);
        ControlFlow::Continue(())
    };
    let mailbox = open(delivery, account, "INBOX").await;
    mailbox.summaries(&NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    let mut stored = Vec::new();
    for body in bodies {
        stored.push(delivery.store().engine().read_body(body, 0..u64::MAX).await.unwrap());
    }
    stored
}

#[tokio::test]
async fn an_import_converts_and_knows_what_it_had() {
    let (delivery, ana) = delivery().await;
    let ben = add_with(&delivery, "ben@example.org", Format::Mime).await;
    let rich = samples::mail(&samples::note());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rich.eml");
    std::fs::write(&path, &rich).unwrap();
    let Ok(Outcome::Converted(mime)) = convert(&rich) else { panic!("the sample is rich") };
    for account in [&ana, &ben] {
        assert_eq!(import(&delivery, account, &path, None).await.messages, 1);
        let again = import(&delivery, account, &path, None).await;
        assert_eq!((again.messages, again.present), (0, 1), "it is known by what was sent");
        assert_eq!(inbox(&delivery, account).await, [String::from_utf8_lossy(&mime).into_owned()]);
    }
}

#[tokio::test]
async fn mail_that_looks_like_a_stored_form_is_mail() {
    let (delivery, ana) = delivery().await;
    let header = FormHeader { form: Form::Rich, served_len: 7, digest: [0; 8] };
    let sent = header.before(b"Subject: x\r\n\r\nbody\r\n");
    let recipients = [delivery.resolve("ana@example.org").await.unwrap()];
    let delivered = delivery.deliver(sent.clone(), &recipients).await.remove(0).unwrap();
    assert_eq!(inbox(&delivery, &ana).await, [String::from_utf8_lossy(&sent).into_owned()]);
    let view = open(&delivery, &ana, "INBOX").await.view();
    assert_eq!(view.rows(&view.all()).next().unwrap().1.size() as usize, sent.len());
    let stored = delivery.store().engine().read_body(delivered.body, 0..u64::MAX).await.unwrap();
    assert_eq!(FormHeader::of(&stored).unwrap().form, Form::Plain);
    assert_eq!(crate::summarize_stored(&stored), crate::summarize(&sent));
}

#[tokio::test]
async fn a_conversion_that_gives_other_bytes_is_never_shown() {
    let (delivery, ana) = delivery().await;
    let rich = samples::mail(&samples::note());
    let stored = FormHeader { form: Form::Rich, served_len: 7, digest: [0; 8] }.before(&rich);
    delivery.mailboxes(&ana).await.unwrap();
    let future = FormHeader { form: Form::Unknown(9), served_len: 7, digest: [0; 8] }.before(&rich);
    let inbox = open(&delivery, &ana, "INBOX").await;
    for (bytes, is_superseded) in [(stored, true), (future, false)] {
        let body = delivery.store().new_body_id();
        let message =
            IncomingMessage { bytes, summary: Bytes::new(), body, flags: vec![], date: 1, saved: None };
        let appended = inbox.destination().append(vec![message]).await.unwrap();
        let error = inbox.read_body(appended.uids[0], body, 0..7).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Superseded(_)), is_superseded, "{error}");
        assert_eq!(error.is_damage(), !is_superseded, "{error}");
    }
    // The first one is a new message by now.
    let view = inbox.view();
    let uids: Vec<_> = view.rows(&view.all()).map(|(_, row)| row.uid().value()).collect();
    assert_eq!(uids, [2, 3]);
}

/// Conversions to MIME and to rich mail run on other threads.
#[tokio::test]
async fn a_conversion_at_delivery_is_its_sessions_cost() {
    let (delivery, _) = delivery().await;
    add_with(&delivery, "ben@example.org", Format::Rich).await;
    let recipients = [delivery.resolve("ben@example.org").await.unwrap()];
    let registry = Arc::new(Registry::default());
    for message in [Bytes::from(samples::mail(&samples::note())), message("plain")] {
        let session = async {
            posthaste_metrics::command("DATA", None);
            delivery.deliver(message, &recipients).await.remove(0).unwrap();
            posthaste_metrics::command_ended();
        };
        Metered::new(Arc::clone(&registry), "lmtp", session).await;
    }
    let commands = registry.snapshot().commands;
    let conversions: u64 = commands.iter().map(|(_, sums)| sums.get(Counter::Conversions)).sum();
    assert_eq!(conversions, 2);
}

/// A message that arrives is converted once: for its items, the search index and the first FETCH.
#[tokio::test]
async fn a_message_that_arrives_is_converted_once() {
    let (delivery, _) = delivery().await;
    add_with(&delivery, "ben@example.org", Format::Rich).await;
    let recipients = [
        delivery.resolve("ana@example.org").await.unwrap(),
        delivery.resolve("ben@example.org").await.unwrap(),
    ];
    let registry = Arc::new(Registry::default());
    for (number, message) in
        [samples::mail(&samples::note()).into(), message("plain")].into_iter().enumerate()
    {
        let session = async {
            posthaste_metrics::command("DATA", None);
            for delivered in delivery.deliver(message, &recipients).await {
                let delivered = delivered.unwrap();
                // As the search index reads it, and as FETCH does: whole and in pieces.
                let reader = Place::Mailbox(delivered.mailbox);
                let whole = delivery.store().read_body(reader, delivered.body, 0..u64::MAX).await.unwrap();
                let mailbox = delivery.store().open(delivered.mailbox).await.unwrap();
                let fetched = mailbox.read_body(delivered.uid, delivered.body, 0..u64::MAX).await.unwrap();
                let piece = mailbox.read_body(delivered.uid, delivered.body, 9..20).await.unwrap();
                assert!(fetched == whole && whole[9..20] == piece);
            }
            posthaste_metrics::command_ended();
        };
        Metered::new(Arc::clone(&registry), "lmtp", session).await;
        let commands = registry.snapshot().commands;
        let conversions: u64 = commands.iter().map(|(_, sums)| sums.get(Counter::Conversions)).sum();
        // The plain message's reference is the one to its rich form.
        assert_eq!(conversions, number as u64 + 1);
    }
}

/// The MIME of a rich message is compressed only if somebody stores it.
#[tokio::test]
async fn a_form_that_nobody_stores_is_not_compressed() {
    let options = DeliveryOptions {
        message_len_max: 1 << 20,
        compress: Compression::Zstd,
        ..DeliveryOptions::default()
    };
    let (delivery, _) = delivery_with(options).await;
    add_with(&delivery, "ben@example.org", Format::Mime).await;
    let both = [
        delivery.resolve("ana@example.org").await.unwrap(),
        delivery.resolve("ben@example.org").await.unwrap(),
    ];
    let rich = Bytes::from(samples::mail(&samples::note()));
    for (recipients, form) in [(&both[..1], None), (&both[..], Some(Form::Compressed))] {
        let whose = WorkFor::mail_to(recipients);
        let forms = delivery.forms(whose, rich.clone(), recipients, SummaryMemory::Counted).await.unwrap();
        assert_eq!(FormHeader::of(&forms.first.bytes).map(|header| header.form), form);
        assert_eq!(FormHeader::of(&forms.of(&both[0].account).bytes).unwrap().form, Form::Rich);
    }
}

/// The memory for a conversion is wanted only for mail that has a rich part.
#[tokio::test]
async fn ordinary_mail_waits_for_no_conversions() {
    let (delivery, _) = delivery().await;
    let recipients = [delivery.resolve("ana@example.org").await.unwrap()];
    let held = delivery.summaries().begin(Holder::Account([0; 16]));
    held.grow_to_within(delivery.summaries().largest(), Duration::ZERO).await.unwrap();
    held.complete();
    let text = b"Subject: x\r\n\r\nsee winmail.dat, application/ms-tnef and log.data\r\n";
    let (whose, text) = (WorkFor::mail_to(&recipients), Bytes::from_static(text));
    let delivered = delivery.forms(whose, text, &recipients, SummaryMemory::SentOn(1));
    assert!(futures_util::FutureExt::now_or_never(delivered).is_some(), "it does not wait");
}

/// The parts of a message of 256 KiB that has a mark of rich mail took 3 ms.
#[tokio::test]
async fn parts_are_looked_at_on_another_thread() {
    let (delivery, _) = delivery().await;
    for (mark, is_long) in [("", false), ("x-tnef", true)] {
        let message = Bytes::from(format!("Subject: {mark}\r\n\r\n{}", "x\r\n".repeat(40_000)));
        let given = given_to_compute_threads();
        let may_be = delivery.may_be_rich(WorkFor::SERVER, &message).await.unwrap();
        assert!(is_long || !may_be);
        assert_eq!(given_to_compute_threads() - given, usize::from(is_long), "{mark:?}");
    }
}
