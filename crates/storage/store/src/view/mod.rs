//! A mailbox as an immutable value: its head and its rows, shared with all its other versions.
//!
//! Rows are in UID order, in **chunks** of at most [`CHUNK_ROWS`]. Chunks are in **groups** of at
//! most [`node::GROUP_CHUNKS`]. A view is its head and a short list of groups. Each chunk and group
//! stores totals of its rows, so that counting, ranking and most searches skip most of them. A
//! change copies the chunks it touches, their groups and the list of groups. These are some 15 KiB
//! for one flag in a million messages, and little less in a thousand. Everything else is shared.
//!
//! Invariants: UIDs rise; no chunk and no group is empty; totals and starting numbers are
//! correct.

mod beside;
mod build;
mod diff;
mod edit;
mod finder;
mod node;
mod runs;
#[cfg(test)]
mod tests;
mod value;

use posthaste_mail_model::{ModSeq, NumSet, SeqNum};

use crate::row::Row;
pub use build::ViewBuilder;
pub use diff::{Comparison, Difference};
pub use finder::RowFinder;
pub use node::{CHUNK_ROWS, Totals};
pub use runs::{Rows, Runs};
use value::push_uids;
pub use value::{ChunkMatch, View};

impl View {
    /// The slices of rows with these sequence numbers, in order, each with its first sequence
    /// number. Numbers above [`View::exists`] are ignored.
    pub fn runs<'v>(&'v self, seqs: &'v NumSet<SeqNum>) -> Runs<'v> {
        Runs::of_seqs(self, seqs)
    }

    /// The slices of rows with these UIDs. UIDs that do not exist are ignored (RFC 9051 §6.4.9).
    pub fn runs_of_uids<'v>(&'v self, uids: &'v NumSet) -> Runs<'v> {
        Runs::of_uids(self, uids)
    }

    /// The rows with these sequence numbers.
    pub fn rows<'v>(&'v self, seqs: &'v NumSet<SeqNum>) -> Rows<'v> {
        Rows::new(self.runs(seqs))
    }

    /// The rows with these UIDs.
    pub fn rows_of_uids<'v>(&'v self, uids: &'v NumSet) -> Rows<'v> {
        Rows::new(self.runs_of_uids(uids))
    }

    /// Finds rows by UID, fast where the UIDs rise.
    pub fn finder(&self) -> RowFinder<'_> {
        RowFinder::new(self)
    }

    /// Calls `run` with every slice of rows with these sequence numbers: the tight loop of a
    /// listing.
    pub fn for_each_run(&self, seqs: &NumSet<SeqNum>, mut run: impl FnMut(SeqNum, &[Row])) {
        for (seq, rows) in self.runs(seqs) {
            run(seq, rows);
        }
    }

    /// The UIDs of sequence numbers.
    pub fn uids_of_seqs(&self, seqs: &NumSet<SeqNum>) -> NumSet {
        let mut uids = NumSet::new();
        for (_, rows) in self.runs(seqs) {
            push_uids(&mut uids, rows);
        }
        uids
    }

    /// The sequence numbers of those UIDs that exist.
    pub fn seqs_of_uids(&self, uids: &NumSet) -> NumSet<SeqNum> {
        let mut seqs = NumSet::new();
        for (seq, rows) in self.runs_of_uids(uids) {
            seqs.push_range(seq.value(), seq.value() + (rows.len() as u32 - 1));
        }
        seqs
    }

    /// The UIDs that exist.
    pub fn existing(&self, uids: &NumSet) -> NumSet {
        let mut out = NumSet::new();
        for (_, rows) in self.runs_of_uids(uids) {
            push_uids(&mut out, rows);
        }
        out
    }

    /// The UIDs that exist and did not change after a mod-sequence.
    pub fn unchanged(&self, uids: &NumSet, since: ModSeq) -> NumSet {
        let unchanged = self.rows_of_uids(uids).filter(|(_, row)| row.modseq() <= since);
        unchanged.map(|(_, row)| row.uid().value()).collect()
    }

    /// The UIDs that were assigned and no longer exist. They are sent as VANISHED when the engine
    /// no longer knows when they were expunged (RFC 7162 §3.2.5).
    pub fn missing(&self, uids: &NumSet) -> NumSet {
        let given = NumSet::range(1, self.head.uid_next.value() - 1);
        let known = uids.intersection(&given);
        known.difference(&self.existing(&known))
    }

    /// The changes to report to a session that knows `old`.
    pub fn difference_from(&self, old: &Self) -> Difference {
        Difference::between(old, self)
    }

    /// The changes to report to a session that knows `old`, in pieces.
    pub fn compared_with<'v>(&'v self, old: &'v Self) -> Comparison<'v> {
        Comparison::new(old, self)
    }
}
