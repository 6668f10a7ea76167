//! The view of processes on a mailbox that they share, and the states that it may have.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, Id, MailboxId};

use crate::model::{Change, Message, ModelMailbox};
use crate::random::{KEPT, Random};
use crate::verify::Violation;

/// Ids beyond those that a process gives.
pub(super) const BEYOND: u64 = 1 << 44;

/// Whose mailbox it is.
pub(crate) fn account() -> AccountId {
    AccountId(Id::new(BEYOND, 0))
}

/// The mailbox.
pub(crate) fn shared_box() -> MailboxId {
    MailboxId(Id::new(BEYOND, 7))
}

/// Whether the processes of a seed share one.
pub(crate) fn is_shared(seed: u64) -> bool {
    !KEPT.contains(&seed) && Random::new(seed, 60).chance(50)
}

/// The actions of one process on the mailbox.
pub(super) struct Part {
    pub(super) random: Random,
    /// Its commits without an answer. A process that was started again does not know them, so they
    /// are apart from the doubts that it knows by their numbers.
    pub(super) doubts: Vec<Change>,
}

impl Part {
    pub(super) fn new(seed: u64, actor: usize) -> Self {
        Self { random: Random::new(seed, 50 + actor as u64), doubts: Vec::new() }
    }

    pub(super) fn doubts(&self) -> &[Change] {
        &self.doubts
    }
}

/// The mailbox as a process saw it, and the commit that it sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// The number of the last message; 0 if there never was one.
    pub(super) seen: u64,
    /// The fingerprint of everything that was seen.
    pub(super) fingerprint: u64,
    /// The number of the message that is about to be sent.
    pub(super) number: u64,
    /// The other parts of the commit.
    pub(super) choices: [u64; 2],
    /// The date of the message.
    pub(super) date: u32,
}

impl Sight {
    pub(super) fn word(self) -> String {
        let Self { seen, fingerprint, number, choices: [first, second], date } = self;
        format!("saw:{seen}:{fingerprint}:{number}:{first}:{second}:{date}")
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> =
            word.strip_prefix("saw:")?.split(':').map(|n| n.parse().ok()).collect();
        let [seen, fingerprint, number, first, second, date] = numbers?[..] else { return None };
        let date = u32::try_from(date).ok()?;
        Some(Self { seen, fingerprint, number, choices: [first, second], date })
    }
}

/// A hash of everything that is seen in a mailbox.
pub(super) fn fingerprint(held: &ModelMailbox) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?} {:?}", held.head, held.expunged).hash(&mut hasher);
    for message in held.messages.values() {
        let Message { row, body, saved, created, .. } = message;
        format!("{row:?} {body:?} {saved} {created}").hash(&mut hasher);
        (&message.bytes, &message.summary).hash(&mut hasher);
    }
    hasher.finish()
}

/// The states that the mailbox may have, by the numbers of their last messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct States(Arc<Mutex<BTreeMap<u64, Arc<ModelMailbox>>>>);

impl States {
    /// The mailbox as a process saw it. Some commit must make this state.
    pub(super) fn seen(&self, sight: Sight) -> Result<Arc<ModelMailbox>, Violation> {
        let known = match sight.seen {
            0 => Some(Arc::default()),
            number => self.0.lock().get(&number).cloned(),
        };
        let held = known.ok_or_else(|| {
            format!("the shared mailbox ends with message {}, which nobody has sent", sight.seen)
        })?;
        match fingerprint(&held) == sight.fingerprint {
            true => Ok(held),
            false => Err(format!(
                "the shared mailbox with message {} is read as no commit has made it; that is {:?}",
                sight.seen, held.head
            )),
        }
    }

    /// Notes a state that others may see.
    pub(super) fn insert(&self, number: u64, held: Arc<ModelMailbox>) {
        self.0.lock().insert(number, held);
    }

    /// The state with this last message.
    #[cfg(test)]
    pub(super) fn get(&self, number: u64) -> Option<Arc<ModelMailbox>> {
        self.0.lock().get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sight_is_its_word() {
        let sight = Sight { seen: 7, fingerprint: u64::MAX, number: 1 << 41, choices: [3, 4], date: 5 };
        assert_eq!(Sight::from_word(&sight.word()), Some(sight));
        assert_eq!(Sight::from_word("saw:1:2"), None);
    }
}
