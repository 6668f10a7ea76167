//! The filter with a queue, on an engine in memory whose directory fails on demand.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryOptions, SummaryMemory, WorkFor};
use posthaste_directory::{AccountChange, Annotated, Directory, Forward, NewAccount, Policy};
use posthaste_mail_model::{MailboxName, Secret};
use posthaste_net::{AccountLimits, Accounts, ByteBudget};
use posthaste_queue::{
    EnvelopeId, Item, Notify, OriginalRecipient, Queue, Relay, Return, Success, TlsRequirement,
};
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use posthaste_testkit::FaultyDirectory;

use crate::{
    Delivered, DsnRequest, Envelope, Filter, Refusals, RemoteClient, RequiredExtensions, Undelivered,
};

mod copies;
mod full_folders;
mod groups;
mod included;
mod long_headers;
mod questions;
mod refusals;
mod removed;
mod sent_on;
mod submission;

const ANA: &str = "ana@example.org";
const MESSAGE: &[u8] = b"Received: by a\r\nFrom: bo@b.test\r\nSubject: hello\r\n\r\nwords\r\n";

struct World {
    engine: Arc<FaultyDirectory>,
    directory: Arc<Directory>,
    filter: Filter,
    queue: Queue,
}

impl World {
    /// With one account, ana, and a way to other domains.
    async fn new() -> Self {
        let engine = Arc::new(FaultyDirectory::new(Arc::new(MemoryEngine::new())));
        let shared = Arc::clone(&engine) as Arc<dyn Engine>;
        let directory = Directory::with_policy(Arc::clone(&shared), Policy::cheap_for_tests()).unwrap();
        let directory = Arc::new(directory);
        let store = Store::new(shared, StoreOptions::default());
        let delivery = Delivery::new(store, Arc::clone(&directory), DeliveryOptions::default());
        let queue = Queue::open(delivery.clone()).await.unwrap();
        let relay = Relay::new(queue.clone(), delivery.clone(), "mail.example.org");
        let filter = Filter::new(delivery, Some(relay), "mail.example.org");
        let world = Self { engine, directory, filter, queue };
        world.add(ANA).await;
        world
    }

