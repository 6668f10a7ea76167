//! Backups that somebody forged, made with the store's own calls: nothing of another account
//! changes.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::Pin;

use bytes::Bytes;
use posthaste_delivery::{CONVERSION, summarize};
use posthaste_directory::{AccountChange, NewAccount, Policy};
use posthaste_mail_model::{BodyId, FlagSet, MailboxId, MailboxName, NumSet, Secret, Uid, UidValidity};
use posthaste_store::form::{Form, FormHeader, lacks_items, served_len};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    CommitOutcome, Content, DirectoryEntry, Engine, ListCommit, MailboxCommit, MailboxEntry, MailboxHead,
    MailboxList, MemoryEngine, NewMessage, Row, Store, StoreOptions, Stored, set_directory_entry,
};
use posthaste_store_lmdb::LmdbEngine;
use tempfile::TempDir;

use super::aliases::AliasOutcome;
use super::*;

const VICTIM: &str = "victim@example.org";
const MALLORY: &str = "mallory@example.org";
const MAIL: &[u8] = b"Subject: hers\r\n\r\nsecret\r\n";
const FORGED: &[u8] = b"Subject: forged\r\n\r\nnot what she got\r\n";

/// A store, and a backup of another one.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, name: &str) -> Arc<dyn Engine> {
        let options = crate::open::embedded(&Config::default());
        Arc::new(LmdbEngine::open(&self.path(name), options).unwrap())
    }

    fn store(&self) -> Arc<dyn Engine> {
        self.open("store")
    }

    fn backup(&self) -> Arc<dyn Engine> {
        self.open("backup")
    }

    /// Restores one account, or all.
    async fn restore(&self, account: Option<&str>) -> Result<()> {
        self.restore_as(Config::default(), account.as_slice()).await
    }

    /// Restores some accounts, or all, with a configuration.
    async fn restore_as(&self, config: Config, accounts: &[&str]) -> Result<()> {
        let config = Config { data: self.path("store"), ..config };
        let options = Restore {
            backup: self.path("backup"),
            account: accounts.iter().map(|name| (*name).to_owned()).collect(),
            name: None,
            keep_uidvalidity: false,
            incomplete: false,
        };
        run(config, options).await
    }
}

fn directory(engine: &Arc<dyn Engine>) -> Directory {
    Directory::with_policy(Arc::clone(engine), Policy::cheap_for_tests()).unwrap()
}

async fn add(engine: &Arc<dyn Engine>, name: &str) -> Account {
    let new = NewAccount { sets_quotas: true, ..NewAccount::default() };
    directory(engine).add(name, &Secret::new("a long password".into()), new).await.unwrap()
}

async fn account(engine: &Arc<dyn Engine>, name: &str) -> Account {
    directory(engine).account(name).await.unwrap().unwrap()
}

/// Gives the record of an account another id.
async fn set_id(engine: &Arc<dyn Engine>, account: &Account, id: Id) {
    let name = format!("account/{}", account.name);
    let entry = engine.directory_entry(&name).await.unwrap().unwrap();
    let text = String::from_utf8(entry.value.to_vec()).unwrap();
    let text = text.replace(&account.id.to_string(), &id.to_string());
    set_directory_entry(&**engine, &name, Some(text.into())).await.unwrap();
}

/// Gives an account its INBOX, of this id.
async fn inbox(engine: &Arc<dyn Engine>, account: AccountId, id: MailboxId) {
    let list = engine.load_list(account).await.unwrap();
    let uid_validity = UidValidity::MIN;
    let commit = ListCommit {
        account,
        expected: list.version,
        version: list.version.next(),
        upsert: vec![MailboxEntry { id, name: MailboxName::inbox(), uid_validity, special_use: None }],
        remove: Vec::new(),
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last: uid_validity.value(),
    };
    assert_eq!(engine.commit_list(commit).await.unwrap(), CommitOutcome::Done);
}

/// A message as a store has it: body, octets and summary. The size of its row differs from that
/// of its body by this.
struct Mail(BodyId, Bytes, Bytes, u32);

fn mail(body: BodyId, bytes: &'static [u8]) -> Mail {
    Mail(body, Bytes::from_static(bytes), summarize(bytes).into(), 0)
}

