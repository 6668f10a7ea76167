//! Rich mail whose items are made after delivery, on the in-memory engine.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_directory::{Account, AccountChange, Format, Precompute};
use posthaste_mail_model::{Flag, Keyword, NumSet};
use posthaste_net::ByteBudget;
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{IncomingMessage, MemoryEngine, Place, StoreError, View};
use posthaste_tnef::{Outcome, convert, samples};

use crate::body_change::LossPolicy;
use crate::conversions::{CONVERSION, unconverted};
use crate::convert::{ConvertMode, ConvertOptions, ConvertReport, Items, Uids};
use crate::shared_bodies::SharedBodies;
use crate::tests::{add, delivery_on, import, message, open};
use crate::{Conversions, Delivery, DeliveryOptions, Renewals};

/// Mail that is plain, rich, rich and signed, rich and damaged, and rich again.
fn mail() -> Vec<Vec<u8>> {
    let note = samples::mail(&samples::note());
    let signed = String::from_utf8(note.clone()).unwrap().replace("multipart/mixed", "multipart/signed");
    let mut damaged = note.clone();
    let at = memchr::memmem::find(&damaged, b"eJ8+").unwrap();
    damaged[at] = b'X';
    let meeting = samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request"));
    vec![message("plain").to_vec(), note, signed.into_bytes(), damaged, meeting]
}

async fn deliver(delivery: &Delivery, to: &[&str], message: &[u8]) {
    let mut recipients = Vec::new();
    for name in to {
        recipients.push(delivery.resolve(name).await.unwrap());
    }
    for one in delivery.deliver(Bytes::copy_from_slice(message), &recipients).await {
        one.unwrap();
    }
}

fn options(precompute: Precompute) -> DeliveryOptions {
    DeliveryOptions { message_len_max: 1 << 20, precompute, ..DeliveryOptions::default() }
}

/// A server with this setting and this mail, of Ana.
async fn with(precompute: Precompute, mail: &[Vec<u8>]) -> (Delivery, Account) {
    let (delivery, ana) = delivery_on(Arc::new(MemoryEngine::new()), options(precompute)).await;
    for message in mail {
        deliver(&delivery, &[&ana.name], message).await;
    }
    (delivery, ana)
}

/// The stored summaries of a mailbox; an empty one if it is not made yet.
async fn stored(delivery: &Delivery, account: &Account) -> Vec<Vec<u8>> {
    let inbox = open(delivery, account, "INBOX").await;
    let mut summaries = Vec::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        summaries.push(stored.summary.to_vec());
        ControlFlow::Continue(())
    };
    inbox.summaries(&NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    summaries
}

/// The items that readers get: sizes, summaries and bytes.
async fn shown(delivery: &Delivery, account: &Account) -> Vec<(u32, Vec<u8>, Bytes)> {
    let inbox = open(delivery, account, "INBOX").await;
    let view = inbox.current().await.unwrap();
    let sized = inbox.sized(&view, &view.all()).await.unwrap();
    assert_eq!(sized.counts().without_items(), 0);
    let mut found = Vec::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        found.push((stored.uid, stored.body, stored.summary.to_vec()));
        ControlFlow::Continue(())
    };
    let all = NumSet::range(1, u32::MAX);
    let reader = Place::Mailbox(inbox.id());
    let made = delivery.store().made_summaries(reader, inbox.id(), &all, &mut visit).await;
    made.unwrap().refuse().unwrap();
    let mut shown = Vec::new();
    for ((uid, body, summary), (_, row)) in found.into_iter().zip(sized.rows(&sized.all())) {
        let bytes = inbox.read_body(uid, body, 0..u64::MAX).await.unwrap();
        assert_eq!((row.uid(), row.size() as usize), (uid, bytes.len()));
        assert_eq!(summary, crate::summarize(&bytes));
        shown.push((row.size(), summary, bytes));
    }
    assert!(delivery.store().engine().check(&mut |_| {}).await.unwrap().faults.is_empty());
    shown
}

