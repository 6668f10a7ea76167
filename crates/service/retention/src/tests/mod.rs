//! Rules on the in-memory engine, with a stopped clock.

mod interrupted;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_directory::{
    Account, AccountChange, Before, Directory, Keeping, NewAccount, NewValue, OnConflict, Policy, Scope,
};
use posthaste_mail_model::{AccountId, Flag, FlagSet, Id, MailboxName, ModSeq, NumSet, Secret, Uid};
use posthaste_net::given_to_compute_threads;
use posthaste_property::properties;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    CommitOutcome, Engine, FlagChange, IncomingMessage, Mailbox, MailboxCommit, MailboxHead, MemoryEngine,
    Row, SpecialUse, Store, StoreError, StoreOptions, ViewBuilder,
};
use proptest::prelude::*;

use crate::choose::{Conditions, looked_at};
use crate::{Action, AgeFrom, Mode, Outcome, Retention, RetentionError, Rule, RuleError, Target};

const DAY: u64 = 24 * 60 * 60;
/// 2026-11-23T00:00:00Z
const NOW: u64 = 1_795_392_000;

struct World {
    store: Store,
    directory: Arc<Directory>,
    retention: Retention,
    ana: Account,
    clock: Arc<AtomicU64>,
}

async fn world() -> World {
    world_with(None).await
}

/// Folders take at most this many messages.
async fn world_with(folder_messages_max: Option<u32>) -> World {
    world_on(Arc::new(MemoryEngine::new()), folder_messages_max).await
}

async fn world_on(engine: Arc<dyn Engine>, folder_messages_max: Option<u32>) -> World {
    let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
    let clock = Arc::new(AtomicU64::new(NOW));
    let read = Arc::clone(&clock);
    let clock_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync> =
        Arc::new(move || read.load(Ordering::Relaxed) * 1000);
    let store =
        Store::new(engine, StoreOptions { clock_unix_ms, folder_messages_max, ..StoreOptions::default() });
    let directory = Arc::new(directory);
    let password = Secret::new("pencil".to_owned());
    let ana = directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    let retention = Retention::new(store.clone(), Arc::clone(&directory));
    World { store, directory, retention, ana, clock }
}

impl World {
    async fn folder(&self, name: &str, wanted: Option<SpecialUse>) -> Arc<Mailbox> {
        let name = MailboxName::new(name).unwrap();
        let entry = self.store.create(self.ana.id, &name, wanted).await.unwrap();
        self.store.open(entry.id).await.unwrap()
    }

    /// Adds a message that was received this many days ago, and comes into the folder now.
    async fn add(&self, mailbox: &Mailbox, days: u64, flags: Vec<Flag>) {
        let bytes = Bytes::from(format!("Subject: {days}\r\n\r\n"));
        let message = IncomingMessage {
            summary: Bytes::from_static(b"s"),
            body: self.store.new_body_id(),
            flags,
            date: u32::try_from(NOW - days * DAY).unwrap(),
            saved: None,
            bytes,
        };
        mailbox.append(vec![message]).await.unwrap();
    }

    /// The values that an account keeps of a folder's messages, with their UIDs.
    async fn comments(&self, keeper: AccountId, mailbox: &Mailbox) -> Vec<(u32, Bytes)> {
        let keeping = Keeping { keeper, owner: self.ana.id, mailbox: mailbox.id() };
        let all = self.directory.message_annotations().all(keeping).await.unwrap();
        all.iter().map(|(uid, all)| (*uid, all.get(Scope::Private, "/comment").unwrap().clone())).collect()
    }

    async fn run(&self, rules: &[Rule], mode: Mode) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        self.retention.run(rules, mode, &mut |outcome| outcomes.push(outcome.unwrap())).await.unwrap();
        outcomes
    }

    /// For each folder the ages of its messages in days, with `f` for flagged ones.
    async fn content(&self) -> BTreeMap<String, Vec<String>> {
        let mut content = BTreeMap::new();
        for entry in &self.store.list(self.ana.id).await.unwrap().entries {
            let view = self.store.open(entry.id).await.unwrap().current().await.unwrap();
            let all = view.all();
            let ages = view.rows(&all).map(|(_, row)| {
                let flagged = row.flags().contains(posthaste_mail_model::FlagSet::FLAGGED);
                format!("{}{}", (NOW - u64::from(row.date())) / DAY, if flagged { "f" } else { "" })
            });
            content.insert(entry.name.to_string(), ages.collect());
        }
        content
    }
}