async fn append(engine: &Arc<dyn Engine>, mailbox: MailboxId, mails: Vec<Mail>) {
    let before = engine.heads(&[mailbox]).await.unwrap().remove(0).unwrap();
    let (mut head, mut appended) =
        (MailboxHead { modseq: before.modseq.next(), ..before.clone() }, Vec::new());
    for Mail(body, bytes, summary, more) in mails {
        let without_items = if lacks_items(&bytes) { Row::WITHOUT_ITEMS } else { 0 };
        let size = served_len(&bytes) as u32 + without_items + more;
        let row = Row::new(head.uid_next, size, 1_700_000_000, FlagSet::EMPTY, head.modseq);
        head.counts.add(&row);
        head.uid_next = head.uid_next.next().unwrap();
        let content = Content::New { bytes, summary };
        appended.push(NewMessage { row, body, saved: 1_700_000_000, created: head.modseq, content });
    }
    commit(engine, mailbox, before.modseq, head, appended).await;
}

async fn commit(
    engine: &Arc<dyn Engine>,
    mailbox: MailboxId,
    expected: ModSeq,
    head: MailboxHead,
    appended: Vec<NewMessage>,
) {
    let commit =
        MailboxCommit { mailbox, expected, head, appended, changed: Vec::new(), expunged: Vec::new() };
    assert_eq!(engine.commit(commit).await.unwrap(), CommitOutcome::Done);
}

/// Bodies and summaries of a mailbox.
async fn stored(engine: &Arc<dyn Engine>, mailbox: MailboxId) -> Vec<(BodyId, Bytes)> {
    let mut found = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        found.push((stored.body, Bytes::copy_from_slice(stored.summary)));
        ControlFlow::Continue(())
    };
    engine.summaries(mailbox, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    found
}

async fn body(engine: &Arc<dyn Engine>, body: BodyId) -> Bytes {
    engine.read_body(body, 0..u64::MAX).await.unwrap()
}

/// All that a store has about an account with one mailbox.
#[derive(Debug, PartialEq)]
struct Seen {
    list: MailboxList,
    head: Option<MailboxHead>,
    mail: Vec<(BodyId, Bytes)>,
    bodies: Vec<Bytes>,
    records: Vec<DirectoryEntry>,
}

async fn seen(engine: &Arc<dyn Engine>, account: AccountId, mailbox: MailboxId) -> Seen {
    let mail = stored(engine, mailbox).await;
    let mut bodies = Vec::new();
    for (id, _) in &mail {
        bodies.push(body(engine, *id).await);
    }
    let mut records = engine.directory_scan("", None, 10_000).await.unwrap();
    let ids = [account.to_string(), mailbox.to_string()];
    records.retain(|entry| ids.iter().any(|id| entry.name.contains(id)) || entry.name.contains(VICTIM));
    Seen {
        list: engine.load_list(account).await.unwrap(),
        head: engine.heads(&[mailbox]).await.unwrap().remove(0),
        mail,
        bodies,
        records,
    }
}

/// An account with mail, and the journal of an import. The ids of account, mailbox and body.
async fn victim(engine: &Arc<dyn Engine>) -> (AccountId, MailboxId, BodyId) {
    let account = add(engine, VICTIM).await.id;
    let (mailbox, body) = (MailboxId(ids::new_id().unwrap()), BodyId(ids::new_id().unwrap()));
    inbox(engine, account, mailbox).await;
    append(engine, mailbox, vec![mail(body, MAIL), mail(body, MAIL)]).await;
    record(engine, &format!("imported/{mailbox}/00000000"), "hers").await;
    (account, mailbox, body)
}

async fn record(engine: &Arc<dyn Engine>, name: &str, value: &str) {
    set_directory_entry(&**engine, name, Some(value.to_owned().into())).await.unwrap();
}

#[tokio::test]
async fn a_mailbox_with_the_id_of_another_ones_becomes_another_mailbox() {
    for named in [Some(MALLORY), None] {
        let place = Place::new();
        let (store, backup) = (place.store(), place.backup());
        let (account_id, mailbox, _) = victim(&store).await;
        let before = seen(&store, account_id, mailbox).await;
        let mallory = add(&backup, MALLORY).await;
        inbox(&backup, mallory.id, mailbox).await;
        // Without rows, and above all UIDs of hers: as if all her mail had been expunged.
        let head = MailboxHead {
            modseq: ModSeq::ZERO.next(),
            uid_next: Uid::new(1000).unwrap(),
            ..Default::default()
        };
        commit(&backup, mailbox, ModSeq::ZERO, head, Vec::new()).await;
        drop((store, backup));
        place.restore(named).await.unwrap();
        let store = place.store();
        assert_eq!(seen(&store, account_id, mailbox).await, before);
        let list = store.load_list(account(&store, MALLORY).await.id).await.unwrap();
        assert!(matches!(&list.entries[..], [own] if own.id != mailbox), "{list:?}");
        let head = store.heads(&[list.entries[0].id]).await.unwrap().remove(0).unwrap();
        assert_eq!(head.uid_next.value(), 1000);
    }
}

