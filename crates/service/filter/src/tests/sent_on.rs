//! Mail that accounts and their scripts send on: junk, authors, results, copies.

use posthaste_authentication::{DomainKeys, KeyState};
use posthaste_mail_model::NumSet;

use super::*;
use crate::{Cause, Event};

const BO: &str = "bo@example.org";
const CHIEF: &str = "chief@example.org";
const JUNK: &str = "Junk";

impl World {
    async fn give_script(&self, name: &str, text: &str) {
        let account = self.directory.account(name).await.unwrap().unwrap();
        self.directory.scripts().put(&account, "main", text).await.unwrap();
        self.directory.scripts().activate(&account, Some("main")).await.unwrap();
    }

    async fn forward(&self, name: &str, to: &str) {
        let forward = Forward { to: vec![to.to_owned()], keep: false };
        self.directory.set_forward(name, Some(forward)).await.unwrap();
    }

    /// Delivers a message as by SMTP.
    async fn bring(&self, from: &str, to: &str, (message, is_quarantined): (&str, bool)) -> Delivered {
        let target = self.filter.target(to).await.unwrap();
        let (refusals, tls, needs) =
            (Refusals::Together, TlsRequirement::Policy, RequiredExtensions::default());
        let client = RemoteClient::default();
        let envelope =
            Envelope { from, refusals, is_quarantined, tls, needs, asked: &[], client, lease_end: None };
        let message = Bytes::from(format!("Return-Path: <{from}>\r\n{message}"));
        self.filter.deliver_to(message, envelope, &[target]).await.remove(0)
    }

    /// Messages in a mailbox; none if there is no mailbox.
    pub(super) async fn count(&self, name: &str, mailbox: &str) -> u32 {
        let delivery = self.filter.delivery();
        let account = delivery.resolve(name).await.unwrap().account;
        let list = delivery.mailboxes(&account).await.unwrap();
        let Some(found) = list.find(&MailboxName::new(mailbox).unwrap()) else { return 0 };
        delivery.store().open(found.id).await.unwrap().current().await.unwrap().exists()
    }

    /// Recipients and texts of what waits for other hosts, which is taken away.
    async fn left(&self) -> Vec<(String, String)> {
        let mut left = Vec::new();
        for item in self.queued().await {
            let text = self.queue.message(&item).await.unwrap();
            left.push((item.recipients[0].address.clone(), String::from_utf8(text.to_vec()).unwrap()));
            self.queue.remove(&item).await.unwrap();
        }
        left
    }

    pub(super) async fn left_to(&self) -> Vec<String> {
        self.left().await.into_iter().map(|(to, _)| to).collect()
    }

    /// Has a user put a message into the INBOX of ana, whose script is the active one.
    async fn put(&self, message: &str) {
        let delivery = self.filter.delivery();
        let ana = delivery.resolve(ANA).await.unwrap().account;
        let list = delivery.mailboxes(&ana).await.unwrap();
        let mailbox = list.find(&MailboxName::inbox()).unwrap().id;
        let script = [("/shared/imapsieve/script", Some(Bytes::from_static(b"main")))];
        self.directory.metadata().set(ana.id, Annotated::Mailbox(mailbox), &script).await.unwrap();
        let incoming = delivery.incoming(Bytes::from(message.to_owned()), Vec::new(), None).await.unwrap();
        let destination = delivery.store().destination(mailbox);
        delivery.append(&ana, &destination, vec![incoming]).await.unwrap();
        let count = self.count(ANA, "INBOX").await;
        let uids: NumSet = std::iter::once(count).collect();
        let (cause, flags) = (Cause::Append, &[]);
        self.filter.on_event(Event { owner: &ana, user: &ana, mailbox, cause, uids: &uids, flags }).await;
    }
}

fn mail(author: &str) -> String {
    format!("Received: from a by b\r\nFrom: {author}\r\nTo: ana@example.org\r\nSubject: hi\r\n\r\nwords\r\n")
}

