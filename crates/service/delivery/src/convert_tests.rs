//! Stored mail from each form to each other, on the in-memory engine.

use std::collections::BTreeMap;

use posthaste_directory::{AccountChange, Before, Keeping, NewValue, OnConflict, Scope};
use posthaste_mail_model::{AccountId, Flag, Id, MailboxName};
use posthaste_net::ByteBudget;
use posthaste_store::compressed::Compression;
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{FlagChange, IncomingMessage, MemoryEngine};
use posthaste_testkit::FaultyDirectory;
use posthaste_tnef::{Outcome, convert, samples};

use super::*;
use crate::DeliveryOptions;
use crate::conversions::{header_of, unconverted, with_original};
use crate::replace::{MessageLocation, replacement_id};
use crate::rich::{Shape, as_mime_blocking};
use crate::tests::{content, delivery, delivery_on, open};

const PLAIN: &[u8] = b"Subject: plain\r\n\r\nbody\r\n";
const SIGNED: &[u8] =
    b"Subject: signed\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n";

/// Delivers mail that is plain, rich, and signed, in a format.
pub(super) async fn deliver(
    delivery: &Delivery,
    account: &Account,
    (format, keep_original): (Format, bool),
) -> Account {
    let change = AccountChange {
        format: Some(Some(format)),
        keep_original: Some(keep_original),
        ..AccountChange::default()
    };
    let account = delivery.directory().set(&account.name, change).await.unwrap();
    let recipients = [delivery.resolve(&account.name).await.unwrap()];
    for message in [PLAIN.to_vec(), samples::mail(&samples::note()), SIGNED.to_vec()] {
        delivery.deliver(Bytes::from(message), &recipients).await.remove(0).unwrap();
    }
    account
}

pub(super) async fn run(delivery: &Delivery, account: &Account, options: ConvertOptions) -> ConvertReport {
    let mailbox = open(delivery, account, "INBOX").await;
    let shared = SharedBodies::default();
    let mut converter = delivery.converter(account, mailbox, options, &shared).await.unwrap();
    while converter.advance().await.unwrap() {}
    assert!(delivery.store().engine().check(&mut |_| {}).await.unwrap().faults.is_empty());
    *converter.report()
}

pub(super) const fn to(to: Format) -> ConvertOptions {
    let (items, mode, loss, uids) = (Items::Leave, ConvertMode::Apply, LossPolicy::Refuse, Uids::Keep);
    ConvertOptions { to: Some(to), items, mode, loss, uids }
}

/// The stored forms of the messages, in the order of their UIDs.
pub(super) async fn forms(delivery: &Delivery, account: &Account) -> Vec<Form> {
    let mailbox = open(delivery, account, "INBOX").await;
    let mut bodies = Vec::new();
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        bodies.push(stored.body);
        ControlFlow::Continue(())
    };
    mailbox.summaries(&NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    let mut forms = Vec::new();
    for body in bodies {
        let stored = delivery.store().engine().read_body(body, 0..u64::MAX).await.unwrap();
        forms.push(FormHeader::of(&stored).map_or(Form::Plain, |header| header.form));
    }
    forms
}

#[tokio::test]
async fn every_format_stores_its_form_and_shows_the_same() {
    use Form::{Enriched, Plain, Rich, WithOriginal};
    let mut shown = Vec::new();
    for (format, expected) in [
        ((Format::Keep, false), [Plain, Rich, Plain]),
        ((Format::Mime, false), [Plain, Plain, Plain]),
        ((Format::Mime, true), [Plain, WithOriginal, Plain]),
        ((Format::Rich, false), [Enriched, Rich, Plain]),
    ] {
        let (delivery, ana) = delivery().await;
        let ana = deliver(&delivery, &ana, format).await;
        assert_eq!(forms(&delivery, &ana).await, expected, "{format:?}");
        let texts = content(&delivery, &ana, "INBOX").await.into_iter().map(|(_, _, text)| text);
        shown.push(texts.collect::<Vec<_>>());
    }
    assert!(shown.iter().all(|texts| *texts == shown[0]));
    assert_eq!((shown[0][0].as_bytes(), shown[0][2].as_bytes()), (PLAIN, SIGNED));
}

