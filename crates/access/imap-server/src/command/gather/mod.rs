//! Gathers the keys of messages for SORT and THREAD. Cached keys are used first, then those that
//! the segments of the search index have. The others come from the summaries. No message is read.

mod growing;
mod missing;

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_imap_codec::command::SortKey;
use posthaste_imap_codec::response::Code;
use posthaste_indexing::{SEGMENT_MESSAGES_MIN, SortField, SortTexts};
use posthaste_mail_model::{AccountId, NumSet, SeqNum};
use posthaste_net::BytePermit;
use posthaste_store::named_ranges;

use self::growing::{Growing, TEXT_BYTE_STEPS};
pub(super) use self::missing::KeysWanted;
use self::missing::{Missing, ROW_STEPS};
use super::walk::{Handled, Pass, Unanswered, Visited, Walk};
use crate::apart::{RANGE_STEPS, find_steps};
use crate::heavy::Pace;
use crate::keys::{Answered, Asked, Table, without_key};
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

/// Steps of finding a message and its summary.
const MESSAGE_STEPS: u64 = 100;

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
            pace.worked(RANGE_STEPS + rows.len() as u64 * ROW_STEPS).await;
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
        let is_unranked = |key: &SortField| wanted.ranks && !table.text(*key).texts.is_ranked();
        if !missing.uids.is_empty() || wanted.texts.iter().any(is_unranked) {
            service.keys.forget(mailbox);
            let missing = match missing.uids.count() {
                count if count < SEGMENT_MESSAGES_MIN as u64 => missing,
                _ => missing.read_stored(source, &mut table, (&self.uids, wanted), pace).await,
            };
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
    let steps = ROW_STEPS + find_steps(&gathered.seqs);
    for (sent, (_, row)) in sent.zip(selected.announced.rows(&gathered.seqs)) {
        let date = sent.flatten().unwrap_or(i64::from(row.date()));
        dates.push(date.cast_unsigned() ^ (1 << 63));
        if pace.note(steps) {
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
pub(super) fn text_key(key: SortKey) -> Option<SortField> {
    match key {
        SortKey::Cc => Some(SortField::Cc),
        SortKey::From => Some(SortField::From),
        SortKey::Subject => Some(SortField::Subject),
        SortKey::To => Some(SortField::To),
        SortKey::DisplayFrom => Some(SortField::DisplayFrom),
        SortKey::DisplayTo => Some(SortField::DisplayTo),
        SortKey::Arrival
        | SortKey::Date
        | SortKey::Size
        | SortKey::Uid
        | SortKey::ModSeq
        | SortKey::Relevancy
        | SortKey::Annotation(_) => None,
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
    if keys.iter().all(|key| matches!(key, SortKey::Arrival | SortKey::Size | SortKey::Uid)) {
        let view = match keys.contains(&SortKey::Size) {
            true => &Box::pin(source.selected.mailbox.sized(view, &seqs)).await?,
            false => view,
        };
        for (_, row) in view.rows(&seqs) {
            let value = |key: &SortKey| match key {
                SortKey::Size => Value::Number(i64::from(row.size())),
                SortKey::Uid => Value::Number(i64::from(row.uid().value())),
                _ => Value::Number(i64::from(row.date())),
            };
            values_of.insert(row.uid().value(), keys.iter().map(value).collect());
            pace.worked(ROW_STEPS).await;
        }
        return Ok(Some(values_of));
    }
    let (mut texts, mut text) = (SortTexts::default(), Vec::new());
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
                        texts.append_whole(key, summary, &mut text);
                        pass.steps += text.len() as u64 * TEXT_BYTE_STEPS;
                        Value::Text(text.get(..TEXT_BYTES_MAX).unwrap_or(&text).into())
                    }
                    (SortKey::Size, _) => Value::Number(i64::from(row.size())),
                    (SortKey::Uid, _) => Value::Number(i64::from(row.uid().value())),
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

impl Missing {
    /// Adds the keys that the segments of the search index have. Returns what is missing still.
    async fn read_stored(
        mut self,
        Source { service, selected, .. }: Source<'_>,
        table: &mut Table,
        (uids, wanted): (&[u32], &KeysWanted),
        pace: &mut Pace,
    ) -> Self {
        let unavailable = |error| tracing::debug!(%error, "stored sort keys are not read");
        let stored = service.index.sort_keys(selected.mailbox.id()).await.map_err(unavailable);
        let Ok(mut stored) = stored else { return self };
        let mut next = stored.next().await;
        while let Ok(Some(_)) = &next {
            // Segments whose messages follow those of the segment before. After others, what is
            // missing is looked at again: two segments may have the same messages.
            let mut growing = Growing::taken_from(table, &self);
            let mut last = None;
            while let Ok(Some(segment)) = &next {
                if let Some(front) = segment.front() {
                    if last.is_some() && front.uids().next() <= last {
                        break;
                    }
                    last = front.uids().last().or(last);
                    let steps = growing.push_stored(&front);
                    growing.number();
                    pace.worked(steps).await;
                }
                next = stored.next().await;
            }
            growing.put_back(table, pace).await;
            self = Self::of(table, uids, wanted, pace).await;
        }
        if let Err(error) = next {
            unavailable(error);
        }
        self
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
