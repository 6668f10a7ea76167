//! Records of annotations whose message does not exist any more, as far as they were seen.
//!
//! Usually a record is removed with its message. A crash may leave one behind. But a MOVE removes
//! messages first, and their values a moment later. So a record is removed only if it was seen as
//! an orphan before, and that was some time ago. The orphans that were seen are kept in memory.
//! After a restart the time begins again.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use posthaste_mail_model::{AccountId, MailboxId, NumSet};

/// A mailbox, with its owner.
pub(crate) type OwnedMailbox = (AccountId, MailboxId);

/// The keeper, the owner and the mailbox of records.
pub(crate) type KeepingKey = (AccountId, AccountId, MailboxId);

/// The time for which a message is missing before a record of it is removed: longer than any
/// command takes.
const AFTER: Duration = Duration::from_secs(600);
/// Mailboxes and keepers with remembered values, and messages of each.
const KEEPINGS_MAX: usize = 256;
const MESSAGES_MAX: u64 = 1000;
/// Mailboxes that one change looks up: whether they still exist.
const MAILBOXES_AT_ONCE: usize = 4;

/// The missing messages that were seen, and the time.
pub(crate) struct Orphans {
    seen: HashMap<KeepingKey, MissingSince>,
    after: Duration,
    /// The mailbox that was looked at last.
    looked_at: Option<OwnedMailbox>,
}

struct MissingSince {
    since: Instant,
    uids: NumSet,
}

impl Default for Orphans {
    fn default() -> Self {
        Self { seen: HashMap::new(), after: AFTER, looked_at: None }
    }
}

impl Orphans {
    /// Waits for no time.
    #[cfg(test)]
    pub fn hurry(&mut self) {
        self.after = Duration::ZERO;
    }

    /// Returns the missing messages that have been missing for long.
    pub fn due(&mut self, keeping: KeepingKey, missing: &NumSet, now: Instant) -> NumSet {
        let mut due = NumSet::new();
        if let Some(seen) = self.seen.get(&keeping) {
            if now.saturating_duration_since(seen.since) < self.after {
                return due;
            }
            due = seen.uids.intersection(missing);
            self.seen.remove(&keeping);
        }
        let rest = missing.difference(&due);
        if rest.is_empty() {
            return due;
        }
        if self.seen.len() >= KEEPINGS_MAX
            && let Some(oldest) = self.seen.iter().min_by_key(|(_, seen)| seen.since).map(|(of, _)| *of)
        {
            self.seen.remove(&oldest);
        }
        let mut uids = NumSet::new();
        rest.iter().take(MESSAGES_MAX as usize).for_each(|uid| uids.push(uid));
        self.seen.insert(keeping, MissingSince { since: now, uids });
        due
    }

    /// Returns some of these mailboxes, and others the next time.
    pub fn some_of(&mut self, places: &BTreeSet<OwnedMailbox>) -> Vec<OwnedMailbox> {
        let is_next = |place: &&OwnedMailbox| self.looked_at.is_none_or(|last| **place > last);
        let mut some: Vec<_> = places.iter().filter(is_next).take(MAILBOXES_AT_ONCE).copied().collect();
        let more = MAILBOXES_AT_ONCE.saturating_sub(some.len());
        some.extend(places.iter().filter(|place| !is_next(place)).take(more));
        self.looked_at = some.last().copied().or(self.looked_at);
        some
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    const fn keeping(n: u128) -> KeepingKey {
        let account = AccountId(Id::new(1, 1));
        (account, account, MailboxId(Id::new(1, n)))
    }

    #[test]
    fn a_record_is_due_once_it_was_seen_for_long() {
        let (mut orphans, now) = (Orphans::default(), Instant::now());
        let due = |orphans: &mut Orphans, missing: (u32, u32), at| {
            orphans.due(keeping(1), &NumSet::range(missing.0, missing.1), at).to_string()
        };
        assert_eq!(due(&mut orphans, (1, 3), now), "");
        assert_eq!(due(&mut orphans, (1, 3), now + AFTER / 2), "");
        // Another mailbox has its own time.
        assert!(orphans.due(keeping(2), &NumSet::range(1, 3), now + AFTER).is_empty());
        // So has a message that left later.
        assert_eq!(due(&mut orphans, (2, 5), now + AFTER), "2:3");
        assert_eq!(due(&mut orphans, (4, 5), now + AFTER), "");
        assert_eq!(due(&mut orphans, (4, 5), now + AFTER * 2), "4:5");
        assert_eq!(due(&mut orphans, (9, 8), now + AFTER * 2), "");
        assert_eq!(orphans.seen.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut orphans, now) = (Orphans::default(), Instant::now());
        for n in 0..2 * KEEPINGS_MAX as u32 {
            orphans.due(keeping(n.into()), &NumSet::range(1, 5000), now + Duration::from_secs(n.into()));
        }
        assert_eq!(orphans.seen.len(), KEEPINGS_MAX);
        assert!(orphans.seen.values().all(|seen| seen.uids.count() == MESSAGES_MAX));
        // The messages that were seen last are remembered.
        assert!(orphans.seen.contains_key(&keeping(2 * KEEPINGS_MAX as u128 - 1)));
    }

    #[test]
    fn all_mailboxes_are_looked_at_in_turn() {
        let mut orphans = Orphans::default();
        let places: BTreeSet<_> = (0..7).map(|n| (keeping(n).1, keeping(n).2)).collect();
        let (first, second) = (orphans.some_of(&places), orphans.some_of(&places));
        assert_eq!((first.len(), second.len()), (MAILBOXES_AT_ONCE, MAILBOXES_AT_ONCE));
        assert_eq!(first.into_iter().chain(second).collect::<BTreeSet<_>>(), places);
        assert!(orphans.some_of(&BTreeSet::new()).is_empty());
    }
}