#[tokio::test]
async fn items_are_made_when_the_setting_says() {
    let mail = mail();
    let (eager, ana) = with(Precompute::Delivery, &mail).await;
    let expected = shown(&eager, &ana).await;
    assert_eq!(open(&eager, &ana, "INBOX").await.view().counts().without_items(), 0);
    for precompute in [Precompute::FirstFetch, Precompute::Never] {
        let (lazy, ana) = with(precompute, &mail).await;
        let inbox = open(&lazy, &ana, "INBOX").await;
        let before = inbox.view();
        let empty = |summaries: Vec<Vec<u8>>| summaries.iter().map(Vec::is_empty).collect::<Vec<_>>();
        assert_eq!(empty(stored(&lazy, &ana).await), [false, true, true, true, true]);
        assert_eq!(before.counts().without_items(), 4);
        // The octets that were sent count for the quota, before and after.
        let octets: usize = mail.iter().map(Vec::len).sum();
        assert_eq!(lazy.usage(ana.id).await.unwrap().bytes, octets as u64);
        for _ in 0..2 {
            assert!(shown(&lazy, &ana).await == expected, "{precompute:?}");
            let is_kept = precompute == Precompute::FirstFetch;
            let expected = if is_kept { [false; 5] } else { [false, true, true, true, true] };
            assert_eq!(empty(stored(&lazy, &ana).await), expected);
        }
        let after = inbox.current().await.unwrap();
        assert_eq!((after.modseq(), after.head()), (before.modseq(), before.head()));
        assert_eq!(lazy.usage(ana.id).await.unwrap().bytes, octets as u64);
    }
}

/// A message has its items if one of its recipients wants it as MIME: it was converted for that.
#[tokio::test]
async fn messages_converted_at_delivery_have_items() {
    let mail = mail();
    let (delivery, ana) = with(Precompute::Never, &[]).await;
    let change = |format| AccountChange { format: Some(Some(format)), ..AccountChange::default() };
    for (name, format) in [("ben@example.org", Format::Mime), ("cyd@example.org", Format::Rich)] {
        add(&delivery, name).await;
        delivery.directory().set(name, change(format)).await.unwrap();
    }
    deliver(&delivery, &["ana@example.org", "cyd@example.org"], &mail[1]).await;
    deliver(&delivery, &["ana@example.org", "ben@example.org"], &mail[1]).await;
    let cyd = delivery.resolve("cyd@example.org").await.unwrap().account;
    deliver(&delivery, &["cyd@example.org"], &mail[0]).await;
    let empty = |summaries: Vec<Vec<u8>>| summaries.iter().map(Vec::is_empty).collect::<Vec<_>>();
    assert_eq!(empty(stored(&delivery, &ana).await), [true, false]);
    // Mail that came as MIME is not converted to make its items.
    assert_eq!(empty(stored(&delivery, &cyd).await), [true, false]);
    let (of_ana, of_cyd) = (shown(&delivery, &ana).await, shown(&delivery, &cyd).await);
    assert!(of_ana[0] == of_ana[1] && of_ana[0] == of_cyd[0]);
}

#[tokio::test]
async fn an_import_in_a_hurry_leaves_items_for_later() {
    let (delivery, ana) = with(Precompute::FirstFetch, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rich.eml");
    std::fs::write(&path, &mail()[1]).unwrap();
    assert_eq!(import(&delivery, &ana, &path, None).await.messages, 1);
    assert_eq!(import(&delivery, &ana, &path, None).await.present, 1);
    assert_eq!(stored(&delivery, &ana).await, [b""]);
    let Ok(Outcome::Converted(mime)) = convert(&mail()[1]) else { panic!("the sample is rich") };
    assert_eq!(shown(&delivery, &ana).await[0].2, mime);
}

async fn run(delivery: &Delivery, account: &Account, options: ConvertOptions) -> ConvertReport {
    let (mailbox, shared) = (open(delivery, account, "INBOX").await, SharedBodies::default());
    let mut converter = delivery.converter(account, mailbox, options, &shared).await.unwrap();
    while converter.advance().await.unwrap() {}
    assert!(delivery.store().engine().check(&mut |_| {}).await.unwrap().faults.is_empty());
    *converter.report()
}

#[tokio::test]
async fn missing_items_are_made_once_and_kept() {
    let mail = mail();
    let (eager, ana) = with(Precompute::Delivery, &mail).await;
    let expected = shown(&eager, &ana).await;
    // Kept, although the server keeps none for its readers.
    let (delivery, ana) = with(Precompute::Never, &mail).await;
    let (mode, loss, uids) = (ConvertMode::DryRun, LossPolicy::Refuse, Uids::Keep);
    let make = ConvertOptions { to: None, items: Items::Make, mode, loss, uids };
    let dry = run(&delivery, &ana, make).await;
    assert_eq!(stored(&delivery, &ana).await[1], b"");
    let modseq = open(&delivery, &ana, "INBOX").await.view().modseq();
    let report = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::Apply, ..make }).await;
    assert_eq!((dry, report.examined, report.items, report.failed), (report, 5, 4, 0));
    let summaries = stored(&delivery, &ana).await;
    assert!(summaries.iter().eq(expected.iter().map(|(_, summary, _)| summary)));
    assert_eq!(report.items_bytes, summaries[1..].iter().map(|summary| summary.len() as u64).sum::<u64>());
    let again = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::Apply, ..make }).await;
    assert_eq!((again.examined, again.items), (5, 0));
    assert!(shown(&delivery, &ana).await == expected);
    assert_eq!(open(&delivery, &ana, "INBOX").await.current().await.unwrap().modseq(), modseq);
}

