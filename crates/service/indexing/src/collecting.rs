//! The terms that one search collects of the messages that it reads anyway.

use std::sync::Arc;

use posthaste_mail_model::NumSet;
use posthaste_search_index::{Builder, Segment};
use tokio::sync::OwnedSemaphorePermit;

use crate::SEGMENT_MESSAGES_MIN;
use crate::terms::TermReader;

/// The messages that one search collects.
pub struct Collecting {
    covered: Arc<NumSet>,
    full: Full,
    /// `None` while it reads a message.
    terms: Option<TermReader>,
    _place: OwnedSemaphorePermit,
}

/// Messages that become a segment.
#[derive(Default)]
pub struct Full {
    builder: Builder,
    uids: NumSet,
}

impl Full {
    /// Makes the segment: that is long work.
    pub fn build(self) -> Segment {
        self.builder.build(self.uids.ranges())
    }
}

impl Collecting {
    pub(crate) fn new(covered: Arc<NumSet>, place: OwnedSemaphorePermit) -> Self {
        Self { covered, full: Full::default(), terms: Some(TermReader::default()), _place: place }
    }

    /// The place for a message's terms, if it is in no segment. It comes back with
    /// [`Collecting::add`].
    pub fn lend(&mut self, uid: u32) -> Option<TermReader> {
        if self.covered.contains(uid) { None } else { self.terms.take() }
    }

    /// Adds a message that was read. Returns the full segment.
    pub fn add(&mut self, uid: u32, mut terms: TermReader) -> Option<Full> {
        if self.full.builder.add(uid, &terms.finish()) {
            self.full.uids.push(uid);
        }
        self.terms = Some(terms);
        self.full.builder.is_full().then(|| std::mem::take(&mut self.full))
    }

    /// The messages at the end, if they are enough for a segment.
    pub fn end(self) -> Option<Full> {
        Some(self.full).filter(|full| full.builder.messages() >= SEGMENT_MESSAGES_MIN)
    }
}