fn rule(mailbox: &str, action: Action) -> Rule {
    Rule {
        accounts: vec!["*".to_owned()],
        mailbox: mailbox.to_owned(),
        older_than: None,
        keep_newest: None,
        keep_flagged: true,
        age_from: None,
        action,
    }
}

fn older_than(days: u64, rule: Rule) -> Rule {
    Rule { older_than: Some(Duration::from_secs(days * DAY)), ..rule }
}

fn of(content: &BTreeMap<String, Vec<String>>, folder: &str) -> String {
    content.get(folder).map_or_else(|| "no folder".to_owned(), |ages| ages.join(" "))
}

#[tokio::test]
async fn old_mail_goes_to_its_month_and_flagged_mail_stays() {
    let world = world().await;
    let inbox = world.folder("INBOX", None).await;
    for days in [400, 100, 5, 130] {
        world.add(&inbox, days, vec![]).await;
    }
    world.add(&inbox, 300, vec![Flag::Flagged]).await;
    let rules = [older_than(90, rule("INBOX", Action::Archive))];
    let before = world.content().await;
    let planned = world.run(&rules, Mode::DryRun).await;
    assert_eq!(world.content().await, before, "a dry run changes nothing");

    let done = world.run(&rules, Mode::Apply).await;
    assert_eq!(done, planned);
    let targets: Vec<_> = done.iter().map(|outcome| (&outcome.target, outcome.messages)).collect();
    let folder = |name: &str| Target::Folder(MailboxName::new(name).unwrap());
    let months = ["2025-10", "2026-07", "2026-08"].map(|month| folder(&format!("Archive/{month}")));
    assert_eq!(targets, [(&months[0], 1), (&months[1], 1), (&months[2], 1)]);
    let content = world.content().await;
    assert_eq!(of(&content, "INBOX"), "5 300f");
    assert_eq!((of(&content, "Archive"), of(&content, "Archive/2026-08")), (String::new(), "100".to_owned()));
    let list = world.store.list(world.ana.id).await.unwrap();
    let archive = list.find(&MailboxName::new("Archive").unwrap()).unwrap();
    assert_eq!(archive.special_use, Some(SpecialUse::Archive));
    assert!(world.run(&rules, Mode::Apply).await.is_empty(), "what was done is done");
}

#[tokio::test]
async fn the_archive_is_not_archived_again() {
    let world = world().await;
    let kept = world.folder("Kept", Some(SpecialUse::Archive)).await;
    world.add(&kept, 500, vec![]).await;
    let below = world.folder("Kept/Old", None).await;
    world.add(&below, 500, vec![]).await;
    let other = world.folder("Keptsake", None).await;
    world.add(&other, 500, vec![]).await;
    world.run(&[older_than(1, rule("*", Action::Archive))], Mode::Apply).await;
    let content = world.content().await;
    assert_eq!((of(&content, "Kept"), of(&content, "Kept/Old")), ("500".to_owned(), "500".to_owned()));
    assert_eq!((of(&content, "Keptsake"), of(&content, "Kept/2025-07")), (String::new(), "500".to_owned()));
}

#[tokio::test]
async fn only_the_newest_stay() {
    let world = world().await;
    let lists = world.folder("Lists/Rust", None).await;
    for days in [3, 1, 4, 1, 5] {
        world.add(&lists, days, vec![]).await;
    }
    let rule = Rule { keep_newest: Some(3), ..rule("Lists/%", Action::Trash) };
    world.run(std::slice::from_ref(&rule), Mode::Apply).await;
    let content = world.content().await;
    assert_eq!((of(&content, "Lists/Rust"), of(&content, "Trash")), ("3 1 1".to_owned(), "4 5".to_owned()));
    // Both conditions: beyond the newest one, and older than two days.
    let both = older_than(2, Rule { keep_newest: Some(1), ..rule });
    world.run(&[both], Mode::Apply).await;
    assert_eq!(of(&world.content().await, "Lists/Rust"), "1 1");
}

#[tokio::test]
async fn the_trash_is_emptied_by_the_time_since_a_message_came_there() {
    let world = world().await;
    let trash = world.folder("Bin", Some(SpecialUse::Trash)).await;
    world.add(&trash, 900, vec![]).await;
    world.clock.store(NOW + 20 * DAY, Ordering::Relaxed);
    world.add(&trash, 901, vec![]).await;
    world.clock.store(NOW + 31 * DAY, Ordering::Relaxed);
    let rules = [older_than(30, rule(r"\trash", Action::Delete))];
    let done = world.run(&rules, Mode::Apply).await;
    assert_eq!((done[0].messages, &done[0].target), (1, &Target::Nowhere));
    assert_eq!(of(&world.content().await, "Bin"), "901");
    let received = Rule { age_from: Some(AgeFrom::Received), ..rules[0].clone() };
    world.run(&[received], Mode::Apply).await;
    assert_eq!(of(&world.content().await, "Bin"), "");
}

