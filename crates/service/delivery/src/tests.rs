//! Delivery on the in-memory engine: one body for many, quotas, default mailboxes, and files in and
//! out.

use bytes::Bytes;
use posthaste_directory::{Account, AccountChange, Directory, Format, FormatSettings, NewAccount, Policy};
use posthaste_mail_model::{Flag, Keyword, MailboxName, Secret};
use posthaste_mime_summary::summary_memory_max;
use posthaste_net::{ByteBudget, Holder};
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{Engine, FlagChange, IncomingMessage, Mailbox, MemoryEngine, Store, StoreOptions};
use posthaste_tnef::{Outcome, convert, samples};
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use crate::export::{ExportForm, ExportReport};
use crate::import::{ImportError, ImportOptions, ImportReport};
use crate::{Conversions, Delivery, DeliveryError, DeliveryOptions, Kind, MESSAGE_COST, Quota};

pub(crate) async fn delivery() -> (Delivery, Account) {
    delivery_with(DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() }).await
}

async fn delivery_with(options: DeliveryOptions) -> (Delivery, Account) {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
    let serve = Arc::new(Conversions::new(ByteBudget::new(256 << 20)));
    let store = Store::new(engine, StoreOptions { serve, ..StoreOptions::default() });
    let delivery = Delivery::new(store, Arc::new(directory), options);
    let ana = add(&delivery, "ana@example.org").await;
    (delivery, ana)
}

async fn add(delivery: &Delivery, name: &str) -> Account {
    let password = Secret::new("pencil".to_owned());
    delivery.directory().add(name, &password, NewAccount::default()).await.unwrap()
}

pub(crate) async fn open(delivery: &Delivery, account: &Account, name: &str) -> Arc<Mailbox> {
    let list = delivery.store().list(account.id).await.unwrap();
    let entry = list.find(&MailboxName::new(name).unwrap()).unwrap_or_else(|| panic!("no {name}"));
    delivery.store().open(entry.id).await.unwrap()
}

