//! Delivery on the in-memory engine: one body for many, quotas, default mailboxes, and files in and
//! out.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use posthaste_directory::{Account, AccountChange, Directory, NewAccount, Policy};
use posthaste_mail_model::{Flag, Keyword, MailboxName, Secret};
use posthaste_mime_summary::summary_memory_max;
use posthaste_net::{ByteBudget, Holder, given_to_compute_threads};
use posthaste_store::{
    Engine, FlagChange, IncomingMessage, Mailbox, MemoryEngine, Serve, Store, StoreOptions,
};

use crate::export::{ExportReport, MailFormat};
use crate::import::{ImportError, ImportOptions, ImportReport};
use crate::{
    Conversions, Delivery, DeliveryError, DeliveryOptions, ErrorKind, LongWork, MESSAGE_COST, NewMessage,
    Quota, Renewals, SummaryMemory, WorkFor,
};

pub(crate) async fn delivery() -> (Delivery, Account) {
    delivery_with(DeliveryOptions { message_len_max: 1 << 20, ..DeliveryOptions::default() }).await
}

pub(crate) async fn delivery_with(options: DeliveryOptions) -> (Delivery, Account) {
    delivery_on(Arc::new(MemoryEngine::new()), options).await
}

pub(crate) async fn delivery_on(engine: Arc<dyn Engine>, options: DeliveryOptions) -> (Delivery, Account) {
    let delivery = node_on(engine, options);
    let ana = add(&delivery, "ana@example.org").await;
    (delivery, ana)
}

/// A server of several that have this engine.
pub(crate) fn node_on(engine: Arc<dyn Engine>, options: DeliveryOptions) -> Delivery {
    let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
    let long_work = LongWork::new();
    let serve = Conversions::new(ByteBudget::new(256 << 20)).with_precompute(options.precompute);
    let serve = Arc::new(serve.with_long_work(long_work.clone()));
    let store_options =
        StoreOptions { serve: Arc::clone(&serve) as Arc<dyn Serve>, ..StoreOptions::default() };
    let delivery = Delivery::new(Store::new(engine, store_options), Arc::new(directory), options);
    let delivery = delivery.with_long_work(long_work);
    Renewals::begin(&delivery, &serve);
    delivery
}

pub(crate) async fn add(delivery: &Delivery, name: &str) -> Account {
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

pub(crate) fn message(text: &str) -> Bytes {
    Bytes::from(format!("Subject: {text}\r\n\r\n{text}\r\n"))
}

#[tokio::test]
async fn one_message_for_many_is_one_body() {
    let (delivery, ana) = delivery().await;
    let ben = add(&delivery, "ben@example.org").await;
    delivery.directory().aliases().add("info@example.org", "ana@example.org").await.unwrap();
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
    let list = delivery.mailboxes(&ana).await.unwrap();
    let names: Vec<_> = list.entries.iter().map(|e| e.name.to_string()).collect();
    assert_eq!(names, ["Archive", "Drafts", "INBOX", "Junk", "Sent", "Trash"]);
    assert_eq!(list.entries.iter().filter(|e| e.special_use.is_some()).count(), 5);
    // Messages that a user deletes stay deleted.
    delivery.store().delete(ana.id, &MailboxName::new("Junk").unwrap()).await.unwrap();
    assert_eq!(delivery.mailboxes(&ana).await.unwrap().entries.len(), 5);
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
    assert!(outcomes.iter().all(|o| matches!(o, Err(e) if e.kind() == ErrorKind::TooLarge)));

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

/// Appends this many messages side by side; how many were accepted. The others found no room.
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
            Err(error) => assert_eq!(error.kind(), ErrorKind::OverQuota, "{error}"),
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
            delivery.mailboxes(&ana).await.unwrap();
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
    delivery.mailboxes(&ana).await.unwrap();
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
    // No delivery waits for memory that can never be available.
    let tight = delivery.clone().with_summaries(ByteBudget::new(1000));
    let refused = tight.incoming(large, Vec::new(), None).await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_temporary()), (ErrorKind::Unavailable, true));
}

/// A message of this size with empty parts. Its summary is many times as long.
fn parts(len: usize) -> Bytes {
    let mut text = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
    while text.len() < len {
        text.extend_from_slice(b"--b\r\n\r\n");
    }
    text.into()
}