    async fn add(&self, name: &str) {
        self.directory.add(name, &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
    }

    async fn use_script(&self, text: &str) {
        let account = self.directory.account(ANA).await.unwrap().unwrap();
        self.directory.scripts().put(&account, "main", text).await.unwrap();
        self.directory.scripts().activate(&account, Some("main")).await.unwrap();
    }

    /// Delivers a message from `bo@b.test` to an address here.
    async fn deliver(&self, message: &'static [u8], needs: RequiredExtensions, to: &str) -> Delivered {
        self.deliver_asked(message, (needs, DsnRequest::default()), to).await
    }

    /// The same for a sender who wants this to be reported.
    async fn deliver_asked(
        &self,
        message: &'static [u8],
        (needs, asked): (RequiredExtensions, DsnRequest<'_>),
        to: &str,
    ) -> Delivered {
        let target = self.filter.target(to).await.unwrap();
        let (from, refusals, tls, asked) =
            ("bo@b.test", Refusals::Never, TlsRequirement::Policy, &[asked][..]);
        let envelope = Envelope {
            from,
            refusals,
            is_quarantined: false,
            tls,
            needs,
            asked,
            client: RemoteClient::default(),
            lease_end: None,
        };
        let message = Bytes::from([&b"Return-Path: <bo@b.test>\r\n"[..], message].concat());
        self.filter.deliver_to(message, envelope, &[target]).await.remove(0)
    }

    /// Delivers a message to all of these addresses, as by SMTP.
    async fn deliver_all(&self, from: &str, client: RemoteClient<'_>, to: &[&str]) -> Vec<Delivered> {
        let mut targets = Vec::new();
        for to in to {
            targets.push(self.filter.target(to).await.unwrap());
        }
        let (refusals, is_quarantined, tls) = (Refusals::Together, false, TlsRequirement::Policy);
        let needs = RequiredExtensions::default();
        let envelope =
            Envelope { from, refusals, is_quarantined, tls, needs, asked: &[], client, lease_end: None };
        self.filter.deliver_to(Bytes::from_static(MESSAGE), envelope, &targets).await
    }

    /// The same, with a limit of copies that groups make in an hour.
    fn with_copies(self, group_copies_per_hour: u64) -> Self {
        let limits = AccountLimits { group_copies_per_hour, ..AccountLimits::default() };
        Self { filter: self.filter.with_accounts(Accounts::new(limits)), ..self }
    }

    /// Messages in the INBOX of ana.
    async fn inbox(&self) -> u32 {
        self.messages(&MailboxName::inbox()).await
    }

    /// Messages in a folder of ana.
    async fn messages(&self, folder: &MailboxName) -> u32 {
        let delivery = self.filter.delivery();
        let ana = delivery.resolve(ANA).await.unwrap();
        let list = delivery.mailboxes(&ana.account).await.unwrap();
        let folder = list.find(folder).unwrap().id;
        delivery.store().open(folder).await.unwrap().current().await.unwrap().exists()
    }

    async fn queued(&self) -> Vec<Item> {
        self.queue.page(None).await.unwrap().map_or_else(Vec::new, |page| page.items)
    }
}

/// The message waits for the script, instead of being filed without a script.
#[tokio::test]
async fn a_script_that_cannot_be_read_for_now_puts_the_message_off() {
    let world = World::new().await;
    world.use_script("discard;").await;
    world.engine.fail_to_read(Some("sieve/"));
    let outcome = world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await;
    assert!(matches!(&outcome, Err(Undelivered::Delivery(error)) if error.is_temporary()), "{outcome:?}");
    assert_eq!(world.inbox().await, 0);
    world.engine.fail_to_read(None);
    world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
    assert_eq!(world.inbox().await, 0);
    // One that does not compile is no reason to wait.
    world.use_script("nonsense").await;
    world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
    assert_eq!(world.inbox().await, 1);
}

/// RFC 3030 §3, RFC 6531 §3.4: a host that cannot take the message as it is must not get it.
#[tokio::test]
async fn redirected_mail_keeps_its_form() {
    let world = World::new().await;
    let forward = Forward { to: vec!["x@c.test".into()], keep: false };
    world.add("fo@example.org").await;
    world.directory.set_forward("fo@example.org", Some(forward)).await.unwrap();
    let members = [ANA, "y@c.test"].map(str::to_owned).to_vec();
    world.directory.groups().set("all@example.org", &members, None).await.unwrap();
    world.use_script("redirect \"z@c.test\"; keep;").await;
    let forms = [(true, false), (false, true), (false, false)];
    for needs in forms.map(|(binary, smtputf8)| RequiredExtensions { binary, smtputf8 }) {
        for (to, count) in [("fo@example.org", 1), (ANA, 1), ("all@example.org", 2)] {
            world.deliver(MESSAGE, needs, to).await.unwrap();
            let items = world.queued().await;
            assert_eq!(items.len(), count, "{to}");
            for item in items {
                assert_eq!(
                    RequiredExtensions { binary: item.binary, smtputf8: item.smtputf8 },
                    needs,
                    "{to}"
                );
                world.queue.remove(&item).await.unwrap();
            }
        }
    }
    // Mail that is made here has its own needs.
    world.use_script("require \"vacation\"; vacation \"away\";").await;
    let to_ana: &[u8] =
        b"Received: by a\r\nFrom: bo@b.test\r\nTo: ana@example.org\r\nSubject: hi\r\n\r\n\0\n";
    world.deliver(to_ana, RequiredExtensions { binary: true, smtputf8: true }, ANA).await.unwrap();
    let reply = world.queued().await.remove(0);
    assert!(!reply.binary && !reply.smtputf8, "{reply:?}");
}

/// The part for programs names each member that did not get the message.
#[tokio::test]
async fn a_report_names_all_members_who_got_nothing() {
    let world = World::new().await;
    let members = [ANA, "no@example.org", "away@example.org"].map(str::to_owned).to_vec();
    for name in ["no@example.org", "away@example.org"] {
        world.add(name).await;
    }
    world.directory.groups().set("all@example.org", &members, None).await.unwrap();
    for name in ["no@example.org", "away@example.org"] {
        let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
        world.directory.set(name, change).await.unwrap();
    }
    world.deliver(MESSAGE, RequiredExtensions::default(), "all@example.org").await.unwrap();
    let report = world.queued().await.remove(0);
    assert_eq!(report.recipients[0].address, "bo@b.test");
    let text = world.queue.message(&report).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    for name in ["no@example.org", "away@example.org"] {
        assert!(
            text.contains(&format!("\r\n\r\nFinal-Recipient: rfc822; {name}\r\nAction: failed\r\n")),
            "{text}"
        );
    }
}

/// RFC 3461 §5.2.7: a forward, a script or an alias causes no report that the sender did not
/// request. A list has a sender of its own, which requests nothing.
#[tokio::test]
async fn the_senders_requests_go_with_redirected_mail() {
    let world = World::new().await;
    let forward = Forward { to: vec!["x@c.test".into()], keep: false };
    world.add("fo@example.org").await;
    world.directory.set_forward("fo@example.org", Some(forward)).await.unwrap();
    let members = ["fo@example.org", "y@c.test"].map(str::to_owned);
    world.directory.groups().set("alias@example.org", &members, None).await.unwrap();
    world.directory.groups().set("list@example.org", &members, Some(ANA)).await.unwrap();
    world.use_script("redirect \"z@c.test\";").await;
    let (envid, orcpt) = (EnvelopeId::parse("id"), OriginalRecipient::parse("rfc822;q@c.test"));
    let notify = Notify::parse("SUCCESS,DELAY");
    let (ret, envid_ref, orcpt_ref, named) = (Some(Return::Full), envid.as_ref(), orcpt.as_ref(), None);
    let asked = DsnRequest { ret, envid: envid_ref, notify, orcpt: orcpt_ref, named };
    for (to, count) in [("fo@example.org", 1), (ANA, 1), ("alias@example.org", 2), ("list@example.org", 2)] {
        world.deliver_asked(MESSAGE, (RequiredExtensions::default(), asked), to).await.unwrap();
        let items = world.queued().await;
        assert_eq!(items.len(), count, "{to}");
        for item in items {
            let recipient = &item.recipients[0];
            let found = (item.ret, &item.envid, recipient.notify, &recipient.orcpt);
            // That it was sent on is the success that is reported.
            let wanted = (asked.ret, &envid, Notify::parse("DELAY"), &orcpt);
            match to {
                "list@example.org" => assert_eq!(found, (None, &None, None, &None)),
                _ => assert_eq!(found, wanted, "{to}"),
            }
            world.queue.remove(&item).await.unwrap();
        }
    }
    // Refusals are reports, too.
    world.use_script("require \"reject\"; reject \"no\";").await;
    let never = DsnRequest { notify: Some(Notify::NEVER), ..asked };
    // A refusal is no success, with or without a report.
    assert_eq!(
        world.deliver_asked(MESSAGE, (RequiredExtensions::default(), never), ANA).await.unwrap(),
        None
    );
    assert_eq!((world.queued().await.len(), world.inbox().await), (0, 0));
    let failure = DsnRequest { notify: Notify::parse("FAILURE"), ..asked };
    assert_eq!(
        world.deliver_asked(MESSAGE, (RequiredExtensions::default(), failure), ANA).await.unwrap(),
        None
    );
    let report = world.queue.message(&world.queued().await[0]).await.unwrap();
    let report = String::from_utf8(report.to_vec()).unwrap();
    assert!(report.contains("\r\nOriginal-Envelope-Id: id\r\n"), "{report}");
    assert!(report.contains("\r\nOriginal-Recipient: rfc822; q@c.test\r\n"), "{report}");
}

/// RFC 3461 §5.2.7: what was done, and not what was wanted.
#[tokio::test]
async fn redirected_mail_is_not_reported_as_delivered() {
    let world = World::new().await;
    let members = [ANA.to_owned()];
    world.directory.groups().set("alias@example.org", &members, None).await.unwrap();
    world.directory.groups().set("list@example.org", &members, Some(ANA)).await.unwrap();
    for (address, to, keep, wanted) in [
        (ANA, &[][..], true, Success::Delivered),
        (ANA, &["x@c.test"], true, Success::Delivered),
        (ANA, &["x@c.test"], false, Success::SentOn),
        (ANA, &["x@c.test", "y@c.test"], false, Success::Expanded),
        // It leads nowhere: the account keeps the message.
        (ANA, &["no@example.org"], false, Success::Delivered),
        ("alias@example.org", &[], true, Success::Expanded),
        ("list@example.org", &[], true, Success::Delivered),
    ] {
        let to: Vec<String> = to.iter().map(|to| (*to).to_owned()).collect();
        let forward = (!to.is_empty()).then_some(Forward { to, keep });
        world.directory.set_forward(ANA, forward).await.unwrap();
        let found = world.deliver(MESSAGE, RequiredExtensions::default(), address).await.unwrap();
        assert_eq!(found, Some(wanted), "{address}");
    }
    world.directory.set_forward(ANA, None).await.unwrap();
    for (script, wanted) in [
        ("redirect \"x@c.test\";", Success::SentOn),
        ("redirect \"x@c.test\"; redirect \"y@c.test\";", Success::Expanded),
        ("redirect \"x@c.test\"; keep;", Success::Delivered),
        ("discard;", Success::Delivered),
        // It leads nowhere: the account keeps the message.
        ("redirect \"no@example.org\";", Success::Delivered),
    ] {
        world.use_script(script).await;
        assert_eq!(
            world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap(),
            Some(wanted),
            "{script}"
        );
    }
}

/// Each message allocated and moved 17 KiB of state: of scripts, forwards and groups.
#[tokio::test]
async fn the_state_of_plain_mail_is_small() {
    let world = World::new().await;
    let target = world.filter.target(ANA).await.unwrap();
    let recipient = world.filter.resolve(ANA).await.unwrap();
    let envelope = Envelope {
        from: "bo@b.test",
        refusals: Refusals::Each,
        is_quarantined: false,
        tls: TlsRequirement::Policy,
        needs: RequiredExtensions::default(),
        asked: &[],
        client: RemoteClient::default(),
        lease_end: None,
    };
    let message = Bytes::from_static(MESSAGE);
    let (targets, recipients) = ([target], [recipient]);
    let to_all = std::mem::size_of_val(&*world.filter.deliver_to(message.clone(), envelope, &targets));
    let to_accounts = std::mem::size_of_val(&*world.filter.deliver(message, envelope, &recipients));
    assert!(to_all <= 2048 && to_accounts <= 1024, "{to_all} and {to_accounts} octets");
}

/// A group holds no summary, so it may wait for memory, and what it takes is counted.
#[tokio::test]
async fn copies_of_a_group_wait_for_memory_as_other_mail_does() {
    let world = World::new().await;
    let delivery = world.filter.delivery().clone().with_finished(ByteBudget::new(1));
    let world = World { filter: Filter::new(delivery.clone(), None, "mail.example.org"), ..world };
    world.directory.groups().set("all@example.org", &[ANA.to_owned()], None).await.unwrap();
    let ana = [delivery.resolve(ANA).await.unwrap()];
    let (whose, message) = (WorkFor::mail_to(&ana), Bytes::from_static(MESSAGE));
    let held = delivery.forms(whose, message, &ana, SummaryMemory::Counted).await.unwrap();
    let mut delivered = pin!(world.deliver(MESSAGE, RequiredExtensions::default(), "all@example.org"));
    // The engine is in memory: this number of turns is enough for all possible work.
    for _ in 0..1_000 {
        assert!(futures_util::poll!(&mut delivered).is_pending(), "nobody paid for the summary");
        tokio::task::yield_now().await;
    }
    drop(held);
    delivered.await.unwrap();
    assert_eq!(world.inbox().await, 1);
}

/// Copies of an account that has logged in and of a forged sender count separately.
#[tokio::test]
async fn a_forger_does_not_use_up_the_copies_of_a_user() {
    let world = World::new().await.with_copies(1);
    let members = ["x@c.test", "y@c.test"].map(str::to_owned);
    world.directory.groups().set("all@example.org", &members, None).await.unwrap();
    let (forger, user) = (RemoteClient::default(), RemoteClient { account: Some(ANA), ..Default::default() });
    for client in [forger, user] {
        for is_taken in [true, false] {
            let outcome = world.deliver_all(ANA, client, &["all@example.org"]).await.remove(0);
            assert_eq!(outcome.is_ok(), is_taken, "{client:?}: {outcome:?}");
        }
    }
    // Whatever address of theirs a user names.
    let outcome = world.deliver_all("ana+x@example.org", user, &["all@example.org"]).await.remove(0);
    assert!(matches!(outcome, Err(Undelivered::TooManyCopies(1))), "{outcome:?}");
}

/// The owner of a list may be a group, and strangers send mail without a sender to it.
#[tokio::test]
async fn reports_to_a_group_count_for_nobody() {
    let world = World::new().await.with_copies(1);
    world.add("no@example.org").await;
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    world.directory.set("no@example.org", change).await.unwrap();
    world
        .directory
        .groups()
        .set("owners@example.org", &[ANA, "y@c.test"].map(str::to_owned), None)
        .await
        .unwrap();
    let members = ["x@c.test", "no@example.org"].map(str::to_owned);
    world.directory.groups().set("list@example.org", &members, Some("owners@example.org")).await.unwrap();
    let stranger = RemoteClient::default();
    for is_taken in [true, false] {
        let outcome = world.deliver_all("", stranger, &["owners@example.org"]).await.remove(0);
        assert_eq!(outcome.is_ok(), is_taken, "{outcome:?}");
    }
    world.deliver(MESSAGE, RequiredExtensions::default(), "list@example.org").await.unwrap();
    assert_eq!(world.inbox().await, 2);
}

/// Without a queue there is one reply for all recipients. Members that have the message would get
/// it again with each attempt.
#[tokio::test]
async fn without_a_queue_a_sender_over_the_limit_of_copies_reaches_nobody() {
    let world = World::new().await.with_copies(2);
    let world = World { filter: world.filter.clone().with_relay(None), ..world };
    world.add("cy@example.org").await;
    for name in ["one@example.org", "two@example.org"] {
        let members = ["cy@example.org", ANA].map(str::to_owned);
        world.directory.groups().set(name, &members, None).await.unwrap();
    }
    let deliver = async |to: &[&str]| world.deliver_all("bo@b.test", RemoteClient::default(), to).await;
    // Copies of both groups are counted together: the first does not have the second refused.
    let outcomes = deliver(&[ANA, "one@example.org", "two@example.org"]).await;
    assert!(outcomes.len() == 3 && outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(world.inbox().await, 3);
    let outcomes = deliver(&[ANA, "one@example.org"]).await;
    let are_put_off = outcomes.iter().all(|one| matches!(one, Err(Undelivered::TooManyCopies(2))));
    assert!(outcomes.len() == 2 && are_put_off, "{outcomes:?}");
    assert_eq!(world.inbox().await, 3);
}

/// RFC 2919 §2: a group with an owner is a list.
#[tokio::test]
async fn copies_of_a_list_name_it() {
    let world = World::new().await;
    let members = ["y@c.test".to_owned()];
    world.directory.groups().set("alias@example.org", &members, None).await.unwrap();
    world.directory.groups().set("list@example.org", &members, Some(ANA)).await.unwrap();
    let listed: &[u8] = b"List-Id: <other.test>\r\nSubject: hi\r\n\r\n";
    for (to, message, fields) in [
        ("alias@example.org", MESSAGE, ["", ""]),
        ("list@example.org", MESSAGE, ["List-Id: <list.example.org>\r\n", "Precedence: list\r\n"]),
        ("list@example.org", listed, ["List-Id: <other.test>\r\n", "Precedence: list\r\n"]),
    ] {
        world.deliver(message, RequiredExtensions::default(), to).await.unwrap();
        let item = world.queued().await.remove(0);
        let text = String::from_utf8(world.queue.message(&item).await.unwrap().to_vec()).unwrap();
        for (name, field) in ["List-Id", "Precedence"].into_iter().zip(fields) {
            assert_eq!(text.matches(name).count(), usize::from(!field.is_empty()), "{to}: {text}");
            assert!(text.contains(field), "{to}: {text}");
        }
        world.queue.remove(&item).await.unwrap();
    }
}

/// RFC 5490 §3, §5.
#[tokio::test]
async fn a_script_reads_annotations() {
    let world = World::new().await;
    let ana = world.directory.account(ANA).await.unwrap().unwrap();
    let list = world.filter.delivery().mailboxes(&ana).await.unwrap();
    let inbox = list.find(&MailboxName::inbox()).unwrap().id;
    let note = |value: &'static str| [("/private/comment", Some(Bytes::from_static(value.as_bytes())))];
    world.directory.metadata().set(ana.id, Annotated::Mailbox(inbox), &note("here")).await.unwrap();
    world.directory.metadata().set(ana.id, Annotated::Server, &note("all")).await.unwrap();
    for (test, is_true) in [
        ("metadata \"INBOX\" \"/private/comment\" \"here\"", true),
        ("metadata \"INBOX\" \"/PRIVATE/Comment\" \"here\"", true),
        ("metadata \"INBOX\" \"/private/comment\" \"all\"", false),
        ("metadata \"Nowhere\" \"/private/comment\" \"here\"", false),
        ("servermetadata \"/private/comment\" \"all\"", true),
        ("metadataexists \"INBOX\" [\"/private/comment\"]", true),
        ("metadataexists \"INBOX\" [\"/private/comment\", \"/private/other\"]", false),
        ("servermetadataexists [\"/private/comment\"]", true),
    ] {
        let before = world.inbox().await;
        let script = format!("require [\"mboxmetadata\", \"servermetadata\"]; if {test} {{ discard; }}");
        world.use_script(&script).await;
        world.deliver(MESSAGE, RequiredExtensions::default(), ANA).await.unwrap();
        assert_eq!(world.inbox().await == before, is_true, "{test}");
    }
}