#[tokio::test]
async fn there_and_back_gives_the_same_bytes_and_keeps_uids() {
    use Form::{Enriched, Plain, Rich, WithOriginal};
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Mime, true)).await;
    let before = content(&delivery, &ana, "INBOX").await;
    let view = open(&delivery, &ana, "INBOX").await.view();
    for (format, expected, converted) in [
        (Format::Rich, [Enriched, Rich, Plain], 2),
        (Format::Rich, [Enriched, Rich, Plain], 0),
        (Format::Mime, [Plain, WithOriginal, Plain], 2),
        (Format::Keep, [Plain, Rich, Plain], 1),
        (Format::Rich, [Enriched, Rich, Plain], 1),
        (Format::Keep, [Plain, Rich, Plain], 1),
    ] {
        let dry = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..to(format) }).await;
        let report = run(&delivery, &ana, to(format)).await;
        assert_eq!((report.examined, report.converted, report.failed), (3, converted, 0), "{format:?}");
        assert_eq!(dry, report, "a dry run says what happens");
        assert_eq!(forms(&delivery, &ana).await, expected);
        assert_eq!(content(&delivery, &ana, "INBOX").await, before);
    }
    let after = open(&delivery, &ana, "INBOX").await.view();
    assert_eq!(
        (after.uids_of_seqs(&after.all()), after.modseq()),
        (view.uids_of_seqs(&view.all()), view.modseq())
    );
}

/// Rich mail of a program before these forms: it is stored, summarised and seen as sent.
async fn append_as_before(delivery: &Delivery, mailbox: &Mailbox, flags: Vec<Flag>) {
    let sent = Bytes::from(samples::mail(&samples::note()));
    let message = delivery.incoming(sent, flags, Some(1_700_000_000)).await.unwrap();
    mailbox.destination().append(vec![message]).await.unwrap();
}

#[tokio::test]
async fn a_message_that_clients_would_see_otherwise_becomes_a_new_one() {
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![Flag::Seen, Flag::Flagged]).await;
    let mime = content(&delivery, &ana, "INBOX").await[1].2.clone();
    let dry = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..to(Format::Keep) }).await;
    let report = run(&delivery, &ana, to(Format::Keep)).await;
    assert_eq!((report.examined, report.converted, report.renumbered), (4, 0, 1));
    assert_eq!(dry, report);
    let view = mailbox.current().await.unwrap();
    assert_eq!(view.uids_of_seqs(&view.all()).to_string(), "1:3,5");
    let all = content(&delivery, &ana, "INBOX").await;
    assert_eq!(all[3], (1_700_000_000, "\\Flagged \\Seen".to_owned(), mime));
    assert_eq!(run(&delivery, &ana, to(Format::Keep)).await.renumbered, 0);
}

/// The message that an interrupted run had added in place of one of [`append_as_before`]. Answers
/// with the bytes that clients see.
async fn add_replacement(delivery: &Delivery, ana: &Account, uid: Uid) -> Bytes {
    let mailbox = open(delivery, ana, "INBOX").await;
    let body = mailbox.body_of(uid).await.unwrap().unwrap();
    let place = MessageLocation { account: ana.id, mailbox: mailbox.id(), uid };
    let sent = Bytes::from(samples::mail(&samples::note()));
    let rich = as_mime_blocking(&ana.name, &sent, 1 << 20).unwrap();
    let added = IncomingMessage {
        bytes: rich.stored(Shape::AsSent, &sent).unwrap(),
        summary: crate::summarize(&rich.mime).into(),
        body: replacement_id(body, place, Shape::AsSent),
        flags: vec![],
        date: 1_700_000_000,
        saved: None,
    };
    mailbox.destination().append(vec![added]).await.unwrap();
    rich.mime
}