/// Every message of a mailbox: date, flags, bytes.
pub(crate) async fn content(
    delivery: &Delivery,
    account: &Account,
    name: &str,
) -> Vec<(u32, String, String)> {
    let mailbox = open(delivery, account, name).await;
    let view = mailbox.current().await.unwrap();
    let all = view.all();
    let mut bodies = Vec::new();
    let unreadable = mailbox
        .summaries(&view.uids_of_seqs(&all), &mut |stored| {
            bodies.push(stored.body);
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
    assert!(unreadable.0.is_empty());
    assert_eq!(bodies.len(), view.exists() as usize);
    let mut out = Vec::new();
    for ((_, row), body) in view.rows(&all).zip(bodies) {
        let bytes = mailbox.read_body(row.uid(), body, 0..u64::MAX).await.unwrap();
        assert_eq!(bytes.len(), row.size() as usize);
        let mut flags: Vec<String> =
            view.head().keywords.flags_of(row.flags()).map(|flag| flag.to_string()).collect();
        flags.sort();
        out.push((row.date(), flags.join(" "), String::from_utf8_lossy(&bytes).into_owned()));
    }
    out
}

fn message(text: &str) -> Bytes {
    Bytes::from(format!("Subject: {text}\r\n\r\n{text}\r\n"))
}

#[tokio::test]
async fn one_message_for_many_is_one_body() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    delivery.directory().add_alias("info@example.org", "ana@example.org").await.unwrap();
    let mut recipients = Vec::new();
    for to in ["ana+lists@example.org", "ben@example.org", "info@example.org"] {
        recipients.push(delivery.resolve(to).await.unwrap());
    }
    let delivered: Vec<_> =
        delivery.deliver(message("hello"), &recipients).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(delivered[0], delivered[2], "one account, one copy, one answer");
    assert_eq!(delivered[0].body, delivered[1].body);
    assert_eq!((delivered[0].account, delivered[1].account), (ana.id, ben.id));
    for account in [&ana, &ben] {
        let inbox = content(&delivery, account, "INBOX").await;
        assert_eq!(inbox.len(), 1);
        assert_eq!(inbox[0].2, "Subject: hello\r\n\r\nhello\r\n");
    }
}

#[tokio::test]
async fn hundreds_of_recipients_and_deliveries_at_once() {
    let (delivery, _) = delivery().await;
    let mut recipients = Vec::new();
    for n in 0..200 {
        let name = format!("user{n}@example.org");
        add(&delivery, &name).await;
        recipients.push(delivery.resolve(&name).await.unwrap());
    }
    let (a, b) = tokio::join!(
        delivery.deliver(message("a"), &recipients),
        delivery.deliver(message("b"), &recipients)
    );
    assert!(a.iter().chain(&b).all(Result::is_ok));
    for recipient in &recipients {
        assert_eq!(content(&delivery, &recipient.account, "INBOX").await.len(), 2);
    }
}

#[tokio::test]
async fn the_default_mailboxes_are_made_once() {
    let (delivery, ana) = delivery().await;
    let list = delivery.mailboxes(ana.id).await.unwrap();
    let names: Vec<_> = list.entries.iter().map(|e| e.name.to_string()).collect();
    assert_eq!(names, ["Archive", "Drafts", "INBOX", "Junk", "Sent", "Trash"]);
    assert_eq!(list.entries.iter().filter(|e| e.special_use.is_some()).count(), 5);
    // What a user deletes stays deleted.
    delivery.store().delete(ana.id, &MailboxName::new("Junk").unwrap()).await.unwrap();
    assert_eq!(delivery.mailboxes(ana.id).await.unwrap().entries.len(), 5);
}

#[tokio::test]
async fn limits_are_answered_for() {
    let (delivery, ana) = delivery().await;
    let too_large = Bytes::from(vec![b'x'; (1 << 20) + 1]);
    let ana_and_ana = [
        delivery.resolve("ana@example.org").await.unwrap(),
        delivery.resolve("ana@example.org").await.unwrap(),
    ];
    let outcomes = delivery.deliver(too_large, &ana_and_ana).await;
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|o| matches!(o, Err(e) if e.kind() == Kind::TooLarge)));

    let quota = AccountChange { quota_bytes: Some(Some(10_000)), ..AccountChange::default() };
    delivery.directory().set(&ana.name, quota).await.unwrap();
    let recipients = [delivery.resolve("ana@example.org").await.unwrap()];
    let len = message("12345678").len() as u64 + MESSAGE_COST;
    let mut taken = 0;
    let refused = loop {
        match delivery.deliver(message("12345678"), &recipients).await.remove(0) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(taken, 10_000 / len);
    assert!(
        matches!(refused, DeliveryError::OverQuota { used, limit: 10_000, more } if used == taken * len && more == len)
    );
    assert_eq!(delivery.usage(ana.id).await.unwrap().messages, taken);
}