#[tokio::test]
async fn records_about_a_mailbox_that_is_not_in_the_list_stay_out() {
    for named in [Some(MALLORY), None] {
        let place = Place::new();
        let (store, backup) = (place.store(), place.backup());
        let (account_id, mailbox, _) = victim(&store).await;
        let before = seen(&store, account_id, mailbox).await;
        let mallory = add(&backup, MALLORY).await.id;
        inbox(&backup, mallory, MailboxId(ids::new_id().unwrap())).await;
        record(&backup, &format!("imported/{mailbox}/00000000"), "forged").await;
        record(&backup, &format!("import/{mallory}/{mailbox}"), "\u{1}\u{1}\0\0\0").await;
        record(&backup, &format!("acl/{mallory}/{mailbox}"), r#"{"v":1,"entries":{"anyone":"lr"}}"#).await;
        record(&backup, &format!("metadata/{mallory}/{mailbox}"), "\u{1}").await;
        record(&backup, &format!("seen/{mallory}/{mailbox}/{account_id}/00000"), "\u{1}\u{1}").await;
        drop((store, backup));
        place.restore(named).await.unwrap();
        let store = place.store();
        assert_eq!(seen(&store, account_id, mailbox).await, before);
    }
}

/// A store in which the account itself has all mailboxes that exist.
struct OfOneAccount(Arc<dyn Engine>);

impl Layer for OfOneAccount {
    type Inner = dyn Engine;

    fn inner(&self) -> &Self::Inner {
        &*self.0
    }

    fn may_be_of_another<'this, 'all>(
        &'this self,
        _: AccountId,
        _: MailboxId,
    ) -> Pin<Box<dyn Future<Output = posthaste_store::Result<bool>> + Send + 'all>>
    where
        'this: 'all,
        Self: 'all,
    {
        Box::pin(async { Ok(false) })
    }
}

/// A cluster makes a mailbox before the list that names it.
#[tokio::test]
async fn a_mailbox_that_an_interrupted_run_has_made_keeps_its_id() {
    let store: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let (account, mailbox) = (AccountId(ids::new_id().unwrap()), MailboxId(ids::new_id().unwrap()));
    inbox(&store, account, mailbox).await;
    assert!(ids::free(&*store, account, &[mailbox]).await.unwrap().is_empty());
    let free = ids::free(&OfOneAccount(store), account, &[mailbox]).await.unwrap();
    assert!(free.contains(&mailbox));
}

/// The victim has no mail yet, so that no list has its id.
#[tokio::test]
async fn an_account_with_the_id_of_another_one_gets_its_own() {
    let place = Place::new();
    let (store, backup) = (place.store(), place.backup());
    let victim = add(&store, VICTIM).await;
    let mallory = add(&backup, MALLORY).await;
    set_id(&backup, &mallory, victim.id.0).await;
    inbox(&backup, victim.id, MailboxId(ids::new_id().unwrap())).await;
    drop((store, backup));
    place.restore(Some(MALLORY)).await.unwrap();
    let store = place.store();
    assert_ne!(account(&store, MALLORY).await.id, victim.id);
    assert_eq!(store.load_list(victim.id).await.unwrap(), MailboxList::empty(victim.id));
}

#[tokio::test]
async fn the_ids_of_the_queue_and_of_the_search_index_are_given_to_no_account() {
    let mut segments = ids::new_id().unwrap().to_bytes();
    segments[0] |= 0x80;
    let segments = Id::from_bytes(segments);
    for (id, mailbox) in [(QUEUE_ACCOUNT.0, ids::new_id().unwrap()), (segments, segments)] {
        // A new store, which no server has used.
        let place = Place::new();
        let backup = place.backup();
        let mallory = add(&backup, MALLORY).await;
        set_id(&backup, &mallory, id).await;
        inbox(&backup, AccountId(id), MailboxId(mailbox)).await;
        append(&backup, MailboxId(mailbox), vec![mail(BodyId(mailbox), FORGED)]).await;
        drop(backup);
        place.restore(None).await.unwrap();
        let store = place.store();
        let restored = account(&store, MALLORY).await.id;
        let own = store.load_list(restored).await.unwrap().entries;
        assert!(restored.0 != id && own.len() == 1 && own[0].id.0 != segments);
        assert_eq!(stored(&store, own[0].id).await.len(), 1, "its mail is there");
        // As the server makes the queue.
        let store = Store::new(store, StoreOptions::default());
        let queue = store.ensure_default_mailboxes(AccountId(id), &[]).await.unwrap();
        assert!(queue.entries.iter().all(|entry| own.iter().all(|own| own.id != entry.id)));
    }
}

#[tokio::test]
async fn summaries_are_those_of_the_messages_and_wrong_rows_stay_out() {
    let place = Place::new();
    let backup = place.backup();
    let mallory = add(&backup, MALLORY).await;
    let mailbox = MailboxId(ids::new_id().unwrap());
    inbox(&backup, mallory.id, mailbox).await;
    let of = |bytes: &'static [u8]| mail(BodyId(ids::new_id().unwrap()), bytes);
    let injection = Bytes::from_static(b")\r\n* BYE [ALERT] Log in at http://forged.example\r\n");
    let forged = Mail(BodyId(ids::new_id().unwrap()), Bytes::from_static(FORGED), injection, 0);
    // What follows a literal of that size would be read as a response.
    let long = Mail(BodyId(ids::new_id().unwrap()), Bytes::from_static(FORGED), summarize(FORGED).into(), 7);
    append(&backup, mailbox, vec![of(MAIL), forged, long]).await;
    drop(backup);
    let outcome = place.restore(Some(MALLORY)).await;
    assert!(matches!(outcome, Err(Failure::Incomplete(_))), "{outcome:?}");
    let store = place.store();
    let list = store.load_list(account(&store, MALLORY).await.id).await.unwrap();
    let summaries: Vec<Bytes> =
        stored(&store, list.entries[0].id).await.into_iter().map(|(_, summary)| summary).collect();
    assert_eq!(summaries, [summarize(MAIL), summarize(FORGED)]);
}

/// An earlier program copied summaries as the backup has them.
#[tokio::test]
async fn a_restore_that_an_earlier_program_began_in_another_way_begins_again() {
    let place = Place::new();
    let (store, backup) = (place.store(), place.backup());
    let id = add(&backup, MALLORY).await.id;
    let (mailbox, body) = (MailboxId(ids::new_id().unwrap()), BodyId(ids::new_id().unwrap()));
    let summary = Bytes::from(summarize(MAIL));
    for (engine, summary) in [(&backup, summary.clone()), (&store, Bytes::from_static(b"another"))] {
        inbox(engine, id, mailbox).await;
        append(engine, mailbox, vec![Mail(body, Bytes::from_static(MAIL), summary, 0)]).await;
    }
    let begun = RestoreRecord {
        account: id.to_string(),
        fresh: false,
        uid_validity: Some(UidValidity::MIN.value()),
        source: format!("{id}@0"),
        done: false,
        left_out: Vec::new(),
    };
    record(&store, &underway_name(MALLORY), &serde_json::to_string(&begun).unwrap()).await;
    drop((store, backup));
    let outcome = place.restore(Some(MALLORY)).await;
    assert!(matches!(outcome, Err(Failure::Incomplete(_))), "{outcome:?}");
    place.restore(Some(MALLORY)).await.unwrap();
    let store = place.store();
    let list = store.load_list(account(&store, MALLORY).await.id).await.unwrap();
    assert_eq!(stored(&store, list.entries[0].id).await, [(body, summary)]);
}

/// All messages with one body id share its bytes, whatever account has them.
#[tokio::test]
async fn a_body_with_the_id_of_another_ones_neither_shows_nor_changes_it() {
    let digest = [[u8::MAX; 4], CONVERSION.to_le_bytes()].concat();
    let header = FormHeader {
        form: Form::Unconverted,
        served_len: FORGED.len() as u32,
        digest: digest.try_into().unwrap(),
    };
    // The second is a form whose original a store takes in place of the bytes that it has.
    for forged in [Bytes::from_static(FORGED), header.before(FORGED)] {
        let place = Place::new();
        let (store, backup) = (place.store(), place.backup());
        let (account_id, mailbox, hers) = victim(&store).await;
        let before = seen(&store, account_id, mailbox).await;
        let mallory = add(&backup, MALLORY).await;
        let own = MailboxId(ids::new_id().unwrap());
        inbox(&backup, mallory.id, own).await;
        for _ in 0..2 {
            append(&backup, own, vec![Mail(hers, forged.clone(), Bytes::new(), 0)]).await;
        }
        drop((store, backup));
        place.restore(Some(MALLORY)).await.unwrap();
        let store = place.store();
        assert_eq!(seen(&store, account_id, mailbox).await, before);
        let found = stored(&store, own).await;
        let [(restored, _), (copy, _)] = &found[..] else { panic!("two messages: {found:?}") };
        assert_ne!(*restored, hers);
        // As in the backup.
        assert_eq!(copy, restored);
        assert_eq!(body(&store, *restored).await, forged);
    }
}

#[tokio::test]
async fn one_account_brings_no_domain_no_secret_and_no_right_over_others() {
    let place = Place::new();
    let (store, backup) = (place.store(), place.backup());
    add(&store, VICTIM).await;
    let records = |entries: Vec<DirectoryEntry>| -> Vec<String> {
        entries.into_iter().map(|entry| entry.name).filter(|name| !name.contains("mallory")).collect()
    };
    let before = records(store.directory_scan("", None, 10_000).await.unwrap());
    add(&backup, MALLORY).await;
    let aliases = [("ceo@bank.example", false), ("m@example.org", true), (VICTIM, false)];
    for (address, _) in aliases {
        directory(&backup).aliases().add(address, MALLORY).await.unwrap();
    }
    directory(&backup).groups().set("all@bank.example", &[MALLORY.into()], None).await.unwrap();
    record(&backup, "secret/srs", "known").await;
    record(&backup, "dkim/bank.example", "known").await;
    drop((store, backup));
    place.restore(Some(MALLORY)).await.unwrap();
    let store = place.store();
    let mut after = records(store.directory_scan("", None, 10_000).await.unwrap());
    after.retain(|name| name != "alias/m@example.org");
    assert_eq!(after, before);
    for (address, is_restored) in aliases {
        let entry = store.directory_entry(&format!("alias/{address}")).await.unwrap();
        assert_eq!(entry.is_some(), is_restored, "{address}");
    }
    assert!(!account(&store, MALLORY).await.sets_quotas);
}

/// Aliases of a forged backup, and why they are left out. Others get mail for these addresses,
/// although nobody has them.
const ALIASES: [(&str, Option<&str>); 13] = [
    ("m@example.org", None),
    ("mallory+own@example.org", None),
    ("victim+bank@example.org", Some("victim@example.org gets its mail")),
    ("team+x@example.org", Some("team@example.org gets its mail")),
    ("any@all.example", Some("@all.example gets its mail")),
    ("deal@example.org", Some("a group whose address has a detail")),
    ("cy+x@all.example", Some("a disabled account")),
    ("boss@shared.example", Some("shared with another server")),
    ("ceo@bank.example", Some("not one of this store")),
    ("postmaster@example.org", Some("who control the domain")),
    ("admin@example.org", Some("who control the domain")),
    ("help@example.org", Some("who control the domain")),
    // A command that is printed is one of this program, and no other.
    ("victim+`reboot`@example.org", Some("'--alias=victim+`reboot`@example.org'")),
];

#[tokio::test]
async fn one_account_diverts_no_mail_by_its_aliases() {
    let (place, others) = (Place::new(), ["eve@shared.example", "cy@all.example"]);
    let (store, backup) = (place.store(), place.backup());
    for name in others.into_iter().chain([VICTIM]) {
        add(&store, name).await;
    }
    for group in ["team@example.org", "deal+now@example.org", "@all.example"] {
        directory(&store).groups().set(group, &[VICTIM.into()], None).await.unwrap();
    }
    let disabled = AccountChange { disabled: Some(true), ..AccountChange::default() };
    directory(&store).set("cy@all.example", disabled).await.unwrap();
    add(&backup, MALLORY).await;
    for (address, _) in ALIASES {
        directory(&backup).aliases().add(address, MALLORY).await.unwrap();
    }
    drop((store, backup));
    let text = "postmaster = \"help@example.org\"\n[relay]\n\
                routes = [{ domain = \"shared.example\", host = \"192.0.2.7:25\", accept = \"all\" }]";
    let config = Config::parse(Path::new("posthaste.toml"), text).unwrap();
    place.restore_as(config.clone(), &[MALLORY]).await.unwrap();
    let store = place.store();
    let ends = StorePair::new(place.backup(), Arc::clone(&store)).unwrap();
    ends.there.share_domains(config.relay.relay_domains());
    let job = RestoreJob {
        ends,
        keeps_uid_validity: false,
        scope: Scope::Named,
        account_ids: BTreeSet::new(),
        postmaster: Address::parse("help@example.org").ok(),
    };
    for (address, expected) in ALIASES {
        let entry = store.directory_entry(&format!("alias/{address}")).await.unwrap();
        assert_eq!(entry.is_some(), expected.is_none(), "{address}");
        let outcome = job.restore_alias(address, MALLORY).await.unwrap();
        let Some(expected) = expected else {
            assert_eq!(outcome, AliasOutcome::Unchanged);
            continue;
        };
        let AliasOutcome::LeftOut(why) = outcome else { panic!("{address}: {outcome:?}") };
        assert!(
            why.contains(expected) && why.contains("`posthaste account set mallory@example.org "),
            "{why}"
        );
    }
    let why = job.restore_alias("any@all.example", MALLORY).await.unwrap();
    let command = "`posthaste account set mallory@example.org --alias=any@all.example` adds it";
    assert_eq!(why, AliasOutcome::LeftOut(format!("@all.example gets its mail; {command}")));
}

#[tokio::test]
async fn an_alias_diverts_no_mail_of_an_account_that_is_restored_with_it() {
    let place = Place::new();
    let backup = place.backup();
    for name in [MALLORY, VICTIM] {
        add(&backup, name).await;
    }
    let hers = "victim+bank@example.org";
    directory(&backup).aliases().add(hers, MALLORY).await.unwrap();
    drop(backup);
    place.restore_as(Config::default(), &[MALLORY, VICTIM]).await.unwrap();
    let recipient = directory(&place.store()).resolve(hers).await.unwrap();
    assert_eq!(recipient.account.name, VICTIM);
}

/// SETACL refuses such entries to users.
#[tokio::test]
async fn one_account_shares_nothing_with_everybody() {
    let place = Place::new();
    let (store, backup) = (place.store(), place.backup());
    let (mallory, mailbox) = (add(&backup, MALLORY).await.id, MailboxId(ids::new_id().unwrap()));
    inbox(&backup, mallory, mailbox).await;
    let list = format!(r#"{{"v":1,"entries":{{"anyone":"lr","{VICTIM}":"lr"}}}}"#);
    record(&backup, &format!("acl/{mallory}/{mailbox}"), &list).await;
    let (victim, other) = (add(&store, VICTIM).await, add(&store, "other@example.org").await);
    drop((store, backup));
    place.restore(Some(MALLORY)).await.unwrap();
    let there = directory(&place.store());
    assert_eq!(there.acls().sharers(&victim).await.unwrap().len(), 1);
    assert!(there.acls().sharers(&other).await.unwrap().is_empty());
}

/// The oldest account of a domain may get the mail of its postmaster.
#[tokio::test]
async fn one_account_is_not_older_than_those_of_the_store() {
    let place = Place::new();
    let (store, backup) = (place.store(), place.backup());
    let (victim, mallory) = (add(&store, VICTIM).await, add(&backup, MALLORY).await);
    let name = format!("account/{MALLORY}");
    let entry = backup.directory_entry(&name).await.unwrap().unwrap();
    let text = String::from_utf8(entry.value.to_vec()).unwrap();
    let text = text.replace(&format!("\"created\":{}", mallory.created), "\"created\":1");
    set_directory_entry(&*backup, &name, Some(text.into())).await.unwrap();
    assert_eq!(account(&backup, MALLORY).await.created, 1);
    drop((store, backup));
    place.restore(Some(MALLORY)).await.unwrap();
    assert!(account(&place.store(), MALLORY).await.created >= victim.created);
}

/// The usual case: all is lost, and the backup is the administrator's own.
#[tokio::test]
async fn all_accounts_keep_their_ids_in_an_empty_store() {
    let place = Place::new();
    let backup = place.backup();
    let (account_id, mailbox, body_id) = victim(&backup).await;
    let before = seen(&backup, account_id, mailbox).await;
    drop(backup);
    place.restore(None).await.unwrap();
    let store = place.store();
    let restored = account(&store, VICTIM).await;
    assert!(restored.id == account_id && restored.sets_quotas);
    let list = store.load_list(account_id).await.unwrap();
    assert_eq!(list.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [mailbox]);
    let after = seen(&store, account_id, mailbox).await;
    assert_eq!((after.mail, after.bodies), (before.mail, before.bodies));
    assert_eq!(body(&store, body_id).await, MAIL);
}