#[tokio::test]
async fn a_run_that_was_cut_off_between_adding_and_expunging_goes_on() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![]).await;
    // The run had added the new message. The old one is there, too, and got a flag since.
    let mime = add_replacement(&delivery, &ana, Uid::MIN).await;
    mailbox.store_flags(&NumSet::range(1, 1), FlagChange::Add, &[Flag::Answered], None).await.unwrap();
    let report = run(&delivery, &ana, to(Format::Keep)).await;
    assert_eq!((report.examined, report.renumbered), (2, 1));
    let all = content(&delivery, &ana, "INBOX").await;
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].1.as_str(), all[0].2.as_bytes()), ("\\Answered", &mime[..]));
}

/// The message that an earlier run added is expunged after this run has read the bodies of the
/// mailbox. The old message is there, so it is added again.
#[tokio::test]
async fn a_message_that_was_added_and_expunged_is_added_again() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    let uids = [1, 2].map(|uid| Uid::new(uid).unwrap());
    append_as_before(&delivery, &mailbox, vec![]).await;
    append_as_before(&delivery, &mailbox, vec![Flag::Flagged]).await;
    for uid in uids {
        add_replacement(&delivery, &ana, uid).await;
    }
    let shared = SharedBodies::default();
    let mut converter =
        delivery.converter(&ana, Arc::clone(&mailbox), to(Format::Keep), &shared).await.unwrap();
    assert!(converter.advance().await.unwrap());
    mailbox.remove(&NumSet::range(4, 4)).await.unwrap();
    while converter.advance().await.unwrap() {}
    let view = mailbox.current().await.unwrap();
    assert_eq!(view.uids_of_seqs(&view.all()).to_string(), "3,5");
    let all = content(&delivery, &ana, "INBOX").await;
    assert_eq!(all[1].1, "\\Flagged");
    assert_eq!(all[0].2, all[1].2);
}

/// The same between the flags of the new message and the removal of the old one.
#[tokio::test]
async fn the_old_message_stays_until_the_new_one_is_there() {
    let faulty = Arc::new(FaultyDirectory::new(Arc::new(MemoryEngine::new())));
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_on(Arc::clone(&faulty) as _, options).await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![Flag::Seen]).await;
    let keeping = Keeping { keeper: ana.id, owner: ana.id, mailbox: mailbox.id() };
    set(&delivery, keeping, 1, ("/comment", b"mine")).await;
    let other = Arc::clone(&mailbox);
    faulty.before_change("annotate/", async move {
        other.remove(&NumSet::range(2, 2)).await.unwrap();
    });
    assert_eq!(run(&delivery, &ana, to(Format::Keep)).await.renumbered, 1);
    assert!(faulty.has_happened());
    let view = mailbox.current().await.unwrap();
    assert_eq!(view.uids_of_seqs(&view.all()).to_string(), "3");
    assert_eq!(content(&delivery, &ana, "INBOX").await[0].1, "\\Seen");
    let all = delivery.directory().message_annotations().all(keeping).await.unwrap();
    assert_eq!(all[&3].get(Scope::Private, "/comment").unwrap(), &b"mine"[..]);
}

/// Also where it was going to another format: what it had added is converted in its turn.
#[tokio::test]
async fn a_run_to_another_format_finds_what_was_added() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![]).await;
    add_replacement(&delivery, &ana, Uid::MIN).await;
    let report = run(&delivery, &ana, ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) }).await;
    assert_eq!((report.examined, report.renumbered, report.converted), (2, 1, 1));
    assert_eq!(forms(&delivery, &ana).await, [Form::Plain]);
}

/// A copy within the folder has the same body.
#[tokio::test]
async fn copies_within_a_folder_are_both_converted() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![Flag::Seen]).await;
    mailbox.copy_from(&mailbox, &NumSet::range(1, 1)).await.unwrap();
    mailbox.store_flags(&NumSet::range(2, 2), FlagChange::Replace, &[Flag::Flagged], None).await.unwrap();
    let report = run(&delivery, &ana, to(Format::Keep)).await;
    assert_eq!((report.examined, report.renumbered, report.failed), (2, 2, 0));
    let flags: Vec<_> =
        content(&delivery, &ana, "INBOX").await.into_iter().map(|(_, flags, _)| flags).collect();
    assert_eq!(flags, ["\\Seen", "\\Flagged"]);
    assert_eq!(forms(&delivery, &ana).await, [Form::Rich, Form::Rich]);
}

