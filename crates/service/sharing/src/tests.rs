//! The reads of the lists, and how often they occur.

use std::sync::Arc;

use posthaste_directory::{Account, Directory, Identifier, NewAccount, Policy};
use posthaste_mail_model::{Id, MailboxId, MailboxName, Rights, Secret};
use posthaste_store::{MemoryEngine, Store, StoreOptions};
use posthaste_testkit::FaultyDirectory;

use crate::known::KnownReader;
use crate::{Namespace, SharedMailboxes, find_mailbox};

struct World {
    engine: Arc<FaultyDirectory>,
    directory: Arc<Directory>,
    shared: Arc<SharedMailboxes>,
}

impl World {
    fn new() -> Self {
        let engine = Arc::new(FaultyDirectory::new(Arc::new(MemoryEngine::new())));
        let directory = Directory::with_policy(engine.clone(), Policy::cheap_for_tests()).unwrap();
        let directory = Arc::new(directory);
        let shared = Arc::new(SharedMailboxes::new(Arc::clone(&directory)));
        Self { engine, directory, shared }
    }

    async fn account(&self, name: &str) -> Account {
        let password = Secret::new("pencil".to_owned());
        self.directory.add(name, &password, NewAccount::default()).await.unwrap()
    }

    async fn grant(&self, owner: &Account, n: u64, who: &str, letters: &str) {
        let (who, rights) = (Identifier::parse(who).unwrap(), Rights::parse(letters.as_bytes()).unwrap());
        self.directory.acls().set_rights(owner, mailbox(n), &who, |_| rights).await.unwrap();
    }

    /// The accounts whose lists were read since the last call.
    fn read(&self) -> Vec<String> {
        let reads = self.engine.reads_of("acl/");
        let scanned = reads.iter().filter_map(|name| name.strip_suffix('*')?.strip_prefix("acl/"));
        scanned.map(str::to_owned).collect()
    }
}

fn mailbox(n: u64) -> MailboxId {
    MailboxId(Id::new(n, 1))
}

#[tokio::test]
async fn a_change_does_not_reload_the_lists_of_others() {
    let world = World::new();
    let (ana, bo) = (world.account("ana@example.org").await, world.account("bo@example.org").await);
    let (cy, dan) = (world.account("cy@example.org").await, world.account("dan@example.org").await);
    world.grant(&ana, 1, "bo@example.org", "lr").await;
    world.grant(&cy, 2, "bo@example.org", "lri").await;
    world.read();
    let rights = async |n| world.shared.visible_to(&bo).await.unwrap().rights(mailbox(n)).to_string();
    assert_eq!((rights(1).await, rights(2).await), ("lr".into(), "lri".into()));
    assert_eq!(world.read().len(), 2);
    // One that concerns another reader of the same owner, too: his lists alone are read.
    world.grant(&cy, 3, "dan@example.org", "lr").await;
    world.grant(&cy, 2, "bo@example.org", "l").await;
    world.read();
    assert_eq!((rights(1).await, rights(2).await), ("lr".into(), "l".into()));
    assert_eq!(world.read(), [format!("{}/", cy.id)]);
    // One of somebody who shares nothing with bo: nothing is read.
    world.grant(&dan, 4, "ana@example.org", "lr").await;
    world.read();
    assert_eq!(rights(1).await, "lr");
    assert_eq!(world.read(), [""; 0]);
    // One more who shares, and one who ends it.
    world.grant(&dan, 4, "anyone", "r").await;
    world.grant(&ana, 1, "bo@example.org", "").await;
    world.read();
    assert_eq!((rights(1).await, rights(2).await, rights(4).await), ("".into(), "l".into(), "r".into()));
    assert_eq!(world.read().len(), 2);
    world.directory.remove("cy@example.org").await.unwrap();
    assert_eq!(rights(2).await, "");
}

#[tokio::test]
async fn sessions_of_one_account_read_the_lists_once() {
    let world = World::new();
    let (ana, bo) = (world.account("ana@example.org").await, world.account("bo@example.org").await);
    for n in 0..40 {
        world.grant(&ana, n, "bo@example.org", "lr").await;
    }
    world.read();
    let sessions = (0..20).map(|_| {
        let (shared, bo) = (Arc::clone(&world.shared), bo.clone());
        tokio::spawn(async move { shared.visible_to(&bo).await.unwrap().rights(mailbox(39)) })
    });
    for session in sessions.collect::<Vec<_>>() {
        assert_eq!(session.await.unwrap(), Rights::LOOKUP.union(Rights::READ));
    }
    // Two pages of one scan.
    assert_eq!(world.read().len(), 2);
}