/// Appends this many messages side by side; how many were taken, and that the others found no room.
async fn append_side_by_side(delivery: &Delivery, ana: &Account, count: usize) -> usize {
    let inbox = open(delivery, ana, "INBOX").await.destination();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (delivery, ana, inbox) = (delivery.clone(), ana.clone(), inbox.clone());
            tokio::spawn(async move {
                let incoming = delivery.incoming(message("12345678"), Vec::new(), None).await?;
                delivery.append(&ana, &inbox, vec![incoming]).await
            })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => taken += 1,
            Err(error) => assert_eq!(error.kind(), Kind::OverQuota, "{error}"),
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn side_by_side_as_many_are_taken_as_fit_and_no_more() {
    let len = message("12345678").len() as u64 + MESSAGE_COST;
    // The default of the server, an account's octets, an account's messages.
    let of_server =
        DeliveryOptions { quota: Quota { bytes: None, messages: Some(10) }, ..DeliveryOptions::default() };
    let octets = AccountChange { quota_bytes: Some(Some(10 * len)), ..AccountChange::default() };
    let messages = AccountChange { quota_messages: Some(Some(10)), ..AccountChange::default() };
    for round in 0..20 {
        for (options, change) in [
            (of_server, AccountChange::default()),
            (DeliveryOptions::default(), octets),
            (DeliveryOptions::default(), messages),
        ] {
            let (delivery, ana) = delivery_with(options).await;
            delivery.mailboxes(ana.id).await.unwrap();
            let ana = delivery.directory().set(&ana.name, change).await.unwrap();
            assert_eq!(append_side_by_side(&delivery, &ana, 20).await, 10, "round {round}");
            assert_eq!(delivery.usage(ana.id).await.unwrap().messages, 10);
            assert_eq!(append_side_by_side(&delivery, &ana, 5).await, 0, "round {round}");
        }
    }
}

#[tokio::test]
async fn a_large_message_is_summarised_elsewhere_and_taken_alike() {
    let (delivery, ana) = delivery().await;
    let mut large = b"Subject: large\r\n\r\n".to_vec();
    large.resize(900_000, b'x');
    let incoming: IncomingMessage =
        delivery.incoming(Bytes::from(large.clone()), vec![Flag::Seen], Some(7)).await.unwrap();
    delivery.mailboxes(ana.id).await.unwrap();
    let sent = open(&delivery, &ana, "Sent").await;
    delivery.append(&ana, &sent.destination(), vec![incoming]).await.unwrap();
    let content = content(&delivery, &ana, "Sent").await;
    assert_eq!((content[0].0, content[0].1.as_str(), content[0].2.len()), (7, "\\Seen", 900_000));
}

/// Summaries in the making wait for memory; small messages do not need any.
#[tokio::test]
async fn a_large_message_waits_for_memory() {
    let (delivery, _) = delivery().await;
    let large = Bytes::from(vec![b'x'; 300_000]);
    let budget = ByteBudget::new(summary_memory_max(large.len()));
    let delivery = delivery.with_summaries(budget.clone());
    let held = budget.begin(Holder::Account([1; 16]));
    held.grow_to(1).unwrap();
    let mut waiting = std::pin::pin!(delivery.incoming(large.clone(), Vec::new(), None));
    assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
    delivery.incoming(Bytes::from_static(b"small"), Vec::new(), None).await.unwrap();
    drop(held);
    waiting.await.unwrap();
    assert_eq!(budget.available(), summary_memory_max(large.len()), "it is given back");
    // What is never available is not waited for.
    let tight = delivery.clone().with_summaries(ByteBudget::new(1000));
    let refused = tight.incoming(large, Vec::new(), None).await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_temporary()), (Kind::Unavailable, true));
}

#[test]
fn deliveries_can_be_spawned() {
    fn is_send<T: Send>(_: impl FnOnce(Delivery, Account) -> T) {}
    is_send(|delivery, _| async move { delivery.deliver(Bytes::new(), &[]).await });
    is_send(|delivery, account| async move {
        delivery.import(&account, Path::new("x"), &ImportOptions::default(), &mut |_| {}).await
    });
    is_send(|delivery, account| async move {
        delivery.export(account.id, None, ExportForm::Mbox, Path::new("x"), &mut |_| {}).await
    });
}

async fn import(delivery: &Delivery, account: &Account, path: &Path, mailbox: Option<&str>) -> ImportReport {
    let mailbox = mailbox.map(|name| MailboxName::new(name).unwrap());
    let options = ImportOptions { mailbox, ..ImportOptions::default() };
    delivery.import(account, path, &options, &mut |_| {}).await.unwrap()
}

