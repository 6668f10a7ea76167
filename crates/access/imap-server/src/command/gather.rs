//! Gathers the keys of messages for SORT and THREAD. Cached keys are used, and the others come from
//! the summaries. No body is read.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_imap_codec::command::SortKey;
use posthaste_imap_codec::response::{Address, Code};
use posthaste_imap_codec::{EnvelopeList, first_address};
use posthaste_mail_model::{AccountId, NumSet, SeqNum};
use posthaste_mime_summary::{SummaryRef, decode_words, fold_into, order_into};
use posthaste_net::BytePermit;
use posthaste_store::named_ranges;

use super::walk::{Handled, Pass, Unanswered, Visited, Walk};
use crate::heavy::{Pace, SLICE_STEPS};
use crate::keys::{
    Answered, Asked, Link, LinkColumn, NewLinks, NewTexts, Table, TextColumn, TextKey, without_key,
};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::ImapService;

/// Bytes that a message takes while it is sorted, beside its entry in the cache. They are its UID
/// and number, two entries of the order, two keys, and one more value of each column that grows.
const MESSAGE_BYTES: usize = 64;
/// Sorts up to this size do not reserve memory, as FETCH does not for small messages.
const UNRESERVED_BYTES_MAX: usize = 128 * 1024;

/// Messages requested at once: nothing is printed meanwhile, and a message takes less than a
/// microsecond.
const BATCH: usize = 1024;

/// Steps of looking at a row or a kept key.
const ROW_STEPS: u64 = 8;
/// Steps of finding a message and its summary.
const MESSAGE_STEPS: u64 = 100;
/// Steps of finding an identifier.
const LINK_STEPS: u64 = 100;
/// Steps of a byte of a text.
const TEXT_BYTE_STEPS: u64 = 2;

/// The keys that a command compares.
#[derive(Clone, Debug, Default)]
pub(super) struct KeysWanted {
    /// The Date field.
    pub(super) sent: bool,
    /// Texts, each once.
    pub(super) texts: Vec<TextKey>,
    /// The order of these texts.
    pub(super) ranks: bool,
    /// The messages to which messages refer.
    pub(super) links: bool,
}

/// Messages with their keys.
pub(super) struct Gathered {
    /// The sequence numbers, in order. A message that was expunged when its summary was needed is
    /// left out.
    pub(super) seqs: NumSet<SeqNum>,
    /// The UIDs, in the same order.
    pub(super) uids: Vec<u32>,
    /// The keys.
    pub(super) table: Table,
    /// How many messages were expunged.
    pub(super) expunged: u32,
    /// Memory for all of it.
    _paid: Option<BytePermit>,
}

/// Where the messages are, and which account reads them.
#[derive(Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
    pub(crate) selected: &'s Selected,
}

impl Gathered {
    /// Messages of the announced view, without keys.
    pub(super) async fn listed(
        source: Source<'_>,
        found: &NumSet<SeqNum>,
        pace: &mut Pace,
    ) -> Result<Self, Failure> {
        let Source { service, account, selected } = source;
        let count = found.count() as usize;
        let bytes = (count * MESSAGE_BYTES).min(service.reads.largest());
        let _paid = match bytes > UNRESERVED_BYTES_MAX {
            true => Some(service.room_to_read(account, bytes as u64).await?),
            false => None,
        };
        let mut uids = Vec::with_capacity(count);
        for (_, rows) in selected.announced.runs(found) {
            uids.extend(rows.iter().map(|row| row.uid().value()));
            pace.worked(rows.len() as u64 * ROW_STEPS).await;
        }
        if found.count() != uids.len() as u64 {
            return Err(without_key("UID").into());
        }
        Ok(Self { seqs: found.clone(), uids, table: Table::default(), expunged: 0, _paid })
    }

