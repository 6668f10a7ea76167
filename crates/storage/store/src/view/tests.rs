//! Views against a plain vector of rows: every query, after every kind of change.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, KeywordTable, Uid};
use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::node::{Chunk, GROUP_CHUNKS, Group};
use super::*;
use crate::head::MailboxHead;

/// One step in the life of a mailbox. Places are shares of the folder in 256ths, so that steps fit
/// any size.
#[derive(Debug, Clone)]
enum Step {
    Append { rows: usize, gap: u32, flags: u64 },
    Flags { from: u8, to: u8, every: usize, flags: u64 },
    Expunge { from: u8, to: u8, every: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append =
        (1usize..60, 0u32..4, 0u64..32).prop_map(|(rows, gap, flags)| Step::Append { rows, gap, flags });
    let flags = (any::<u8>(), any::<u8>(), 1usize..9, 0u64..32)
        .prop_map(|(from, to, every, flags)| Step::Flags { from, to, every, flags });
    let expunge =
        (any::<u8>(), any::<u8>(), 1usize..5).prop_map(|(from, to, every)| Step::Expunge { from, to, every });
    prop::collection::vec(one_of![3 => append, 2 => flags, 2 => expunge], 1..14)
}

/// The naive mailbox.
#[derive(Clone, Default)]
struct Model {
    rows: Vec<Row>,
    uid_next: u32,
    modseq: u64,
}

impl Model {
    fn places(&self, from: u8, to: u8, every: usize) -> Vec<usize> {
        let at = |share: u8| usize::from(share) * self.rows.len() / 256;
        (at(from.min(to))..=at(from.max(to))).step_by(every).filter(|&i| i < self.rows.len()).collect()
    }

    /// Does the step to the model and to the view.
    fn step(&mut self, view: &View, step: &Step) -> View {
        self.modseq += 1;
        let modseq = ModSeq::new(self.modseq).unwrap();
        let (mut changed, mut expunged, mut appended) = (Vec::new(), NumSet::new(), Vec::new());
        match *step {
            Step::Append { rows, gap, flags } => {
                self.uid_next += gap;
                for n in 0..rows {
                    let uid = Uid::new(self.uid_next + 1).unwrap();
                    self.uid_next += 1;
                    appended.push(Row::new(uid, n as u32, 7, FlagSet::from_bits(flags), modseq));
                }
                self.rows.extend(&appended);
            }
            Step::Flags { from, to, every, flags } => {
                for i in self.places(from, to, every) {
                    self.rows[i] = self.rows[i].with_flags(FlagSet::from_bits(flags), modseq);
                    changed.push(self.rows[i]);
                }
            }
            Step::Expunge { from, to, every } => {
                let places = self.places(from, to, every);
                expunged = places.iter().map(|&i| self.rows[i].uid().value()).collect();
                // UIDs that exist nowhere must do no harm.
                expunged = expunged.union(&NumSet::range(self.uid_next + 1000, u32::MAX));
                self.rows.retain(|r| !expunged.contains(r.uid().value()));
            }
        }
        view.edited(self.head(), &changed, &expunged, &appended)
    }

    fn head(&self) -> MailboxHead {
        MailboxHead {
            modseq: ModSeq::new(self.modseq).unwrap(),
            uid_next: Uid::new(self.uid_next + 1).unwrap(),
            first_recent: Uid::new(self.uid_next / 2 + 1).unwrap(),
            keywords: Arc::new(KeywordTable::default()),
            counts: Totals::of(&self.rows).counts(),
        }
    }

