//! Columns of keys that grow by the keys of more messages.

use std::sync::Arc;

use posthaste_indexing::{Front, SortField, SortTexts};
use posthaste_mail_model::NumSet;
use posthaste_mime_summary::SummaryRef;

use super::missing::{Missing, ROW_STEPS};
use crate::heavy::{Pace, SLICE_STEPS};
use crate::keys::{Link, LinkColumn, NewLinks, NewTexts, Table, TextColumn};

/// Steps of a byte of a text.
pub(super) const TEXT_BYTE_STEPS: u64 = 2;
/// Steps of finding an identifier.
const LINK_STEPS: u64 = 100;

/// No message of a segment has this text yet.
const UNUSED: u32 = u32::MAX;

/// Columns that grow. They are taken out of their table meanwhile.
pub(super) struct Growing<'m> {
    missing: &'m Missing,
    sent: Added<Option<i64>>,
    link_column: Arc<LinkColumn>,
    links: Added<Link>,
    new_links: NewLinks,
    texts: Vec<GrowingText<'m>>,
    scratch: SortTexts,
}

/// A column of texts that grows.
struct GrowingText<'m> {
    key: SortField,
    missing: &'m NumSet,
    column: Arc<TextColumn>,
    /// The numbers of texts; they may be fewer than the messages until [`Growing::number`].
    added: Added<u32>,
    new: NewTexts,
}

impl GrowingText<'_> {
    /// Takes the texts of these messages of a segment, each different one once. Returns the steps.
    fn push_stored(&mut self, front: &Front<'_>, messages: impl Iterator<Item = (usize, u32)>) -> u64 {
        let stored = front.keys().texts(self.key as usize);
        let mut numbers = vec![UNUSED; stored.len()];
        let (mut steps, first) = (0, self.added.values.len());
        let mut used = 0;
        for (ordinal, uid) in messages {
            let Some(number) = numbers.get_mut(stored.number(ordinal)) else { continue };
            if *number == UNUSED {
                *number = used;
                used += 1;
                let text = stored.text(stored.number(ordinal));
                steps += LINK_STEPS + TEXT_BYTE_STEPS * self.new.push_text(text) as u64;
            }
            self.added.push(uid, *number);
        }
        // So far they are numbers of this segment's texts.
        let mut of_column = Vec::with_capacity(used as usize);
        Arc::make_mut(&mut self.column).texts.number(&mut self.new, &mut of_column);
        for value in &mut self.added.values[first..] {
            *value = of_column.get(*value as usize).copied().unwrap_or_default();
        }
        steps
    }
}

impl<'m> Growing<'m> {
    pub(super) fn taken_from(table: &mut Table, missing: &'m Missing) -> Self {
        let mut link_column = std::mem::take(&mut table.links);
        Arc::make_mut(&mut link_column).reserve(missing.links.count() as usize);
        let mut texts = Vec::with_capacity(missing.texts.len());
        for (key, missing) in &missing.texts {
            let mut column = std::mem::take(table.text_mut(*key));
            Arc::make_mut(&mut column).texts.reserve(missing.count() as usize);
            texts.push(GrowingText {
                key: *key,
                missing,
                column,
                added: Added::new(),
                new: NewTexts::default(),
            });
        }
        Self {
            missing,
            sent: Added::new(),
            link_column,
            links: Added::new(),
            new_links: NewLinks::default(),
            texts,
            scratch: SortTexts::default(),
        }
    }

    /// Takes the keys of a message. Returns the steps.
    pub(super) fn push(&mut self, uid: u32, summary: &SummaryRef<'_>) -> u64 {
        let mut steps = 0;
        if self.missing.sent.contains(uid) {
            self.sent.push(uid, summary.sent().map(|sent| sent.unix_s));
        }
        if self.missing.links.contains(uid) {
            self.links.uids.push(uid);
            steps += LINK_STEPS * (1 + self.new_links.push_summary(summary) as u64);
        }
        for GrowingText { key, missing, added, new, .. } in &mut self.texts {
            if missing.contains(uid) {
                added.uids.push(uid);
                let scratch = &mut self.scratch;
                steps += TEXT_BYTE_STEPS * new.push(|text| scratch.append(*key, summary, text)) as u64;
            }
        }
        steps
    }

    /// Takes the keys of those messages of a segment that lack some. Returns the steps.
    pub(super) fn push_stored(&mut self, front: &Front<'_>) -> u64 {
        let keys = front.keys();
        // The messages of the segment that lack a key, by their ordinal in it.
        let lacking = |missing: &'m NumSet| {
            let numbered = front.uids().enumerate();
            numbered.filter(move |(ordinal, uid)| missing.contains(*uid) && keys.has(*ordinal))
        };
        let mut steps = (1 + self.texts.len() as u64) * front.uids().len() as u64 * ROW_STEPS;
        for (ordinal, uid) in lacking(&self.missing.sent) {
            self.sent.push(uid, keys.sent(ordinal));
        }
        if !self.missing.links.is_empty() {
            for (uid, link) in front.uids().zip(keys.links()) {
                if let Some(link) = link.filter(|_| self.missing.links.contains(uid)) {
                    self.links.uids.push(uid);
                    steps += LINK_STEPS * (1 + self.new_links.push_stored(&link) as u64);
                }
            }
        }
        for text in &mut self.texts {
            steps += text.push_stored(front, lacking(text.missing));
        }
        steps
    }

    /// Numbers the texts and identifiers of the last messages.
    pub(super) fn number(&mut self) {
        if !self.new_links.is_empty() {
            Arc::make_mut(&mut self.link_column).make(&mut self.new_links, &mut self.links.values);
        }
        for GrowingText { column, new, added, .. } in &mut self.texts {
            Arc::make_mut(column).texts.number(new, &mut added.values);
        }
    }

    pub(super) async fn put_back(mut self, table: &mut Table, pace: &mut Pace) {
        if !self.sent.uids.is_empty() {
            Arc::make_mut(&mut table.sent).add(&self.sent.uids, &self.sent.values);
        }
        if !self.links.uids.is_empty() {
            Arc::make_mut(&mut self.link_column).links.add(&self.links.uids, &self.links.values);
        }
        table.links = self.link_column;
        for GrowingText { key, mut column, added, .. } in self.texts {
            Arc::make_mut(&mut column).numbers.add(&added.uids, &added.values);
            *table.text_mut(key) = column;
            pace.worked((added.uids.len() as u64 * 8).min(SLICE_STEPS)).await;
        }
    }
}

/// New values of a column.
struct Added<T> {
    uids: Vec<u32>,
    values: Vec<T>,
}

impl<T> Added<T> {
    fn new() -> Self {
        Self { uids: Vec::new(), values: Vec::new() }
    }

    fn push(&mut self, uid: u32, value: T) {
        self.uids.push(uid);
        self.values.push(value);
    }
}
