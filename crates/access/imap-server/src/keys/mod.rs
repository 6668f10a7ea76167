//! The values that SORT and THREAD compare, by message. They are read from the segments of the
//! search index and from the stored summaries once, and cached.
//!
//! The keys of a message follow from its body, so they never change. So a table of keys is right
//! for every view of its mailbox, and only new messages have to be read. A table is a value:
//! commands hold it by `Arc`s. A command that adds keys takes the table out of the cache and puts
//! it back. Meanwhile, another command that needs the table reads the keys itself. The last
//! results are kept with the table ([`remembered`]).

mod column;
mod keyed;
mod links;
mod order;
mod remembered;
mod texts;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_indexing::SortField;
use posthaste_mail_model::MailboxId;
use posthaste_store::StoreError;

pub(crate) use column::Column;
pub(crate) use links::{Link, LinkColumn, NewLinks};
pub(crate) use order::{Direction, Order};
pub(crate) use remembered::{OrderAnswer, OrderRequest, ThreadStep};
use remembered::{PART_MIN, RESULTS_MAX, Remembered};
pub(crate) use texts::{NewTexts, Texts};

/// Bytes of all tables, unless the configuration says something else.
pub(crate) const CACHE_BYTES_DEFAULT: usize = 32 << 20;

/// The error for a message that has no key after all keys were gathered. It does not occur: a table
/// has a key for each requested message.
pub(crate) fn without_key(what: &str) -> StoreError {
    debug_assert!(false, "a message has no {what}");
    StoreError::Corrupt(format!("a message has no {what}"))
}

/// A text for each of some messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextColumn {
    /// The number of each message's text.
    pub(crate) numbers: Column<u32>,
    /// The texts.
    pub(crate) texts: Texts,
}

impl TextColumn {
    /// Values in it: the cost of a copy.
    pub(crate) fn values(&self) -> usize {
        self.numbers.len() + self.texts.len()
    }
}

/// The keys of a mailbox. A column that no command requested has no messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The Date field, unix seconds; `None` if it is missing or unreadable.
    pub(crate) sent: Arc<Column<Option<i64>>>,
    texts: [Arc<TextColumn>; SortField::ALL.len()],
    /// The messages to which messages refer.
    pub(crate) links: Arc<LinkColumn>,
}

impl Table {
    /// The texts of a key.
    pub(crate) fn text(&self, key: SortField) -> &TextColumn {
        &self.texts[key as usize]
    }

    /// The texts of a key, to add some.
    pub(crate) fn text_mut(&mut self, key: SortField) -> &mut Arc<TextColumn> {
        &mut self.texts[key as usize]
    }

    /// Values in all columns: the cost of a copy.
    pub(crate) fn values(&self) -> usize {
        let texts = self.texts.iter().map(|column| column.values());
        self.sent.len() + self.links.values() + texts.sum::<usize>()
    }

    /// Forgets columns that hold more than twice as many messages as the mailbox has: the others
    /// are expunged.
    fn without_ballast(mut self, exists: usize) -> Self {
        let is_ballast = |len: usize| len > 2 * exists + 1000;
        if is_ballast(self.sent.len()) {
            self.sent = Arc::default();
        }
        if is_ballast(self.links.links.len()) {
            self.links = Arc::default();
        }
        for column in &mut self.texts {
            if is_ballast(column.numbers.len()) {
                *column = Arc::default();
            }
        }
        self
    }

    fn memory_bytes(&self) -> usize {
        let texts =
            self.texts.iter().map(|column| column.numbers.memory_bytes() + column.texts.memory_bytes());
        let links = self.links.memory_bytes();
        self.sent.memory_bytes() + links + texts.sum::<usize>() + size_of::<Self>()
    }
}

/// The values that SORT and THREAD compare, of the mailboxes that were sorted last, and their last
/// results. Clones are the same cache.
#[derive(Clone, Debug)]
pub struct KeyCache {
    bytes_max: usize,
    state: Arc<Mutex<CacheState>>,
}

