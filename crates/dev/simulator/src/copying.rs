//! A second store on the same disk: `copy-store` and `backup` into it, and `restore` out of it.
//!
//! The copy is in a directory of the first store, so that one log has the operations on both, and a
//! crash affects both. Nothing else writes to the copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use posthaste_mail_model::{AccountId, Id, MailboxId};
use posthaste_store::{Compare, Engine, MailboxList, Result, TargetIds, Transfer};
use posthaste_store_lmdb::{LmdbEngine, Options};

use crate::driver::{accounts_of, check};
use crate::model::{Change, Knowledge, ModelMailbox};
use crate::verify::{Violation, mailbox};

/// The direction in which a command copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `copy-store` from the store into the copy.
    Out,
    /// `backup` of the store into the copy: as of one instant, compared at the end.
    Backup,
    /// `restore` of the copy into the store, whose accounts are there: it gets other ids.
    Back,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Out, Self::Backup, Self::Back];

    /// The word of a command.
    pub fn word(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::Backup => "backup",
            Self::Back => "back",
        }
    }
}

/// The directory of the copy.
pub fn place_of(root: &Path) -> PathBuf {
    root.join("copy")
}

/// The accounts of all processes that may write.
fn accounts() -> impl Iterator<Item = AccountId> {
    (0..2).flat_map(accounts_of)
}

/// Other ids for an account of the copy, the same each time.
async fn targets(copy: &dyn Engine, account: AccountId) -> Result<TargetIds> {
    let list = copy.load_list(account).await?;
    let other = |id: Id| {
        let mut bytes = id.to_bytes();
        // Ids of accounts and of mailboxes have hardly any bits; none has this one.
        if let Some(first) = bytes.get_mut(8) {
            *first ^= 0x40;
        }
        Id::from_bytes(bytes)
    };
    let mailboxes = list.entries.iter().map(|entry| (entry.id, MailboxId(other(entry.id.0)))).collect();
    Ok(TargetIds::with_ids(AccountId(other(account.0)), mailboxes))
}

/// Both stores.
struct Both {
    store: LmdbEngine,
    copy: LmdbEngine,
}

impl Both {
    fn open(root: &Path, options: &Options, way: Way) -> Result<Self> {
        let store = match way {
            Way::Backup => LmdbEngine::snapshot(root, options.clone()),
            Way::Out | Way::Back => LmdbEngine::open(root, options.clone()),
        };
        let copy = LmdbEngine::open(&place_of(root), options.clone());
        // The commands do not copy from a store that lacks commits, nor to one. (`backup` copies
        // what there is, and fails.)
        let whole = |engine: LmdbEngine| engine.loss().cloned().map_or(Ok(engine), Err);
        Ok(Self { store: whole(store?)?, copy: whole(copy?)? })
    }

    /// Copies all accounts. `audited`: compares them afterwards, too, and names the first
    /// difference.
    async fn copy(&self, way: Way, audited: bool) -> Result<Option<String>> {
        for account in accounts() {
            let transfer = match way {
                Way::Out | Way::Backup => Transfer::new(&self.store, &self.copy),
                Way::Back => {
                    Transfer::new(&self.copy, &self.store).to_targets(targets(&self.copy, account).await?)
                }
            };
            transfer.copy(account, &mut |_| {}).await?;
            if !audited {
                continue;
            }
            let faults = transfer.audit(account, Compare::All, &mut |_| {}).await?;
            if let Some(fault) = faults.into_iter().next() {
                return Ok(Some(fault));
            }
        }
        Ok(None)
    }
}

/// Copies as a command does, while others write to the store.
pub async fn copy(root: &Path, options: &Options, way: Way) -> Result<Option<String>> {
    if way == Way::Back && !place_of(root).join("format").exists() {
        return Ok(None);
    }
    let both = Both::open(root, options, way)?;
    // A copy of a changing store has states of different moments, and need not compare equal. A
    // backup is of one instant, and the copy changes for nobody else.
    both.copy(way, way != Way::Out).await
}

/// The contents of the copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Copy {
    lists: BTreeMap<AccountId, MailboxList>,
    boxes: BTreeMap<MailboxId, ModelMailbox>,
}

impl Copy {
    /// Reads the copy of a store, which no process has open, and has it checked.
    pub async fn read(root: &Path, options: &Options) -> std::result::Result<Self, Violation> {
        let in_copy = |error| format!("the copy: {error}");
        let engine = LmdbEngine::open(&place_of(root), options.clone());
        let engine = engine.map_err(|e| in_copy(e.to_string()))?;
        let mut copy = Self::default();
        for account in accounts() {
            let list = engine.load_list(account).await.map_err(|e| in_copy(e.to_string()))?;
            for entry in &list.entries {
                let held = mailbox(&engine, entry.id).await.map_err(|e| in_copy(e.to_string()))?;
                copy.boxes.insert(entry.id, held.ok_or_else(|| in_copy("a mailbox is not there".into()))?);
            }
            copy.lists.insert(account, list);
        }
        check(&engine).await.map_err(in_copy)?;
        Ok(copy)
    }

    /// The first difference from the known contents of the store. Mod-sequences of lists and
    /// mailboxes are the copy's own, and so are its expunges.
    pub fn difference(&self, known: &Knowledge) -> Option<String> {
        for (account, list) in &self.lists {
            let same = |other: &MailboxList| {
                (&other.entries, &other.subscribed) == (&list.entries, &list.subscribed)
                    && other.uid_validity_last == list.uid_validity_last
            };
            let is_doubt = |change: &Change| matches!(change, Change::List(other, ..) if other.account == *account && same(other));
            if !same(&known.certain.list(*account)) && !known.doubts.iter().any(is_doubt) {
                return Some(format!("the list of account {account} is another one"));
            }
        }
        for (id, held) in &self.boxes {
            let same = |other: &ModelMailbox| {
                (&other.messages, other.head.uid_next, &other.head.keywords)
                    == (&held.messages, held.head.uid_next, &held.head.keywords)
            };
            let is_doubt =
                |change: &Change| matches!(change, Change::Mailbox(of, other) if of == id && same(other));
            let certain = known.certain.boxes.get(id);
            let is_new = certain.is_none() && same(&ModelMailbox::default());
            if !is_new && !certain.is_some_and(|c| same(c)) && !known.doubts.iter().any(is_doubt) {
                let difference = certain.map(|c| c.difference(held));
                return Some(format!("mailbox {id}: {}", difference.unwrap_or("it was not there".into())));
            }
        }
        None
    }
}

/// After a crash: has the copy made complete again, and the mail restored from it, and compares.
/// `expected`: the contents of the copy, where no command was at work on it.
pub async fn repeat(
    root: &Path,
    options: &Options,
    expected: Option<&Copy>,
) -> std::result::Result<(), Violation> {
    if !place_of(root).exists() && expected.is_none() {
        return Ok(());
    }
    // A crash while the copy was made leaves nothing of it, or less than a store.
    if let Some(expected) = expected {
        let there = Copy::read(root, options).await?;
        if there != *expected {
            return Err("the copy is not what it was when the command ended".into());
        }
    }
    for way in [Way::Out, Way::Back] {
        let failed = |e| format!("repeating {way:?}: {e}");
        let both = Both::open(root, options, way).map_err(failed)?;
        let difference = both.copy(way, true).await.map_err(failed)?;
        if let Some(difference) = difference {
            return Err(format!("after repeating {way:?}: {difference}"));
        }
        check(&both.store).await?;
        check(&both.copy).await.map_err(|fault| format!("the copy: {fault}"))?;
    }
    Ok(())
}