/// RFC 3834 §2: a forged sender gets no response from anybody.
#[tokio::test]
async fn junk_is_junk_for_who_gets_it_next() {
    let world = World::new().await;
    world.add(BO).await;
    world.give_script(BO, "require \"vacation\"; vacation :addresses \"ana@example.org\" \"away\";").await;
    let forged = (mail("victim@b.test"), true);
    for (at, script) in [None, Some("redirect \"bo@example.org\";")].into_iter().enumerate() {
        match script {
            None => world.forward(ANA, BO).await,
            Some(script) => {
                world.directory.set_forward(ANA, None).await.unwrap();
                world.use_script(script).await;
            }
        }
        world.bring("victim@b.test", ANA, (&forged.0, forged.1)).await.unwrap();
        let found = (world.count(BO, "INBOX").await, world.count(BO, JUNK).await);
        assert_eq!(found, (0, u32::try_from(at).unwrap() + 1), "{script:?}");
        assert!(world.queued().await.is_empty(), "{script:?}");
    }
    world.use_script("require \"enotify\"; notify \"mailto:bo@example.org\"; keep;").await;
    world.bring("victim@b.test", ANA, (&forged.0, forged.1)).await.unwrap();
    assert_eq!((world.count(BO, "INBOX").await, world.count(BO, JUNK).await), (0, 3));
    assert_eq!((world.count(ANA, "INBOX").await, world.count(ANA, JUNK).await), (0, 1));
    // The same sender gets an answer otherwise.
    world.use_script("redirect \"bo@example.org\";").await;
    world.bring("victim@b.test", ANA, (&forged.0, false)).await.unwrap();
    assert_eq!(world.left_to().await, ["victim@b.test"]);
}

/// The sender of mail to a postmaster may not know the account that gets it. The account's script
/// sends the message on to somebody else.
#[tokio::test]
async fn a_refusal_names_whom_the_sender_wrote_to() {
    const REFUSES: &str = "require \"reject\"; reject \"no\";";
    let world = World::new().await;
    world.add(BO).await;
    world.give_script(BO, REFUSES).await;
    let asked = DsnRequest { named: Some("postmaster@example.org"), ..DsnRequest::default() };
    for (script, named) in [(REFUSES, "postmaster@example.org"), ("redirect \"bo@example.org\";", BO)] {
        world.use_script(script).await;
        world.deliver_asked(MESSAGE, (RequiredExtensions::default(), asked), ANA).await.unwrap();
        let (to, report) = world.left().await.remove(0);
        assert_eq!(to, "bo@b.test");
        assert!(report.contains(&format!("\r\nFinal-Recipient: rfc822; {named}\r\n")), "{report}");
        assert!(report.contains(&format!("was refused by {named}.")), "{report}");
        assert!(named == BO || !report.contains(ANA), "{report}");
    }
}

#[tokio::test]
async fn junk_does_not_leave_the_server() {
    let world = World::new().await;
    let forged = mail("victim@b.test");
    world.forward(ANA, "x@c.test").await;
    world.bring("victim@b.test", ANA, (&forged, true)).await.unwrap();
    world.directory.set_forward(ANA, None).await.unwrap();
    for (at, script) in
        ["redirect \"x@c.test\";", "require \"enotify\"; notify \"mailto:x@c.test\";"].into_iter().enumerate()
    {
        world.use_script(script).await;
        world.bring("victim@b.test", ANA, (&forged, true)).await.unwrap();
        assert!(world.queued().await.is_empty(), "{script}");
        assert_eq!(world.count(ANA, JUNK).await, u32::try_from(at).unwrap() + 2, "{script}");
        assert_eq!(world.count(ANA, "INBOX").await, 0);
    }
    // Its members here get it, whether the group has an owner or not. SPF would pass for a sender
    // of ours, and so would DMARC for a forged author of our domain.
    world.use_script("keep;").await;
    let members = [ANA, "x@c.test"].map(str::to_owned);
    for (owner, from) in [(None, "victim@b.test"), (None, CHIEF), (Some(ANA), "victim@b.test")] {
        let before = world.count(ANA, JUNK).await;
        world.directory.groups().set("all@example.org", &members, owner).await.unwrap();
        world.bring(from, "all@example.org", (&mail(CHIEF), true)).await.unwrap();
        assert_eq!(world.left_to().await, [""; 0], "{owner:?} {from}");
        assert_eq!(world.count(ANA, JUNK).await, before + 1);
    }
    // No member has it: the sender's host hears of that.
    world.directory.groups().set("far@example.org", &["x@c.test".to_owned()], None).await.unwrap();
    let outcome = world.bring("victim@b.test", "far@example.org", (&forged, true)).await;
    assert!(matches!(outcome, Err(Undelivered::Rejected(_))), "{outcome:?}");
    assert!(world.queued().await.is_empty());
}

