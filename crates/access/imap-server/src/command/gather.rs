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
use crate::heavy::Pace;
use crate::keys::{Table, TextColumn, TextKey, without_key};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::service::ImapService;

/// Bytes that a message takes while it is sorted, beside its entry in the cache. They are its UID
/// and number, two entries of the order, two keys, and one more value of each column that grows.
const MESSAGE_BYTES: usize = 64;
/// Sorts up to this size do not reserve memory, as FETCH does not for small messages.
const UNRESERVED_BYTES_MAX: usize = 128 * 1024;

/// Steps of looking at a row or a kept key.
const ROW_STEPS: u64 = 8;
/// Steps of finding a message and its summary.
const MESSAGE_STEPS: u64 = 100;

/// The keys that a command compares.
#[derive(Clone, Debug, Default)]
pub(super) struct KeysWanted {
    /// The Date field.
    pub(super) sent: bool,
    /// Texts, each once.
    pub(super) texts: Vec<TextKey>,
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

/// Gathers the keys of messages of the announced view.
pub(super) async fn gather(
    source: Source<'_>,
    found: &NumSet<SeqNum>,
    wanted: &KeysWanted,
    pace: &mut Pace,
) -> Result<Gathered, Failure> {
    let Source { service, account, selected } = source;
    let count = found.count() as usize;
    let bytes = (count * MESSAGE_BYTES).min(service.reads.largest());
    let _paid = match bytes > UNRESERVED_BYTES_MAX {
        true => Some(service.room_to_read(account, bytes as u64).await?),
        false => None,
    };
    let mut seqs = found.clone();
    let mut uids = Vec::with_capacity(count);
    for (_, row) in selected.announced.rows(&seqs) {
        uids.push(row.uid().value());
        if pace.note(ROW_STEPS) {
            pace.rest().await;
        }
    }
    let mailbox = selected.mailbox.id();
    let mut table = service.keys.table(mailbox);
    let mut missing = Missing::of(&table, &uids, wanted, pace).await;
    let mut expunged = 0;
    if !missing.uids.is_empty() {
        service.keys.forget(mailbox);
        let unread = missing.read(selected, &mut table, pace).await?;
        service.keys.keep(mailbox, table.clone(), selected.announced.exists() as usize);
        expunged = unread.count() as u32;
        if expunged > 0 {
            seqs = seqs.difference(&selected.announced.seqs_of_uids(&unread));
            uids.retain(|uid| !unread.contains(*uid));
        }
    }
    if seqs.count() != uids.len() as u64 {
        return Err(without_key("UID").into());
    }
    Ok(Gathered { seqs, uids, table, expunged, _paid })
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
    let mut scratch = Scratch::default();
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
                        let text = scratch.text(key, summary);
                        pass.steps += text.len() as u64 * 2;
                        Value::Text(text.get(..TEXT_BYTES_MAX).unwrap_or(text).into())
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
    async fn read(
        &mut self,
        selected: &Selected,
        table: &mut Table,
        pace: &mut Pace,
    ) -> Result<NumSet, Failure> {
        let view = &selected.announced;
        let seqs = view.seqs_of_uids(&self.uids);
        let mut sent = Added::<Option<i64>>::new();
        let mut links = Added::new();
        let mut link_column = std::mem::take(&mut table.links);
        let link_column_now = Arc::make_mut(&mut link_column);
        let mut texts: Vec<Reading<'_>> = Vec::new();
        for (key, missing) in &self.texts {
            // Taken out while it grows.
            let mut column = std::mem::take(table.text_mut(*key));
            Arc::make_mut(&mut column).texts.reserve(missing.count() as usize);
            texts.push(Reading { key: *key, missing, column, added: Added::new() });
        }
        let mut scratch = Scratch::default();
        let mut read = NumSet::new();
        let mut walk = Walk::new(&selected.mailbox, view, &seqs);
        while walk.more() {
            let each = |message: Visited<'_>, pass: &mut Pass| {
                let (uid, summary) = (message.row.uid().value(), &message.stored.summary);
                read.push(uid);
                pass.steps += MESSAGE_STEPS;
                if self.sent.contains(uid) {
                    sent.push(uid, summary.sent().map(|sent| sent.unix_s));
                }
                if self.links.contains(uid) {
                    let link = link_column_now.link(summary);
                    pass.steps += 100 * (1 + link_column_now.references(link).len() as u64);
                    links.push(uid, link);
                }
                for reading in &mut texts {
                    if reading.missing.contains(uid) {
                        let text = scratch.text(reading.key, summary);
                        pass.steps += text.len() as u64 * 2;
                        reading.added.push(uid, Arc::make_mut(&mut reading.column).texts.number(text));
                    }
                }
                Handled::Done
            };
            walk.visit(pace, each).await?;
        }
        refuse_damaged(&walk.end())?;
        if self.sent.count() > 0 {
            Arc::make_mut(&mut table.sent).add(&sent.uids, &sent.values);
        }
        link_column_now.links.add(&links.uids, &links.values);
        table.links = link_column;
        for Reading { key, mut column, added, .. } in texts {
            let column_now = Arc::make_mut(&mut column);
            column_now.numbers.add(&added.uids, &added.values);
            column_now.texts.rank(pace).await;
            *table.text_mut(key) = column;
            pace.worked((added.uids.len() as u64 * 8).min(crate::heavy::SLICE_STEPS)).await;
        }
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

/// A column of texts that grows.
struct Reading<'m> {
    key: TextKey,
    missing: &'m NumSet,
    column: Arc<TextColumn>,
    added: Added<u32>,
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
    text: Vec<u8>,
}

impl Scratch {
    /// The text of a message for a key, as SORT compares it.
    fn text(&mut self, key: TextKey, summary: &SummaryRef<'_>) -> &[u8] {
        let Self { envelope, folded, text } = self;
        text.clear();
        let list = match key {
            TextKey::From => return ordered(summary.sort_from(), text),
            TextKey::To => return ordered(summary.sort_to(), text),
            TextKey::Cc => return ordered(summary.sort_cc(), text),
            TextKey::Subject => return ordered(summary.base_subject(), text),
            TextKey::DisplayFrom => EnvelopeList::From,
            TextKey::DisplayTo => EnvelopeList::To,
        };
        envelope.clear();
        folded.clear();
        summary.envelope().append_to(envelope);
        if let Some(address) = first_address(envelope, list) {
            display(&address, folded);
        }
        ordered(folded, text)
    }
}

fn ordered<'t>(folded: &[u8], text: &'t mut Vec<u8>) -> &'t [u8] {
    order_into(folded, text);
    text
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
