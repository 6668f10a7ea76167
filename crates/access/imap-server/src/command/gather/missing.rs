//! The messages that lack some of the keys that a command compares.

use posthaste_indexing::SortField;
use posthaste_mail_model::NumSet;

use crate::heavy::Pace;
use crate::keys::Table;

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
    pub(super) async fn of(table: &Table, uids: &[u32], wanted: &KeysWanted, pace: &mut Pace) -> Self {
        let mut missing = Self::default();
        if wanted.sent {
            missing.sent = without(table.sent.of(uids), uids, pace).await;
            missing.uids = missing.sent.clone();
        }
        if wanted.links {
            missing.links = without(table.links.links.of(uids), uids, pace).await;
            missing.uids = missing.uids.union(&missing.links);
        }
        for key in &wanted.texts {
            let of_key = without(table.text(*key).numbers.of(uids), uids, pace).await;
            missing.uids = missing.uids.union(&of_key);
            missing.texts.push((*key, of_key));
        }
        missing
    }
}

/// The UIDs that have no value.
async fn without<T>(values: impl Iterator<Item = Option<T>>, uids: &[u32], pace: &mut Pace) -> NumSet {
    let mut missing = NumSet::new();
    for (uid, value) in uids.iter().zip(values) {
        if value.is_none() {
            missing.push(*uid);
        }
        if pace.note(ROW_STEPS) {
            pace.rest().await;
        }
    }
    missing
}