/// RFC 3030 §3, RFC 6531 §3.4: what such a host cannot take, it does not get.
#[tokio::test]
async fn a_stored_message_leaves_in_the_form_that_it_needs() {
    let world = World::new().await;
    world.use_script("require [\"imapsieve\", \"copy\"]; redirect :copy \"x@c.test\";").await;
    let head = "From: ana@example.org\r\nSubject: hi\r\n\r\n";
    for (message, binary, smtputf8) in [
        (format!("{head}words\r\n"), false, false),
        (format!("{head}grüße\r\n"), false, false),
        (format!("{head}a\0b\r\n"), true, false),
        (format!("{head}a\nb\r\n"), true, false),
        (format!("{head}a\rb\r\n"), true, false),
        (format!("{head}a\r"), true, false),
        ("From: ana@example.org\r\nSubject: grüße\r\n\r\nwords\r\n".to_owned(), false, true),
    ] {
        world.put(&message).await;
        let item = world.queued().await.remove(0);
        assert_eq!((item.binary, item.smtputf8), (binary, smtputf8), "{message:?}");
        world.queue.remove(&item).await.unwrap();
    }
}

/// SPF passes for the sender, which is ours, and is aligned with every user of the domain.
#[tokio::test]
async fn a_script_sends_nothing_on_in_the_name_of_another_user() {
    let world = World::new().await;
    for name in [BO, CHIEF] {
        world.add(name).await;
    }
    let renamed = |author: &str| {
        format!(
            "require \"editheader\"; deleteheader \"From\"; addheader \"From\" \"{author}\"; redirect \"x@c.test\";"
        )
    };
    let as_it_is = "redirect \"x@c.test\";".to_owned();
    for (from, author, script, leaves) in [
        (ANA, ANA, renamed(CHIEF), false),
        ("far@b.test", "far@b.test", renamed(CHIEF), false),
        ("", "far@b.test", renamed(CHIEF), false),
        (BO, BO, renamed(CHIEF), false),
        (ANA, CHIEF, as_it_is.clone(), false),
        (ANA, "chief@sub.example.org", as_it_is.clone(), false),
        // A field in addition to that of the account.
        (
            ANA,
            ANA,
            "require \"editheader\"; addheader \"From\" \"chief@example.org\"; redirect \"x@c.test\";".into(),
            false,
        ),
        (ANA, ANA, renamed("Ana <ana@example.org>"), true),
        (ANA, ANA, as_it_is.clone(), true),
        (ANA, "far@b.test", as_it_is.clone(), true),
        ("far@b.test", "far@b.test", as_it_is.clone(), true),
        (BO, BO, as_it_is.clone(), true),
        ("far@b.test", CHIEF, as_it_is.clone(), true),
    ] {
        let before = world.inbox().await;
        world.use_script(&script).await;
        world.bring(from, ANA, (&mail(author), false)).await.unwrap();
        assert_eq!(world.left_to().await.len(), usize::from(leaves), "{from} {author} {script}");
        assert_eq!(world.inbox().await, before + u32::from(!leaves), "{from} {author} {script}");
    }
    // A list has its owner as the sender of what others wrote.
    world.use_script("keep;").await;
    world.forward(ANA, "x@c.test").await;
    world.directory.groups().set("list@example.org", &[ANA.to_owned()], Some(ANA)).await.unwrap();
    world.bring(BO, "list@example.org", (&mail(BO), false)).await.unwrap();
    assert_eq!(world.left_to().await, ["x@c.test"]);
}

