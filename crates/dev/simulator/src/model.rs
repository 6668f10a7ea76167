//! The contents that a store must have: every acknowledged commit, and each request without an
//! answer whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, FlagSet, MailboxId, ModSeq, NumSet};
use posthaste_store::{Counts, MailboxHead, MailboxList, Row};

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The message's row.
    pub row: Row,
    /// The message's body's id.
    pub body: BodyId,
    /// SAVEDATE.
    pub saved: i64,
    /// The mod-sequence with which the message came.
    pub created: ModSeq,
    /// The message's bytes.
    pub bytes: Bytes,
    /// The message's summary.
    pub summary: Bytes,
}

/// A mailbox.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelMailbox {
    /// The mailbox's head.
    pub head: MailboxHead,
    /// By UID.
    pub messages: BTreeMap<u32, Message>,
    /// Every UID that was expunged.
    pub expunged: NumSet,
}

impl ModelMailbox {
    /// The counts that fit the messages.
    pub fn counts(&self) -> Counts {
        let rows = || self.messages.values().map(|m| m.row);
        let with = |flag| rows().filter(|r| r.flags().contains(flag)).count() as u32;
        Counts {
            messages: self.messages.len() as u32,
            unseen: self.messages.len() as u32 - with(FlagSet::SEEN),
            deleted: with(FlagSet::DELETED),
            bytes: rows().map(|r| u64::from(r.size())).sum(),
        }
    }

    /// The first difference from another mailbox, in one sentence.
    pub fn difference(&self, there: &Self) -> String {
        let uids = |of: &BTreeMap<u32, Message>| of.keys().copied().collect::<NumSet>();
        let (mine, theirs) = (uids(&self.messages), uids(&there.messages));
        let lost = mine.difference(&theirs);
        let extra = theirs.difference(&mine);
        if !lost.is_empty() || !extra.is_empty() {
            return format!(
                "messages lost {:?}, messages that should not be there {:?}; mod-sequence {} for {}, UIDNEXT {} for {}",
                lost.ranges(),
                extra.ranges(),
                there.head.modseq,
                self.head.modseq,
                there.head.uid_next,
                self.head.uid_next
            );
        }
        if self.head != there.head {
            return format!("the head is {:?} and should be {:?}", there.head, self.head);
        }
        if self.expunged != there.expunged {
            return format!(
                "expunged is {:?} and should be {:?}",
                there.expunged.ranges(),
                self.expunged.ranges()
            );
        }
        let differs = self.messages.iter().find(|(uid, m)| there.messages.get(uid) != Some(m));
        match differs {
            Some((uid, m)) => {
                let other = there.messages.get(uid);
                let same_bytes = other.is_some_and(|o| o.bytes == m.bytes);
                let same_row = other.is_some_and(|o| o.row == m.row);
                let same_summary = other.is_some_and(|o| o.summary == m.summary);
                let came = |m: &Message| (m.saved, m.created);
                format!(
                    "UID {uid} is another message: bytes same {same_bytes}, row same {same_row}, summary same {same_summary}; \
                     date saved and first mod-sequence {:?}, should be {:?}",
                    other.map(came),
                    came(m)
                )
            }
            None => "no difference".into(),
        }
    }
}

/// Version and content of a directory record.
pub type Record = (u64, Bytes);

/// Everything in a store.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// Mailbox lists.
    pub lists: BTreeMap<AccountId, Arc<MailboxList>>,
    /// Mailboxes that are in a list.
    pub boxes: BTreeMap<MailboxId, Arc<ModelMailbox>>,
    /// Mailboxes that were removed.
    pub removed: BTreeSet<MailboxId>,
    /// The directory.
    pub directory: BTreeMap<String, Record>,
}

/// The unit of an atomic change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// A mailbox.
    Mailbox(MailboxId),
    /// An account's list.
    List(AccountId),
    /// A directory record.
    Record(String),
}

/// A unit's state after a change.
#[derive(Debug, Clone)]
pub enum Change {
    /// A change of a mailbox.
    Mailbox(MailboxId, Arc<ModelMailbox>),
    /// A change of a list, and the mailboxes created and removed with it.
    List(Arc<MailboxList>, Vec<MailboxId>, Vec<MailboxId>),
    /// A change of a directory record.
    Record(String, Option<Record>),
}

impl Change {
    /// The unit it changes.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Mailbox(id, _) => Unit::Mailbox(*id),
            Self::List(list, ..) => Unit::List(list.account),
            Self::Record(name, _) => Unit::Record(name.clone()),
        }
    }
}

impl World {
    /// The world after a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Mailbox(id, held) => {
                self.boxes.insert(*id, Arc::clone(held));
            }
            Change::List(list, came, went) => {
                self.lists.insert(list.account, Arc::clone(list));
                for id in came {
                    self.boxes.entry(*id).or_default();
                }
                for id in went {
                    self.boxes.remove(id);
                    self.removed.insert(*id);
                }
            }
            Change::Record(name, Some(record)) => {
                self.directory.insert(name.clone(), record.clone());
            }
            Change::Record(name, None) => {
                self.directory.remove(name);
            }
        }
    }

    /// An account's list.
    pub fn list(&self, account: AccountId) -> MailboxList {
        self.lists.get(&account).map_or_else(|| MailboxList::empty(account), |l| (**l).clone())
    }
}

/// The known state of a store.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    /// The acknowledged or observed state.
    pub certain: World,
    /// Changes that may have happened in addition.
    pub doubts: Vec<Change>,
}

