//! A session's own changes of the selected mailbox, and the changes that NOTIFY leaves out.
//!
//! NOTIFY (RFC 5465) restricts reports, not responses. So what a command of the session has changed
//! is reported with it, and the changes of others only if they are wanted.

use std::sync::Arc;

use posthaste_mail_model::{Flag, FlagSet, KeywordTable, NumSet};
use posthaste_store::{Difference, FlagChange, MailboxHead, Row, View};

/// The changes that reports of the selected mailbox leave out, as NOTIFY says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quiet {
    /// MessageNew and MessageExpunge. Then the others are left out, too (RFC 5465 §5).
    pub(crate) messages: bool,
    pub(crate) flags: bool,
    pub(crate) annotations: bool,
}

impl Quiet {
    /// The value with which nothing is reported: after NOTIFY NONE, after NOTIFICATIONOVERFLOW,
    /// and after NOTIFY SET without SELECTED (RFC 5465 §3.1, §5.8).
    pub(crate) const ALL: Self = Self { messages: true, flags: true, annotations: true };
}

/// A change made by this client, which needs no response unless another session changed the message
/// too. It was made with `.SILENT`, or by reading a body, when the FETCH response carries the
/// flags.
pub(crate) struct OwnChange<'c> {
    /// The changed messages.
    pub(crate) uids: &'c NumSet,
    /// The kind of change: flags are replaced, added or removed.
    pub(crate) change: FlagChange,
    /// The flags of the change.
    pub(crate) flags: &'c [Flag],
    /// Whether mod-sequences are reported anyway: RFC 7162 §3.1.3 requires them after `.SILENT`.
    pub(crate) with_modseq: bool,
}

impl OwnChange<'_> {
    /// The flags of the change, by a view's table. `None` if others have removed one of the
    /// keywords since: then no message has it.
    pub(crate) fn flags_by(&self, table: &KeywordTable) -> Option<FlagSet> {
        self.flags.iter().try_fold(FlagSet::EMPTY, |set, flag| match table.set_of(flag) {
            Some(bit) => Some(set.union(bit)),
            None if self.change == FlagChange::Remove => Some(set),
            None => None,
        })
    }

    /// The flags the client expects of a message that had `old` when it requested `own`.
    pub(crate) fn expected(&self, old: FlagSet, own: FlagSet) -> FlagSet {
        match self.change {
            FlagChange::Replace => own,
            FlagChange::Add => old.union(own),
            FlagChange::Remove => old.difference(own),
        }
    }
}

/// A command's own change of the mailbox. NOTIFY does not restrict its report.
#[derive(Clone, Copy)]
pub(crate) enum Own<'c> {
    Nothing,
    /// The command expunged these messages.
    Expunged(&'c NumSet),
    /// The command named these messages, to change their flags or annotations. `known` is the
    /// part of the change that the client knows without a response.
    Changed {
        uids: &'c NumSet,
        known: Option<&'c OwnChange<'c>>,
    },
}

impl<'c> Own<'c> {
    /// The messages whose flags it reports.
    pub(crate) fn changed(self) -> Option<&'c NumSet> {
        match self {
            Self::Changed { uids, .. } => Some(uids),
            Self::Nothing | Self::Expunged(_) => None,
        }
    }

    /// The part of the change that the client knows.
    pub(crate) fn known(self) -> Option<&'c OwnChange<'c>> {
        match self {
            Self::Changed { known, .. } => known,
            Self::Nothing | Self::Expunged(_) => None,
        }
    }

    /// The messages that it concerns, for another thread.
    pub(crate) fn uids(self) -> OwnUids {
        match self {
            Self::Nothing => OwnUids::default(),
            Self::Expunged(uids) => OwnUids { expunged: uids.clone(), ..OwnUids::default() },
            Self::Changed { uids, .. } => OwnUids { changed: uids.clone(), ..OwnUids::default() },
        }
    }
}

/// The messages that a command concerns.
#[derive(Default)]
pub(crate) struct OwnUids {
    changed: NumSet,
    expunged: NumSet,
}