#[derive(Debug, Default)]
struct CacheState {
    mailboxes: HashMap<MailboxId, Cached>,
    bytes: usize,
    /// Counts uses, so that the mailbox used longest ago is known.
    uses: u64,
}

/// The cached columns of a mailbox.
#[derive(Debug, Default)]
struct Cached {
    table: Table,
    /// The one used longest ago comes first.
    results: Vec<Arc<Remembered>>,
    bytes: usize,
    used: u64,
}

impl Cached {
    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.results.iter().map(|result| result.memory_bytes()).sum::<usize>()
    }
}

impl CacheState {
    /// Removes a mailbox from the cache; empty if it was not there.
    fn remove(&mut self, mailbox: MailboxId) -> Cached {
        let cached = self.mailboxes.remove(&mailbox).unwrap_or_default();
        self.bytes -= cached.bytes;
        cached
    }

    /// Keeps it, and removes what was used longest ago. A table that is too large is not kept.
    /// Results are removed before tables. Returns what is not kept, to be freed without the lock.
    #[must_use]
    fn put(&mut self, mailbox: MailboxId, mut cached: Cached, bytes_max: usize) -> Vec<Cached> {
        let mut left = Vec::new();
        if cached.table.memory_bytes() > bytes_max {
            left.push(Cached { table: std::mem::take(&mut cached.table), ..Cached::default() });
        }
        while cached.memory_bytes() > bytes_max && !cached.results.is_empty() {
            left.push(Cached { results: vec![cached.results.remove(0)], ..Cached::default() });
        }
        cached.bytes = cached.memory_bytes();
        if cached.bytes > bytes_max {
            left.push(cached);
            return left;
        }
        while self.bytes + cached.bytes > bytes_max {
            let Some(oldest) = self.mailboxes.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id)
            else {
                break;
            };
            left.push(self.remove(oldest));
        }
        self.uses += 1;
        cached.used = self.uses;
        self.bytes += cached.bytes;
        self.mailboxes.insert(mailbox, cached);
        left
    }
}

impl KeyCache {
    /// A cache of this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of a mailbox; an empty one if none is kept.
    pub(crate) fn table(&self, mailbox: MailboxId) -> Table {
        let mut state = self.state();
        state.uses += 1;
        let used = state.uses;
        let kept = state.mailboxes.get_mut(&mailbox);
        kept.map_or_else(Table::default, |kept| {
            kept.used = used;
            kept.table.clone()
        })
    }

    /// Keeps other values of a mailbox, or none, which may be made of the present ones.
    ///
    /// Memory of the rest is freed without the lock. This takes milliseconds, and sessions block
    /// on the lock, also if a thread of a lower priority has it.
    fn replace(&self, mailbox: MailboxId, make: impl FnOnce(&mut Cached) -> Option<Cached>) {
        let mut state = self.state();
        let mut before = state.remove(mailbox);
        let left = make(&mut before).map(|cached| state.put(mailbox, cached, self.bytes_max));
        drop(state);
        drop((before, left));
    }

    /// Gives the table up, so that columns taken from it can grow without being copied.
    pub(crate) fn forget(&self, mailbox: MailboxId) {
        self.replace(mailbox, |before| {
            let results = std::mem::take(&mut before.results);
            (!results.is_empty()).then(|| Cached { results, ..Cached::default() })
        });
    }

    /// Keeps a table of a mailbox with this many messages.
    pub(crate) fn keep(&self, mailbox: MailboxId, table: Table, exists: usize) {
        let table = table.without_ballast(exists);
        self.replace(mailbox, |before| {
            let results = std::mem::take(&mut before.results);
            Some(Cached { table, results, ..Cached::default() })
        });
    }

