//! Finds where a crash cut off the tail of a pack.

use std::collections::VecDeque;

use super::GROUP_MAX;
use super::scan::LocatedRecord;
use super::search::Search;

/// Judges the records of a tail, one after the other. What a look ahead found is kept: each record
/// of a forged tail may be damaged, and look ahead to its end.
pub(crate) struct TailJudge<'s> {
    search: &'s Search<'s>,
    /// The next sequence number of the index.
    next_seq: u64,
    /// The records up to this offset were looked at for their batches.
    seen_to: u64,
    /// Whether no record follows there.
    has_seen_all: bool,
    /// The highest offset at which one of these batches began.
    last_batch: u64,
    /// The offsets of the last whole commits of the tail, one more than a batch has. They are
    /// looked for when they are first needed.
    last_commits: Option<VecDeque<u64>>,
}

impl<'s> TailJudge<'s> {
    pub(crate) fn new(search: &'s Search<'s>, next_seq: u64) -> Self {
        Self { search, next_seq, seen_to: 0, has_seen_all: false, last_batch: 0, last_commits: None }
    }

    /// Whether the pack was cut off at `at`, where the record before ends. `found` is the next
    /// record. Call it for each record in turn.
    ///
    /// A server acknowledges commits when its pack is synced. So only the last batch of a tail can
    /// be in pieces. A crash lost some of its sectors. They are zero, because they were
    /// preallocated. Whole commits of the same batch may follow. No commit of the batch was
    /// acknowledged, and an opening does not use the batch either.
    ///
    /// If records of a later batch follow, it is damage, and commits after it count. If commits
    /// follow and no sector is missing, it is damage, too. Records of older programs do not say
    /// where their batch begins. If more commits follow one than a batch has, it is damage, too.
    pub(crate) fn is_cut_off(&mut self, at: u64, found: &LocatedRecord) -> bool {
        let is_whole = found.offset == at && self.search.is_whole(found);
        if is_whole || self.has_later_batch(at) {
            return false;
        }
        let commits = self.commits_from(at);
        self.search.is_torn(at, found, commits)
    }

    /// [`Search::has_later_batch`]. Batches that began before were looked at once.
    fn has_later_batch(&mut self, at: u64) -> bool {
        self.seen_to = self.seen_to.max(at);
        while self.last_batch <= at && !self.has_seen_all {
            match self.search.next(self.seen_to) {
                Some(found) => {
                    let batch = found.header.batch_at(found.offset).unwrap_or(0);
                    self.last_batch = self.last_batch.max(batch);
                    self.seen_to = found.end();
                }
                None => self.has_seen_all = true,
            }
        }
        self.last_batch > at
    }

    /// The number of whole commits from `at` on that the index lacks. Not all are counted if there
    /// are more than a batch has.
    fn commits_from(&mut self, at: u64) -> usize {
        let (search, next_seq) = (self.search, self.next_seq);
        let last = self.last_commits.get_or_insert_with(|| {
            let mut last = VecDeque::new();
            for found in search.new_commits(at, next_seq) {
                if last.len() > GROUP_MAX {
                    last.pop_front();
                }
                last.push_back(found.offset);
            }
            last
        });
        last.len() - last.partition_point(|offset| *offset < at)
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
