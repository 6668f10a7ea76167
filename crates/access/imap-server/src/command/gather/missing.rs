//! The messages that lack some of the keys that a command compares.

use posthaste_indexing::SortField;
use posthaste_mail_model::NumSet;

use crate::heavy::Pace;
use crate::keys::Table;
use crate::offload::{Threads, range_steps};
use crate::reply::Failure;

/// Steps of looking at a row or a kept key.
pub(super) const ROW_STEPS: u64 = 8;

/// The keys that a command compares.
#[derive(Clone, Debug, Default)]
pub(in crate::command) struct KeysWanted {
    /// The Date field.
    pub(in crate::command) sent: bool,
    /// Texts, each once.
    pub(in crate::command) texts: Vec<SortField>,
    /// The order of these texts.
    pub(in crate::command) ranks: bool,
    /// The messages to which messages refer.
    pub(in crate::command) links: bool,
}

/// The messages without some of their keys.
#[derive(Default)]
pub(super) struct Missing {
    /// The UIDs of all of them.
    pub(super) uids: NumSet,
    pub(super) sent: NumSet,
    pub(super) texts: Vec<(SortField, NumSet)>,
    pub(super) links: NumSet,
}

impl Missing {
    pub(super) async fn of(
        table: &Table,
        uids: &[u32],
        (wanted, threads): (&KeysWanted, Threads<'_>),
        pace: &mut Pace,
    ) -> Result<Self, Failure> {
        let mut missing = Self::default();
        if wanted.sent {
            let of_key = without(table.sent.of(uids), uids, pace).await;
            missing.sent = missing.add(of_key, threads).await?;
        }
        if wanted.links {
            let of_key = without(table.links.links.of(uids), uids, pace).await;
            missing.links = missing.add(of_key, threads).await?;
        }
        for key in &wanted.texts {
            let of_key = without(table.text(*key).numbers.of(uids), uids, pace).await;
            let of_key = missing.add(of_key, threads).await?;
            missing.texts.push((*key, of_key));
        }
        Ok(missing)
    }

    /// Adds messages that lack a key to all that lack one, and returns them.
    async fn add(&mut self, of_key: NumSet, threads: Threads<'_>) -> Result<NumSet, Failure> {
        let all = std::mem::take(&mut self.uids);
        let steps = range_steps(all.ranges().len() + of_key.ranges().len());
        let both;
        (self.uids, both) = threads.run(steps, move || (all.union(&of_key), of_key)).await?;
        Ok(both)
    }
}

/// The UIDs that have no value.
async fn without<T>(values: impl Iterator<Item = Option<T>>, uids: &[u32], pace: &mut Pace) -> NumSet {
    let mut missing = NumSet::new();
    for (uid, value) in uids.iter().zip(values) {
        if value.is_none() {
            missing.push(*uid);
        }
        if pace.count(ROW_STEPS) {
            pace.rest().await;
        }
    }
    missing
}