/// A clock that was set back makes save dates that fall. Each message is judged by its own.
#[tokio::test]
async fn a_clock_set_back_removes_nothing_too_early() {
    let world = world().await;
    let trash = world.folder("Trash", Some(SpecialUse::Trash)).await;
    for (n, at) in [0, 50, 1, 2, 60].into_iter().enumerate() {
        world.clock.store(NOW + at * DAY, Ordering::Relaxed);
        world.add(&trash, n as u64, vec![]).await;
    }
    world.clock.store(NOW + 70 * DAY, Ordering::Relaxed);
    world.run(&[older_than(30, rule(r"\Trash", Action::Delete))], Mode::Apply).await;
    let left = of(&world.content().await, "Trash");
    assert!(left.contains('1') && left.contains('4'), "{left}");
    assert!(!left.contains('0'), "{left}");
}

#[tokio::test]
async fn the_first_rule_that_chooses_a_message_has_it_also_in_a_dry_run() {
    let world = world().await;
    let inbox = world.folder("INBOX", None).await;
    for days in [10, 20, 30] {
        world.add(&inbox, days, vec![]).await;
    }
    let rules = [older_than(25, rule("INBOX", Action::Delete)), older_than(15, rule("*", Action::Trash))];
    let planned = world.run(&rules, Mode::DryRun).await;
    let done = world.run(&rules, Mode::Apply).await;
    assert_eq!(planned, done);
    assert_eq!(done.iter().map(|o| (o.rule, o.messages)).collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    let content = world.content().await;
    assert_eq!((of(&content, "INBOX"), of(&content, "Trash")), ("10".to_owned(), "20".to_owned()));
}

#[tokio::test]
async fn rules_are_for_their_accounts() {
    let world = world().await;
    let inbox = world.folder("INBOX", None).await;
    world.add(&inbox, 10, vec![]).await;
    let for_accounts = |accounts: &[&str]| Rule {
        accounts: accounts.iter().map(|&name| name.to_owned()).collect(),
        ..older_than(1, rule("INBOX", Action::Delete))
    };
    assert!(world.run(&[for_accounts(&["bob@example.org", "*@example.net"])], Mode::DryRun).await.is_empty());
    assert_eq!(world.run(&[for_accounts(&["*@example.org"])], Mode::DryRun).await.len(), 1);
}

/// RFC 5257: of the owner, and of a user who reads the folder.
#[tokio::test]
async fn annotations_follow_their_message_or_go_with_it() {
    let world = world().await;
    let inbox = world.folder("INBOX", None).await;
    let trash = world.folder("Trash", Some(SpecialUse::Trash)).await;
    let reader = AccountId(Id::new(7, 7));
    for days in [5, 20, 40] {
        world.add(&inbox, days, vec![]).await;
    }
    let value = NewValue {
        scope: Scope::Private,
        entry: "/comment".to_owned(),
        value: Some(Bytes::from_static(b"keep")),
    };
    for keeper in [world.ana.id, reader] {
        let keeping = Keeping { keeper, owner: world.ana.id, mailbox: inbox.id() };
        let all = (1..=3).map(|uid| (uid, [value.clone()].into())).collect();
        let before = Before::of_new_messages(keeping);
        world.directory.message_annotations().set(&before, all, OnConflict::Follow).await.unwrap();
    }
    let rules = [older_than(30, rule("INBOX", Action::Delete)), older_than(10, rule("INBOX", Action::Trash))];
    world.run(&rules, Mode::DryRun).await;
    assert_eq!(world.comments(reader, &inbox).await.len(), 3);
    world.run(&rules, Mode::Apply).await;
    for keeper in [world.ana.id, reader] {
        assert_eq!(world.comments(keeper, &inbox).await, [(1, Bytes::from_static(b"keep"))]);
        assert_eq!(world.comments(keeper, &trash).await, [(1, Bytes::from_static(b"keep"))]);
    }
}

/// A folder that takes no more does not stop the rules for the others.
#[tokio::test]
async fn a_folder_that_cannot_be_changed_stops_no_other() {
    let world = world_with(Some(2)).await;
    let inbox = world.folder("INBOX", None).await;
    let lists = world.folder("Lists", None).await;
    world.folder("Trash", Some(SpecialUse::Trash)).await;
    for _ in 0..2 {
        world.add(&inbox, 9, vec![]).await;
        world.add(&lists, 9, vec![]).await;
    }
    let rules = [older_than(1, rule("*", Action::Trash)), older_than(1, rule("Lists", Action::Delete))];
    let (mut done, mut failed) = (0, Vec::new());
    let mut report = |outcome: Result<Outcome, RetentionError>| match outcome {
        Ok(outcome) => done += outcome.messages,
        Err(error) => failed.push(error.to_string()),
    };
    world.retention.run(&rules, Mode::Apply, &mut report).await.unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("ana@example.org, Lists: "), "{failed:?}");
    assert_eq!(done, 2, "two went to the trash, which is full then");
    assert_eq!(of(&world.content().await, "Lists"), "9 9");
}