    /// The result for the messages of these ascending UIDs, if it is remembered.
    pub(crate) fn answered(
        &self,
        mailbox: MailboxId,
        request: &OrderRequest,
        uids: &[u32],
    ) -> Option<OrderAnswer> {
        let candidates: Vec<Arc<Remembered>> = {
            let mut state = self.state();
            state.uses += 1;
            let used = state.uses;
            let kept = state.mailboxes.get_mut(&mailbox)?;
            kept.used = used;
            let may_answer = |result: &&Arc<Remembered>| result.may_answer(request, uids.len());
            kept.results.iter().filter(may_answer).cloned().collect()
        };
        // They are compared without the lock.
        let (result, answer) =
            candidates.iter().find_map(|result| Some((result, result.answer(uids)?.clone())))?;
        let mut state = self.state();
        if let Some(kept) = state.mailboxes.get_mut(&mailbox)
            && let Some(at) = kept.results.iter().position(|other| Arc::ptr_eq(other, result))
        {
            kept.results[at..].rotate_left(1);
        }
        Some(answer)
    }

    /// Remembers a result for the messages of these ascending UIDs. `exists` is the number of the
    /// mailbox's messages.
    pub(crate) fn remember(
        &self,
        (mailbox, exists): (MailboxId, usize),
        request: OrderRequest,
        uids: &[u32],
        answered: OrderAnswer,
    ) {
        if uids.len() < exists / PART_MIN {
            return;
        }
        let result = Arc::new(Remembered::new(request, uids, answered));
        self.replace(mailbox, |before| {
            let mut cached = std::mem::take(before);
            if cached.results.len() == RESULTS_MAX {
                before.results.push(cached.results.remove(0));
            }
            cached.results.push(result);
            Some(cached)
        });
    }
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::command::{SortCriterion, SortKey, ThreadAlgorithm};
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn values_are_added_before_between_and_after_others() {
        let mut column = Column::default();
        column.add(&[4, 6], &["d", "f"]);
        column.add(&[9], &["i"]);
        column.add(&[1, 5, 12], &["a", "e", "l"]);
        let uids: Vec<u32> = (1..=12).collect();
        let letters = ["a", "", "", "d", "e", "f", "", "", "i", "", "", "l"];
        let expected = letters.map(|letter| Some(letter).filter(|letter| !letter.is_empty()));
        assert_eq!(column.of(&uids).collect::<Vec<_>>(), expected);
        assert_eq!(column.of(&[6, 12]).collect::<Vec<_>>(), [Some("f"), Some("l")]);
    }

    /// A table with a date of each of a thousand messages.
    fn table() -> Table {
        let mut table = Table::default();
        let uids: Vec<u32> = (1..=1000).collect();
        Arc::make_mut(&mut table.sent).add(&uids, &vec![Some(1); 1000]);
        table
    }

    fn mailbox(n: u8) -> MailboxId {
        MailboxId(Id::from_bytes([n; 16]))
    }

    /// It was freed under the lock, which a thread of a low priority may have.
    #[test]
    fn what_leaves_is_freed_by_the_caller() {
        let (mut state, bytes) = (CacheState::default(), table().memory_bytes());
        let mut left = |n: u8, most: usize| {
            let cached = Cached { table: table(), ..Cached::default() };
            state.put(mailbox(n), cached, most).iter().map(|left| left.table.sent.len()).sum::<usize>()
        };
        assert_eq!(left(1, bytes + bytes / 2), 0);
        assert_eq!(left(2, bytes + bytes / 2), 1000, "the first one leaves");
        assert_eq!(left(3, bytes - 1), 2000, "neither is kept");
    }