fn new_messages(count: usize, bytes: &Bytes) -> Vec<NewMessage> {
    (0..count).map(|_| NewMessage { bytes: bytes.clone(), flags: Vec::new(), date: None }).collect()
}

/// Otherwise one APPEND of 128 MiB holds summaries of over a GiB.
#[tokio::test]
async fn the_summaries_of_one_command_have_a_bound_and_are_paid_for_until_they_are_stored() {
    let (delivery, ana) = delivery().await;
    let budget = ByteBudget::new(64 << 20);
    let delivery = delivery.with_finished(budget.clone());
    let message = parts(256 << 10);
    let one = delivery.incoming_all(ana.id, new_messages(1, &message)).await.unwrap();
    let len = one.messages[0].summary.len();
    assert!(len > message.len(), "{len}");
    assert_eq!(budget.available(), (64 << 20) - len);
    drop(one);
    assert_eq!(budget.available(), 64 << 20);
    let too_many = new_messages((16 << 20) / len + 1, &message);
    let refused = delivery.incoming_all(ana.id, too_many).await.unwrap_err();
    assert!(matches!(refused, DeliveryError::TooMuchAtOnce { limit } if limit == 16 << 20), "{refused}");
    assert_eq!(budget.available(), 64 << 20);
    // Ordinary messages are taken by the thousand.
    let small = Bytes::from_static(b"Subject: small\r\n\r\nsmall\r\n");
    let many = delivery.incoming_all(ana.id, new_messages(2000, &small)).await.unwrap();
    assert_eq!(many.messages.len(), 2000);
}

#[tokio::test]
async fn a_delivery_pays_for_its_summary_until_it_is_stored() {
    let (delivery, ana) = delivery().await;
    let budget = ByteBudget::new(64 << 20);
    let delivery = delivery.with_finished(budget.clone());
    let recipient = [delivery.resolve(&ana.name).await.unwrap()];
    let whose = WorkFor::mail_to(&recipient);
    let forms = delivery.forms(whose, parts(10_000), &recipient, SummaryMemory::Counted).await.unwrap();
    assert_eq!(budget.available(), (64 << 20) - forms.of(&ana).summary.len());
    drop(forms);
    assert_eq!(budget.available(), 64 << 20);
    let held = budget.begin(Holder::Account([1; 16]));
    held.grow_to(16 << 20).unwrap();
    let tight = delivery.with_finished(ByteBudget::new(1 << 20));
    let mut forms = std::pin::pin!(tight.forms(whose, parts(10_000), &recipient, SummaryMemory::Counted));
    let other = tight.room_for_finished(1 << 20).await.unwrap();
    assert!(poll_fn(|cx| Poll::Ready(forms.as_mut().poll(cx).is_pending())).await, "it waits");
    let beside = tight.forms(whose, parts(10_000), &recipient, SummaryMemory::SentOn(1)).await.unwrap();
    drop((other, beside));
    forms.await.unwrap();
}

/// A message of nothing but parts takes ten times as long as others: 255 KiB of them took 10 ms of
/// a session's task.
#[tokio::test]
async fn a_message_that_may_take_long_is_summarised_on_another_thread() {
    let (delivery, _) = delivery().await;
    for (octets, is_elsewhere) in [(60 << 10, false), (70 << 10, true)] {
        let given = given_to_compute_threads();
        delivery.incoming(parts(octets), Vec::new(), None).await.unwrap();
        assert_eq!(given_to_compute_threads() - given, usize::from(is_elsewhere), "{octets} octets");
    }
}