/// Five messages that are hard on file formats, with flags and dates.
async fn fill(delivery: &Delivery, account: &Account, mailbox: &str) {
    let keyword = |text| Flag::Keyword(Keyword::new(text).unwrap());
    let messages = [
        ("Subject: plain\r\n\r\nbody\r\n", vec![]),
        (
            "Subject: quoting\r\n\r\nFrom here\r\n>From there\r\n>>From\r\n\r\nFrom x Tue Nov 14 22:13:20 2023\r\n",
            vec![Flag::Seen, keyword("$Junk")],
        ),
        ("Subject: ends in empty lines\r\n\r\nx\r\n\r\n\r\n", vec![Flag::Answered, Flag::Flagged]),
        ("no header at all\r\n", vec![Flag::Draft, Flag::Deleted, keyword("work"), keyword("$Forwarded")]),
        ("Subject: b\u{e4}d \0\r\n\r\nlone\rcr\r\n", vec![Flag::Seen]),
    ];
    let mailbox = open(delivery, account, mailbox).await;
    for (n, (text, flags)) in messages.into_iter().enumerate() {
        let bytes = Bytes::from(text.to_owned());
        let date = 1_600_000_000 + n as u32;
        let incoming = delivery.incoming(bytes, flags, Some(date)).await.unwrap();
        delivery.append(account, &mailbox.destination(), vec![incoming]).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_exported_imports_as_it_was() {
    for form in [ExportForm::Mbox, ExportForm::Maildir] {
        let (delivery, ana) = delivery().await;
        delivery.mailboxes(ana.id).await.unwrap();
        let deep = MailboxName::new("Archive/2024/\u{dc}ber.alles").unwrap();
        delivery.store().create(ana.id, &deep, None).await.unwrap();
        fill(&delivery, &ana, "INBOX").await;
        fill(&delivery, &ana, deep.as_str()).await;
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let report: ExportReport = delivery.export(ana.id, None, form, &target, &mut |_| {}).await.unwrap();
        assert_eq!((report.messages, report.failed, report.mailboxes), (10, 0, 8), "{form:?}");

        let ben = add(&delivery, "ben@example.org").await;
        let imported = import(&delivery, &ben, &target, None).await;
        assert_eq!((imported.messages, imported.failed, imported.bytes), (10, 0, report.bytes), "{form:?}");
        for name in ["INBOX", deep.as_str()] {
            assert_eq!(
                content(&delivery, &ana, name).await,
                content(&delivery, &ben, name).await,
                "{form:?} {name}"
            );
        }
        // Nothing is written over.
        assert!(delivery.export(ana.id, None, form, &target, &mut |_| {}).await.is_err());
    }
}

#[tokio::test]
async fn one_mailbox_to_one_file_and_back_below_a_name() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(ana.id).await.unwrap();
    fill(&delivery, &ana, "Sent").await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sent.mbox");
    let sent = MailboxName::new("Sent").unwrap();
    delivery.export(ana.id, Some(&sent), ExportForm::Mbox, &file, &mut |_| {}).await.unwrap();
    import(&delivery, &ana, &file, Some("Old/Sent")).await;
    assert_eq!(content(&delivery, &ana, "Sent").await, content(&delivery, &ana, "Old/Sent").await);
    // A folder below a name keeps its levels.
    import(&delivery, &ana, dir.path(), Some("From disk")).await;
    assert_eq!(content(&delivery, &ana, "From disk/sent").await.len(), 5);
    // And a file at the top goes to INBOX.
    import(&delivery, &ana, &file, None).await;
    assert_eq!(content(&delivery, &ana, "INBOX").await.len(), 5);
    let gone = MailboxName::new("Nothing").unwrap();
    let missing = delivery.export(ana.id, Some(&gone), ExportForm::Mbox, &file, &mut |_| {}).await;
    assert!(missing.unwrap_err().to_string().contains("no mailbox"));
}

#[tokio::test]
async fn an_mbox_of_twenty_thousand_comes_in_by_batches() {
    let (delivery, ana) = delivery().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("archive.mbox");
    let one = |n: u32| {
        format!("From x@y Tue Nov 14 22:13:20 2023\nSubject: {n}\nStatus: RO\n\n>From {n}\nbody\n\n")
    };
    std::fs::write(&file, (0..20_000).map(one).collect::<String>()).unwrap();
    let mut seen = Vec::new();
    let options = ImportOptions::default();
    let report =
        delivery.import(&ana, &file, &options, &mut |report| seen.push(report.messages)).await.unwrap();
    assert_eq!((report.messages, report.failed), (20_000, 0));
    assert!(seen.len() >= 40 && seen.is_sorted());
    let inbox = content(&delivery, &ana, "INBOX").await;
    assert_eq!(inbox.len(), 20_000);
    let last =
        (1_700_000_000, "\\Seen".to_owned(), "Subject: 19999\r\n\r\nFrom 19999\r\nbody\r\n".to_owned());
    assert_eq!(inbox[19_999], last);
}

#[tokio::test]
async fn faults_are_counted_and_nothing_else_is_lost() {
    let (delivery, ana) = delivery().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    let from = "From x Tue Nov 14 22:13:20 2023\n";
    let large = "x".repeat((1 << 20) + 3);
    std::fs::write(&file, format!("{from}A: 1\n\na\n\n{from}B: 2\n\n{large}\n\n{from}C: 3\n\nc\n\n"))
        .unwrap();
    std::fs::write(dir.path().join("notes.txt"), "no mail").unwrap();
    let report = import(&delivery, &ana, dir.path(), None).await;
    assert_eq!((report.messages, report.failed), (2, 2));
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    let offset = from.len() + "A: 1\n\na\n\n".len();
    assert!(faults[0].contains(&format!("a.mbox, byte {offset}: a message of")), "{faults:?}");
    assert!(faults[1].contains("notes.txt") && faults[1].contains("passed over"), "{faults:?}");
    assert_eq!(content(&delivery, &ana, "a").await.len(), 2);

    let missing = delivery
        .import(&ana, &dir.path().join("missing"), &ImportOptions::default(), &mut |_| {})
        .await
        .unwrap_err();
    assert!(matches!(&missing, ImportError::Source { path, .. } if path.ends_with("missing")));
}

#[tokio::test]
async fn a_folder_whose_name_no_mailbox_can_have_is_reported() {
    let (delivery, ana) = delivery().await;
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join(format!("{}/", "x".repeat(200)).repeat(6));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(dir.path().join("inbox")).unwrap();
    for file in [deep.join("1.eml"), deep.join("2.eml"), dir.path().join("inbox/3.eml")] {
        std::fs::write(file, "A: b\n").unwrap();
    }
    let report = import(&delivery, &ana, dir.path(), None).await;
    assert_eq!((report.messages, report.failed), (3, 1));
    let fault = report.faults[0].to_string();
    assert!(fault.contains("1.eml: no mailbox can have") && fault.ends_with("it went into INBOX"), "{fault}");
    assert_eq!(content(&delivery, &ana, "INBOX").await.len(), 3);
}

#[tokio::test]
async fn an_import_over_quota_says_what_it_had_taken() {
    let (delivery, ana) = delivery().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    let one = "From x Tue Nov 14 22:13:20 2023\nSubject: x\n\nbody\n\n";
    std::fs::write(&file, one.repeat(1200)).unwrap();
    // 500 messages of 21 octets are taken; the next 500 do not fit.
    let limit = 700 * (21 + MESSAGE_COST);
    let quota = AccountChange { quota_bytes: Some(Some(limit)), ..AccountChange::default() };
    let ana = delivery.directory().set(&ana.name, quota).await.unwrap();
    let error = delivery.import(&ana, &file, &ImportOptions::default(), &mut |_| {}).await.unwrap_err();
    match &error {
        ImportError::Store { origin, imported, error: DeliveryError::OverQuota { .. } } => {
            assert_eq!((*imported, origin.offset), (500, 500 * one.len() as u64));
        }
        other => panic!("{other}"),
    }
    assert_eq!(content(&delivery, &ana, "INBOX").await.len(), 500);
}

#[tokio::test]
async fn more_keywords_than_fit_do_not_stop_an_import() {
    let (delivery, ana) = delivery().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    let one = |n: u32| format!("From x Tue Nov 14 22:13:20 2023\nX-Keywords: k{n}\nX-Status: F\n\nbody\n\n");
    std::fs::write(&file, (0..80).map(one).collect::<String>()).unwrap();
    let report = import(&delivery, &ana, &file, None).await;
    assert_eq!((report.messages, report.failed), (80, 1));
    let why = &report.faults[0].why;
    assert!(
        why.contains("keywords")
            && !why.contains("k50 ")
            && why.contains(" k51 k52 ")
            && why.ends_with(" k79")
    );
    let messages = content(&delivery, &ana, "INBOX").await;
    assert!(messages.iter().all(|(_, flags, _)| flags.starts_with("\\Flagged")));
    assert_eq!(messages.iter().filter(|(_, flags, _)| flags.contains(" k")).count(), 51);
}

#[tokio::test]
async fn exports_go_on_while_flags_change() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(ana.id).await.unwrap();
    fill(&delivery, &ana, "INBOX").await;
    let inbox = open(&delivery, &ana, "INBOX").await;
    let view = inbox.view();
    inbox
        .store_flags(&view.uids_of_seqs(&view.all()), FlagChange::Replace, &[Flag::Seen], None)
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("inbox");
    let name = MailboxName::inbox();
    delivery.export(ana.id, Some(&name), ExportForm::Maildir, &target, &mut |_| {}).await.unwrap();
    let names: Vec<_> = std::fs::read_dir(target.join("cur"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() == 5 && names.iter().all(|name| name.ends_with(":2,S")), "{names:?}");
}

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
    // Those who all want MIME, and ordinary mail.
    delivery.deliver(Bytes::from(rich), &recipients[1..]).await;
    delivery.deliver(message("plain"), &recipients[1..2]).await;
    assert_eq!(inbox(&delivery, &ben).await[1..], [text(&mime), text(&message("plain"))]);
}