/// A message without items takes another form, and clients see the same before and after.
#[tokio::test]
async fn mail_without_items_takes_the_form_of_another_format() {
    let mail = mail();
    let (eager, ana) = with(Precompute::Delivery, &mail).await;
    let expected = shown(&eager, &ana).await;
    for items in [Items::Leave, Items::Make] {
        let (delivery, ana) = with(Precompute::Never, &mail).await;
        let change = AccountChange { keep_original: Some(true), ..AccountChange::default() };
        let ana = delivery.directory().set(&ana.name, change).await.unwrap();
        for (to, converted) in [(Format::Keep, 0), (Format::Mime, 2), (Format::Rich, 3), (Format::Mime, 3)] {
            let (mode, loss, uids) = (ConvertMode::Apply, LossPolicy::Refuse, Uids::Keep);
            let options = ConvertOptions { to: Some(to), items, mode, loss, uids };
            let report = run(&delivery, &ana, options).await;
            let counts = (report.converted, report.renumbered, report.would_lose, report.failed);
            assert_eq!(counts, (converted, 0, 0, 0), "{items:?} {to:?}");
            assert!(shown(&delivery, &ana).await == expected, "{items:?} {to:?}");
        }
    }
}

/// The bytes that clients see of a message never change: neither if a setting does, nor with a
/// program that converts otherwise.
#[tokio::test]
async fn the_bytes_of_a_later_conversion_are_decided_at_delivery() {
    let sent = &mail()[1];
    let Ok(Outcome::Converted(mime)) = convert(sent) else { panic!("the sample is rich") };
    let (delivery, ana) = with(Precompute::FirstFetch, &[]).await;
    delivery.mailboxes(&ana).await.unwrap();
    let inbox = open(&delivery, &ana, "INBOX").await;
    let limits = [mime.len() as u64, mime.len() as u64 - 1];
    let bodies = limits.map(|limit| unconverted(sent, limit).unwrap());
    let mut other = FormHeader::of(&bodies[0]).unwrap();
    other.digest[4..].copy_from_slice(&(CONVERSION + 1).to_le_bytes());
    assert_eq!(other.form, Form::Unconverted);
    let bodies = bodies.into_iter().chain([other.before(sent)]);
    let mut read = Vec::new();
    for bytes in bodies {
        let body = delivery.store().new_body_id();
        let message =
            IncomingMessage { bytes, summary: Bytes::new(), body, flags: vec![], date: 1, saved: None };
        let uid = inbox.destination().append(vec![message]).await.unwrap().uids[0];
        read.push(inbox.read_body(uid, body, 0..u64::MAX).await);
    }
    assert_eq!(
        (read[0].as_ref().unwrap(), read[1].as_ref().unwrap()),
        (&Bytes::from(mime), &Bytes::from(sent.clone()))
    );
    assert!(matches!(read[2], Err(StoreError::Superseded(_))));
    // It is a new message by now, as it would be delivered today.
    let uids = |view: &View| view.rows(&view.all()).map(|(_, row)| row.uid().value()).collect::<Vec<_>>();
    assert_eq!(uids(&inbox.view()), [1, 2, 4]);
    let shown = shown(&delivery, &ana).await;
    assert_eq!((&shown[2].2, &shown[2].1), (read[0].as_ref().unwrap(), &shown[0].1));
    // So `convert` finds nothing to do.
    let (mode, loss, uids) = (ConvertMode::Apply, LossPolicy::Refuse, Uids::Keep);
    let options = ConvertOptions { to: Some(Format::Keep), items: Items::Leave, mode, loss, uids };
    let report = run(&delivery, &ana, options).await;
    assert_eq!((report.examined, report.renumbered, report.failed), (3, 0, 0));
}