/// Each message alone is summarised in one go; many of them are not.
#[tokio::test]
async fn many_messages_of_one_command_are_summarised_in_slices() {
    let (delivery, ana) = delivery().await;
    let message = parts(32 << 10);
    let mut work = std::pin::pin!(delivery.incoming_all(ana.id, new_messages(6, &message)));
    let mut pauses = 0;
    while poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await {
        pauses += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(pauses, 3);
}

#[test]
fn deliveries_can_be_spawned() {
    fn is_send<T: Send>(_: impl FnOnce(Delivery, Account) -> T) {}
    is_send(|delivery, _| async move { delivery.deliver(Bytes::new(), &[]).await });
    is_send(|delivery, account| async move {
        delivery.import(&account, Path::new("x"), &ImportOptions::default(), &mut |_| {}).await
    });
    is_send(|delivery, account| async move {
        delivery.export(account.id, None, MailFormat::Mbox, Path::new("x"), &mut |_| {}).await
    });
}

pub(crate) async fn import(
    delivery: &Delivery,
    account: &Account,
    path: &Path,
    mailbox: Option<&str>,
) -> ImportReport {
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
async fn exported_mail_is_imported_unchanged() {
    for format in [MailFormat::Mbox, MailFormat::Maildir] {
        let (delivery, ana) = delivery().await;
        delivery.mailboxes(&ana).await.unwrap();
        let deep = MailboxName::new("Archive/2024/\u{dc}ber.alles").unwrap();
        delivery.store().create(ana.id, &deep, None).await.unwrap();
        fill(&delivery, &ana, "INBOX").await;
        fill(&delivery, &ana, deep.as_str()).await;
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let report: ExportReport = delivery.export(ana.id, None, format, &target, &mut |_| {}).await.unwrap();
        assert_eq!((report.messages, report.failed, report.mailboxes), (10, 0, 8), "{format:?}");

        let ben = add(&delivery, "ben@example.org").await;
        let imported = import(&delivery, &ben, &target, None).await;
        assert_eq!((imported.messages, imported.failed, imported.bytes), (10, 0, report.bytes), "{format:?}");
        for name in ["INBOX", deep.as_str()] {
            assert_eq!(
                content(&delivery, &ana, name).await,
                content(&delivery, &ben, name).await,
                "{format:?} {name}"
            );
        }
        // Nothing is written over.
        let again = delivery.export(ana.id, None, format, &target, &mut |_| {}).await.unwrap_err();
        assert!(again.to_string().contains("remove it, or name another target"), "{again}");
    }
}

#[tokio::test]
async fn no_export_follows_a_link() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plant = |name: &str| std::os::unix::fs::symlink(elsewhere.path(), dir.path().join(name)).unwrap();
    ["INBOX", "all", "one"].into_iter().for_each(plant);
    let inbox = MailboxName::inbox();
    for (name, mailbox, format) in [
        ("", None, MailFormat::Maildir),
        ("all", None, MailFormat::Mbox),
        ("one", Some(&inbox), MailFormat::Maildir),
    ] {
        let target = dir.path().join(name);
        let refused = delivery.export(ana.id, mailbox, format, &target, &mut |_| {}).await.unwrap_err();
        assert!(refused.to_string().contains("is a symbolic link"), "{name}: {refused}");
    }
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn one_mailbox_to_one_file_and_back_below_a_name() {
    let (delivery, ana) = delivery().await;
    delivery.mailboxes(&ana).await.unwrap();
    fill(&delivery, &ana, "Sent").await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sent.mbox");
    let sent = MailboxName::new("Sent").unwrap();
    delivery.export(ana.id, Some(&sent), MailFormat::Mbox, &file, &mut |_| {}).await.unwrap();
    import(&delivery, &ana, &file, Some("Old/Sent")).await;
    assert_eq!(content(&delivery, &ana, "Sent").await, content(&delivery, &ana, "Old/Sent").await);
    // A folder below a name keeps its levels.
    import(&delivery, &ana, dir.path(), Some("From disk")).await;
    assert_eq!(content(&delivery, &ana, "From disk/sent").await.len(), 5);
    // And a file at the top goes to INBOX.
    import(&delivery, &ana, &file, None).await;
    assert_eq!(content(&delivery, &ana, "INBOX").await.len(), 5);
    let gone = MailboxName::new("Nothing").unwrap();
    let missing = delivery.export(ana.id, Some(&gone), MailFormat::Mbox, &file, &mut |_| {}).await;
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
    delivery.mailboxes(&ana).await.unwrap();
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
    delivery.export(ana.id, Some(&name), MailFormat::Maildir, &target, &mut |_| {}).await.unwrap();
    let names: Vec<_> = std::fs::read_dir(target.join("cur"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() == 5 && names.iter().all(|name| name.ends_with(":2,S")), "{names:?}");
}