impl Knowledge {
    /// Joins the known contents of two parts of one store. They have nothing in common, except
    /// mailboxes to which both write.
    pub fn and(&mut self, other: Self) {
        self.certain.lists.extend(other.certain.lists);
        for (id, held) in other.certain.boxes {
            let known = self.certain.boxes.entry(id).or_insert_with(|| Arc::clone(&held));
            // Of a mailbox to which both write, one of them knows a newer state.
            if known.head.modseq < held.head.modseq {
                *known = held;
            }
        }
        self.certain.removed.extend(other.certain.removed);
        self.certain.directory.extend(other.certain.directory);
        self.doubts.extend(other.doubts);
        self.forget_outdated();
    }

    /// Forgets changes of mailboxes that cannot happen any more: each commit is made on one state.
    fn forget_outdated(&mut self) {
        let boxes = &self.certain.boxes;
        let known = |id: &MailboxId| boxes.get(id).map(|held| held.head.modseq);
        self.doubts.retain(|doubt| match doubt {
            Change::Mailbox(id, held) => known(id).is_none_or(|known| known < held.head.modseq),
            _ => true,
        });
    }

    /// A state of a mailbox that was read, which others may have made. The error says that it is an
    /// earlier one than was known.
    pub fn saw(&mut self, id: MailboxId, held: Arc<ModelMailbox>) -> Result<(), String> {
        let now = held.head.modseq;
        if let Some(before) = self.certain.boxes.insert(id, held).filter(|before| before.head.modseq > now) {
            return Err(format!("went back from mod-sequence {} to {now}", before.head.modseq));
        }
        self.forget_outdated();
        Ok(())
    }

    /// An acknowledged change. Doubts of the same unit did not happen, or are part of it.
    pub fn done(&mut self, change: &Change) {
        let unit = change.unit();
        self.doubts.retain(|doubt| doubt.unit() != unit);
        if let Change::List(_, _, went) = change {
            let of_removed = |c: &Change| matches!(c, Change::Mailbox(id, _) if went.contains(id));
            self.doubts.retain(|doubt| !of_removed(doubt));
        }
        self.certain.apply(change);
    }

    /// An unacknowledged change that was found. Requests based on it may still take effect.
    pub fn found(&mut self, change: &Change) {
        let (Change::Mailbox(id, found), unit) = (change, change.unit()) else { return self.done(change) };
        let later = |doubt: &Change| matches!(doubt, Change::Mailbox(of, held) if of == id && held.head.modseq > found.head.modseq);
        self.doubts.retain(|doubt| doubt.unit() != unit || later(doubt));
        self.certain.apply(change);
    }
}

/// The part of the log between a request and its answer.
#[derive(Debug, Clone)]
pub struct Moment {
    /// A description for people.
    pub what: String,
    /// Length of the log before.
    pub start: usize,
    /// Length of the log when the answer was there.
    pub end: usize,
    /// The requested changes.
    pub requested: Vec<Change>,
    /// The known state after it.
    pub after: Arc<Knowledge>,
}

/// The known state at each length of the log.
#[derive(Debug, Clone)]
pub struct Timeline {
    initial: Arc<Knowledge>,
    /// In order.
    pub moments: Vec<Moment>,
}

impl Timeline {
    /// Begins with this known state.
    pub fn new(initial: Knowledge) -> Self {
        Self { initial: Arc::new(initial), moments: Vec::new() }
    }

    /// The state that must hold if the log ends after `cut` operations, while the next may be in
    /// progress.
    pub fn at(&self, cut: usize) -> Knowledge {
        let answered = self.moments.partition_point(|m| m.end <= cut);
        let before = answered.checked_sub(1).and_then(|n| self.moments.get(n)).map(|m| &m.after);
        let mut known = (**before.unwrap_or(&self.initial)).clone();
        let under_way = self.moments[answered..].iter().filter(|m| m.start <= cut);
        under_way.for_each(|m| known.doubts.extend(m.requested.iter().cloned()));
        known
    }

    /// The requests in progress at a length of the log, for people.
    pub fn story(&self, cut: usize) -> String {
        let answered = self.moments.partition_point(|m| m.end <= cut);
        let from = answered.saturating_sub(4);
        let last = self.moments.iter().skip(from).take(answered - from + 1);
        last.map(|m| format!("  operations {}..{}: {}\n", m.start, m.end, m.what)).collect()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, ModSeq};

    use super::*;

    fn held(modseq: u64) -> Arc<ModelMailbox> {
        let head =
            MailboxHead { modseq: ModSeq::new(modseq).unwrap_or(ModSeq::ZERO), ..MailboxHead::default() };
        Arc::new(ModelMailbox { head, ..ModelMailbox::default() })
    }

    /// Several processes write to a mailbox. The newest state that any of them saw counts. A commit
    /// that can no longer happen does not excuse its loss.
    #[test]
    fn a_state_that_a_process_saw_must_last() {
        let id = MailboxId(Id::new(1, 2));
        let knows = |modseq| {
            let mut knowledge = Knowledge::default();
            knowledge.saw(id, held(modseq)).unwrap();
            knowledge
        };
        let mut one = knows(3);
        one.doubts = vec![Change::Mailbox(id, held(4)), Change::Mailbox(id, held(5))];
        one.and(knows(4));
        assert_eq!(one.certain.boxes[&id].head.modseq, held(4).head.modseq);
        assert!(matches!(&one.doubts[..], [Change::Mailbox(_, doubt)] if **doubt == *held(5)));
        one.and(knows(2));
        assert_eq!(one.certain.boxes[&id].head.modseq, held(4).head.modseq);
        assert!(one.saw(id, held(3)).unwrap_err().contains("went back"));
    }
}