/// The server signs a reply. A reader may be shown the sender in place of the author.
#[tokio::test]
async fn a_reply_names_no_other_user_as_its_sender() {
    let world = World::new().await;
    world.add(CHIEF).await;
    for (at, (field, leaves)) in [
        ("Sender: chief@example.org", false),
        ("Resent-From: Chief <chief@example.org>", false),
        ("Resent-Sender: ana@example.org, chief@example.org", false),
        ("Sender: boss@elsewhere.test", false),
        ("Sender:", false),
        ("Sender: Ana <ana@example.org>", true),
        ("X-Other: chief@example.org", true),
    ]
    .into_iter()
    .enumerate()
    {
        let script = format!("require \"vacation\"; vacation :mime \"{field}\r\n\r\naway\";");
        world.use_script(&script).await;
        let from = format!("far{at}@b.test");
        world.bring(&from, ANA, (&mail(&from), false)).await.unwrap();
        let wanted: Vec<String> = leaves.then_some(from).into_iter().collect();
        assert_eq!(world.left_to().await, wanted, "{field}");
    }
}

/// RFC 8601 §5: mail programs believe what bears our name.
#[tokio::test]
async fn mail_of_a_script_has_no_results_in_our_name() {
    let world = World::new().await;
    let forged = "Authentication-Results: mail.example.org; dmarc=pass header.from=bank.test";
    let uri = "mailto:far@b.test?Authentication-Results=mail.example.org;dmarc=pass&X-Other=dmarc=none";
    for (script, other) in [
        (
            format!("require \"vacation\"; vacation :mime \"{forged}\r\nX-Other: dmarc=none\r\n\r\naway\";"),
            "",
        ),
        (format!("require \"enotify\"; notify \"{uri}\";"), "Auto-Submitted: auto-notified"),
    ] {
        world.use_script(&script).await;
        world.bring("far@b.test", ANA, (&mail("far@b.test"), false)).await.unwrap();
        let (_, text) = world.left().await.remove(0);
        assert!(
            text.contains("dmarc=none") && text.contains(other) && !text.contains("dmarc=pass"),
            "{text}"
        );
    }
}

/// A message may name an account by a thousand addresses, and its script runs for each.
#[tokio::test]
async fn an_account_sends_so_much_because_of_one_message() {
    let world = World::new().await;
    let script: String = (0..8).map(|n| format!("redirect \"x{n}@c.test\";")).collect();
    world.use_script(&script).await;
    let named: Vec<String> = (0..30).map(|n| format!("ana+{n}@example.org")).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let outcomes = world.deliver_all("far@b.test", RemoteClient::default(), &named).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!((world.queued().await.len(), world.inbox().await), (100, 1));
}

/// Their sender may be forged, and its host may never answer.
#[tokio::test]
async fn refusals_cause_a_bounded_number_of_reports() {
    let world = World::new().await;
    world.add(BO).await;
    world.use_script("require \"reject\"; reject \"no\";").await;
    let named: Vec<String> = (0..120).map(|n| format!("ana+{n}@example.org")).collect();
    // The message is in a mailbox, so no reply refuses it.
    let named: Vec<&str> = named.iter().map(String::as_str).chain([BO]).collect();
    let outcomes = world.deliver_all("far@b.test", RemoteClient::default(), &named).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    // What cannot be reported is kept, once.
    assert_eq!((world.queued().await.len(), world.inbox().await), (100, 1));
    // One domain has a share of what may wait.
    let world = World::new().await;
    world.filter.relay().unwrap().set_items_max(256);
    world.use_script("require \"reject\"; reject \"no\";").await;
    for _ in 0..5 {
        world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
    }
    assert_eq!((world.queued().await.len(), world.inbox().await), (2, 3));
}

/// A sender that the message had when it came stays.
#[tokio::test]
async fn a_script_adds_no_sender_but_its_account() {
    let world = World::new().await;
    world.add(CHIEF).await;
    for (field, address, leaves) in [
        ("Sender", CHIEF, false),
        ("Resent-From", CHIEF, false),
        ("Resent-Sender", "boss@elsewhere.test", false),
        ("Resent-From", ANA, true),
    ] {
        let edit = format!("addheader \"{field}\" \"{address}\"; redirect \"x@c.test\";");
        world.use_script(&format!("require \"editheader\"; {edit}")).await;
        world.bring("far@b.test", ANA, (&mail("far@b.test"), false)).await.unwrap();
        assert_eq!(world.left_to().await.len(), usize::from(leaves), "{field}: {address}");
    }
    world.use_script("redirect \"x@c.test\";").await;
    // A list, or a secretary.
    for (from, sender) in [("far@b.test", CHIEF), (ANA, CHIEF), (ANA, "list@elsewhere.test")] {
        let message = format!("Sender: {sender}\r\n{}", mail(from));
        world.bring(from, ANA, (&message, false)).await.unwrap();
        assert_eq!(world.left_to().await, ["x@c.test"], "{from}: {sender}");
    }
    // A script that writes the account into `From` leaves the sender as it was, too.
    let edits = format!("deleteheader \"From\"; addheader \"From\" \"{ANA}\"; redirect \"x@c.test\";");
    world.use_script(&format!("require \"editheader\"; {edits}")).await;
    let message = format!("Sender: list@elsewhere.test\r\n{}", mail("far@b.test"));
    world.bring("far@b.test", ANA, (&message, false)).await.unwrap();
    assert_eq!(world.left_to().await, ["x@c.test"]);
}