impl OwnUids {
    /// The view `old` with this part of its difference from `newest`. Everything else stays as it
    /// was reported. `None` if the difference has no such part.
    pub(crate) fn taken_from(
        &self,
        newest: &Arc<View>,
        old: &View,
        difference: &Difference,
    ) -> Option<Arc<View>> {
        let expunged = difference.expunged_uids.intersection(&self.expunged);
        let rows = newest.rows(&difference.changed).map(|(_, row)| *row);
        let mut rows: Vec<Row> = rows.filter(|row| self.changed.contains(row.uid().value())).collect();
        if rows.is_empty() && expunged.is_empty() {
            return None;
        }
        let is_all = difference.arrived.is_empty()
            && rows.len() as u64 == difference.changed.count()
            && expunged.count() == difference.expunged.count();
        if is_all {
            return Some(Arc::clone(newest));
        }
        let (names, older_names) = (&newest.head().keywords, &old.head().keywords);
        let renamed = names.renamed_since(older_names);
        if !renamed.is_empty() {
            // A slot gets another keyword when no message has the old one any more. A message
            // that is still shown as it was reported may have the old one.
            let others = newest.uids_of_seqs(&difference.changed).difference(&self.changed);
            let others = others.union(&difference.expunged_uids.difference(&expunged));
            let others = old.rows_of_uids(&others).filter(|(_, row)| row.flags().intersects(renamed));
            rows.extend(
                others.map(|(_, row)| row.with_flags(names.set_from(older_names, row.flags()), row.modseq())),
            );
            rows.sort_unstable_by_key(Row::uid);
        }
        // Messages that arrived are reported later.
        let head = MailboxHead { uid_next: old.head().uid_next, ..newest.head().clone() };
        Some(Arc::new(old.edited(head, &rows, &expunged, &[])))
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Keyword, ModSeq, Uid};
    use posthaste_store::ViewBuilder;

    use super::*;

    fn view(keywords: [&str; 2], rows: &[(u32, FlagSet, u64)]) -> Arc<View> {
        let keywords = keywords.map(|name| Keyword::new(name).unwrap()).to_vec();
        let keywords = Arc::new(KeywordTable::from_keywords(keywords).unwrap());
        let modseq = |number| ModSeq::new(number).unwrap();
        let uid = |number| Uid::new(number).unwrap();
        let mut builder = ViewBuilder::default();
        for &(number, flags, changed) in rows {
            builder.push(Row::new(uid(number), 1, 1, flags, modseq(changed)));
        }
        let (uid_next, last) = (uid(rows.last().unwrap().0 + 1), rows.iter().map(|row| row.2).max());
        let modseq = modseq(last.unwrap());
        Arc::new(builder.finish(MailboxHead { keywords, uid_next, modseq, ..MailboxHead::default() }))
    }

    /// The first keyword was replaced: no message has it any more. In the client's state, two of
    /// these messages have it.
    #[test]
    fn only_own_changes_are_taken_and_keywords_keep_their_meaning() {
        let [first, second] = [0, 1].map(FlagSet::keyword);
        let old = view(["a", "b"], &[(1, first, 1), (2, FlagSet::EMPTY, 2), (3, first.union(second), 3)]);
        let new = view(["c", "b"], &[(2, first, 5), (3, second, 4), (4, FlagSet::SEEN, 6)]);
        let (difference, own) = (new.difference_from(&old), NumSet::range(2, 2));
        let taken = Own::Changed { uids: &own, known: None }.uids().taken_from(&new, &old, &difference);
        let taken = taken.unwrap();
        let rows: Vec<_> =
            taken.rows(&taken.all()).map(|(_, row)| (row.uid().value(), row.flags())).collect();
        assert_eq!(rows, [(1, FlagSet::EMPTY), (2, first), (3, second)]);
        assert_eq!(taken.head().uid_next, old.head().uid_next);
        let expunged = Own::Expunged(&NumSet::range(1, 1)).uids().taken_from(&new, &old, &difference);
        assert_eq!(expunged.unwrap().uids_of_seqs(&NumSet::range(1, 9)), NumSet::range(2, 3));
        let nothing = Own::Expunged(&NumSet::range(3, 4)).uids().taken_from(&new, &old, &difference);
        assert!(nothing.is_none());
        let later = view(["c", "b"], &[(1, first, 7), (2, first, 5), (3, second, 4)]);
        let (difference, all) = (later.difference_from(&old), NumSet::range(1, 3));
        let taken = Own::Changed { uids: &all, known: None }.uids().taken_from(&later, &old, &difference);
        assert!(Arc::ptr_eq(&taken.unwrap(), &later), "all of it");
    }
}