/// A body whose conversion gave other bytes in an earlier program, before somebody reads it.
#[tokio::test]
async fn mail_that_an_earlier_program_converted_otherwise_becomes_a_new_message() {
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let mailbox = open(&delivery, &ana, "INBOX").await;
    let mime = content(&delivery, &ana, "INBOX").await[1].2.clone();
    let sent = samples::mail(&samples::note());
    let header = header_of(Form::Rich, b"Subject: an earlier conversion\r\n\r\n").unwrap();
    let message = IncomingMessage {
        bytes: header.before(&sent),
        summary: crate::summarize(b"Subject: an earlier conversion\r\n\r\n").into(),
        body: delivery.store().new_body_id(),
        flags: vec![Flag::Answered],
        date: 1_700_000_000,
        saved: None,
    };
    mailbox.destination().append(vec![message]).await.unwrap();
    let view = mailbox.current().await.unwrap();
    assert_eq!(view.exists(), 4);
    // Without --lossy: its original stays.
    let report = run(&delivery, &ana, to(Format::Mime)).await;
    assert_eq!((report.renumbered, report.would_lose, report.failed), (1, 1, 0));
    let all = content(&delivery, &ana, "INBOX").await;
    assert_eq!(all[3], (1_700_000_000, "\\Answered".to_owned(), mime));
    assert_eq!(forms(&delivery, &ana).await[3], Form::Rich);
}

/// MIME beside its original is read as it is, whatever the conversion gives now. The original
/// alone is not.
#[tokio::test]
async fn an_original_that_is_converted_otherwise_now_becomes_a_new_message() {
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Mime, true)).await;
    let mailbox = open(&delivery, &ana, "INBOX").await;
    let mime = content(&delivery, &ana, "INBOX").await[1].2.clone();
    let earlier = &b"Subject: an earlier conversion\r\n\r\n"[..];
    let message = IncomingMessage {
        bytes: with_original(earlier, &samples::mail(&samples::note())).unwrap(),
        summary: crate::summarize(earlier).into(),
        body: delivery.store().new_body_id(),
        flags: vec![Flag::Answered],
        date: 1_700_000_000,
        saved: None,
    };
    mailbox.destination().append(vec![message]).await.unwrap();
    let report = run(&delivery, &ana, to(Format::Mime)).await;
    assert_eq!((report.converted, report.renumbered, report.failed), (0, 0, 0));
    assert_eq!(content(&delivery, &ana, "INBOX").await[3].2.as_bytes(), earlier);
    let dry = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..to(Format::Keep) }).await;
    let report = run(&delivery, &ana, to(Format::Keep)).await;
    assert_eq!((report.converted, report.renumbered, report.failed), (1, 1, 0));
    assert_eq!(dry, report, "a dry run says what happens");
    let all = content(&delivery, &ana, "INBOX").await;
    assert_eq!(all[3], (1_700_000_000, "\\Answered".to_owned(), mime));
    assert_eq!(forms(&delivery, &ana).await, [Form::Plain, Form::Rich, Form::Plain, Form::Rich]);
}