    #[test]
    fn the_table_used_longest_ago_leaves_first() {
        let bytes = table().memory_bytes();
        let cache = KeyCache::new(2 * bytes + bytes / 2);
        let has = |n: u8| cache.table(mailbox(n)).sent.len() == 1000;
        cache.keep(mailbox(1), table(), 1000);
        cache.keep(mailbox(2), table(), 1000);
        assert!(has(2) && has(1));
        cache.keep(mailbox(3), table(), 1000);
        assert!(has(1) && !has(2) && has(3));
        // Most of the table's messages are expunged, but it is small.
        cache.keep(mailbox(1), table(), 0);
        assert!(has(1), "a small table stays");
        cache.forget(mailbox(1));
        cache.forget(mailbox(3));
        assert_eq!(cache.state.lock().unwrap().bytes, 0);
    }

    #[test]
    fn a_result_is_given_for_the_same_messages_alone() {
        let mailbox = MailboxId(Id::from_bytes([1; 16]));
        let cache = KeyCache::new(1 << 20);
        let criterion = |key| SortCriterion { key, is_reverse: false };
        let sort = |key| OrderRequest::Sort(vec![criterion(key)]);
        let uids: Vec<u32> = (5..2005).collect();
        let places: Arc<[u32]> = (0..2000).rev().collect();
        let is_given = |request: &OrderRequest, uids: &[u32]| match cache.answered(mailbox, request, uids) {
            Some(OrderAnswer::Sort(given)) => Arc::ptr_eq(&given, &places),
            _ => false,
        };
        let answer = || OrderAnswer::Sort(Arc::clone(&places));
        let remember = |request| cache.remember((mailbox, 2000), request, &uids, answer());
        remember(sort(SortKey::Date));
        assert!(is_given(&sort(SortKey::Date), &uids));
        // Fewer messages, more, and others; another order; a table that is added and removed.
        let (mut more, mut other) = (uids.clone(), uids.clone());
        more.push(2005);
        other[1999] = 2005;
        for changed in [&uids[1..], &uids[..1999], &more, &other, &[]] {
            assert!(!is_given(&sort(SortKey::Date), changed));
        }
        assert!(!is_given(&sort(SortKey::Subject), &uids));
        assert!(!is_given(&OrderRequest::Thread(ThreadAlgorithm::Refs), &uids));
        cache.keep(mailbox, Table::default(), 2000);
        cache.forget(mailbox);
        assert!(is_given(&sort(SortKey::Date), &uids));
        // The result that no command used is removed first.
        for key in [SortKey::Subject, SortKey::From, SortKey::To] {
            remember(sort(key));
        }
        assert!(is_given(&sort(SortKey::Date), &uids));
        remember(sort(SortKey::Cc));
        assert!(!is_given(&sort(SortKey::Subject), &uids) && is_given(&sort(SortKey::Date), &uids));
        // Results count as memory, and are removed before the table.
        let bytes = cache.state.lock().unwrap().bytes;
        assert!((4 * 8000..4 * 8000 + 2000).contains(&bytes), "{bytes} bytes");
        let small = KeyCache::new(10_000);
        for key in [SortKey::Date, SortKey::Cc] {
            small.remember((mailbox, 2000), sort(key), &uids, answer());
        }
        assert!(small.answered(mailbox, &sort(SortKey::Date), &uids).is_none());
        assert!(small.answered(mailbox, &sort(SortKey::Cc), &uids).is_some());
        // The same with a table that is too large to be kept.
        let mut table = Table::default();
        Arc::make_mut(&mut table.sent).add(&uids, &vec![Some(1); 2000]);
        small.keep(mailbox, table, 2000);
        assert_eq!(small.table(mailbox).sent.len(), 0);
        assert!(small.answered(mailbox, &sort(SortKey::Cc), &uids).is_some());
        // A small part of the mailbox takes no place.
        let part = uids.get(..249).unwrap();
        small.remember((mailbox, 2000), sort(SortKey::Cc), part, OrderAnswer::Sort((0..249).collect()));
        assert!(small.answered(mailbox, &sort(SortKey::Cc), part).is_none());
        assert!(small.answered(mailbox, &sort(SortKey::Cc), &uids).is_some());
    }
}