/// What was read is dropped and read again, and nobody sees less.
#[tokio::test]
async fn a_small_memory_costs_reads_only() {
    let world = World::new();
    let (ana, bo) = (world.account("ana@example.org").await, world.account("bo@example.org").await);
    for n in 0..8 {
        world.grant(&ana, n, "bo@example.org", "lr").await;
    }
    // Room for eight mailboxes in a new view, and for no account whose view is kept.
    let shared = SharedMailboxes::new(Arc::clone(&world.directory)).with_bytes_max(2_399);
    for _ in 0..2 {
        world.read();
        let visible = shared.visible_to(&bo).await.unwrap();
        assert_eq!(visible.rights(mailbox(7)).to_string(), "lr");
        assert_eq!(world.read(), [format!("{}/", ana.id)]);
    }
}

/// Three accounts could take another one's sight of all that is shared with it.
#[tokio::test]
async fn who_shares_most_is_left_out_first() {
    let world = World::new();
    let (bo, eve) = (world.account("bo@example.org").await, world.account("eve@example.org").await);
    let (cy, zoe) = (world.account("cy@example.org").await, world.account("zoe@example.org").await);
    for n in 0..17 {
        world.grant(&eve, n, "bo@example.org", "lr").await;
    }
    for n in 20..23 {
        world.grant(&cy, n, "bo@example.org", "lr").await;
    }
    world.grant(&zoe, 30, "bo@example.org", "lr").await;
    for (max, names) in [
        (21, ["zoe@example.org", "cy@example.org", "eve@example.org"].as_slice()),
        (20, ["zoe@example.org", "cy@example.org"].as_slice()),
        (3, ["zoe@example.org"].as_slice()),
        (0, [].as_slice()),
    ] {
        let visible = KnownReader::default().read_up_to(max, &world.directory, &bo).await.unwrap();
        let owners = visible.owners_fewest_first();
        let found: Vec<&str> = owners.iter().map(|(_, owner)| owner.account.name.as_str()).collect();
        assert_eq!(found, names, "{max} mailboxes");
        assert_eq!(visible.rights(mailbox(30)).is_empty(), max == 0);
    }
}

/// Sieve and URLs name mailboxes of others, in numbers that make a difference visible.
#[tokio::test]
async fn a_name_without_rights_reads_as_much_as_one_that_does_not_exist() {
    let world = World::new();
    let (ana, bo) = (world.account("ana@example.org").await, world.account("bo@example.org").await);
    let store = Store::new(world.engine.clone(), StoreOptions::default());
    let secret = store.create(ana.id, &MailboxName::new("Secret").unwrap(), None).await.unwrap().id;
    let find = async |name: &str| {
        let name = MailboxName::new(&format!("Other Users/{name}")).unwrap();
        let shown = Namespace::split(&name).unwrap();
        world.engine.reads_of("");
        let found = find_mailbox(&world.directory, &store, &bo, &shown).await.unwrap();
        (found.map(|found| (found.entry.id, found.rights.to_string())), world.engine.reads_of("").len())
    };
    let hidden = find("ana@example.org/Secret").await;
    assert_eq!(hidden.0, None);
    for missing in ["ana@example.org/Nowhere", "ana@example.org", "cy@example.org/Secret"] {
        assert_eq!(find(missing).await, hidden, "{missing}");
    }
    // The reader's own mailbox is none of these.
    store.create(bo.id, &MailboxName::new("Secret").unwrap(), None).await.unwrap();
    for own in ["bo@example.org/Secret", "cy@example.org/Secret"] {
        assert_eq!(find(own).await, hidden, "{own}");
    }
    let (who, rights) = (Identifier::parse("bo@example.org").unwrap(), Rights::READ);
    world.directory.acls().set_rights(&ana, secret, &who, |_| rights).await.unwrap();
    assert_eq!(find("ana@example.org/Secret").await.0, Some((secret, "r".into())));
}