    /// Gathers their keys. Messages without some that were expunged meanwhile are left out.
    pub(super) async fn gather(
        &mut self,
        source: Source<'_>,
        wanted: &KeysWanted,
        pace: &mut Pace,
    ) -> Result<(), Failure> {
        let Source { service, selected, .. } = source;
        let mailbox = selected.mailbox.id();
        let mut table = service.keys.table(mailbox);
        let missing = Missing::of(&table, &self.uids, wanted, pace).await;
        let is_unranked = |key: &TextKey| wanted.ranks && !table.text(*key).texts.is_ranked();
        if !missing.uids.is_empty() || wanted.texts.iter().any(is_unranked) {
            service.keys.forget(mailbox);
            let unread = missing.read(selected, &mut table, pace).await?;
            for key in wanted.texts.iter().filter(|_| wanted.ranks) {
                // Nothing is done where no text is new.
                Arc::make_mut(table.text_mut(*key)).texts.rank(pace).await;
            }
            service.keys.keep(mailbox, table.clone(), selected.announced.exists() as usize);
            self.expunged = unread.count() as u32;
            if self.expunged > 0 {
                self.seqs = self.seqs.difference(&selected.announced.seqs_of_uids(&unread));
                self.uids.retain(|uid| !unread.contains(*uid));
            }
        }
        if self.seqs.count() != self.uids.len() as u64 {
            return Err(without_key("UID").into());
        }
        self.table = table;
        Ok(())
    }

    /// The result for these messages, if it is remembered.
    pub(super) fn answered(&self, source: Source<'_>, asked: &Asked) -> Option<Answered> {
        source.service.keys.answered(source.selected.mailbox.id(), asked, &self.uids)
    }

    /// Remembers the result for these messages.
    pub(super) fn remember(&self, source: Source<'_>, asked: Asked, answered: Answered) {
        let Selected { mailbox, announced, .. } = source.selected;
        let mailbox = (mailbox.id(), announced.exists() as usize);
        source.service.keys.remember(mailbox, asked, &self.uids, answered);
    }
}

/// RFC 5256 §2.2: when messages were sent, in UTC; without a date that can be read, INTERNALDATE.
/// As numbers without a sign that compare alike.
pub(super) async fn dates(gathered: &Gathered, selected: &Selected, pace: &mut Pace) -> Vec<u64> {
    let mut dates = Vec::with_capacity(gathered.uids.len());
    let sent = gathered.table.sent.of(&gathered.uids);
    for (sent, (_, row)) in sent.zip(selected.announced.rows(&gathered.seqs)) {
        let date = sent.flatten().unwrap_or(i64::from(row.date()));
        dates.push(date.cast_unsigned() ^ (1 << 63));
        if pace.note(ROW_STEPS) {
            pace.rest().await;
        }
    }
    dates
}

/// The value that SORT compares of one message by one key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Value {
    Number(i64),
    Text(Box<[u8]>),
}

/// Bytes of a text that are compared. SORT puts longer texts that differ only later into an
/// arbitrary order.
const TEXT_BYTES_MAX: usize = 1000;

/// The text that a key compares; `None` if it compares a number.
pub(super) fn text_key(key: SortKey) -> Option<TextKey> {
    match key {
        SortKey::Cc => Some(TextKey::Cc),
        SortKey::From => Some(TextKey::From),
        SortKey::Subject => Some(TextKey::Subject),
        SortKey::To => Some(TextKey::To),
        SortKey::DisplayFrom => Some(TextKey::DisplayFrom),
        SortKey::DisplayTo => Some(TextKey::DisplayTo),
        SortKey::Arrival | SortKey::Date | SortKey::Size | SortKey::Relevancy | SortKey::Annotation(_) => {
            None
        }
    }
}