    fn seqs(&self, keep: impl Fn(&Row) -> bool) -> NumSet<SeqNum> {
        (1..).zip(&self.rows).filter(|(_, r)| keep(r)).map(|(seq, _)| seq).collect()
    }
}

fn seq(n: usize) -> SeqNum {
    SeqNum::new(n as u32).unwrap()
}

/// The invariants, by looking at everything.
fn check_shape(view: &View) {
    let mut totals = Totals::default();
    let mut last = 0;
    for group in &view.groups {
        assert_eq!(group.start, totals.messages);
        assert!(!group.item.is_empty() && group.item.len() <= GROUP_CHUNKS);
        let mut within = Totals::default();
        for chunk in group.item.iter() {
            assert_eq!(chunk.start, within.messages);
            assert!(!chunk.item.is_empty() && chunk.item.len() <= CHUNK_ROWS);
            assert_eq!(chunk.totals, Totals::of(&chunk.item));
            for row in chunk.item.iter() {
                assert!(row.uid().value() > last);
                last = row.uid().value();
            }
            assert_eq!(chunk.last_uid, last);
            within.add(&chunk.totals);
        }
        assert_eq!(group.totals, within);
        assert_eq!(group.last_uid, last);
        totals.add(&within);
    }
    assert_eq!(view.totals, totals);
    assert_eq!(view.head.counts, totals.counts());
}

/// `ranges` are those of a set, first of sequence numbers and then of UIDs.
fn check_queries(view: &View, model: &Model, ranges: &[(u32, u32)]) {
    let seqs: NumSet<SeqNum> = NumSet::from_ranges(ranges.iter().copied());
    let uids: NumSet = NumSet::from_ranges(ranges.iter().copied());
    let rows = &model.rows;
    assert_eq!(view.exists() as usize, rows.len());
    assert_eq!(view.rows(&view.all()).map(|(_, r)| *r).collect::<Vec<_>>(), *rows);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(view.row(seq(i + 1)), Some(row));
        assert_eq!(view.seq_of(row.uid()), Some(seq(i + 1)));
    }
    // In any order. Every second one jumps from one end of the view towards the other.
    let (mut rising, mut jumping) = (view.finder(), view.finder());
    for uid in 1..=model.uid_next + 1 {
        let found = |uid: Uid| rows.iter().find(|row| row.uid() == uid);
        let [uid, from_the_end] = [uid, model.uid_next + 2 - uid].map(|uid| Uid::new(uid).unwrap());
        assert_eq!(rising.find(uid), found(uid));
        assert_eq!(jumping.find(from_the_end), found(from_the_end));
        assert_eq!(jumping.find(uid), found(uid));
        assert_eq!(view.rank(uid) as usize, rows.iter().filter(|r| r.uid() < uid).count());
        assert_eq!(view.seq_of(uid).is_some(), rows.iter().any(|r| r.uid() == uid));
    }
    assert_eq!(view.row(seq(rows.len() + 1)), None);
    assert_eq!(view.last_uid(), rows.last().map(Row::uid));
    let by_seq: Vec<_> =
        (1..).zip(rows).filter(|(n, _)| seqs.contains(*n)).map(|(n, r)| (seq(n as usize), r)).collect();
    let by_uid: Vec<_> = (1..).map(seq).zip(rows).filter(|(_, r)| uids.contains(r.uid().value())).collect();
    assert_eq!(view.rows(&seqs).collect::<Vec<_>>(), by_seq);
    assert_eq!(view.rows_of_uids(&uids).collect::<Vec<_>>(), by_uid);
    let uids_of = |rows: &[(SeqNum, &Row)]| rows.iter().map(|(_, r)| r.uid().value()).collect::<NumSet>();
    assert_eq!(view.uids_of_seqs(&seqs), uids_of(&by_seq));
    assert_eq!(view.existing(&uids), uids_of(&by_uid));
    assert_eq!(view.seqs_of_uids(&uids), by_uid.iter().map(|(n, _)| n.value()).collect());
    let given = uids.intersection(&NumSet::range(1, model.uid_next));
    assert_eq!(view.missing(&uids), given.difference(&uids_of(&by_uid)));
    let unseen = rows.iter().position(|r| !r.flags().contains(FlagSet::SEEN)).map(|i| seq(i + 1));
    assert_eq!(view.first_unseen(), unseen);
    assert_eq!(view.recent() as usize, rows.iter().filter(|r| r.uid() >= model.head().first_recent).count());
    for since in 0..=model.modseq {
        let since = ModSeq::new(since).unwrap();
        assert_eq!(view.changed_since(since), model.seqs(|r| r.modseq() > since));
    }
    for (with, without) in [(8, 0), (0, 8), (4, 8), (0, 0), (12, 1)] {
        let (with, without) = (FlagSet::from_bits(with), FlagSet::from_bits(without));
        let naive = model.seqs(|r| r.flags().contains(with) && r.flags().bits() & without.bits() == 0);
        assert_eq!(view.with_flags(with, without), naive);
    }
}

/// Bytes of a view beside another, by all pointers.
fn naive_bytes_beside(view: &View, other: &View) -> usize {
    let has_group = |group: &Group| other.groups.iter().any(|one| one.is_same(group));
    let has_chunk = |chunk: &Chunk| other.groups.iter().any(|g| g.item.iter().any(|one| one.is_same(chunk)));
    let (mut groups, mut chunks, mut rows) = (0, 0, 0);
    for group in view.groups.iter().filter(|group| !has_group(group)) {
        groups += 1;
        chunks += group.item.len();
        rows +=
            group.item.iter().filter(|chunk| !has_chunk(chunk)).map(|chunk| chunk.item.len()).sum::<usize>();
    }
    let shared = (view.groups.len() - groups) * size_of::<Group>();
    size_of::<View>() + shared + node::memory_bytes(groups, chunks, rows)
}

/// A client that gets only differences.
fn apply(client: &mut Vec<Row>, diff: &Difference, new: &View) {
    for seq in diff.expunged_descending() {
        let expunged = client.remove(seq.value() as usize - 1);
        assert!(diff.expunged_uids.contains(expunged.uid().value()));
    }
    assert_eq!(diff.expunged.count(), diff.expunged_uids.count());
    client.extend(new.rows(&diff.arrived).map(|(_, r)| *r));
    assert_eq!(client.len(), diff.exists as usize);
    for (seq, row) in new.rows(&diff.changed) {
        assert_eq!(client[seq.value() as usize - 1].uid(), row.uid());
        client[seq.value() as usize - 1] = *row;
    }
}