/// Its owner's, and those of a user who reads the mailbox.
#[tokio::test]
async fn a_new_message_has_the_annotations_of_the_old_one() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![]).await;
    let directory = delivery.directory();
    let own = Keeping { keeper: ana.id, owner: ana.id, mailbox: mailbox.id() };
    let reader = Keeping { keeper: AccountId(Id::new(7, 7)), ..own };
    let value = |text| NewValue {
        scope: Scope::Private,
        entry: "/comment".to_owned(),
        value: Some(Bytes::from_static(text)),
    };
    for (keeping, text) in [(own, &b"mine"[..]), (reader, b"reader's")] {
        let values = vec![(1, [value(text)].into())];
        let before = Before::of_new_messages(keeping);
        directory.message_annotations().set(&before, values, OnConflict::Follow).await.unwrap();
    }
    let modseq = mailbox.current().await.unwrap().modseq();
    assert_eq!(run(&delivery, &ana, to(Format::Keep)).await.renumbered, 1);
    for (keeping, text) in [(own, "mine"), (reader, "reader's")] {
        let all = directory.message_annotations().all(keeping).await.unwrap();
        let texts = all.iter().map(|(uid, all)| (*uid, all.get(Scope::Private, "/comment").unwrap().clone()));
        assert_eq!(texts.collect::<BTreeMap<_, _>>(), BTreeMap::from([(2, Bytes::from(text))]));
    }
    // Sessions see that they have changed.
    let view = mailbox.current().await.unwrap();
    assert!(view.rows(&view.all()).all(|(_, row)| row.modseq() > modseq.next()));
}

/// Annotates a message as a STORE does.
async fn set(delivery: &Delivery, keeping: Keeping, uid: u32, (entry, text): (&str, &'static [u8])) {
    let value = Some(Bytes::from_static(text));
    let value = NewValue { scope: Scope::Private, entry: entry.to_owned(), value };
    let (before, change) = (Before::of_new_messages(keeping), vec![(uid, [value].into())]);
    delivery.directory().message_annotations().set(&before, change, OnConflict::Follow).await.unwrap();
    let mailbox = delivery.store().open(keeping.mailbox).await.unwrap();
    mailbox.touch(&NumSet::range(uid, uid), None).await.unwrap();
}

/// Users annotate both messages while the new one gets its annotations.
#[tokio::test]
async fn annotations_that_come_between_are_not_lost() {
    let faulty = Arc::new(FaultyDirectory::new(Arc::new(MemoryEngine::new())));
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_on(Arc::clone(&faulty) as _, options).await;
    delivery.mailboxes(&ana).await.unwrap();
    let mailbox = open(&delivery, &ana, "INBOX").await;
    append_as_before(&delivery, &mailbox, vec![]).await;
    let keeping = Keeping { keeper: ana.id, owner: ana.id, mailbox: mailbox.id() };
    set(&delivery, keeping, 1, ("/comment", b"before")).await;
    let users = delivery.clone();
    // Before the copy is written: it was read by then.
    faulty.before_change("annotate/", async move {
        set(&users, keeping, 1, ("/comment", b"since")).await;
        set(&users, keeping, 2, ("/other", b"of the new one")).await;
    });
    assert_eq!(run(&delivery, &ana, to(Format::Keep)).await.renumbered, 1);
    assert!(faulty.has_happened());
    let all = delivery.directory().message_annotations().all(keeping).await.unwrap();
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), [2]);
    let values: Vec<_> = all[&2].iter().map(|(_, entry, value)| (entry, &value[..])).collect();
    assert_eq!(values, [("/comment", &b"since"[..]), ("/other", b"of the new one")]);
}

#[tokio::test]
async fn a_sample_is_examined_alone() {
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let mailbox = open(&delivery, &ana, "INBOX").await;
    let options = ConvertOptions { mode: ConvertMode::DryRun, ..to(Format::Mime) };
    let (shared, mut sample) = (SharedBodies::default(), Sample::new(2, 3));
    let converter = delivery.converter(&ana, mailbox, options, &shared).await.unwrap();
    let mut converter = converter.sampled(&mut sample);
    while converter.advance().await.unwrap() {}
    assert_eq!(converter.report().examined, 2);
}