/// The values that SORT compares of a few messages, by UID. `None` if somebody expunged one of
/// them.
pub(crate) async fn values(
    source: Source<'_>,
    keys: &[SortKey],
    uids: &NumSet,
    pace: &mut Pace,
) -> Result<Option<HashMap<u32, Vec<Value>>>, Failure> {
    let view = &source.selected.announced;
    let seqs = view.seqs_of_uids(uids);
    let mut values_of = HashMap::new();
    if keys.iter().all(|key| matches!(key, SortKey::Arrival | SortKey::Size)) {
        let view = match keys.contains(&SortKey::Size) {
            true => &Box::pin(source.selected.mailbox.sized(view, &seqs)).await?,
            false => view,
        };
        for (_, row) in view.rows(&seqs) {
            let value = |key: &SortKey| match key {
                SortKey::Size => Value::Number(i64::from(row.size())),
                _ => Value::Number(i64::from(row.date())),
            };
            values_of.insert(row.uid().value(), keys.iter().map(value).collect());
            pace.worked(ROW_STEPS).await;
        }
        return Ok(Some(values_of));
    }
    let (mut scratch, mut text) = (Scratch::default(), Vec::new());
    let mut walk = Walk::new(&source.selected.mailbox, view, &seqs);
    while walk.more() {
        let each = |message: Visited<'_>, pass: &mut Pass| {
            pass.steps += MESSAGE_STEPS;
            let (row, summary) = (message.row, &message.stored.summary);
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                let arrived = i64::from(row.date());
                values.push(match (key, text_key(*key)) {
                    (_, Some(key)) => {
                        text.clear();
                        scratch.text(key, summary, &mut text);
                        pass.steps += text.len() as u64 * TEXT_BYTE_STEPS;
                        Value::Text(text.get(..TEXT_BYTES_MAX).unwrap_or(&text).into())
                    }
                    (SortKey::Size, _) => Value::Number(i64::from(row.size())),
                    // RFC 5256 §2.2
                    (SortKey::Date, _) => Value::Number(summary.sent().map_or(arrived, |sent| sent.unix_s)),
                    _ => Value::Number(arrived),
                });
            }
            values_of.insert(row.uid().value(), values);
            Handled::Done
        };
        walk.visit(pace, each).await?;
    }
    let Unanswered { expunged, unreadable } = walk.end();
    if !unreadable.is_empty() {
        let text = format!("Stored data of UID {} is damaged", named_ranges(&unreadable));
        return Err(Reply::no(Code::Corruption, text).into());
    }
    Ok((expunged == 0).then_some(values_of))
}

/// The messages without some of their keys.
#[derive(Default)]
struct Missing {
    /// The UIDs of all of them.
    uids: NumSet,
    sent: NumSet,
    texts: Vec<(TextKey, NumSet)>,
    links: NumSet,
}

impl Missing {
    async fn of(table: &Table, uids: &[u32], wanted: &KeysWanted, pace: &mut Pace) -> Self {
        let mut missing = Self::default();
        if wanted.sent {
            missing.sent = without(table.sent.of(uids), uids, pace).await;
            missing.uids = missing.sent.clone();
        }
        if wanted.links {
            missing.links = without(table.links.links.of(uids), uids, pace).await;
            missing.uids = missing.uids.union(&missing.links);
        }
        for key in &wanted.texts {
            let of_key = without(table.text(*key).numbers.of(uids), uids, pace).await;
            missing.uids = missing.uids.union(&of_key);
            missing.texts.push((*key, of_key));
        }
        missing
    }

    /// Reads the summaries and adds the keys to the table. Returns the UIDs of messages that were
    /// expunged meanwhile.
    async fn read(&self, selected: &Selected, table: &mut Table, pace: &mut Pace) -> Result<NumSet, Failure> {
        let view = &selected.announced;
        let seqs = view.seqs_of_uids(&self.uids);
        let mut growing = Growing::taken_from(table, self);
        let mut read = NumSet::new();
        let mut walk = Walk::new(&selected.mailbox, view, &seqs).in_batches_of(BATCH);
        while walk.more() {
            let each = |message: Visited<'_>, pass: &mut Pass| {
                let uid = message.row.uid().value();
                read.push(uid);
                pass.steps += MESSAGE_STEPS + growing.push(uid, &message.stored.summary);
                Handled::Done
            };
            walk.visit(pace, each).await?;
            growing.number();
        }
        refuse_damaged(&walk.end())?;
        growing.put_back(table, pace).await;
        Ok(self.uids.difference(&read))
    }
}

/// An order without some of the messages would be wrong.
fn refuse_damaged(unanswered: &Unanswered) -> Result<(), Failure> {
    if unanswered.unreadable.is_empty() {
        return Ok(());
    }
    let named = named_ranges(&unanswered.unreadable);
    let text = format!("Stored data of UID {named} is damaged; search without them");
    Err(Reply::no(Code::Corruption, text).into())
}