properties! {
    #[test]
    fn a_view_is_a_vector(
        steps in steps(),
        sample in prop::collection::vec((1u32..400, 0u32..40), 0..12),
    ) {
        let sample: Vec<_> = sample.into_iter().map(|(a, n)| (a, a + n)).collect();
        let (mut model, mut view) = (Model::default(), View::default());
        let mut history = vec![(Vec::new(), view.clone())];
        for step in &steps {
            view = model.step(&view, step);
            check_shape(&view);
            check_queries(&view, &model, &sample);
            history.push((model.rows.clone(), view.clone()));
        }
        // From every earlier state to the last, and to each next one.
        for (rows, old) in &history {
            let mut client = rows.clone();
            apply(&mut client, &view.difference_from(old), &view);
            prop_assert_eq!(&client, &model.rows);
            prop_assert_eq!(old.bytes_beside(&view), naive_bytes_beside(old, &view));
            prop_assert_eq!(view.bytes_beside(old), naive_bytes_beside(&view, old));
        }
    }

    #[test]
    fn held_expunges_are_reported_later(steps in steps(), hold in prop::collection::vec(any::<bool>(), 14)) {
        let (mut model, mut view) = (Model::default(), View::default());
        let mut known = Arc::new(view.clone());
        let mut client: Vec<Row> = Vec::new();
        for (step, hold) in steps.iter().zip(hold) {
            view = model.step(&view, step);
            let newer = Arc::new(view.clone());
            let diff = newer.difference_from(&known);
            let mut comparison = newer.compared_with(&known);
            let mut pieces = 1;
            while !comparison.compare(3) {
                pieces += 1;
            }
            prop_assert_eq!(&comparison.difference(), &diff);
            // Each piece but the last compares three rows at least.
            let most = 1 + (newer.exists() + known.exists()) as usize / 3;
            prop_assert!(pieces <= most, "{} pieces", pieces);
            let next = if hold { known.holding_expunged(&newer, &diff) } else { newer };
            check_shape(&next);
            let step = next.difference_from(&known);
            prop_assert!(!hold || step.expunged.is_empty());
            apply(&mut client, &step, &next);
            known = next;
        }
        apply(&mut client, &view.difference_from(&known), &view);
        prop_assert_eq!(client, model.rows);
    }

    #[test]
    fn a_built_view_is_the_grown_one(steps in steps(), cut in 1usize..30) {
        let (mut model, mut view) = (Model::default(), View::default());
        for step in &steps {
            view = model.step(&view, step);
        }
        let mut builder = ViewBuilder::new();
        for rows in model.rows.chunks(cut) {
            builder.push_rows(rows);
        }
        let built = builder.finish(model.head());
        check_shape(&built);
        prop_assert!(built.difference_from(&view).is_empty());
        prop_assert_eq!(built.head(), view.head());
    }
}

#[test]
fn a_change_shares_what_it_does_not_touch() {
    let mut model = Model::default();
    let view = model.step(&View::default(), &Step::Append { rows: 500, gap: 0, flags: 0 });
    let next = model.step(&view, &Step::Flags { from: 128, to: 128, every: 1, flags: 8 });
    let chunks = |v: &View| v.groups.iter().flat_map(|g| g.item.iter().cloned()).collect::<Vec<_>>();
    let other = chunks(&view).iter().zip(chunks(&next)).filter(|(a, b)| !a.is_same(b)).count();
    assert_eq!(other, 1);
    // Besides the chunk: the group that has it, and the list of groups.
    assert!(view.bytes_beside(&next) < view.memory_bytes() / 4, "{}", view.bytes_beside(&next));
    let groups = view.groups.iter().zip(&next.groups).filter(|(a, b)| !a.is_same(b)).count();
    assert_eq!(groups, 1);
}

#[test]
fn shrunken_chunks_are_joined() {
    let mut model = Model::default();
    let mut view = model.step(&View::default(), &Step::Append { rows: 4000, gap: 0, flags: 0 });
    // All but every 40th message go: without joining, every chunk left would hold one row.
    let keep: NumSet = (1..=100).map(|n| n * 40).collect();
    let expunged = view.uids_of_seqs(&view.all()).difference(&keep);
    model.rows.retain(|r| keep.contains(r.uid().value()));
    view = view.edited(model.head(), &[], &expunged, &[]);
    check_shape(&view);
    let chunks: usize = view.groups.iter().map(|g| g.item.len()).sum();
    assert!(chunks <= 100 * SMALL_SHARE / CHUNK_ROWS + 1, "{chunks} chunks for 100 rows");
}

/// Chunks left alone are at least this many times smaller than full ones.
const SMALL_SHARE: usize = node::SMALL;

#[test]
fn half_a_million_messages_take_under_32_bytes_each() {
    // Computed from the production sizes, whatever this build uses.
    let (rows, per_chunk, per_group) = (500_000_usize, 256, 256 * 64);
    let bytes = node::memory_bytes(rows.div_ceil(per_group), rows.div_ceil(per_chunk), rows);
    assert!(bytes < 29 * rows, "{bytes}");
    // At worst neighbours are joined only when one is down to a quarter.
    let worst = node::memory_bytes(4 * rows.div_ceil(per_group), 4 * rows.div_ceil(per_chunk), rows);
    assert!(worst < 32 * rows, "{worst}");
}