/// RFC 9208 §5.3: the archive has a folder for each month.
#[tokio::test]
async fn an_archive_makes_no_more_folders_than_the_account_may_have() {
    let world = world().await;
    let quota = AccountChange { quota_mailboxes: Some(Some(3)), ..AccountChange::default() };
    world.directory.set(&world.ana.name, quota).await.unwrap();
    let inbox = world.folder("INBOX", None).await;
    for days in [400, 100, 5, 130] {
        world.add(&inbox, days, vec![]).await;
    }
    let mut failed = Vec::new();
    let mut report = |outcome: Result<Outcome, RetentionError>| {
        if let Err(error) = outcome {
            failed.push(error.to_string());
        }
    };
    let rules = [older_than(90, rule("INBOX", Action::Archive))];
    world.retention.run(&rules, Mode::Apply, &mut report).await.unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("INBOX: the account may have 3 mailboxes at most: delete some"), "{failed:?}");
    let content = world.content().await;
    assert_eq!(content.keys().collect::<Vec<_>>(), ["Archive", "Archive/2025-10", "INBOX"]);
    assert_eq!((of(&content, "INBOX"), of(&content, "Archive/2025-10")), ("100 5 130".into(), "400".into()));
}

/// More messages than one commit takes.
#[tokio::test]
async fn many_messages_go_in_batches() {
    let world = world().await;
    let inbox = world.folder("INBOX", None).await;
    for _ in 0..1_203 {
        world.add(&inbox, 9, vec![]).await;
    }
    let done = world.run(&[older_than(1, rule("INBOX", Action::Trash))], Mode::Apply).await;
    assert_eq!((done.len(), done[0].messages), (1, 1_203));
    assert_eq!(world.content().await["Trash"].len(), 1_203);
}

#[test]
fn a_bad_rule_names_its_field() {
    let good = older_than(1, rule("INBOX", Action::Trash));
    assert_eq!(good.check(), Ok(()));
    let with = |change: fn(&mut Rule)| {
        let mut rule = good.clone();
        change(&mut rule);
        rule.check().unwrap_err()
    };
    assert_eq!(with(|rule| rule.older_than = None), RuleError::NoCondition);
    assert_eq!(with(|rule| rule.mailbox.clear()), RuleError::NoMailbox);
    assert_eq!(with(|rule| rule.mailbox = r"\Trsh".to_owned()), RuleError::NoUse(r"\Trsh".to_owned()));
    assert_eq!(with(|rule| rule.mailbox = r"\TRASH".to_owned()), RuleError::TrashToTrash);
    assert_eq!(with(|rule| rule.accounts.clear()), RuleError::NoAccounts);
}

/// It was looked at in one poll, while sessions waited.
#[tokio::test]
async fn a_large_folder_is_looked_at_by_another_thread() {
    for (messages, is_elsewhere) in [(1_000, false), (50_000, true)] {
        let mut view = ViewBuilder::new();
        for n in 1..=messages {
            let modseq = ModSeq::new(1).unwrap();
            view.push(Row::new(Uid::new(n).unwrap(), 1, 1, FlagSet::EMPTY, modseq));
        }
        let view = Arc::new(view.finish(MailboxHead::default()));
        let conditions = Conditions { received_before: Some(2), keep_newest: Some(1), keep_flagged: true };
        let given = given_to_compute_threads();
        looked_at(&view, move |view| conditions.choose(view)).await;
        assert_eq!(given_to_compute_threads() - given, usize::from(is_elsewhere), "{messages} messages");
    }
}