/// A client expunges a message that was looked up, and deletes the mailbox after that.
#[tokio::test]
async fn a_message_expunged_meanwhile_is_no_failure() {
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let inbox = open(&delivery, &ana, "INBOX").await;
    let mailbox = open(&delivery, &ana, "Archive").await;
    append_as_before(&delivery, &mailbox, vec![]).await;
    mailbox.copy_from(&inbox, &NumSet::range(1, 3)).await.unwrap();
    append_as_before(&delivery, &mailbox, vec![]).await;
    append_as_before(&delivery, &mailbox, vec![]).await;
    let shared = SharedBodies::default();
    let options = ConvertOptions { items: Items::Make, ..to(Format::Keep) };
    let mut converter = delivery.converter(&ana, Arc::clone(&mailbox), options, &shared).await.unwrap();
    assert!(converter.advance().await.unwrap());
    mailbox.remove(&NumSet::range(5, 5)).await.unwrap();
    for _ in 0..4 {
        assert!(converter.advance().await.unwrap());
    }
    let report = *converter.report();
    assert_eq!((report.examined, report.renumbered, report.vanished, report.failed), (5, 1, 1, 0));
    delivery.store().delete(ana.id, &MailboxName::new("Archive").unwrap()).await.unwrap();
    let ended = converter.advance().await;
    assert!(matches!(ended, Err(DeliveryError::Store(StoreError::NoMailbox(_)))), "{ended:?}");
    assert_eq!(converter.report().failed, 0);
}

/// An engine like that on a cluster, which stores no message in another form.
pub(super) struct NeverRecodes(pub(super) MemoryEngine);

#[async_trait::async_trait]
impl Layer for NeverRecodes {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.0
    }

    fn recodes(&self) -> Recodes {
        Recodes::Nothing
    }

    async fn recode(&self, _: BodyId, _: Bytes, _: Holders) -> Result<CommitOutcome, StoreError> {
        Err(StoreError::Refused("this engine cannot change the form of a stored message"))
    }
}

/// A message that cannot be read gets a new UID on each engine.
#[tokio::test]
async fn an_engine_that_refuses_other_forms_adds_messages_again() {
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_on(Arc::new(NeverRecodes(MemoryEngine::new())), options).await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let mailbox = open(&delivery, &ana, "INBOX").await;
    let sent = samples::mail(&samples::note());
    let later = unconverted(&sent, 1 << 20).unwrap();
    let mut header = FormHeader::of(&later).unwrap();
    // The number of the conversion.
    header.digest[7] ^= 1;
    let message = IncomingMessage {
        bytes: header.before(&sent),
        summary: Bytes::new(),
        body: delivery.store().new_body_id(),
        flags: vec![Flag::Answered],
        date: 1_700_000_000,
        saved: None,
    };
    mailbox.destination().append(vec![message]).await.unwrap();
    let dry = ConvertOptions { mode: ConvertMode::DryRun, ..to(Format::Rich) };
    let would = run(&delivery, &ana, dry).await;
    let report = run(&delivery, &ana, to(Format::Rich)).await;
    assert_eq!((report.renumbered, report.refused, report.converted, report.failed), (1, 1, 0, 0));
    assert_eq!(would, report, "a dry run knows the engine");
    // Also where an original would be dropped.
    let lossy = ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) };
    let would = run(&delivery, &ana, ConvertOptions { mode: ConvertMode::DryRun, ..lossy }).await;
    assert!(would.refused > 0 && would.converted == 0, "{would:?}");
    assert_eq!(would, run(&delivery, &ana, lossy).await);
    assert_eq!(forms(&delivery, &ana).await, [Form::Plain, Form::Rich, Form::Plain, Form::Rich]);
    let all = content(&delivery, &ana, "INBOX").await;
    assert_eq!(all[3], (1_700_000_000, "\\Answered".to_owned(), all[1].2.clone()));
}