/// The UIDs that have no value.
async fn without<T>(values: impl Iterator<Item = Option<T>>, uids: &[u32], pace: &mut Pace) -> NumSet {
    let mut missing = NumSet::new();
    for (uid, value) in uids.iter().zip(values) {
        if value.is_none() {
            missing.push(*uid);
        }
        if pace.note(ROW_STEPS) {
            pace.rest().await;
        }
    }
    missing
}

/// Columns that grow. They are taken out of their table meanwhile.
struct Growing<'m> {
    missing: &'m Missing,
    sent: Added<Option<i64>>,
    link_column: Arc<LinkColumn>,
    links: Added<Link>,
    new_links: NewLinks,
    texts: Vec<GrowingText<'m>>,
    scratch: Scratch,
}

/// A column of texts that grows.
struct GrowingText<'m> {
    key: TextKey,
    missing: &'m NumSet,
    column: Arc<TextColumn>,
    /// The numbers of texts; they may be fewer than the messages until [`Growing::number`].
    added: Added<u32>,
    new: NewTexts,
}

impl<'m> Growing<'m> {
    fn taken_from(table: &mut Table, missing: &'m Missing) -> Self {
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
            scratch: Scratch::default(),
        }
    }

    /// Takes the keys of a message. Returns the steps.
    fn push(&mut self, uid: u32, summary: &SummaryRef<'_>) -> u64 {
        let mut steps = 0;
        if self.missing.sent.contains(uid) {
            self.sent.push(uid, summary.sent().map(|sent| sent.unix_s));
        }
        if self.missing.links.contains(uid) {
            self.links.uids.push(uid);
            steps += LINK_STEPS * (1 + self.new_links.push(summary) as u64);
        }
        for GrowingText { key, missing, added, new, .. } in &mut self.texts {
            if missing.contains(uid) {
                added.uids.push(uid);
                let scratch = &mut self.scratch;
                steps += TEXT_BYTE_STEPS * new.push(|text| scratch.text(*key, summary, text)) as u64;
            }
        }
        steps
    }

    /// Numbers the texts and identifiers of the last messages.
    fn number(&mut self) {
        if !self.new_links.is_empty() {
            Arc::make_mut(&mut self.link_column).make(&mut self.new_links, &mut self.links.values);
        }
        for GrowingText { column, new, added, .. } in &mut self.texts {
            Arc::make_mut(column).texts.number(new, &mut added.values);
        }
    }

    async fn put_back(mut self, table: &mut Table, pace: &mut Pace) {
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

/// Buffers for the texts of one message after the other.
#[derive(Default)]
struct Scratch {
    envelope: Vec<u8>,
    folded: Vec<u8>,
}

impl Scratch {
    /// Appends the text of a message for a key, as SORT compares it.
    fn text(&mut self, key: TextKey, summary: &SummaryRef<'_>, into: &mut Vec<u8>) {
        let Self { envelope, folded } = self;
        let list = match key {
            TextKey::From => return order_into(summary.sort_from(), into),
            TextKey::To => return order_into(summary.sort_to(), into),
            TextKey::Cc => return order_into(summary.sort_cc(), into),
            TextKey::Subject => return order_into(summary.base_subject(), into),
            TextKey::DisplayFrom => EnvelopeList::From,
            TextKey::DisplayTo => EnvelopeList::To,
        };
        envelope.clear();
        folded.clear();
        summary.envelope().append_to(envelope);
        if let Some(address) = first_address(envelope, list) {
            display(&address, folded);
        }
        order_into(folded, into);
    }
}

/// RFC 5957 §3: the name, decoded; without one the address.
fn display(address: &Address<'_>, folded: &mut Vec<u8>) {
    if let Some(name) = &address.name {
        fold_into(&decode_words(name), folded);
    }
    if folded.is_empty()
        && let Some(mailbox) = &address.mailbox
    {
        fold_into(&String::from_utf8_lossy(mailbox), folded);
        if let Some(host) = &address.host {
            folded.push(b'@');
            fold_into(&String::from_utf8_lossy(host), folded);
        }
    }
}