/// A user has written all of a message that an IMAP command adds.
#[tokio::test]
async fn a_message_that_a_user_adds_leaves_with_no_name_and_no_results_of_others() {
    let world = World::new().await;
    for name in [BO, CHIEF] {
        world.add(name).await;
    }
    let mut keys = DomainKeys::new("example.org");
    keys.generate(KeyState::Signing, 0).unwrap();
    keys.save(&*world.engine).await.unwrap();
    world.use_script("require [\"imapsieve\", \"copy\"]; redirect :copy \"x@c.test\";").await;
    world.put(&mail(CHIEF)).await;
    assert!(world.left().await.is_empty());
    let forged = "Authentication-Results: mail.example.org; dmarc=pass header.from=bank.test\r\n";
    let forged = format!("{forged}{}", mail("a@bank.test"));
    world.put(&forged).await;
    let (_, text) = world.left().await.remove(0);
    assert!(!text.contains("dmarc=pass") && !text.contains("ARC-"), "{text}");
    // The next account must not believe them either.
    world.use_script("require [\"imapsieve\", \"copy\"]; redirect :copy \"bo@example.org\";").await;
    world.forward(BO, "x@c.test").await;
    world.put(&forged.replace("a@bank.test", ANA)).await;
    let (_, text) = world.left().await.remove(0);
    assert!(!text.contains("dmarc=pass") && !text.contains("ARC-"), "{text}");
    // Results of a delivery are sealed.
    world.bring("a@bank.test", BO, (&forged, false)).await.unwrap();
    let (_, text) = world.left().await.remove(0);
    assert!(text.starts_with("ARC-Seal: i=1;") && text.contains("dmarc=pass"), "{text}");
}

/// RFC 5321 §4.4.
#[tokio::test]
async fn an_edited_message_leaves_without_its_return_path() {
    let world = World::new().await;
    let script = "require \"editheader\"; addheader \"X-Seen-By\" \"sieve\"; redirect \"x@c.test\";";
    world.use_script(script).await;
    world.bring("far@b.test", ANA, (&mail("far@b.test"), false)).await.unwrap();
    let (_, text) = world.left().await.remove(0);
    assert!(text.contains("\r\nX-Seen-By: sieve\r\n") && !text.contains("Return-Path"), "{text}");
}

/// RFC 5436 §2.3, RFC 6068 §5: the addresses in the field get it.
#[tokio::test]
async fn a_notification_reaches_who_is_named_in_cc() {
    let world = World::new().await;
    world.use_script("require \"enotify\"; notify \"mailto:x@c.test?cc=y@c.test,z@c.test\";").await;
    world.bring("far@b.test", ANA, (&mail("far@b.test"), false)).await.unwrap();
    let left = world.left().await;
    assert!(left.iter().all(|(_, text)| text.contains("\r\ncc: y@c.test, z@c.test\r\n")), "{left:?}");
    let mut to: Vec<_> = left.into_iter().map(|(to, _)| to).collect();
    to.sort_unstable();
    assert_eq!(to, ["x@c.test", "y@c.test", "z@c.test"]);
}

