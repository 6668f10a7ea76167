//! Walking a view: slices of rows for a set of sequence numbers or UIDs.

use posthaste_mail_model::{NumSet, SeqNum};

use super::value::View;
use crate::row::Row;

/// The meaning of the numbers in a range.
#[derive(Clone, Copy)]
enum Numbers {
    Seqs,
    Uids,
}

/// Slices of rows, each with the sequence number of its first. Made by [`View::runs`] and
/// [`View::runs_of_uids`].
#[derive(Clone)]
pub struct Runs<'v> {
    view: &'v View,
    ranges: std::slice::Iter<'v, (u32, u32)>,
    numbers: Numbers,
    /// Positions of the range under way.
    at: u32,
    end: u32,
    /// The chunk last visited: its rows and the position of the first. Ranges rise, so the next is
    /// often in it.
    chunk: &'v [Row],
    chunk_start: u32,
    group: usize,
    chunk_in_group: usize,
}

impl<'v> Runs<'v> {
    pub(super) fn of_seqs(view: &'v View, seqs: &'v NumSet<SeqNum>) -> Self {
        Self::new(view, seqs.ranges(), Numbers::Seqs)
    }

    pub(super) fn of_uids(view: &'v View, uids: &'v NumSet) -> Self {
        Self::new(view, uids.ranges(), Numbers::Uids)
    }

    fn new(view: &'v View, ranges: &'v [(u32, u32)], numbers: Numbers) -> Self {
        let mut runs = Self {
            view,
            ranges: ranges.iter(),
            numbers,
            at: 0,
            end: 0,
            chunk: &[],
            chunk_start: 0,
            group: 0,
            chunk_in_group: 0,
        };
        runs.enter(0, 0);
        runs
    }

    /// Makes a chunk the current one.
    fn enter(&mut self, group: usize, chunk: usize) {
        (self.group, self.chunk_in_group) = (group, chunk);
        match self.view.groups.get(group).and_then(|g| Some((g, g.item.get(chunk)?))) {
            Some((g, c)) => (self.chunk, self.chunk_start) = (&c.item, g.start + c.start),
            None => (self.chunk, self.chunk_start) = (&[], self.view.exists()),
        }
    }

    /// Moves to the chunk of position `at`, which is at or after the current one.
    fn seek(&mut self, at: u32) {
        let past = self.chunk_start + self.chunk.len() as u32;
        if at < past && at >= self.chunk_start {
            return;
        }
        if at == past {
            let chunks = self.view.groups.get(self.group).map_or(0, |g| g.item.len());
            if self.chunk_in_group + 1 < chunks {
                return self.enter(self.group, self.chunk_in_group + 1);
            }
        }
        if let Some((g, c)) = self.view.locate(at) {
            self.enter(g, c);
        }
    }

    /// The number of messages with a lower UID. Fast near the last range, since ranges rise.
    fn rank(&self, uid: u32) -> u32 {
        let in_chunk = |first: &Row, last: &Row| first.uid().value() <= uid && uid <= last.uid().value();
        match (self.chunk.first(), self.chunk.last()) {
            (Some(first), Some(last)) if in_chunk(first, last) => {
                let done = self.end.saturating_sub(self.chunk_start).min(self.chunk.len() as u32);
                let rest = &self.chunk[done as usize..];
                self.chunk_start + done + gallop(rest, uid) as u32
            }
            _ => self.view.rank_of(uid),
        }
    }

    /// Takes up the next range that holds any message.
    fn next_range(&mut self) -> Option<()> {
        while self.at >= self.end {
            let &(low, high) = self.ranges.next()?;
            (self.at, self.end) = match self.numbers {
                Numbers::Seqs => (low.max(1) - 1, high.min(self.view.exists())),
                Numbers::Uids => {
                    let from = self.rank(low);
                    let to = match high.checked_add(1) {
                        // A single UID is the most common range: check whether it exists.
                        Some(after) if high == low => {
                            let there = self.view_uid(from) == Some(low);
                            debug_assert!(after > low);
                            from + u32::from(there)
                        }
                        Some(after) => self.rank(after),
                        None => self.view.exists(),
                    };
                    (from, to)
                }
            };
        }
        Some(())
    }

    fn view_uid(&self, index: u32) -> Option<u32> {
        let here = index.checked_sub(self.chunk_start).and_then(|i| self.chunk.get(i as usize));
        here.or_else(|| self.view.row(SeqNum::new(index.checked_add(1)?)?)).map(|r| r.uid().value())
    }
}

impl<'v> Iterator for Runs<'v> {
    type Item = (SeqNum, &'v [Row]);

    fn next(&mut self) -> Option<Self::Item> {
        self.next_range()?;
        self.seek(self.at);
        let from = (self.at - self.chunk_start) as usize;
        let to = ((self.end - self.chunk_start) as usize).min(self.chunk.len());
        let rows = self.chunk.get(from..to)?;
        let seq = SeqNum::new(self.at + 1)?;
        self.at += rows.len() as u32;
        Some((seq, rows))
    }
}

/// The number of these rows with a lower UID: looks at the 1st, 2nd, 4th, 8th … and then between.
pub(super) fn gallop(rows: &[Row], uid: u32) -> usize {
    let below = |row: &Row| row.uid().value() < uid;
    let mut step = 1;
    while rows.get(step - 1).is_some_and(below) {
        step *= 2;
    }
    let from = (step / 2).min(rows.len());
    let window = &rows[from..step.min(rows.len())];
    from + window.partition_point(below)
}

/// Rows one by one, each with its sequence number. Made by [`View::rows`] and
/// [`View::rows_of_uids`].
#[derive(Clone)]
pub struct Rows<'v> {
    runs: Runs<'v>,
    rows: std::slice::Iter<'v, Row>,
    seq: u32,
}

impl<'v> Rows<'v> {
    pub(super) fn new(runs: Runs<'v>) -> Self {
        Self { runs, rows: [].iter(), seq: 0 }
    }
}

impl<'v> Iterator for Rows<'v> {
    type Item = (SeqNum, &'v Row);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                let seq = SeqNum::new(self.seq)?;
                self.seq += 1;
                return Some((seq, row));
            }
            let (seq, rows) = self.runs.next()?;
            (self.seq, self.rows) = (seq.value(), rows.iter());
        }
    }
}