properties! {
    /// The choice is that of a sorted list.
    #[test]
    fn choices_are_those_of_a_naive_model(
        rows in prop::collection::vec((0u32..20, any::<bool>()), 0..60),
        before in prop::option::of(0u32..20),
        keep_newest in prop::option::of(0u32..70),
        keep_flagged in any::<bool>(),
    ) {
        let mut view = ViewBuilder::new();
        let flags = |flagged: bool| if flagged { FlagSet::FLAGGED } else { FlagSet::EMPTY };
        for (n, &(date, flagged)) in rows.iter().enumerate() {
            let uid = Uid::new(2 * n as u32 + 1).unwrap();
            view.push(Row::new(uid, 1, date, flags(flagged), ModSeq::new(1).unwrap()));
        }
        let view = view.finish(MailboxHead::default());
        let mut newest: Vec<_> = rows.iter().enumerate().map(|(n, &(date, _))| (date, n)).collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        newest.truncate(keep_newest.map_or(0, |count| count as usize));
        let mut expected = NumSet::new();
        for (n, &(date, flagged)) in rows.iter().enumerate() {
            let is_old = before.is_none_or(|before| date < before);
            if is_old && !(keep_flagged && flagged) && !newest.contains(&(date, n)) {
                expected.push(2 * n as u32 + 1);
            }
        }
        let conditions = Conditions { received_before: before, keep_newest, keep_flagged };
        prop_assert_eq!(conditions.choose(&view), expected);
    }
}

/// An engine in front of which another process does something before the next change.
#[derive(Default)]
struct WithAnotherProcess {
    inner: Arc<MemoryEngine>,
    meanwhile: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl WithAnotherProcess {
    async fn happens(&self) {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(happens) = meanwhile {
            happens.await;
        }
    }
}

#[async_trait]
impl Layer for WithAnotherProcess {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome, StoreError> {
        self.happens().await;
        self.inner.commit(commit).await
    }
    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome, StoreError> {
        self.happens().await;
        self.inner.commit_pair(pair).await
    }
}

/// Runs a rule on `INBOX` with these ages, while another process does something to the folder;
/// what the folder has then.
async fn run_beside<F>(ages: &[u64], rule: Rule, meanwhile: impl FnOnce(Arc<Mailbox>) -> F) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let beside = Arc::new(WithAnotherProcess::default());
    let world = world_on(Arc::clone(&beside) as Arc<dyn Engine>, None).await;
    let inbox = world.folder("INBOX", None).await;
    world.folder("Archive", Some(SpecialUse::Archive)).await;
    for days in ages {
        world.add(&inbox, *days, vec![]).await;
    }
    let other = Store::new(Arc::clone(&beside.inner) as Arc<dyn Engine>, StoreOptions::default());
    let inbox = other.open(inbox.id()).await.unwrap();
    *beside.meanwhile.lock().unwrap() = Some(Box::pin(meanwhile(inbox)));
    world.run(&[rule], Mode::Apply).await;
    assert!(beside.meanwhile.lock().unwrap().is_none(), "it has happened");
    of(&world.content().await, "INBOX")
}

#[tokio::test]
async fn mail_that_is_flagged_meanwhile_stays() {
    for action in [Action::Delete, Action::Archive, Action::Trash] {
        let rule = older_than(90, rule("INBOX", action));
        let flag = |inbox: Arc<Mailbox>| async move {
            let two = NumSet::range(2, 2);
            inbox.store_flags(&two, FlagChange::Add, &[Flag::Flagged], None).await.unwrap();
        };
        assert_eq!(run_beside(&[400, 300, 5], rule, flag).await, "300f 5", "{action:?}");
    }
}

/// Other changes by a client do not keep a message in place.
#[tokio::test]
async fn mail_that_is_read_meanwhile_goes() {
    for action in [Action::Delete, Action::Archive] {
        let rule = older_than(90, rule("INBOX", action));
        let read = |inbox: Arc<Mailbox>| async move {
            let two = NumSet::range(2, 2);
            inbox.store_flags(&two, FlagChange::Add, &[Flag::Seen], None).await.unwrap();
        };
        assert_eq!(run_beside(&[400, 300, 5], rule, read).await, "5", "{action:?}");
    }
}

/// The newest ones that stay are those of the moment at which others go.
#[tokio::test]
async fn mail_that_is_among_the_newest_meanwhile_stays() {
    let rule = Rule { keep_newest: Some(2), ..rule("INBOX", Action::Delete) };
    let ages: Vec<u64> = (1..=1_203).rev().collect();
    let remove = |inbox: Arc<Mailbox>| async move {
        inbox.remove(&NumSet::range(1_202, 1_203)).await.unwrap();
    };
    // Two of the newest went; the two before them are the newest now.
    assert_eq!(run_beside(&ages, rule, remove).await, "4 3");
}