/// RFC 5429 §2.2.1: a reply of the protocol would have other letters.
#[tokio::test]
async fn a_reason_beyond_ascii_is_reported_unless_the_script_wants_a_reply() {
    let world = World::new().await;
    let message = mail("far@b.test");
    let bring = async |from, is_junk| world.bring(from, ANA, (&message, is_junk)).await;
    world.use_script("require \"reject\"; reject \"grüße\";").await;
    assert_eq!(bring("far@b.test", false).await.unwrap(), None);
    assert_eq!(world.left_to().await, ["far@b.test"]);
    let is_refused =
        |outcome: &Delivered| matches!(outcome, Err(Undelivered::Rejected(why)) if why == "grüße");
    // A sender that can get no report is refused by the protocol.
    for (from, is_junk) in [("", false), ("far@b.test", true)] {
        let outcome = bring(from, is_junk).await;
        assert!(is_refused(&outcome), "{outcome:?}");
    }
    world.use_script("require \"ereject\"; ereject \"grüße\";").await;
    let outcome = bring("far@b.test", false).await;
    assert!(is_refused(&outcome), "{outcome:?}");
    world.use_script("require \"reject\"; reject \"no\";").await;
    assert!(matches!(bring("far@b.test", false).await, Err(Undelivered::Rejected(_))));
    assert_eq!((world.left().await.len(), world.inbox().await), (0, 0));
}

/// RFC 9208 §5.3, RFC 5490 §3.2: what cannot be filed stays in INBOX.
#[tokio::test]
async fn a_script_makes_no_more_mailboxes_than_the_account_may_have() {
    let world = World::new().await;
    let quota = AccountChange { quota_mailboxes: Some(Some(7)), ..AccountChange::default() };
    world.directory.set(ANA, quota).await.unwrap();
    let bring = async |is_junk| world.bring("far@b.test", ANA, (&mail("far@b.test"), is_junk)).await.unwrap();
    // There are six from the beginning.
    for (name, found) in [("one", (1, 0)), ("two", (0, 1)), ("one/below", (0, 2)), ("one", (2, 2))] {
        let script = format!("require [\"fileinto\", \"mailbox\"]; fileinto :create \"{name}\";");
        world.use_script(&script).await;
        bring(false).await;
        assert_eq!((world.count(ANA, name).await, world.inbox().await), found, "{name}");
    }
    // Without a junk folder, and without room for one.
    let account = world.directory.account(ANA).await.unwrap().unwrap();
    let store = world.filter.delivery().store();
    store.delete(account.id, &MailboxName::new("Junk").unwrap()).await.unwrap();
    store.create(account.id, &MailboxName::new("other").unwrap(), None).await.unwrap();
    world.use_script("keep;").await;
    bring(true).await;
    assert_eq!((world.count(ANA, "Junk").await, world.inbox().await), (0, 3));
}

/// RFC 5228 §10. A script that names many addresses of one account makes no copy for each.
#[tokio::test]
async fn one_mailbox_gets_a_redirected_message_once() {
    let world = World::new().await;
    world.add(BO).await;
    let to = ["bo@example.org", "bo+a@example.org", "bo+b@example.org", "x@c.test", "bo+c@example.org"];
    world.use_script(&to.map(|to| format!("redirect \"{to}\";\r\n")).concat()).await;
    world.bring("victim@b.test", ANA, (&mail("victim@b.test"), false)).await.unwrap();
    assert_eq!((world.count(BO, "INBOX").await, world.inbox().await), (1, 0));
    assert_eq!(world.left_to().await, ["x@c.test"]);
    // Another version of it is another message.
    let edits = "require \"editheader\"; redirect \"bo@example.org\"; addheader \"X\" \"y\"; redirect \"bo+a@example.org\";";
    world.use_script(edits).await;
    world.bring("victim@b.test", ANA, (&mail("victim@b.test"), false)).await.unwrap();
    assert_eq!(world.count(BO, "INBOX").await, 3);
    // Each address has a mailbox of its own: each of them gets a copy.
    let files = "require [\"fileinto\", \"mailbox\", \"envelope\", \"subaddress\", \"variables\"];
        if envelope :detail :matches \"to\" \"*\" { fileinto :create \"${1}\"; }";
    world.give_script(BO, files).await;
    world.use_script(&to.map(|to| format!("redirect \"{to}\";\r\n")).concat()).await;
    world.bring("victim@b.test", ANA, (&mail("victim@b.test"), false)).await.unwrap();
    let found = (world.count(BO, "a").await, world.count(BO, "b").await, world.count(BO, "INBOX").await);
    assert_eq!(found, (1, 1, 4));
}