/// The memory for conversions has room for none.
#[tokio::test]
async fn mail_without_room_to_convert_it_stays_unless_nobody_can_read_it() {
    let (delivery, ana) = delivery().await;
    let ana = deliver(&delivery, &ana, (Format::Keep, false)).await;
    let small = delivery.with_summaries(ByteBudget::new(8 << 10));
    assert_eq!(small.room_to_convert(WorkFor::SERVER, 1).await.map(|room| room.is_some()).ok(), Some(false));
    for format in [Format::Mime, Format::Keep] {
        let report = run(&small, &ana, to(format)).await;
        assert_eq!((report.examined, report.converted), (3, 0), "{format:?}");
        assert_eq!((report.too_large, report.failed), (1, 0), "{format:?}");
    }
    let report = run(&small, &ana, to(Format::Rich)).await;
    assert_eq!((report.too_large, report.failed), (3, 0));
    // A message that nobody can read may not stay.
    let header = unconverted(&samples::mail(&samples::note()), 1 << 20).unwrap();
    let mut header = FormHeader::of(&header).unwrap();
    header.digest[7] ^= 1;
    let message = IncomingMessage {
        bytes: header.before(&samples::mail(&samples::note())),
        summary: Bytes::new(),
        body: small.store().new_body_id(),
        flags: vec![],
        date: 1_700_000_000,
        saved: None,
    };
    open(&small, &ana, "INBOX").await.destination().append(vec![message]).await.unwrap();
    let report = run(&small, &ana, to(Format::Rich)).await;
    assert_eq!((report.too_large, report.failed), (3, 1));
}

/// An attached file that is `winmail.dat` itself, as a user forwards it; and a damaged one beside a
/// good one.
#[tokio::test]
async fn an_attached_winmail_dat_stays_what_it_is() {
    let mut note = samples::note();
    let attached = posthaste_tnef::encode(&samples::note()).unwrap();
    note.attachments.push(samples::file("winmail.dat", &attached));
    let sent = samples::mail(&note);
    let Ok(Outcome::Converted(mime)) = convert(&sent) else { panic!("it is rich") };
    assert!(matches!(convert(&mime), Ok(Outcome::Converted(_))), "it looks like rich mail again");
    stays_in_each_format(&sent, &mime).await;
    let note = String::from_utf8(samples::mail(&samples::note())).unwrap();
    let close = note.trim_end().rsplit("\r\n").next().unwrap();
    let boundary = close.strip_suffix("--").unwrap();
    let damaged = format!("{boundary}\r\nContent-Type: application/ms-tnef\r\n\r\nno TNEF\r\n{close}");
    let sent = note.replace(close, &damaged).into_bytes();
    let Ok(Outcome::Converted(mime)) = convert(&sent) else { panic!("one is good") };
    assert!(convert(&mime).is_err() && memchr::memmem::find(&mime, b"no TNEF").is_some());
    stays_in_each_format(&sent, &mime).await;
}

/// A rich message that is seen as this MIME is seen so in each format, under one UID.
async fn stays_in_each_format(sent: &[u8], mime: &[u8]) {
    for compress in [Compression::None, Compression::Zstd] {
        for format in [Format::Mime, Format::Keep] {
            let options =
                DeliveryOptions { message_len_max: 1 << 20, compress, ..DeliveryOptions::default() };
            let (delivery, ana) = delivery_on(Arc::new(MemoryEngine::new()), options).await;
            let change = AccountChange { format: Some(Some(format)), ..AccountChange::default() };
            let ana = delivery.directory().set(&ana.name, change).await.unwrap();
            let recipients = [delivery.resolve(&ana.name).await.unwrap()];
            delivery.deliver(Bytes::copy_from_slice(sent), &recipients).await.remove(0).unwrap();
            let before = content(&delivery, &ana, "INBOX").await;
            assert_eq!(before[0].2.as_bytes(), mime);
            let lossy = ConvertOptions { loss: LossPolicy::Allow, ..to(Format::Mime) };
            run(&delivery, &ana, lossy).await;
            for format in [Format::Mime, Format::Keep, Format::Rich, Format::Keep, Format::Mime] {
                let report = run(&delivery, &ana, to(format)).await;
                assert_eq!((report.renumbered, report.would_lose, report.failed), (0, 0, 0), "{format:?}");
            }
            assert_eq!(content(&delivery, &ana, "INBOX").await, before);
        }
    }
}