/// A body that a program with another number of the conversion has stored.
fn of_another_program(sent: &[u8]) -> Bytes {
    let stored = unconverted(sent, 1 << 20).unwrap();
    let mut header = FormHeader::of(&stored).unwrap();
    header.digest[4..].copy_from_slice(&(CONVERSION - 1).to_le_bytes());
    header.before(sent)
}

/// `convert --items` gives a superseded message a new UID. A dry run reports it and changes
/// nothing.
#[tokio::test]
async fn a_dry_run_leaves_a_superseded_message_alone() {
    let (delivery, ana) = with(Precompute::FirstFetch, &[]).await;
    delivery.mailboxes(&ana).await.unwrap();
    let inbox = open(&delivery, &ana, "INBOX").await;
    let (bytes, body) = (of_another_program(&mail()[1]), delivery.store().new_body_id());
    let message = IncomingMessage { bytes, summary: Bytes::new(), body, flags: vec![], date: 1, saved: None };
    inbox.destination().append(vec![message]).await.unwrap();
    let uids = |view: &View| view.rows(&view.all()).map(|(_, row)| row.uid().value()).collect::<Vec<_>>();
    let (loss, uids_are) = (LossPolicy::Refuse, Uids::Keep);
    let options = |mode| ConvertOptions { to: None, items: Items::Make, mode, loss, uids: uids_are };
    let modseq = inbox.view().modseq();
    let would = run(&delivery, &ana, options(ConvertMode::DryRun)).await;
    assert_eq!((uids(&inbox.view()), inbox.view().modseq()), (vec![1], modseq));
    let did = run(&delivery, &ana, options(ConvertMode::Apply)).await;
    assert_eq!(uids(&inbox.view()), [2]);
    for report in [would, did] {
        assert_eq!((report.examined, report.renumbered, report.vanished, report.failed), (1, 1, 0, 0));
    }
}

/// A server with a new conversion gives new UIDs to what its readers would find superseded: once,
/// and to nothing else.
#[tokio::test]
async fn messages_of_another_conversion_get_new_uids_in_the_background() {
    let (delivery, ana) = with(Precompute::FirstFetch, &mail()[..2]).await;
    let inbox = open(&delivery, &ana, "INBOX").await;
    let flags = vec![Flag::Seen, Flag::Keyword(Keyword::new("$Forwarded").unwrap())];
    for sent in &mail()[1..] {
        let (bytes, body) = (of_another_program(sent), delivery.store().new_body_id());
        let summary = Bytes::new();
        let message = IncomingMessage { bytes, summary, body, flags: flags.clone(), date: 7, saved: Some(9) };
        inbox.destination().append(vec![message]).await.unwrap();
    }
    let renewals = Renewals::begin(&delivery, &Conversions::new(ByteBudget::new(256 << 20)));
    assert_eq!(renewals.run().await.unwrap(), 4);
    let view = inbox.view();
    let rows: Vec<_> = view.rows(&view.all()).map(|(_, row)| *row).collect();
    assert_eq!(rows.iter().map(|row| row.uid().value()).collect::<Vec<_>>(), [1, 2, 7, 8, 9, 10]);
    for row in &rows[2..] {
        let kept: Vec<Flag> = view.head().keywords.flags_of(row.flags()).collect();
        assert_eq!((kept, row.date()), (flags.clone(), 7));
    }
    let (eager, eager_ana) = with(Precompute::Delivery, &mail()).await;
    let (expected, shown) = (shown(&eager, &eager_ana).await, shown(&delivery, &ana).await);
    assert!(shown[..2] == expected[..2] && shown[2..] == expected[1..]);
    // It is done for this conversion.
    assert_eq!(renewals.run().await.unwrap(), 0);
    assert!(inbox.view().modseq() == view.modseq());
}
