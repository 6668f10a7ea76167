//! The last results of SORT and THREAD, as far as they name a large part of their mailbox.
//!
//! Keys never change, so the order of a set of messages never changes either. A result is given
//! again if the search found the same messages, whatever happened to their flags.

use std::sync::Arc;

use posthaste_imap_codec::command::{SortCriterion, ThreadAlgorithm};
use posthaste_mail_model::NumSet;

/// Results that are remembered for a mailbox.
pub(super) const RESULTS_MAX: usize = 4;
/// A result of a smaller part of the mailbox is made again: that costs little compared with the
/// results whose place it would take.
pub(super) const PART_MIN: usize = 8;

/// The question that a result answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OrderRequest {
    /// SORT by these criteria. They compare what never changes.
    Sort(Vec<SortCriterion>),
    /// THREAD.
    Thread(ThreadAlgorithm),
}

/// A message of a thread, or a parent that the mailbox lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadStep {
    /// The message's place among those that were asked for, from 0; [`u32::MAX`] for a parent that
    /// the mailbox lacks.
    pub(crate) place: u32,
    /// The number of its children.
    pub(crate) children: u32,
}

/// Messages in their order.
#[derive(Clone, Debug)]
pub(crate) enum OrderAnswer {
    /// The places of the messages among those that were asked for, from 0.
    Sort(Arc<[u32]>),
    /// Each before its children.
    Thread(Arc<[ThreadStep]>),
}

/// A result.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    request: OrderRequest,
    /// The messages that the search found.
    uids: NumSet,
    count: usize,
    answered: OrderAnswer,
}

impl Remembered {
    /// The result for the messages of these ascending UIDs.
    pub(super) fn new(request: OrderRequest, uids: &[u32], answered: OrderAnswer) -> Self {
        Self { request, uids: uids.iter().copied().collect(), count: uids.len(), answered }
    }

    /// Whether it may answer this for as many messages.
    pub(super) fn may_answer(&self, request: &OrderRequest, count: usize) -> bool {
        self.count == count && self.request == *request
    }

    /// The answer, if it is for these messages and no others.
    pub(super) fn answer(&self, uids: &[u32]) -> Option<&OrderAnswer> {
        self.uids.iter().eq(uids.iter().copied()).then_some(&self.answered)
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let answered = match &self.answered {
            OrderAnswer::Sort(places) => size_of_val::<[u32]>(places),
            OrderAnswer::Thread(steps) => size_of_val::<[ThreadStep]>(steps),
        };
        answered + self.uids.ranges().len() * 8 + size_of::<Self>()
    }
}
