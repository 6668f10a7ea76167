//! Columns of keys that grow by the keys of more messages.

use std::sync::Arc;

use posthaste_indexing::{Front, SortField, SortTexts};
use posthaste_mail_model::NumSet;
use posthaste_mime_summary::SummaryRef;

use super::missing::{Missing, ROW_STEPS};
use crate::keys::{Link, LinkColumn, NewLinks, NewTexts, Table, TextColumn};
use crate::offload::Threads;
use crate::reply::Failure;

/// Steps of a byte of a text that is copied.
const TEXT_BYTE_STEPS: u64 = 2;
/// Steps of a byte of a text that is made from a summary. Characters beyond ASCII are looked up in
/// tables of Unicode.
pub(super) const MADE_BYTE_STEPS: u64 = 8;
/// Steps of finding an identifier.
const LINK_STEPS: u64 = 100;

/// Steps of copying a value, or of finding a new place for it.
const VALUE_STEPS: u64 = 20;

/// No message of a segment has this text yet.
const UNUSED: u32 = u32::MAX;

/// Columns that grow. They are taken out of their table meanwhile.
pub(super) struct Growing {
    missing: Arc<Missing>,
    sent: Added<Option<i64>>,
    link_column: Arc<LinkColumn>,
    links: Added<Link>,
    new_links: NewLinks,
    /// The texts, as in `missing`.
    texts: Vec<GrowingText>,
    scratch: SortTexts,
}

/// A column of texts that grows.
struct GrowingText {
    key: SortField,
    column: Arc<TextColumn>,
    /// The numbers of texts; they may be fewer than the messages until [`Growing::numbered`].
    added: Added<u32>,
    new: NewTexts,
}

impl GrowingText {
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
        if used == 0 {
            return steps;
        }
        // The values are still numbers of this segment's texts.
        let mut of_column = Vec::with_capacity(used as usize);
        Arc::make_mut(&mut self.column).texts.number(&mut self.new, &mut of_column);
        for value in &mut self.added.values[first..] {
            *value = of_column[*value as usize];
        }
        steps
    }
}

impl Growing {
    /// Takes out of the table the columns that lack keys of some messages. Another thread copies or
    /// extends large ones.
    pub(super) async fn begin(
        threads: Threads<'_>,
        table: &mut Table,
        missing: Arc<Missing>,
    ) -> Result<Self, Failure> {
        let mut taken = std::mem::take(table);
        let steps = VALUE_STEPS * (taken.values() as u64 + missing.uids.count());
        let work = move || {
            let growing = Self::taken_from(&mut taken, missing);
            (taken, growing)
        };
        let growing;
        (*table, growing) = threads.run(steps, work).await?;
        Ok(growing)
    }

    fn taken_from(table: &mut Table, missing: Arc<Missing>) -> Self {
        let mut link_column = std::mem::take(&mut table.links);
        if !missing.links.is_empty() {
            Arc::make_mut(&mut link_column).reserve(missing.links.count() as usize);
        }
        let mut texts = Vec::with_capacity(missing.texts.len());
        for (key, missing) in &missing.texts {
            let mut column = std::mem::take(table.text_mut(*key));
            if !missing.is_empty() {
                Arc::make_mut(&mut column).texts.reserve(missing.count() as usize);
            }
            texts.push(GrowingText { key: *key, column, added: Added::new(), new: NewTexts::default() });
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
        for (text, (_, missing)) in self.texts.iter_mut().zip(&self.missing.texts) {
            if missing.contains(uid) {
                let GrowingText { key, added, new, .. } = text;
                added.uids.push(uid);
                let scratch = &mut self.scratch;
                steps += MADE_BYTE_STEPS * new.push(|text| scratch.append(*key, summary, text)) as u64;
            }
        }
        steps
    }

    /// Takes the keys of those messages of a segment that lack some. Returns the steps.
    pub(super) fn push_stored(&mut self, front: &Front<'_>) -> u64 {
        let keys = front.keys();
        let missing = Arc::clone(&self.missing);
        let mut steps = (1 + self.texts.len() as u64) * front.uids().len() as u64 * ROW_STEPS;
        for (ordinal, uid) in lacking(front, &missing.sent) {
            self.sent.push(uid, keys.sent(ordinal));
        }
        if !missing.links.is_empty() {
            for (uid, link) in front.uids().zip(keys.links()) {
                if let Some(link) = link.filter(|_| missing.links.contains(uid)) {
                    self.links.uids.push(uid);
                    steps += LINK_STEPS * (1 + self.new_links.push_stored(&link) as u64);
                }
            }
        }
        for (text, (_, missing)) in self.texts.iter_mut().zip(&missing.texts) {
            steps += text.push_stored(front, lacking(front, missing));
        }
        steps
    }

    /// Numbers the texts and identifiers of the last messages. Where the table of identifiers must
    /// become larger, another thread does it: messages may refer to any number of others. Space for
    /// texts was reserved by [`Self::begin`].
    pub(super) async fn numbered(mut self, threads: Threads<'_>) -> Result<Self, Failure> {
        let moved = self.link_column.moved_for(&self.new_links);
        let work = move || {
            self.number();
            self
        };
        threads.run(VALUE_STEPS * moved as u64, work).await
    }

    fn number(&mut self) {
        if !self.new_links.is_empty() {
            Arc::make_mut(&mut self.link_column).make(&mut self.new_links, &mut self.links.values);
        }
        for GrowingText { column, new, added, .. } in &mut self.texts {
            if !new.is_empty() {
                Arc::make_mut(column).texts.number(new, &mut added.values);
            }
        }
    }

    /// Puts the columns back into their table, with the new values. Another thread inserts them if
    /// there are many.
    pub(super) async fn put_back(self, threads: Threads<'_>, table: &mut Table) -> Result<(), Failure> {
        let mut taken = std::mem::take(table);
        let there: usize = self.texts.iter().map(|text| text.column.values()).sum();
        let there = taken.values() + self.link_column.values() + there;
        let steps = VALUE_STEPS * (there as u64 + self.missing.uids.count());
        let work = move || {
            self.extend(&mut taken);
            taken
        };
        *table = threads.run(steps, work).await?;
        Ok(())
    }

    fn extend(mut self, table: &mut Table) {
        if !self.sent.uids.is_empty() {
            Arc::make_mut(&mut table.sent).add(&self.sent.uids, &self.sent.values);
        }
        if !self.links.uids.is_empty() {
            Arc::make_mut(&mut self.link_column).links.add(&self.links.uids, &self.links.values);
        }
        table.links = self.link_column;
        for GrowingText { key, mut column, added, .. } in self.texts {
            if !added.uids.is_empty() {
                Arc::make_mut(&mut column).numbers.add(&added.uids, &added.values);
            }
            *table.text_mut(key) = column;
        }
    }
}

/// The messages of a segment that lack a key, by their ordinal in it.
fn lacking<'f>(front: &'f Front<'_>, missing: &'f NumSet) -> impl Iterator<Item = (usize, u32)> + 'f {
    let (keys, numbered) = (front.keys(), front.uids().enumerate());
    numbered.filter(move |(ordinal, uid)| missing.contains(*uid) && keys.has(*ordinal))
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