/// The server's format is that of accounts that have none of their own.
#[tokio::test]
async fn the_server_has_a_format_for_all_accounts() {
    let format = FormatSettings { format: Format::Mime, keep_original: true };
    let options = DeliveryOptions { message_len_max: 1 << 20, format, ..DeliveryOptions::default() };
    let (delivery, ana) = delivery_with(options).await;
    let ben = add_with(&delivery, "ben@example.org", Format::Keep).await;
    let recipients = [delivery.resolve(&ana.name).await.unwrap(), delivery.resolve(&ben.name).await.unwrap()];
    let rich = samples::mail(&samples::note());
    let engine = delivery.store().engine();
    let mut forms = Vec::new();
    for delivered in delivery.deliver(Bytes::from(rich), &recipients).await {
        let stored = engine.read_body(delivered.unwrap().body, 0..u64::MAX).await.unwrap();
        forms.push(FormHeader::of(&stored).map(|header| header.form));
    }
    assert_eq!(forms, [Some(Form::WithOriginal), Some(Form::Rich)]);
    assert_eq!(inbox(&delivery, &ana).await, inbox(&delivery, &ben).await);
}

#[tokio::test]
async fn rich_mail_that_cannot_be_converted_is_kept_as_sent() {
    let options = DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() };
    let (delivery, _) = delivery_with(options).await;
    // Too little memory for any conversion of this size.
    let delivery = delivery.with_summaries(ByteBudget::new(64 << 10));
    let ben = add_with(&delivery, "ben@example.org", Format::Mime).await;
    let recipients = [delivery.resolve("ben@example.org").await.unwrap()];
    let rich = samples::mail(&samples::note());
    for one in delivery.deliver(Bytes::from(rich.clone()), &recipients).await {
        one.unwrap();
    }
    let delivery = delivery.with_summaries(ByteBudget::new(256 << 20));
    let mut damaged = rich.clone();
    let at = memchr::memmem::find(&damaged, b"eJ8+").unwrap();
    damaged[at] = b'X';
    let signed = String::from_utf8(rich.clone()).unwrap().replace("multipart/mixed", "multipart/signed");
    // As MIME this one is over the limit of the server: binary becomes base64.
    let mut large = samples::note();
    large.attachments.push(samples::file("large", &vec![0; 800 << 10]));
    let large = posthaste_tnef::encode(&large).unwrap();
    let head = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    let large = [&head[..], &large].concat();
    let sent = [rich, damaged, signed.into_bytes(), large];
    for message in &sent[1..] {
        for one in delivery.deliver(Bytes::from(message.clone()), &recipients).await {
            one.unwrap();
        }
    }
    let sent: Vec<_> = sent.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert_eq!(inbox(&delivery, &ben).await, sent);
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
async fn a_conversion_that_gives_other_bytes_is_an_error() {
    let (delivery, ana) = delivery().await;
    let rich = samples::mail(&samples::note());
    let stored = FormHeader { form: Form::Rich, served_len: 7, digest: [0; 8] }.before(&rich);
    delivery.mailboxes(ana.id).await.unwrap();
    let future = FormHeader { form: Form::Unknown(9), served_len: 7, digest: [0; 8] }.before(&rich);
    let inbox = open(&delivery, &ana, "INBOX").await;
    for bytes in [stored, future] {
        let body = delivery.store().new_body_id();
        let message =
            IncomingMessage { bytes, summary: Bytes::new(), body, flags: vec![], date: 1, saved: None };
        let appended = inbox.destination().append(vec![message]).await.unwrap();
        let error = inbox.read_body(appended.uids[0], body, 0..7).await.unwrap_err();
        assert!(error.is_damage(), "{error}");
    }
}
